"""Neighbour sampling for PyG's loaders, without compiled extensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.fan_outs import read_fan_outs
from drgcn.sampling.neighbors import gather_neighbors
from drgcn.sampling.numbering import number_nodes
from drgcn.sampling.typed_graphs import EDGE, NODE, EdgeType, TypedGraphs


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
