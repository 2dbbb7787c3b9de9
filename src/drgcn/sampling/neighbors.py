"""Neighbour sampling: tables of fixed shape, trees, and a sampler for PyG's loaders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from drgcn.errors import InputError
from drgcn.sampling.graph import EDGE, NODE, CSRGraph, EdgeType, TypedGraphs


def draw_neighbors(
    graph: CSRGraph, nodes: Tensor, count: int, *, replace: bool = False
) -> tuple[Tensor, Tensor]:
    """Draw up to ``count`` entries of each node's row, all sets of that size equally likely.

    Shapes depend on arguments alone and nothing waits for the device, so that it can be captured
    in a CUDA graph and run under :func:`torch.vmap` with ``nodes`` batched. The work for a row
    grows with ``count`` and not with the row. All chance comes from one call of ``torch.rand``.

    Args:
        graph: The matrix of senders by row.
        nodes: Rows, of any shape, all of them in the graph (which is not checked).
        count: How many to draw, at least one.
        replace: Draw ``count`` times, and perhaps the same entry again. Otherwise a row with no
            more than ``count`` entries gives them all. (default: no)

    Returns:
        Places of the entries in ``graph.col``, of shape ``[*nodes.shape, count]``, and which of
        them are real. The others hold zero.
    """
    if count < 1:
        raise InputError(f"Expected at least one neighbour to draw; found {count}.")
    nodes = nodes.long()
    begin = graph.rowptr[nodes].long().unsqueeze(-1)
    degree = graph.rowptr[nodes + 1].long().unsqueeze(-1) - begin
    # Double precision: single has fewer numbers than a large row has entries.
    chance = torch.rand(*nodes.shape, count, dtype=torch.float64, device=nodes.device)
    place = torch.arange(count, device=nodes.device)
    if replace:
        drawn = (chance * degree).long()
        real = (degree > 0).expand_as(drawn)
    else:
        drawn = torch.where(degree > count, _distinct(chance, degree - count + place), place)
        real = place < degree
    return torch.where(real, begin + drawn, 0), real


def gather_neighbors(
    graph: CSRGraph, nodes: Tensor, count: int, *, replace: bool = False
) -> tuple[Tensor, Tensor]:
    """Draw as :func:`draw_neighbors` does, as a list without gaps.

    Its length depends on the graph, so that it runs eagerly only.

    Args:
        graph: The matrix of senders by row.
        nodes: Rows ``[nodes]``.
        count: How many to draw; ``-1`` for all.
        replace: As in :func:`draw_neighbors`; without effect if all are asked for.

    Returns:
        Places of the entries in ``graph.col``, and for each the position in ``nodes`` of the node
        whose row it is in, in order.
    """
    begin = graph.rowptr[nodes].long()
    degree = graph.rowptr[nodes + 1].long() - begin
    if count < 0:
        taken, chosen = degree, torch.zeros_like(degree, dtype=torch.bool)
    elif replace:
        taken, chosen = count * (degree > 0), (degree > 0) & (count > 0)
    else:
        taken, chosen = degree.clamp(max=count), (degree > count) & (count > 0)
    receiver = torch.repeat_interleave(taken)
    step = torch.arange(receiver.numel(), device=nodes.device)
    place = (begin - (taken.cumsum(0) - taken))[receiver] + step  # whole rows, from their start
    if bool(chosen.any()):  # only rows that have more than is asked for need to draw
        drawn, _ = draw_neighbors(graph, nodes[chosen], count, replace=replace)
        place[chosen[receiver]] = drawn.flatten()
    return place, receiver


def _distinct(chance: Tensor, last: Tensor) -> Tensor:
    """Floyd's algorithm: the i-th draw is from ``0 ... last[i]``, and is ``last[i]`` if it was
    drawn before."""
    drawn = (chance * (last + 1)).long()
    for i in range(1, drawn.size(-1)):
        before = (drawn[..., :i] == drawn[..., i : i + 1]).any(-1)
        drawn[..., i] = torch.where(before, last[..., i], drawn[..., i])
    return drawn


@dataclass(frozen=True, eq=False)
class NeighborTree:
    """A tree of nodes: neighbours drawn for them, neighbours drawn for those, and so on.

    Every place draws on its own: a node that occurs twice has two sets of neighbours. Nothing is
    renumbered and shapes are fixed, so a step of training is a gather and a product per level,
    runs under :func:`torch.vmap`, and fits into a CUDA graph.

    Attributes:
        nodes: Node ids of each level: ``[B]``, ``[B, k1]``, ``[B, k1, k2]``, ...; zero where there
            is no neighbour.
        masks: True where there is a neighbour, in the same shapes.
    """

    nodes: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]

    @classmethod
    def sample(
        cls, graph: CSRGraph, nodes: Tensor, fan_outs: Sequence[int], replace: bool = False
    ) -> NeighborTree:
        """Draw neighbours of ``nodes``, then neighbours of those.

        Args:
            graph: The matrix of senders by row.
            nodes: Nodes of the first level ``[B]``.
            fan_outs: Neighbours of a node at each level, ``(25, 10)`` for two levels.
            replace: See :func:`~drgcn.sampling.draw_neighbors`. (default: no)
        """
        if len(fan_outs) > 1 and graph.num_rows != graph.num_cols:
            raise InputError(
                f"Expected a square graph for {len(fan_outs)} levels; found {graph.num_rows} rows "
                f"and {graph.num_cols} columns."
            )
        levels = [nodes.long()]
        masks = [torch.ones_like(nodes, dtype=torch.bool)]
        for count in fan_outs:
            place, real = draw_neighbors(graph, levels[-1], count, replace=replace)
            real = real & masks[-1].unsqueeze(-1)
            # An empty graph has no entry that a place without a neighbour could point to.
            found = graph.col[place].long() if graph.num_entries else place
            levels.append(torch.where(real, found, 0))
            masks.append(real)
        return cls(tuple(levels), tuple(masks))

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over the neighbours of each place of the level above; zero for none.

        Args:
            values: One vector for each place of a level, ``[B, k1, ..., features]``, in finite
                numbers. Which level it is follows from the number of axes.

        Returns:
            ``[B, ..., features]``, with one axis less.
        """
        level = values.dim() - 1 - self.nodes[0].dim()
        if not 0 < level < len(self.masks) or values.shape[:-1] != self.masks[level].shape:
            raise InputError(
                f"Expected vectors for one of the levels "
                f"{[list(mask.shape) for mask in self.masks[1:]]}; found shape "
                f"{list(values.shape)}."
            )
        mask = self.masks[level]
        weight = mask.to(values.dtype) / mask.sum(-1, keepdim=True).clamp(min=1)
        # A product reads the values once; masking them first would copy them.
        return (weight.unsqueeze(-2) @ values).squeeze(-2)


