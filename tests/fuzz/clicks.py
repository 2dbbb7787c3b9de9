"""Changed files for every reader of recommend, and requests to its server."""

from __future__ import annotations

import csv
import json
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ingest
from drgcn.recommend.clicks.known_sets import read_text_folder
from drgcn.recommend.model.run_folder import ModelOptions, build_model, load_run
from drgcn.recommend.serving import ExportFolder, ExportSettings, LoadedRun, Recommender, export
from drgcn.recommend.study.settings import StudyRecord

from ..recommend.clicks.tables import random_events
from ..recommend.serving.conftest import make_run, shop_data
from .generators import PLAIN, Target, flip, odd_array, odd_json

_RESULTS = Path(__file__).parents[2] / "results" / "recommend"


@cache
def shop() -> Path:
    """Return a folder with small ``clicks``, a ``run`` and an ``export``, made once a process."""
    holder = tempfile.TemporaryDirectory(prefix="drgcn-fuzz-")
    folder = Path(holder.name)
    _KEPT.append(holder)
    data = shop_data()
    data.save(folder / "clicks")
    torch.manual_seed(0)
    options = ModelOptions(channels=8, fan_outs=(3, 2), gate="dr")
    make_run(folder / "run", data, build_model(data, data.graph.until(3), options))
    export(LoadedRun.open(folder / "run"), folder / "export", ExportSettings(n=10))
    return folder


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def _changed_copy(part: str) -> Callable[[Path, random.Random], None]:
    """Copy a part of the shop, and change one of its files by its kind."""

    def write(folder: Path, draw: random.Random) -> None:
        for name in {part, "clicks"}:
            shutil.copytree(shop() / name, folder / name)
        files = [path for path in (folder / part).rglob("*") if path.is_file()]
        path = draw.choice(sorted(files))
        if path.suffix == ".json":
            path.write_text(json.dumps(odd_json(json.loads(path.read_text()), draw)))
        elif path.suffix == ".npy" and draw.random() < 0.7:
            value = odd_array(np.load(path), draw)
            np.save(path, np.zeros(0) if value is None else value)
        else:
            flip(path, draw)

    return write


def _check_clicks(data: ClickData) -> None:
    """All that is left after a change that does not matter is the set itself."""
    assert data.content_hash == ClickData.load(shop() / "clicks").content_hash


def _check_run(loaded: Any) -> None:
    model, _ = loaded
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    true, _ = load_run(shop() / "run")
    assert own == {name: tuple(value.shape) for name, value in true.state_dict().items()}
    for name, value in true.state_dict().items():
        assert torch.equal(value, model.state_dict()[name])


def _read_export(folder: Path) -> Any:
    return Recommender(ExportFolder(folder / "export")).for_users(
        torch.arange(3), 5, exclude_seen=True
    )


def _check_lists(top: Any) -> None:
    true = _read_export(shop())
    assert torch.equal(top.items, true.items)
    torch.testing.assert_close(top.scores, true.scores)


