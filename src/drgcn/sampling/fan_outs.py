"""How many neighbours to draw at each hop, for each type of edge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from drgcn.errors import InputError
from drgcn.sampling.typed_graphs import EdgeType


def read_fan_outs(
    num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]], types: Collection[EdgeType]
) -> dict[EdgeType, list[int]]:
    """One list for each type of edge, all of one length.

    Args:
        num_neighbors: A list for all types, or a list for each; ``-1`` means all neighbours.
        types: The types of edges that the graph has.
    """
    if not isinstance(num_neighbors, Mapping):
        return dict.fromkeys(types, _read(num_neighbors))
    if unknown := [kind for kind in num_neighbors if kind not in types]:
        raise InputError(
            f"Expected num_neighbors for the types of edges {sorted(types)}; found {unknown[0]!r}."
        )
    if missing := [kind for kind in types if kind not in num_neighbors]:
        raise InputError(
            f"Expected num_neighbors for every type of edge; found none for {missing[0]}. Write 0 "
            f"for each hop to draw none."
        )
    counts = {kind: _read(num_neighbors[kind]) for kind in types}
    hops = {kind: len(count) for kind, count in counts.items()}
    if len(set(hops.values())) > 1:
        raise InputError(f"Expected the same number of hops for every type of edge; found {hops}.")
    return counts


def _read(counts: Sequence[int]) -> list[int]:
    good = isinstance(counts, Sequence) and not isinstance(counts, str) and len(counts) > 0
    if not good or any(type(count) is not int or count < -1 for count in counts):
        raise InputError(
            f"Expected a list of neighbours per hop, each a whole number from 0, or -1 for all; "
            f"found {counts!r}."
        )
    return list(counts)