class NeighborSampler(BaseSampler):  # type: ignore[misc, unused-ignore]
    """Draws a subgraph around nodes or edges, hop by hop, as PyG's ``NeighborLoader`` does.

    Goes into :class:`~torch_geometric.loader.NodeLoader` and
    :class:`~torch_geometric.loader.LinkLoader`::

        sampler = NeighborSampler(data, num_neighbors=[25, 10])
        loader = NodeLoader(data, sampler, input_nodes=data.train_mask, batch_size=512)

    In a batch the nodes asked for come first, edges point towards them, and each node that is met
    draws its senders once. Time and memory depend on what is sampled, not on the graph. Loader
    workers draw from torch's generator, which the loader seeds: they differ from each other, and
    ``torch.manual_seed`` makes a run repeatable.

    With a :class:`~drgcn.sampling.CSRGraph`, which may be mapped from disk, ``e_id`` is the place
    of an edge in ``graph.col`` (its weight is ``graph.value[batch.e_id]``), and the loader's data
    needs an ``edge_index`` to be replaced: ``torch.empty(2, 0, dtype=torch.long)`` will do.

    Args:
        graph: The graph; for types of edges also a dictionary of :class:`CSRGraph`.
        num_neighbors: Senders to draw for a node at each hop, ``-1`` for all; for types of edges
            perhaps a dictionary of such lists.
        replace: Draw with replacement. (default: no)
    """

    def __init__(
        self,
        graph: Data | HeteroData | CSRGraph | Mapping[EdgeType, CSRGraph],
        num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]],
        replace: bool = False,
    ) -> None:
        self.source = TypedGraphs.read(graph)
        self.fan_outs = read_fan_outs(num_neighbors, self.source.graphs)
        self.replace = replace

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """Number of nodes, by type if there are types."""
        return self.source.num_nodes if self.source.typed else self.source.num_nodes[NODE]

    def sample_from_nodes(
        self, index: NodeSamplerInput, **kwargs: Any
    ) -> SamplerOutput | HeteroSamplerOutput:
        """A subgraph around nodes; called by the loader."""
        _refuse_times(index)
        return node_sample(index, self._sample)

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """A subgraph around both ends of edges, true and drawn; called by the loader."""
        _refuse_times(index)
        return edge_sample(index, self._sample, self.num_nodes, False, None, neg_sampling)

    def _sample(
        self, seeds: Tensor | dict[str, Tensor], _times: None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        if isinstance(seeds, dict) != self.source.typed:
            raise InputError(
                f"Expected nodes {'with' if self.source.typed else 'without'} a type, as the "
                f"sampler's graph has them; found the opposite. Give loader and sampler the same "
                f"graph."
            )
        out = self._grow(seeds if isinstance(seeds, dict) else {NODE: seeds})
        if self.source.typed:
            return out
        return SamplerOutput(
            node=out.node[NODE],
            row=out.row[EDGE],
            col=out.col[EDGE],
            edge=out.edge[EDGE],
            num_sampled_nodes=out.num_sampled_nodes[NODE],
            num_sampled_edges=out.num_sampled_edges[EDGE],
        )

    def _grow(self, seeds: dict[str, Tensor]) -> HeteroSamplerOutput:
        graphs, edge_ids = self.source.graphs, self.source.edge_ids
        device = next(iter(graphs.values())).col.device
        none = torch.empty(0, dtype=torch.long, device=device)
        nodes = dict.fromkeys(self.source.num_nodes, none)
        nodes |= {kind: self._checked(kind, given).to(device) for kind, given in seeds.items()}
        sizes = {kind: [0, given.numel()] for kind, given in nodes.items()}
        row, col, edge = ({kind: [none] for kind in graphs} for _ in range(3))
        for hop in range(len(next(iter(self.fan_outs.values())))):
            for kind, graph in graphs.items():
                source, _, target = kind
                begin, end = sizes[target][-2:]  # met in the last hop: they have yet to draw
                place, receiver = gather_neighbors(
                    graph, nodes[target][begin:end], self.fan_outs[kind][hop], replace=self.replace
                )
                nodes[source], sender = number_nodes(nodes[source], graph.col[place].long())
                row[kind].append(sender)
                col[kind].append(receiver + begin)
                ids = edge_ids[kind]
                edge[kind].append(place if ids is None else ids[place].long())
            for node, met in nodes.items():
                sizes[node].append(met.numel())
        return HeteroSamplerOutput(
            node=nodes,
            row={kind: torch.cat(parts) for kind, parts in row.items()},
            col={kind: torch.cat(parts) for kind, parts in col.items()},
            edge={kind: torch.cat(parts) for kind, parts in edge.items()},
            num_sampled_nodes={
                kind: [after - before for before, after in pairwise(size)]
                for kind, size in sizes.items()
            },
            num_sampled_edges={
                kind: [part.numel() for part in parts[1:]] for kind, parts in row.items()
            },
        )

    def _checked(self, kind: str, nodes: Tensor) -> Tensor:
        if kind not in self.source.num_nodes:
            raise InputError(
                f"Expected nodes of the types {sorted(self.source.num_nodes)}; found '{kind}'."
            )
        size = self.source.num_nodes[kind]
        if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < size:
            raise InputError(
                f"Expected nodes from 0 to {size - 1}; found {int(nodes.min())} to "
                f"{int(nodes.max())}."
            )
        return nodes.long()


def _refuse_times(index: NodeSamplerInput | EdgeSamplerInput) -> None:
    if index.time is not None:
        raise InputError("Expected nodes and edges without times; found some. They are not read.")


def read_fan_outs(
    num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]], types: Collection[EdgeType]
) -> dict[EdgeType, list[int]]:
    """Return one list of counts for each type of edge, all of one length.

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


def number_nodes(nodes: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Append the nodes that are new, and return the place of each found node.

    The cost depends on how many nodes are given, never on how many the graph has: there is no
    table of all nodes that each worker would have to hold.

    Args:
        nodes: Nodes met so far; of a node that occurs twice, the first place counts.
        found: Nodes met now, in any number.

    Returns:
        ``nodes`` and behind them the new ones in increasing order; and the places of ``found``.
    """
    distinct, index = torch.unique(torch.cat([nodes, found]), return_inverse=True)
    known = nodes.numel()
    place = torch.full_like(distinct, known)
    order = torch.arange(known, device=nodes.device)
    place.scatter_reduce_(0, index[:known], order, "amin")
    new = place == known
    place = torch.where(new, known - 1 + new.cumsum(0), place)
    return torch.cat([nodes, distinct[new]]), place[index[known:]]