def _write_table(folder: Path, draw: random.Random) -> None:
    rows = [["user", "item", "time"], *map(list, random_events(0, 40, 8, 6, 3))]
    for _ in range(draw.choice([1, 1, 2])):
        row = draw.choice(rows)
        row[draw.randrange(len(row))] = str(draw.choice(PLAIN)).replace("\ud800", "?")
    with (folder / "clicks.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _check_ingested(data: ClickData) -> None:
    graph = data.graph
    assert graph.num_clicks <= 40
    assert int(graph.by_user.col.max()) < graph.num_items
    assert len(data.user_ids) == graph.num_users <= 40


def _write_lines(folder: Path, draw: random.Random) -> None:
    for name, first in (("train.txt", 0), ("test.txt", 5)):
        lines = [[str(n) for n in (user, *range(first, first + 4))] for user in range(6)]
        if draw.random() < 0.7:
            row = draw.choice(lines)
            row[draw.randrange(len(row))] = str(draw.choice(PLAIN)).replace("\ud800", "?")
        text = "\n".join(" ".join(line) for line in lines)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _check_lines(data: ClickData) -> None:
    assert data.graph.num_users <= 16
    assert data.graph.num_items <= 30


@cache
def _study_record() -> dict[str, Any]:
    path = sorted(_RESULTS.glob("compare-movielens-100k-*.json"))[0]
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


def _write_study(folder: Path, draw: random.Random) -> None:
    facts = odd_json(_study_record(), draw)
    (folder / "record.json").write_text(json.dumps(facts))


def _check_study(record: StudyRecord) -> None:
    assert 0 <= record.recall() <= 1
    assert StudyRecord.loads(record.sealed()).dumps() == record.dumps()
    assert record.file_name


@cache
def _client() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

    from drgcn.recommend.serving.http import build_app
    from drgcn.recommend.serving.server import ServedExport

    return TestClient(build_app(ServedExport(shop() / "export")), raise_server_exceptions=False)


# Sound values of the fields of requests, by name.
_FIELDS: Final[dict[str, Any]] = {
    "users": ["u07", "u59"],
    "clicked": [[7, 17], [27]],
    "attributes": [{}, {}],
    "items": [7, 27],
    "item": 17,
    "user": "u07",
    "allow": [7, 17, 27, 37],
    "deny": [17],
    "categories": {"kind": ["0", "1"]},
}
_ASKED: Final = {
    "/recommend": ("RecommendRequest", ("users", "clicked", "attributes")),
    "/similar": ("SimilarRequest", ("items",)),
    "/why": ("WhyRequest", ("user", "clicked", "attributes")),
}


def _write_request(folder: Path, draw: random.Random) -> None:
    """A body by the schema of the OpenAPI page, with some of its values changed."""
    path = draw.choice(list(_ASKED))
    schema, whom = _ASKED[path]
    page = _client().get("/openapi.json").json()
    known = list(page["components"]["schemas"][schema]["properties"])
    switches = {name: draw.random() < 0.5 for name in ("exclude_seen", "exact", "skip_unknown")}
    sound = _FIELDS | switches | {"n": draw.choice([1, 5, 50])}
    names = {draw.choice(whom), *draw.sample(known, draw.randrange(3)), *({"item"} & {*known})}
    body: Any = {name: sound[name] for name in names}
    if path == "/why":  # of one visitor
        body |= {name: body[name][0] for name in ("clicked", "attributes") if name in body}
    for _ in range(draw.choice([0, 1, 1, 2])):
        body = odd_json(body, draw)
    content = json.dumps(body).encode()
    if draw.random() < 0.15:
        changed = bytearray(content)
        changed[draw.randrange(len(changed))] = draw.randrange(256)
        content = bytes(changed)
    (folder / "body").write_bytes(content)
    (folder / "path").write_text(path)


def _ask(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content, path = (folder / "body").read_bytes(), (folder / "path").read_text()
        answer = _client().post(
            path, content=content, headers={"content-type": "application/json"}
        )
    if 400 <= answer.status_code < 500:
        raise InputError(answer.json()["detail"] if answer.content else "")
    return path, content, answer


def _check_answer(asked: tuple[str, bytes, Any]) -> None:
    path, content, answer = asked
    assert answer.status_code == 200, answer.text
    found, body = answer.json(), json.loads(content)
    if path == "/why":
        parts = sum(part["part"] for part in found["clicked"])
        assert abs(parts + found["rest"] - found["score"]) < 1e-3
        return
    lists = found["similar" if path == "/similar" else "recommendations"]
    wanted = next(
        body[name] for name in ("items", "users", "clicked", "attributes") if body.get(name)
    )
    assert len(lists) <= len(wanted) <= len(lists) + found["unknown"]
    for one in lists:
        assert one.get("user") is None or one["user"] in wanted
        assert len(one["items"]) == len(one["scores"]) <= (body.get("n") or 50)
        assert len(set(one["items"])) == len(one["items"])
        assert not {*one["items"]} & {*body.get("deny", ())}
        assert body.get("allow") is None or {*one["items"]} <= {*body["allow"]}
        assert one["scores"] == sorted(one["scores"], reverse=True)


TARGETS: Final[dict[str, Target]] = {
    "clicks, folder": Target(
        _changed_copy("clicks"), lambda folder: ClickData.load(folder / "clicks"), _check_clicks
    ),
    "clicks, table": Target(
        _write_table,
        lambda folder: (
            ingest(str(folder / "clicks.csv"), folder / "out") and ClickData.load(folder / "out")
        ),
        _check_ingested,
    ),
    "clicks, lines": Target(
        _write_lines, lambda folder: read_text_folder(folder, keep_unseen=True), _check_lines
    ),
    "run": Target(_changed_copy("run"), lambda folder: load_run(folder / "run"), _check_run),
    "export": Target(_changed_copy("export"), _read_export, _check_lists),
    "study record": Target(
        _write_study, lambda folder: StudyRecord.read(folder / "record.json"), _check_study
    ),
}
with suppress(ImportError):
    import fastapi  # noqa: F401 - the extra serve

    TARGETS["request"] = Target(_write_request, _ask, _check_answer)
