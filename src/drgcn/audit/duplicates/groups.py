"""Groups of duplicate nodes, by features and texts; and twins, nodes with the same neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from drgcn.audit.duplicates.chance import log_chance_of_equality
from drgcn.audit.duplicates.features import (
    DuplicatePairs,
    Evidence,
    NearDuplicates,
    by_density,
    exact_duplicates,
    feature_rows,
    near_duplicates,
    row_sizes,
)
from drgcn.audit.duplicates.texts import TextDuplicates, checked_texts, text_duplicates
from drgcn.audit.graph_view import GraphView
from drgcn.data.features import Features

if TYPE_CHECKING:
    from torch_geometric.data import Data

Groups = tuple[tuple[int, ...], ...]

# Where a row stands for this many nodes on average, it describes a kind of node, and not a node.
NODES_PER_ROW = 10


@dataclass(frozen=True, eq=False)
class DuplicateGroups:
    """Pairs of duplicate nodes by kind of evidence, and the groups that they connect.

    Attributes:
        nodes: Number of nodes of the graph.
        exact: Pairs with equal features that chance does not explain.
        by_chance: Pairs with equal features so short or so frequent that chance may explain them;
            all pairs with equal features if these do not tell nodes apart. They make no groups.
        near: Pairs with similar features, and how similar they had to be.
        text: Pairs with similar texts; ``None`` if there are no texts.
        twins: Pairs with the same neighbours. They make no groups.
        zero_rows: Nodes without features, in no group by features.
        distinct: Number of different rows of features, that of zeros left out.
        one_hot: Whether every node has one feature, which no other node has.
    """

    nodes: int
    exact: DuplicatePairs
    by_chance: DuplicatePairs
    near: NearDuplicates
    text: TextDuplicates | None
    twins: DuplicatePairs
    zero_rows: tuple[int, ...]
    distinct: int
    one_hot: bool

    @property
    def comparable(self) -> bool:
        """True if features tell nodes apart, so that being alike means something.

        They do not if all nodes with features have the same ones, if a row stands for ten nodes
        or more on average, or if features only number the nodes.
        """
        described = self.nodes - len(self.zero_rows)
        if described < 2:
            return described == self.nodes
        return not self.one_hot and self.distinct > max(described / NODES_PER_ROW, 1)

    def pairs(self, *evidence: Evidence) -> list[DuplicatePairs]:
        """Return the pairs that make groups, of some kinds of evidence or of all."""
        found = [self.exact, self.near.pairs, *([] if self.text is None else [self.text.pairs])]
        return [pairs for pairs in found if not evidence or pairs.evidence in evidence]

    def groups(self, *evidence: Evidence) -> Groups:
        """Return sets of nodes connected by pairs of some kinds of evidence, or of all.

        Nodes of a group that are in no pair may be less alike than any of its pairs.
        """
        pairs = np.concatenate([kind.nodes for kind in self.pairs(*evidence)])
        return connected_groups(pairs, self.nodes)

    def evidence(self, a: int, b: int) -> dict[str, float]:
        """Return the evidence for a pair with its scores; that of twins is ``"structure"``."""
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
    groups = DuplicateGroups(
        nodes=view.nodes,
        exact=_part(found.pairs, ~likely),
        by_chance=_part(found.pairs, likely),
        near=near_duplicates(rows, expected_false=expected_false, seed=seed),
        text=None
        if texts is None
        else text_duplicates(texts, expected_false=expected_false, seed=seed),
        twins=structure_duplicates(view.pairs, view.nodes),
        zero_rows=tuple(found.zero_rows.tolist()),
        distinct=view.nodes - len(found.pairs) - len(found.zero_rows),
        one_hot=_is_one_hot(rows),
    )
    if groups.comparable:
        return groups
    none = found.pairs.within(())
    near = replace(groups.near, pairs=replace(none, evidence=groups.near.pairs.evidence))
    return replace(groups, exact=none, by_chance=found.pairs, near=near)


def _is_one_hot(rows: Features) -> bool:
    sizes = row_sizes(rows)
    if not (sizes == 1).all():
        return False
    columns = rows.indices if sparse.issparse(rows) else np.nonzero(rows)[1]
    return len(np.unique(columns)) == len(columns)


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


def structure_duplicates(
    pairs: npt.NDArray[Any], nodes: int, *, least_degree: int = 2
) -> DuplicatePairs:
    """Find twins: nodes with the same neighbours, which may or may not be joined themselves.

    A paper entered twice has twice the same references, so its copies are twins. But twins need
    be no copies: two papers that cite the same two, every leaf of a hub, and all products bought
    with one other are twins too, and the smaller the degree, the more of them. A duplicate in turn
    need not be a twin, since citations of one paper are often spread over its copies, and copies
    are often listed as citing each other. So twins join no nodes to a group: they are counted
    beside the pairs that features or texts make.

    Args:
        pairs: Edges ``[2, E]``, in one direction or both; loops do not count.
        nodes: Number of nodes.
        least_degree: Nodes with fewer neighbours (apart from each other) are no twins: a single
            neighbour is shared too easily.

    Returns:
        Each further twin with the first: n twins are n - 1 pairs.
    """
    adjacency = _adjacency(pairs, nodes)
    degree = np.diff(adjacency.indptr)
    apart = exact_duplicates(adjacency).pairs.nodes
    apart = apart[degree[apart[:, 0]] >= least_degree] if len(apart) else apart
    closed = sparse.csr_array(adjacency + sparse.eye_array(nodes, dtype=np.float32, format="csr"))
    joined = exact_duplicates(closed).pairs.nodes
    joined = joined[degree[joined[:, 0]] > least_degree] if len(joined) else joined
    both = np.concatenate([apart, joined])  # no pair is in both: twins apart are not joined
    return DuplicatePairs("structure", both, np.ones(len(both)))


def _adjacency(pairs: npt.NDArray[Any], nodes: int) -> sparse.csr_array:
    a, b = pairs[:, pairs[0] != pairs[1]]
    ones = np.ones(2 * len(a), dtype=np.float32)
    ends = np.concatenate([a, b]), np.concatenate([b, a])
    adjacency = sparse.csr_array((ones, ends), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency


def connected_groups(pairs: npt.NDArray[np.int64], nodes: int) -> tuple[tuple[int, ...], ...]:
    """Connected components of a list of pairs, in the order of their first nodes.

    Args:
        pairs: Pairs of nodes, shape ``[P, 2]``.
        nodes: Number of nodes.

    Example:
        >>> connected_groups(np.array([[4, 1], [1, 2], [0, 5]]), 6)
        ((0, 5), (1, 2, 4))
    """
    if not len(pairs):
        return ()
    # Only the nodes that are in a pair: a million nodes with ten pairs must cost ten pairs.
    members, ends = np.unique(pairs, return_inverse=True)
    if members[0] < 0 or members[-1] >= nodes:
        raise IndexError(f"pairs name nodes outside 0 to {nodes - 1}")
    ends = ends.reshape(pairs.shape)
    graph = sparse.coo_array(
        (np.ones(len(pairs), dtype=np.int8), (ends[:, 0], ends[:, 1])),
        shape=(len(members), len(members)),
    )
    _, component = connected_components(graph, directed=False)
    order = np.argsort(component, kind="stable")  # members stay in rising order
    cuts = np.flatnonzero(np.diff(component[order])) + 1
    groups = [tuple(part.tolist()) for part in np.split(members[order], cuts)]
    return tuple(sorted(group for group in groups if len(group) > 1))
