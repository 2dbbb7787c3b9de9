"""Which nodes of a graph are the same thing twice, and what speaks for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from drgcn.audit.duplicates.chance import log_chance_of_equality
from drgcn.audit.duplicates.feature_rows import by_density, feature_rows
from drgcn.audit.duplicates.features import (
    NearDuplicates,
    exact_duplicates,
    near_duplicates,
    structure_duplicates,
)
from drgcn.audit.duplicates.pairs import DuplicatePairs, Evidence, groups_of
from drgcn.audit.duplicates.texts import TextDuplicates, checked_texts, text_duplicates
from drgcn.audit.graph_view import GraphView

if TYPE_CHECKING:
    from torch_geometric.data import Data

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class DuplicateGroups:
    """Groups of nodes that are one thing, with the evidence for every pair.

    Attributes:
        nodes: Number of nodes of the graph.
        exact: Pairs with equal features that chance does not explain.
        by_chance: Pairs with equal features so short or so frequent that chance may explain them;
            they make no groups.
        near: Pairs with similar features, and how similar they had to be.
        text: Pairs with similar texts; ``None`` if there are no texts.
        twins: Pairs with the same neighbours. They make no groups.
        zero_rows: Nodes without features, in no group by features.
    """

    nodes: int
    exact: DuplicatePairs
    by_chance: DuplicatePairs
    near: NearDuplicates
    text: TextDuplicates | None
    twins: DuplicatePairs
    zero_rows: tuple[int, ...]

    def pairs(self, *evidence: Evidence) -> list[DuplicatePairs]:
        """The pairs that make groups, of some kinds of evidence or of all."""
        found = [self.exact, self.near.pairs, *([] if self.text is None else [self.text.pairs])]
        return [pairs for pairs in found if not evidence or pairs.evidence in evidence]

    def groups(self, *evidence: Evidence) -> Groups:
        """Sets of nodes connected by pairs of some kinds of evidence, or of all.

        A group holds what hangs together: its ends may be less alike than any of its pairs.
        """
        return groups_of(np.concatenate([p.nodes for p in self.pairs(*evidence)]), self.nodes)

    def evidence(self, a: int, b: int) -> dict[str, float]:
        """What speaks for a pair, with its scores; twins are named as ``"structure"``."""
        wanted = sorted((a, b))
        scores = {}
        for pairs in (*self.pairs(), self.twins):
            place = np.flatnonzero((pairs.nodes == wanted).all(axis=1))
            if len(place):
                scores[str(pairs.evidence)] = float(pairs.score[place[0]])
        return scores


def find_duplicates(
    data: Data,
    texts: Sequence[str] | None = None,
    *,
    expected_false: float = 0.05,
    seed: int = 0,
) -> DuplicateGroups:
    """Find duplicate nodes by features, and by texts if there are any.

    Args:
        data: One graph, or several as one (copies may be in different graphs). It is not changed.
        texts: One text per node, empty where there is none. Texts that were made out of the
            features say nothing new: leave them empty.
        expected_false: Expected number of false pairs by features in the whole dataset, at most,
            if columns were independent; the same again for texts.
        seed: Seed of the hash functions. The same seed gives the same result.

    Example:
        >>> from drgcn.data import load
        >>> find_duplicates(load("wine")).groups()
        ()

    Raises:
        InputError: If features are not finite, or texts do not fit the nodes.
    """
    view = GraphView.of(data)
    rows = feature_rows(view.x)
    texts = None if texts is None else checked_texts(texts, view.nodes)
    found = exact_duplicates(rows)
    likely = _by_chance(rows, found.pairs, expected_false, seed)
    return DuplicateGroups(
        nodes=view.nodes,
        exact=_part(found.pairs, ~likely),
        by_chance=_part(found.pairs, likely),
        near=near_duplicates(rows, expected_false=expected_false, seed=seed),
        text=None
        if texts is None
        else text_duplicates(texts, expected_false=expected_false, seed=seed),
        twins=structure_duplicates(view.pairs, view.nodes),
        zero_rows=tuple(found.zero_rows.tolist()),
    )


def _by_chance(
    rows: npt.NDArray[np.float32], pairs: DuplicatePairs, expected: float, seed: int
) -> npt.NDArray[np.bool_]:
    if not len(pairs):
        return np.empty(0, dtype=np.bool_)
    every = math.log(max(rows.shape[0] * (rows.shape[0] - 1) / 2, 1))
    chance = log_chance_of_equality(by_density(rows), pairs.nodes[:, 0], seed)
    return chance + every > math.log(expected)


def _part(pairs: DuplicatePairs, chosen: npt.NDArray[np.bool_]) -> DuplicatePairs:
    return DuplicatePairs(pairs.evidence, pairs.nodes[chosen], pairs.score[chosen])
