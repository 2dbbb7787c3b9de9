"""Indexes of faiss for serving: built, tuned to a recall, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import Tensor

from drgcn._io import file_digest, replacing
from drgcn.errors import InputError, how_to_install
from drgcn.recommend.retrieval.blocks import checked_vectors
from drgcn.recommend.retrieval.ranking import TopItems, is_listed, is_seen
from drgcn.sampling import CSRGraph

_ERRORS = 2.0  # standard errors by which the first half must clear the target
KINDS = ("flat", "ivf", "hnsw")
_FLAT_ITEMS = 200_000  # up to which looking at all of them is fast enough
_LINKS = 32  # of a node in HNSW
_LEAST_EFFORT = 16  # of HNSW
_MOST_EFFORT = 4096
_FACTS = ("kind", "metric", "dim", "num_items", "effort", "sha256")


class AnnIndex(Protocol):
    """An index of items. ``effort`` trades time for recall; an exact index has none."""

    kind: str
    metric: str

    @property
    def num_items(self) -> int:
        """Number of items."""
        ...

    @property
    def dim(self) -> int:
        """Columns of a vector."""
        ...

    @property
    def effort(self) -> int | None:
        """Search effort; ``None`` if the index is exact."""
        ...

    @effort.setter
    def effort(self, value: int) -> None: ...

    def efforts(self, n: int) -> list[int]:
        """Efforts worth trying for lists of ``n``, rising."""
        ...

    def search(self, queries: Tensor, n: int) -> TopItems:
        """Lists of ``n`` items, best first."""
        ...


@dataclass(frozen=True)
class RecallTuning:
    """Recall that an index was tuned to and recall it reaches; written into a manifest.

    Attributes:
        kind: Of the index.
        n: Length of the lists.
        target: Share of the exact lists that was asked for.
        effort: What the index was set to; ``None`` if it has no such setting.
        recall: Share found, on queries that had no part in choosing the effort.
        standard_error: Of ``recall``, over queries.
        queries: Number of those queries.
        reached: Whether ``recall`` is at least the target.
    """

    kind: str
    n: int
    target: float
    effort: int | None
    recall: float
    standard_error: float
    queries: int
    reached: bool

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)

    def __str__(self) -> str:
        verdict = "reached" if self.reached else "NOT reached; take another kind, or flat"
        effort = "" if self.effort is None else f", effort {self.effort}"
        return (
            f"{self.kind}{effort}: recall@{self.n} {self.recall:.4f} +- "
            f"{self.standard_error:.4f} on {self.queries} queries; target {self.target} {verdict}"
        )


def tune(index: AnnIndex, queries: Tensor, exact: TopItems, target: float = 0.99) -> RecallTuning:
    """Set the least effort of the index that reaches a recall against exact lists.

    Every second query chooses the effort, and the others measure what it reaches: a number
    measured on the queries it was chosen by would be too good. If no effort suffices, the largest
    is left set and the result says that the target was not reached.

    Args:
        index: The index; its effort is changed.
        queries: Some hundred queries like those to come ``[q, d]``.
        exact: Their exact lists, from ``exact_top``.
        target: Share of each exact list to find, on average.
    """
    if not 0 < target <= 1 or len(queries) < 4 or len(exact.items) != len(queries):
        raise InputError(
            f"Expected a target above 0 and up to 1, and exact lists for at least four queries; "
            f"found {target}, {len(queries)} queries and {len(exact.items)} lists."
        )
    lists = exact.items.cpu()
    for effort in index.efforts(lists.size(1)):
        index.effort = effort
        mean, error = _recall(index, queries[::2], lists[::2])
        if mean - _ERRORS * error >= target:
            break
    mean, error = _recall(index, queries[1::2], lists[1::2])
    return RecallTuning(
        index.kind, lists.size(1), target, index.effort, mean, error,
        len(queries[1::2]), mean >= target,
    )  # fmt: skip


def _recall(index: AnnIndex, queries: Tensor, lists: Tensor) -> tuple[float, float]:
    found = index.search(queries, lists.size(1)).items
    real = lists >= 0
    share = is_listed(lists, found).sum(dim=1).double() / real.sum(dim=1).clamp(min=1)
    error = float(share.std()) / len(share) ** 0.5
    return float(share.mean()), error if torch.isfinite(share).all() else float("nan")


class FaissIndex:
    """A faiss index: ``flat`` looks at every item, ``ivf`` at some cells, ``hnsw`` along links.

    Attributes:
        index: The index of faiss.
        kind: One of :data:`KINDS`.
        metric: ``"ip"`` or ``"l2"``.
    """

    def __init__(self, index: Any, kind: str, metric: str) -> None:
        self.index, self.kind, self.metric = index, kind, metric

    @classmethod
    def build(
        cls, items: Tensor, kind: str = "auto", metric: str = "ip", seed: int = 0
    ) -> FaissIndex:
        """An index of item vectors ``[n, d]``.

        Args:
            items: The vectors.
            kind: ``flat``, ``ivf``, ``hnsw``, or ``auto``: flat up to 200,000 items, else ivf.
            metric: ``"ip"`` or ``"l2"``.
            seed: For the cells of ``ivf``.
        """
        faiss = _faiss()
        items = checked_vectors(items, "items").cpu()
        if kind == "auto":
            kind = "flat" if len(items) <= _FLAT_ITEMS else "ivf"
        if kind not in KINDS or metric not in ("ip", "l2") or not len(items):
            raise InputError(
                f"Expected at least one item, a kind of auto, {', '.join(KINDS)}, and metric ip "
                f"or l2; found {len(items)} items, {kind!r} and {metric!r}."
            )
        measure = faiss.METRIC_INNER_PRODUCT if metric == "ip" else faiss.METRIC_L2
        if kind == "ivf":
            index = faiss.index_factory(items.size(1), f"IVF{cells(len(items))},Flat", measure)
            index.cp.seed = seed
            index.train(items.numpy())
        else:
            name = "Flat" if kind == "flat" else f"HNSW{_LINKS},Flat"
            index = faiss.index_factory(items.size(1), name, measure)
        index.add(items.numpy())
        return cls(index, kind, metric)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return int(self.index.ntotal)

    @property
    def dim(self) -> int:
        """Columns of a vector."""
        return int(self.index.d)

    @property
    def effort(self) -> int | None:
        """Cells looked at by ``ivf``, candidates held by ``hnsw``; ``flat`` has none."""
        if self.kind == "flat":
            return None
        return int(self.index.nprobe if self.kind == "ivf" else self.index.hnsw.efSearch)

    @effort.setter
    def effort(self, value: int) -> None:
        if self.kind == "flat" or value < 1:
            raise InputError(f"Expected an effort of at least one for ivf or hnsw; found {value}.")
        if self.kind == "ivf":
            self.index.nprobe = value
        else:
            self.index.hnsw.efSearch = value

    def efforts(self, n: int) -> list[int]:
        """Doubling efforts, up to all cells of ``ivf``; none for ``flat``."""
        if self.kind == "flat":
            return []
        most = self.index.nlist if self.kind == "ivf" else _MOST_EFFORT
        least = 1 if self.kind == "ivf" else max(_LEAST_EFFORT, 2 ** (n - 1).bit_length())
        return [2**step for step in range(32) if least <= 2**step <= most]

    def search(
        self,
        queries: Tensor,
        n: int,
        *,
        exclude: CSRGraph | None = None,
        exclude_rows: Tensor | None = None,
    ) -> TopItems:
        """Lists of ``n`` items for each query, best first, on the CPU.

        Args:
            queries: ``[q, d]``.
            n: Length of a list; -1 fills what the index did not find.
            exclude: Items that must not come out, by sorted row: so many more are asked for.
            exclude_rows: The row of each query; needed with ``exclude``.
        """
        queries = checked_vectors(queries, "queries").cpu()
        if queries.size(1) != self.dim or n < 1:
            raise InputError(
                f"Expected queries of {self.dim} columns and n of at least one; found "
                f"{queries.size(1)} columns and n = {n}."
            )
        if exclude is None:
            return self._found(queries, n)
        if exclude_rows is None or len(exclude_rows) != len(queries):
            raise InputError("Expected exclude_rows, the row of exclude of each query.")
        more = int(exclude.degree[exclude_rows].max()) if len(queries) else 0
        top = self._found(queries, min(n + more, max(n, self.num_items)))
        seen = is_seen(exclude, exclude_rows, top.items)
        place = seen.long().sort(dim=1, stable=True).indices[:, :n]
        seen, items = seen.gather(1, place), top.items.gather(1, place)
        scores = top.scores.gather(1, place)
        return TopItems(scores.masked_fill(seen, -torch.inf), items.masked_fill(seen, -1))

    def _found(self, queries: Tensor, n: int) -> TopItems:
        numbers, items = self.index.search(queries.numpy(), n)
        scores, found = torch.from_numpy(numbers), torch.from_numpy(items)
        if found.numel() and int(found.max()) >= self.num_items:  # faiss lets a file number them
            raise InputError(
                f"Expected an index of items 0 to {self.num_items - 1}; it knows "
                f"{int(found.max())}. It belongs to another export: export it again."
            )
        scores = scores if self.metric == "ip" else -scores
        return TopItems(scores.masked_fill(found < 0, -torch.inf), found)


def cells(num_items: int) -> int:
    """Cells of ``ivf``: about four square roots, and at least 39 items to learn each from."""
    wanted = round(4 * num_items**0.5).bit_length() - 1
    return int(2 ** max(0, min(wanted, (num_items // 39).bit_length() - 1)))


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise InputError(
            f"Expected faiss for an index; found none. {how_to_install('recommend')}"
        ) from None
    module: ModuleType = faiss
    return module


def write_index(index: FaissIndex, path: Path | str) -> dict[str, object]:
    """Write an index, whole or not at all, and return its facts for a manifest."""
    path = Path(path)
    with replacing(path) as partial:
        _faiss().write_index(index.index, str(partial))
        return {**_facts(index), "effort": index.effort, "sha256": file_digest(partial)}


def read_index(path: Path | str, facts: Mapping[str, object]) -> FaissIndex:
    """The index of a file, if it is the one that the facts speak of.

    The bytes are compared first: faiss trusts what it reads, and a broken file can end the
    process.
    """
    path = Path(path)
    missing = [name for name in _FACTS if name not in facts]
    if missing or not path.is_file():
        what = f"no {', '.join(missing)} in the manifest" if missing else "no such file"
        raise InputError(
            f"Expected index {path} and its facts; found {what}. Export the index again."
        )
    if file_digest(path) != facts["sha256"]:
        raise InputError(
            f"Expected index {path} with the SHA-256 of its manifest; found other bytes. It is "
            f"cut short or belongs to another export: export it again."
        )
    faiss = _faiss()
    try:
        stored = faiss.read_index(str(path))
    except RuntimeError as error:
        raise InputError(
            f"Expected an index of faiss in {path}; faiss says: {str(error).strip()[-200:]!r}. "
            f"Export the index again."
        ) from None
    index = FaissIndex(stored, str(facts["kind"]), str(facts["metric"]))
    measure = faiss.METRIC_INNER_PRODUCT if index.metric == "ip" else faiss.METRIC_L2
    kind = {"flat": "IndexFlat", "ivf": "IndexIVFFlat", "hnsw": "IndexHNSWFlat"}.get(index.kind)
    found = _facts(index)
    expected = {name: facts[name] for name in found}
    right_kind = kind is not None and isinstance(index.index, getattr(faiss, kind))
    if found != expected or not right_kind or index.index.metric_type != measure:
        raise InputError(
            f"Expected an index of {expected}; found {type(index.index).__name__} of {found}. The "
            f"manifest belongs to another index: export it again."
        )
    if index.kind != "flat":
        effort = facts["effort"]
        if type(effort) is not int or not 1 <= effort < 2**31:
            raise InputError(f"Expected an effort of at least one for {path}; found {effort!r}.")
        index.effort = effort
    return index


def _facts(index: FaissIndex) -> dict[str, object]:
    return {
        "kind": index.kind,
        "metric": index.metric,
        "dim": index.dim,
        "num_items": index.num_items,
    }
