import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData
from drgcn.recommend.model import ModelOptions, build_model
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.retrieval import exact_top
from drgcn.recommend.serving import (
    ExportFolder,
    ExportSettings,
    LoadedRun,
    Recommender,
    export,
    model_hash,
)
from drgcn.recommend.serving.server import ServedExport
from drgcn.records import sealed

from ..model.clicks import data as random_data
from .conftest import shop_data


def test_the_export_holds_the_vectors_of_the_run(shop, exported):
    run = LoadedRun.open(shop / "run")
    users, items = run.vectors(run.data.graph)
    facts = exported.manifest
    assert facts.model["sha256"] == model_hash(run.model)
    assert facts.data["content_hash"] == shop_data().content_hash
    assert (facts.normalised, facts.metric, facts.dim) == (True, "ip", 16)
    torch.testing.assert_close(exported.users.vectors(), users)
    torch.testing.assert_close(exported.items, items)
    table = pq.read_table(shop / "export" / "items.parquet")
    assert table["id"].to_pylist() == [10 * number + 7 for number in range(400)]
    stored = np.array(table["vector"].to_pylist(), dtype=np.float32)
    np.testing.assert_array_equal(stored, np.load(shop / "export" / "items.npy"))
    assert table["vector"].type.list_size == 16
    assert exported.seen.num_entries == run.data.graph.num_clicks
    files = [path for path in (shop / "export").rglob("*") if path.is_file()]
    assert len({path.stat().st_mode for path in files}) == 1  # who may read one may read all
    listed = {path.relative_to(shop / "export").as_posix() for path in files}
    assert listed == {*facts.files, "manifest.json"}


def test_clicks_before_a_day_alone(shop, tmp_path):
    run = LoadedRun.open(shop / "run")
    export(run, tmp_path / "e", ExportSettings(before=3, index="none", dtype="float16"))
    found = ExportFolder(tmp_path / "e")
    graph = run.data.graph.until(3)
    assert found.manifest.data["clicks"] == found.seen.num_entries == graph.num_clicks
    users, items = run.vectors(graph)
    assert found.users.vectors().dtype == torch.float16
    torch.testing.assert_close(found.users.vectors(), users.half(), rtol=0, atol=0)
    torch.testing.assert_close(found.items, items.half().float(), rtol=0, atol=0)
    assert found.index is None
    rows = torch.arange(60)
    top = Recommender(found).for_users(rows, 7)
    expected = exact_top(users.half().float(), items.half().float(), 7)
    assert torch.equal(top.items, expected.items)


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_the_recall_in_the_manifest_is_that_of_the_index(shop, tmp_path, kind):
    run = LoadedRun.open(shop / "run")
    settings = ExportSettings(index=kind, recall=0.9, n=10)
    facts = export(run, tmp_path / "e", settings).index
    assert facts["kind"] == facts["tuning"]["kind"] == kind
    assert facts["tuning"]["target"] == 0.9
    assert facts["tuning"]["reached"]
    found = ExportFolder(tmp_path / "e")
    # Measured again here, by hand, for all users.
    rows = torch.arange(60)
    vectors, items = found.users.vectors().double(), found.items.double()
    best = (vectors @ items.T).sort(dim=1, descending=True, stable=True).indices[:, :10]
    top = Recommender(found).for_users(rows, 10).items
    share = sum(len(set(a.tolist()) & set(b.tolist())) for a, b in zip(best, top, strict=True)) / (
        60 * 10
    )
    assert share >= 0.9
    assert abs(share - facts["tuning"]["recall"]) < 0.06
    assert found.index.effort == facts["effort"]
    # And without what each has seen.
    scores = vectors @ items.T
    owner = torch.arange(60).repeat_interleave(found.seen.degree)
    scores[owner, found.seen.col.long()] = -torch.inf
    best = scores.sort(dim=1, descending=True, stable=True).indices[:, :10]
    top = Recommender(found).for_users(rows, 10, exclude_seen=True).items
    share = float((best[:, :, None] == top[:, None, :]).any(dim=2).double().mean())
    assert facts["recall_without_seen"] == pytest.approx(share, abs=0.01)


