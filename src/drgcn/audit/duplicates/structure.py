"""Nodes with the same neighbours: evidence for a duplicate, but no proof.

A paper entered twice has twice the same references, so its copies are twins. But twins need be no
copies: two papers that cite the same two, every leaf of a hub, and all products bought with one
other are twins too, and the smaller the degree, the more of them. A duplicate in turn need not be
a twin, since citations of one paper are often spread over its copies, and copies are often listed
as citing each other. So twins join no nodes to a group: they are counted beside the pairs that
features or texts make.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.duplicates.exact import exact_duplicates
from drgcn.audit.duplicates.pairs import DuplicatePairs


def structure_duplicates(
    pairs: npt.NDArray[Any], nodes: int, *, least_degree: int = 2
) -> DuplicatePairs:
    """Twins: nodes with the same neighbours, which may or may not be joined themselves.

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


def neighbour_overlap(
    pairs: npt.NDArray[Any], nodes: int, asked: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Jaccard similarity of the neighbours of some pairs of nodes, each other left out."""
    adjacency = _adjacency(pairs, nodes)
    if not len(asked):
        return np.empty(0)
    a, b = asked.T
    degree = np.diff(adjacency.indptr)
    shared = np.asarray(adjacency[a].multiply(adjacency[b]).sum(axis=1)).ravel()
    joined = np.asarray(adjacency[a, b]).ravel()
    union = degree[a] + degree[b] - 2 * joined - shared
    return np.divide(shared, union, out=np.zeros(len(asked)), where=union > 0)


def _adjacency(pairs: npt.NDArray[Any], nodes: int) -> sparse.csr_array:
    a, b = pairs[:, pairs[0] != pairs[1]]
    ones = np.ones(2 * len(a), dtype=np.float32)
    ends = np.concatenate([a, b]), np.concatenate([b, a])
    adjacency = sparse.csr_array((ones, ends), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency
