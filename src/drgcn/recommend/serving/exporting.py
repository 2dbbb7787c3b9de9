"""Export of a run: vectors, index and manifest in one folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn._io import replacing_folder, whole_folder
from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable, several_names
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.clicks.known_sets import load_clicks
from drgcn.recommend.clicks.splits import ClickSplit, SplitRule, split_clicks
from drgcn.recommend.model.embedding import FoldIn, embed_all, embed_with_fold_in
from drgcn.recommend.model.lightgcn import AttributedLightGCN, LightGCN
from drgcn.recommend.model.run_folder import (
    HISTORY,
    RECORD,
    describe,
    load_run,
    save_run,
)
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.retrieval.blocks import ItemBlocks, checked_vectors
from drgcn.recommend.retrieval.exact import exact_top
from drgcn.recommend.retrieval.index import KINDS, FaissIndex, _faiss, tune, write_index
from drgcn.recommend.retrieval.ranking import Popularity, is_listed
from drgcn.recommend.serving.export_folder import (
    ATTRIBUTES,
    COUNTS,
    FOLD_IN,
    INDEX,
    ITEM_ARRAY,
    ITEM_ATTRIBUTES,
    ITEMS,
    LATELY,
    LENGTHS,
    MODEL,
    SEEN,
    USERS,
    ExportManifest,
    file_facts,
    write_vectors,
)
from drgcn.sampling import CSRGraph

#: Seen items beyond which asking an index for so many more does not pay: such users are searched
#: exactly.
MANY_SEEN = 256
_PLACES = 2**26  # in all lists that an index is tuned by
_LEAST_QUERIES = 4  # two choose the effort, two measure it
_KINDS = {"float32": torch.float32, "float16": torch.float16}


def model_hash(model: ClickSAGE | LightGCN) -> str:
    """SHA-256 of a model's settings and of all its weights and buffers."""
    digest = hashlib.sha256(json.dumps(describe(model), sort_keys=True).encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"[{name} {value.dtype} {list(value.shape)}]".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def describes_users(model: ClickSAGE | LightGCN, data: ClickData) -> bool:
    """Test if a model knows users without clicks, by their attributes."""
    return isinstance(model, ClickSAGE | AttributedLightGCN) and data.users is not None


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A trained model and its data.

    Attributes:
        model: The model, ready to embed.
        training: How it was trained, on what.
        data: The clicks it was trained on, and whatever came on later days.
    """

    model: ClickSAGE | LightGCN
    training: dict[str, Any]
    data: ClickData

    @classmethod
    def open(cls, run: str | PathLike[str], data: str | PathLike[str] | None = None) -> LoadedRun:
        """Load what ``drgcn recommend train`` wrote.

        Args:
            run: Folder of the run.
            data: Folder of its clicks. (default: where they were, seen from the run)

        Raises:
            InputError: If the run is not finished, or the clicks are others than it knows.
        """
        model, facts = load_run(Path(run))
        training = dict(facts.get("training", {}))
        folder = Path() if data is None else Path(data)
        if data is None:
            if not training.get("folder"):
                raise InputError(
                    f"Expected --data, the folder of clicks; the run in {run} does not say where "
                    f"it is."
                )
            folder = Path(run) / str(training["folder"])
            if not folder.is_dir():
                raise InputError(
                    f"Expected the clicks of the run in {folder}; there is no such folder. Say "
                    f"with --data where they are."
                )
        if data is None and training.get("known"):  # a published set, in its folder of a data root
            clicks = load_clicks(str(training["known"]), folder.parents[1])
        else:
            clicks = load_clicks(str(folder))
        known = training.get("content_hash")
        if known and known != clicks.content_hash:
            raise InputError(
                f"Expected the clicks that the run was trained on, content hash {known[:12]}; "
                f"{folder} has {clicks.content_hash[:12]}. Give the right --data, or train again."
            )
        return cls(model, training, clicks)

    def split(self, day: int | None = None) -> ClickSplit:
        """The clicks that the run has not learnt from, and those before them.

        Args:
            day: The day to find. (default: what was held back)
        """
        if (rule := self.training.get("split")) is not None:
            if day is not None:
                raise InputError(
                    f"Expected no day for a run that held back by the split {rule}; found {day}."
                )
            found = split_clicks(self.data, SplitRule.parse(str(rule)))
            return replace(found.test, name=found.name)
        held = self.training.get("day")
        if held is None:
            raise InputError(
                "Expected a run that held a day back; this one has learnt from all clicks, and "
                "would be asked what it knows. Train without --all-days on clicks with times."
            )
        day = int(held) if day is None else day
        if day < held:
            raise InputError(
                f"Expected a day from {held} on; found {day}, whose clicks the run has learnt "
                f"from."
            )
        return ClickSplit.by_time(self.data, day)

    def clicks(self, before: int | None = None) -> ClickGraph:
        """All clicks, or those before a day."""
        if before is None:
            return self.data.graph
        graph = self.data.graph.until(before)
        first, last = self.data.graph.day_range
        if before > last:
            raise InputError(
                f"Expected --day from {first + 1} to {last}, the days of the clicks; found "
                f"{before}. Leave it out to use all clicks."
            )
        if not graph.num_clicks:
            raise InputError(
                f"Expected clicks before day {before}; found none. Days go from {first} to {last}."
            )
        return graph

    @property
    def popularity(self) -> Popularity:
        """Term of its scores for the popularity of items."""
        return Popularity.of_run(self.training)

    def vectors(
        self, graph: ClickGraph, device: torch.device | str = "cpu"
    ) -> tuple[Tensor, Tensor]:
        """Vectors of all users and of all items, with a graph's clicks as neighbours."""
        model, graph = self.model.to(device), graph.to(device)
        found = embed_all(model, self.data, graph)
        return self.popularity.joined(*found, self.data, graph, model.temperature)


@dataclass(frozen=True)
class ExportSettings:
    """Settings of an export.

    Attributes:
        index: ``auto`` (flat up to 200,000 items, else ivf), ``flat``, ``ivf``, ``hnsw``, or
            ``none``.
        recall: Share of the exact lists that the index is to find.
        n: Length of the lists that this is measured by; all items if there are fewer.
        queries: Users that it is measured with; half of them choose the effort. Fewer are taken
            if lists are very long.
        dtype: Type of the vectors, ``float32`` or ``float16``. Index and exact search rank by the
            stored vectors, so they agree in either.
        before: Only clicks before this day make neighbours and count as seen. (default: all)
        seen: Store the clicks and attributes of users too, so that seen items can be left out
            and lists explained.
        seed: Of the index and of the choice of users.
    """

    index: str = "auto"
    recall: float = 0.99
    n: int = 50
    queries: int = 2000
    dtype: str = "float32"
    before: int | None = None
    seen: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in _KINDS:
            raise InputError(f"Expected dtype {' or '.join(_KINDS)}; found {self.dtype!r}.")
        if self.index not in (kinds := ("auto", *KINDS, "none")):
            raise InputError(f"Expected index of {', '.join(kinds)}; found {self.index!r}.")
        if not 0 < self.recall <= 1 or self.n < 1 or self.queries < _LEAST_QUERIES:
            raise InputError(
                f"Expected recall above 0 and up to 1, n from 1 and queries from 4 on; found "
                f"{self.recall}, {self.n} and {self.queries}."
            )


def export(
    run: LoadedRun,
    out: str | PathLike[str],
    settings: ExportSettings | None = None,
    *,
    device: torch.device | str = "cpu",
    environment: Mapping[str, Any] | None = None,
    replacing: bool = False,
) -> ExportManifest:
    """Embed all nodes and write vectors, ids, index, clicks and model: whole or not at all.

    Args:
        run: The trained run.
        out: A folder that does not exist yet.
        settings: What to write.
        device: Where to embed.
        environment: Versions and hardware, for the manifest.
        replacing: Take the place of an export that is there, in one step at the end.
    """
    settings = settings or ExportSettings()
    out, data, model = Path(out), run.data, run.model
    graph = run.clicks(settings.before)
    if settings.index != "none" and graph.num_users < _LEAST_QUERIES:
        raise InputError(
            f"Expected at least {_LEAST_QUERIES} users to measure an index with; found "
            f"{graph.num_users}. Export without one (--index none): so few are searched exactly."
        )
    there = replacing and out.exists()
    if there:
        ExportManifest.read(out)  # nothing else is ever replaced
    with replacing_folder(out) if there else whole_folder(out) as partial:
        users, items, fold_in = embed_with_fold_in(model.to(device), data, graph.to(device))
        users, items = run.popularity.joined(users, items, data, graph, model.temperature)
        # What is stored is what is ranked by: rounding comes first.
        users, items = (
            checked_vectors(part, f"vectors of {side}").to(_KINDS[settings.dtype])
            for part, side in ((users, "users"), (items, "items"))
        )
        seen = graph.to("cpu").by_user
        index = _write_index(users, items, seen, partial / INDEX, settings)
        users, items = users.cpu(), items.cpu()
        write_vectors(partial / USERS, data.user_ids, users)
        write_vectors(partial / ITEMS, data.item_ids, items)
        np.save(partial / ITEM_ARRAY, items.numpy())
        if settings.seen:
            seen.save(partial / SEEN)
        _write_counts(partial, graph)
        if run.popularity.half_life is not None:
            lately = run.popularity.counts(data, graph).float()
            np.save(partial / LATELY, lately.numpy())
        if isinstance(model, ClickSAGE | AttributedLightGCN):
            save_run(partial / MODEL, model, run.training, torch.empty(0), {})
            for name in (HISTORY, RECORD):  # those of the run stay there
                (partial / MODEL / name).unlink()
            if data.users is not None:
                nobody = torch.empty(0, dtype=torch.int64)
                table = data.users if settings.seen else data.users.rows(nobody)
                table.save(partial / ATTRIBUTES)
        if data.items is not None:
            _only_categories(data.items).save(partial / ITEM_ATTRIBUTES)
        if fold_in is not None:
            _write_fold_in(partial, fold_in, _KINDS[settings.dtype])
        manifest = ExportManifest(
            model={
                "kind": type(model).__name__,
                "gate": model.settings.get("gate"),
                "sha256": model_hash(model),
            },
            data={
                "name": data.name,
                "content_hash": data.content_hash,
                "clicks": graph.num_clicks,
                "before_day": settings.before,
            },
            metric="ip",
            normalised=model.normalize,
            dim=items.size(1),
            dtype=settings.dtype,
            users=_side(len(users), data.user_ids, USERS),
            items=_side(len(items), data.item_ids, ITEMS),
            seen=settings.seen,
            cold_users=describes_users(model, data),
            fold_in=fold_in is not None,
            popularity=run.popularity.facts(),
            index=index,
            environment=dict(environment or {}),
            files={
                path.relative_to(partial).as_posix(): file_facts(path)
                for path in sorted(partial.rglob("*"))
                if path.is_file()
            },
        )
        manifest.write(partial)
    return manifest


def _only_categories(table: AttributeTable) -> AttributeTable:
    """Categories of items, and the columns of zeros and ones of those with several values."""
    names, places = [], []
    for name in (name for found in several_names(table.numeric_names).values() for name in found):
        place = table.numeric_names.index(name)
        values = table.numeric[:, place]
        if bool(((values == 0) | (values == 1) | values.isnan()).all()):
            names.append(name)
            places.append(place)
    return replace(table, numeric=table.numeric[:, places], numeric_names=tuple(names))


def _write_counts(folder: Path, graph: ClickGraph) -> None:
    (folder / COUNTS).mkdir()
    for side, rows in (("users", graph.by_user), ("items", graph.by_item)):
        np.save(folder / COUNTS / f"{side}.npy", rows.degree.to("cpu", torch.int32).numpy())


def _write_fold_in(folder: Path, fold_in: FoldIn, dtype: torch.dtype) -> None:
    (folder / FOLD_IN).mkdir()
    for number, table in enumerate(fold_in.inputs):
        table = checked_vectors(table, "inputs of items").to(dtype)
        np.save(folder / FOLD_IN / f"{number}.npy", table.cpu().numpy())
    if fold_in.lengths is not None:
        np.save(folder / LENGTHS, fold_in.lengths.cpu().numpy())


def _side(count: int, ids: Any | None, table: str) -> dict[str, Any]:
    kind = "0, 1, 2, ..." if ids is None else str(ids.type)
    return {"count": count, "ids": kind, "table": table}


def _write_index(
    users: Tensor, items: Tensor, seen: CSRGraph, path: Path, settings: ExportSettings
) -> dict[str, Any] | None:
    """Builds, tunes and writes the index; returns its facts with the recall that was measured."""
    if settings.index == "none":
        return None
    items = items.float()
    n = min(settings.n, len(items))
    number = min(settings.queries, max(_LEAST_QUERIES, _PLACES // n))
    index = FaissIndex.build(items, settings.index, "ip", settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    chosen = torch.randperm(len(users), generator=generator)[:number]
    queries = users[chosen.to(users.device)].float()
    blocks = ItemBlocks.of(items)
    tuning = tune(index, queries, exact_top(queries, blocks, n), settings.recall)
    # Who leaves out what was seen asks the index for longer lists, of which it finds less.
    few = seen.degree[chosen] <= MANY_SEEN
    chosen, queries = chosen[few], queries[few.to(queries.device)]
    options: dict[str, Any] = {"exclude": seen, "exclude_rows": chosen}
    found = index.search(queries, n, **options).items
    options["exclude"] = seen.to(queries.device)
    exact = exact_top(queries, blocks, n, **options).items.cpu()
    return {
        **write_index(index, path),
        "tuning": tuning.to_dict(),
        "recall_without_seen": _overlap(found, exact),
        "faiss": str(_faiss().__version__),
    }


def _overlap(found: Tensor, exact: Tensor) -> float:
    """The share of the exact lists that was found."""
    return float(is_listed(exact, found).sum() / (exact >= 0).sum().clamp(min=1))