def test_an_export_is_whole_or_not_there(shop, tmp_path, monkeypatch):
    import drgcn.recommend.serving.exporting as exporting

    def fail(*_):
        raise OSError("disk full")

    run = LoadedRun.open(shop / "run")
    monkeypatch.setattr(exporting, "write_vectors", fail)
    with pytest.raises(OSError, match="disk full"):
        export(run, tmp_path / "e")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    (tmp_path / "e").mkdir()
    with pytest.raises(InputError, match="is there already"):
        export(run, tmp_path / "e")


def test_vectors_that_are_no_numbers_are_refused(shop, tmp_path):
    run = LoadedRun.open(shop / "run")
    with torch.no_grad():
        next(run.model.parameters()).fill_(float("nan"))
    with pytest.raises(InputError, match="Expected vectors of users to be finite"):
        export(run, tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_bad_settings():
    for words, options in (
        ("Expected dtype float32 or float16", {"dtype": "int8"}),
        ("Expected recall above 0", {"recall": 0.0}),
        ("n from 1", {"n": 0}),
    ):
        with pytest.raises(InputError, match=words):
            ExportSettings(**options)


def test_an_unknown_kind_of_index(shop, tmp_path):
    with pytest.raises(InputError, match="'annoy'"):
        export(LoadedRun.open(shop / "run"), tmp_path / "e", ExportSettings(index="annoy"))


def change(folder, **facts):
    """As somebody would who knows how the digest is made."""
    path = folder / "manifest.json"
    changed = json.loads(path.read_text()) | facts
    changed.pop("sha256", None)
    path.write_text(json.dumps(sealed(changed)))


def use(folder):
    """All that a query reads."""
    found = ExportFolder(folder)
    lookups = found.user_lookup, found.item_lookup
    searcher = Recommender(found)
    for exact in (False, True):
        searcher.for_users(torch.arange(3), 5, exclude_seen=True, exact=exact)
    return *lookups, found.cold_users


FILES = (
    "users.parquet",
    "items.parquet",
    "items.npy",
    "index.faiss",
    "seen/col.npy",
    "model/weights.safetensors",
    "attributes/table.json",
)


@pytest.mark.parametrize(
    ("file", "damage"),
    [*((file, "flipped") for file in FILES), ("items.parquet", "cut"), ("index.faiss", "gone")],
)
def test_a_file_that_is_not_the_one_of_the_manifest(copied, file, damage):
    use(copied)
    path = copied / file
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.raises(InputError, match=r"Expected .*(SHA-256|no such file).*xport.* again"):
        use(copied)
    with pytest.raises(InputError, match=r"xport.* again"):
        ServedExport(copied)


def test_a_manifest_that_does_not_match(copied, shop, tmp_path):
    facts = json.loads((copied / "manifest.json").read_text())
    for words, more in (
        ("Expected 59 vectors of 16 columns", {"users": facts["users"] | {"count": 59}}),
        ("Expected 399 vectors of 16 columns", {"items": facts["items"] | {"count": 399}}),
        ("vectors of 17 columns", {"dim": 17}),
        ("Expected an index by l2", {"metric": "l2"}),
        ("it is not listed there", {"files": {}}),
        ("Expected version 1", {"version": 2}),
        ("no manifest.json of that form", {"format": "else"}),
    ):
        change(copied, **more)
        with pytest.raises(InputError, match=words):
            use(copied)
        change(copied, **facts)
    use(copied)
    index = facts["index"] | {"num_items": 399}
    change(copied, index=index)
    with pytest.raises(InputError, match="The manifest belongs to another index"):
        use(copied)
    # The files of another export, each of them whole.
    export(LoadedRun.open(shop / "light"), tmp_path / "light", ExportSettings(n=5))
    change(copied, **facts)
    shutil.copy(tmp_path / "light" / "index.faiss", copied / "index.faiss")
    with pytest.raises(InputError, match="belongs to another export"):
        use(copied)
    (copied / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="of that form"):
        ExportFolder(copied)
    del facts["metric"]
    (copied / "manifest.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="it was changed since"):
        ExportFolder(copied)
    del facts["sha256"]  # as manifests were before there were digests
    (copied / "manifest.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="Expected metric in"):
        ExportFolder(copied)


def test_a_run_finds_its_clicks_also_when_both_are_moved(shop, tmp_path):
    run = LoadedRun.open(shop / "run")
    assert run.data.content_hash == shop_data().content_hash
    for name in ("run", "clicks"):
        shutil.copytree(shop / name, tmp_path / "elsewhere" / name)
    moved = LoadedRun.open(tmp_path / "elsewhere" / "run")
    assert model_hash(moved.model) == model_hash(run.model)
    shutil.move(tmp_path / "elsewhere" / "clicks", tmp_path / "away")
    with pytest.raises(InputError, match="Say with --data where they are"):
        LoadedRun.open(tmp_path / "elsewhere" / "run")
    LoadedRun.open(tmp_path / "elsewhere" / "run", tmp_path / "away")


def test_other_clicks_are_refused(shop, tmp_path):
    other = random_data(users=60, items=400, clicks=900, seed=1, days=4).save(tmp_path / "other")
    with pytest.raises(InputError, match="Expected the clicks that the run was trained on"):
        LoadedRun.open(shop / "run", other)


def test_the_day_to_find(shop):
    run = LoadedRun.open(shop / "run")
    split = run.split()
    assert split.targets.num_clicks == run.data.graph.on(3).num_clicks
    assert split.train.num_clicks == run.data.graph.until(3).num_clicks
    with pytest.raises(InputError, match="found 2, whose clicks the run has learnt"):
        run.split(2)
    with pytest.raises(InputError, match="Expected clicks on day 9; found none"):
        run.split(9)
    run.training["day"] = None
    with pytest.raises(InputError, match="has learnt from all clicks"):
        run.split()
    with pytest.raises(InputError, match="Expected clicks before day 0; found none"):
        run.clicks(0)


def test_vectors_are_those_of_the_model(shop):
    run = LoadedRun.open(shop / "run")
    data = ClickData.load(shop / "clicks")
    graph = data.graph.until(3)
    users, items = embed_all(run.model, data, graph)
    found = run.vectors(run.clicks(3))
    torch.testing.assert_close(found[0], users)
    torch.testing.assert_close(found[1], items)


def test_the_hash_knows_weights_and_settings():
    data = random_data(days=4)
    hashes = [
        model_hash(
            build_model(data, data.graph, ModelOptions(seed=seed, channels=8, fan_outs=fans))
        )
        for seed, fans in ((0, (3, 2)), (0, (3, 2)), (1, (3, 2)), (0, (3, 3)))
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(
    "facts",
    [
        *({name: value} for name in ("users", "files", "metric", "dim") for value in (None, [1])),
        {"users": {}},
        {"items": {"count": "400"}},
        {"seen": "yes"},
        {"index": 3},
        {"model": {}},
        {"data": {"content_hash": None}},
    ],
)
def test_a_manifest_with_wrong_types(copied, facts):
    change(copied, **facts)
    with pytest.raises(InputError, match=f"Expected {next(iter(facts))}"):
        ExportFolder(copied)


def test_texts_nested_too_deep(copied, shop, tmp_path):
    deep = '{"format": ' + "[" * 100_000
    (copied / "manifest.json").write_text(deep)
    with pytest.raises(InputError, match="of that form"):
        ExportFolder(copied)
    run = shutil.copytree(shop / "run", tmp_path / "run")
    settings = json.loads((run / "settings.json").read_text())
    (run / "settings.json").write_text(json.dumps(settings | {"training": {}}))
    with pytest.raises(InputError, match="it was changed since"):
        LoadedRun.open(run)
    del settings["sha256"]  # as runs were before there were digests
    for text in (
        deep,
        "[]",
        json.dumps(settings | {"training": 3}),
        json.dumps(settings | {"weights_sha256": None}),
        json.dumps(settings | {"model": settings["model"] | {"hidden_channels": 1e400}}),
        json.dumps(settings | {"model": settings["model"] | {"users": None}}),
        json.dumps(settings | {"model": settings["model"] | {"temperature": float("nan")}}),
        json.dumps(settings | {"model": settings["model"] | {"normalize": "no"}}),
        json.dumps(settings | {"model": settings["model"] | {"user_id_rows": "many"}}),
    ):
        (run / "settings.json").write_text(text)
        with pytest.raises(InputError, match="wrote to the end") as caught:
            LoadedRun.open(run)
        assert "\n" not in str(caught.value)
