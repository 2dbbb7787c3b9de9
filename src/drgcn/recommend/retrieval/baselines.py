"""Classical recommenders to hold a model against: popular items, item-kNN, EASE and iALS."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drgcn.errors import InputError, how_to_install
from drgcn.recommend.clicks.data import ClickData, click_weights, has_ages
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.clicks.splits import ClickSplit
from drgcn.recommend.retrieval.evaluation import (
    MeasuredLists,
    measure_lists,
    popular_items,
    users_to_evaluate,
)
from drgcn.recommend.retrieval.ranking import ranking_key
from drgcn.sampling import CSRGraph

#: Settings that validation chooses among, for each kind; all combinations are tried.
SETTINGS: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "popular": {},
    "popular lately": {"half_life": (1, 3, 10, 30, 100)},
    "item-kNN": {"neighbors": (20, 100, 500), "shrink": (0, 10)},
    "EASE": {"penalty": (20, 100, 500, 2000)},
    "iALS": {"factors": (64,), "alpha": (1, 5, 20), "penalty": (3, 10, 30, 100)},
}
#: Memory that one baseline may take unless told otherwise, in bytes.
MEMORY: Final = 4 * 2**30
_ITERATIONS = 15  # of iALS
_SCORES = 2**24  # held at a time
_PAIRS = 2**24  # of items clicked by one user, counted at a time

_Floats = npt.NDArray[Any]
#: Scores of all items for some users: ``[users, items]``.
Scorer = Callable[[npt.NDArray[np.int64]], _Floats]


@dataclass(frozen=True, eq=False)
class BaselineScore:
    """One baseline on a split.

    Attributes:
        name: ``"popular"``, ``"popular lately"``, ``"item-kNN"``, ``"EASE"`` or ``"iALS"``.
        settings: Those that found most of the validation clicks.
        validation_recall: Recall on validation of each setting that was tried.
        lists: The measured lists of the test, by their length.
        seconds: Seconds it took, the choice included.
        refused: A sentence if it could not be run; then there are no lists.
    """

    name: str
    settings: dict[str, float] = field(default_factory=dict)
    validation_recall: tuple[float, ...] = ()
    lists: dict[int, MeasuredLists] = field(default_factory=dict)
    seconds: float = 0.0
    refused: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a record."""
        return {
            "name": self.name,
            "settings": dict(self.settings),
            "validation_recall": list(self.validation_recall),
            "lists": {str(n): found.to_dict() for n, found in self.lists.items()},
            "seconds": self.seconds,
            "refused": self.refused,
        }


