"""Groups out of pairs: what hangs together belongs together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components


def groups_of(pairs: npt.NDArray[np.int64], nodes: int) -> tuple[tuple[int, ...], ...]:
    """The sets of two and more nodes that pairs connect, in the order of their first nodes.

    Args:
        pairs: Pairs of nodes, shape ``[P, 2]``.
        nodes: Number of nodes.

    Example:
        >>> groups_of(np.array([[4, 1], [1, 2], [0, 5]]), 6)
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