def score_baselines(
    validation: ClickSplit,
    test: ClickSplit,
    lengths: Sequence[int],
    *,
    exclude_seen: bool = False,
    names: Sequence[str] = tuple(SETTINGS),
    memory: int = MEMORY,
    validation_users: int = 10_000,
    data: ClickData | None = None,
) -> list[BaselineScore]:
    """Fit classical recommenders and measure their lists as those of a model are measured.

    Each is fitted to the training clicks of the validation with every setting, and with the one
    that has the highest recall at the first length to those of the test. Items of equal score are
    ranked by their clicks, so a user without clicks gets the popular items.

    Args:
        validation: Clicks to choose settings by; nothing of the test is in it.
        test: Clicks to fit to in the end, and those to find.
        lengths: Lengths of lists; all items where there are fewer.
        exclude_seen: Leave out what a user has clicked in training.
        names: Baselines to run, in this order.
        memory: Bytes that the matrix of EASE may take. Above, EASE is refused.
        validation_users: Users that settings are chosen by, evenly spaced; all if there are fewer.
        data: All clicks, whose days tell what is popular lately. (default: that list is refused)
    """
    if unknown := [name for name in names if name not in SETTINGS]:
        raise InputError(f"Expected baselines among {', '.join(SETTINGS)}; found {unknown[0]!r}.")
    if not lengths or min(lengths) < 1:
        raise InputError(f"Expected lists of at least one item; found lengths {[*lengths]}.")
    some = users_to_evaluate(validation)
    if some.numel() > validation_users:
        some = some[torch.arange(validation_users) * some.numel() // validation_users]
    found = []
    for name in names:
        if reason := _refusal(name, test.train.num_items, memory, data):
            found.append(BaselineScore(name, refused=reason))
            continue
        start = time.perf_counter()
        grid = SETTINGS[name]
        tried = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        recalls = []
        if len(tried) > 1:
            for settings in tried:
                lists = _measured(
                    name, settings, validation, lengths[:1], exclude_seen, some, data
                )
                recalls.append(float(lists[lengths[0]].values.recall.mean()))
        best = tried[int(np.argmax(recalls))] if recalls else tried[0]
        every = users_to_evaluate(test)
        lists = _measured(name, best, test, lengths, exclude_seen, every, data)
        seconds = time.perf_counter() - start
        found.append(BaselineScore(name, best, tuple(recalls), lists, seconds))
    return found


def _refusal(name: str, items: int, memory: int, data: ClickData | None) -> str:
    if name == "popular lately" and (data is None or not has_ages(data)):
        return "Expected clicks with days to count what is popular lately; found none."
    if name == "iALS" and importlib.util.find_spec("implicit") is None:
        return "Expected the package implicit for iALS; found none. " + how_to_install("ials")
    if name == "EASE" and (needed := 8 * items**2) > memory:
        return (
            f"Expected EASE to fit {memory / 2**30:.1f} GiB of memory; its matrix of {items:,} x "
            f"{items:,} items takes {needed / 2**30:.1f}. Allow more, or do without."
        )
    return ""


def _measured(
    name: str,
    settings: dict[str, float],
    split: ClickSplit,
    lengths: Sequence[int],
    exclude_seen: bool,
    users: Tensor,
    data: ClickData | None,
) -> dict[int, MeasuredLists]:
    train, targets = split.train.by_user.to("cpu"), split.targets.by_user.to("cpu")
    known = {n: min(n, train.num_cols) for n in lengths}
    longest = max(known.values())

    weights = None
    if name == "popular lately":
        assert data is not None
        weights = click_weights(data, split.train, **settings)

    def popular(some: Tensor) -> Tensor:
        return popular_items(train, some, longest, exclude_seen=exclude_seen, weights=weights)

    make: Callable[[Tensor], Tensor] = popular
    if name in _FITS:
        score = _FITS[name](click_matrix(split.train), **settings)
        make = _list_maker(score, train, longest, exclude_seen)
    found = measure_lists(make, train, targets, users.split(2**18), [*known.values()])
    return {asked: found[n] for asked, n in known.items()}


def click_matrix(graph: ClickGraph) -> Any:
    """Clicks as a sparse matrix of SciPy: users in rows, items in columns, ones."""
    from scipy import sparse

    side = graph.by_user.to("cpu")
    parts = (np.ones(side.num_entries), side.col.numpy(), side.rowptr.numpy())
    return sparse.csr_matrix(parts, shape=(side.num_rows, side.num_cols))


def _list_maker(
    score: Scorer, train: CSRGraph, n: int, exclude_seen: bool
) -> Callable[[Tensor], Tensor]:
    """Lists by score; of equal scores the item with more clicks comes first."""
    counts = torch.bincount(train.col, minlength=train.num_cols)
    order = counts.sort(descending=True, stable=True).indices
    column = torch.arange(train.num_cols)
    rows = max(1, _SCORES // max(1, train.num_cols))

    def make(users: Tensor) -> Tensor:
        lists = []
        for some in users.split(rows):
            scores = torch.from_numpy(score(some.numpy()).astype(np.float32, copy=False))
            if exclude_seen:
                seen = train.rows(some)
                scores[seen.row, seen.col.long()] = -torch.inf
            scores = scores[:, order]
            top = ranking_key(scores, column).topk(n).indices
            lists.append(order[top].masked_fill(scores.gather(1, top) == -torch.inf, -1))
        return torch.cat(lists)

    return make


def item_knn(clicks: Any, neighbors: float, shrink: float) -> Scorer:
    """Cosine between items; an item's score is the sum over its neighbours that were clicked.

    Args:
        clicks: Users in rows, items in columns.
        neighbors: Neighbours that are kept of each item, the nearest.
        shrink: Added to the product of two items' lengths, against chance among few clicks.
    """
    from scipy import sparse

    by_item = clicks.T.tocsr()
    length = np.sqrt(np.diff(by_item.indptr))
    # Entries of a row of the product, counted with repetition.
    cost = np.cumsum(by_item @ np.diff(clicks.indptr))
    kept: list[tuple[npt.NDArray[Any], _Floats]] = []
    while (begin := len(kept)) < len(length):
        done = cost[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(cost, done + _PAIRS, side="right")))
        both = by_item[begin:end] @ clicks
        for row in range(begin, end):
            entries = slice(*both.indptr[row - begin : row - begin + 2])
            col = both.indices[entries]
            value = both.data[entries] / (length[row] * length[col] + shrink)
            kept.append(_nearest(col[col != row], value[col != row], int(neighbors)))
    counts = np.cumsum([0, *(len(col) for col, _ in kept)])
    col, value = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    weights = sparse.csr_matrix((value, col, counts), shape=(len(length), len(length))).T.tocsr()
    return lambda users: (clicks[users] @ weights).toarray()


def _nearest(col: npt.NDArray[Any], value: _Floats, most: int) -> tuple[npt.NDArray[Any], _Floats]:
    """The largest values and their columns; of equal ones those with the smaller column."""
    if len(value) > most:
        enough = value >= np.partition(value, -most)[-most]
        col, value = col[enough], value[enough]
        order = np.lexsort((col, -value))[:most]
        col, value = col[order], value[order]
    return col, value


def ease(clicks: Any, penalty: float) -> Scorer:
    """EASE (Steck, 2019): items from items by ridge regression, none from itself.

    Args:
        clicks: Users in rows, items in columns.
        penalty: Weight of the squared coefficients.
    """
    weights = ease_weights(clicks, penalty)
    return lambda users: np.asarray(clicks[users] @ weights)


def ease_weights(clicks: Any, penalty: float) -> _Floats:
    """Coefficients ``[items, items]``, column ``j`` those that predict item ``j``.

    Everything is done in one array of ``items ** 2`` doubles.
    """
    from scipy.linalg import lapack

    items = clicks.shape[1]
    by_item = clicks.T.tocsr()
    gram = np.empty((items, items), order="F")
    step = max(1, _SCORES // max(1, items))
    for begin in range(0, items, step):
        gram[:, begin : begin + step] = (by_item[begin : begin + step] @ clicks).toarray().T
    gram[np.diag_indices(items)] += penalty
    factor, failed = lapack.dpotrf(gram, lower=1, overwrite_a=1)
    inverse, singular = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed or singular:
        raise InputError(f"Expected a penalty above 0 for EASE; found {penalty}.")
    for row in range(items):  # only the lower triangle was written
        inverse[row, row + 1 :] = inverse[row + 1 :, row]
    diagonal = inverse.diagonal().copy()
    inverse /= -diagonal
    inverse[np.diag_indices(items)] = 0
    return inverse


def ials(clicks: Any, factors: float, alpha: float, penalty: float) -> Scorer:
    """Matrix factorisation of implicit feedback (Hu et al., 2008) by the package ``implicit``.

    Args:
        clicks: Users in rows, items in columns.
        factors: Width of the factors.
        alpha: Weight of a click, where the absence of one weighs 1.
        penalty: Weight of the squared factors.
    """
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    model = AlternatingLeastSquares(
        factors=int(factors),
        regularization=penalty,
        alpha=alpha,
        iterations=_ITERATIONS,
        num_threads=torch.get_num_threads(),
        random_state=0,
    )
    with threadpool_limits(1, "blas"):  # it has threads of its own
        model.fit(clicks.astype(np.float32), show_progress=False)
    users, items = model.user_factors, model.item_factors
    return lambda some: users[some] @ items.T


_FITS: Final[dict[str, Callable[..., Scorer]]] = {"item-kNN": item_knn, "EASE": ease, "iALS": ials}
