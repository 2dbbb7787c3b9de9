"""A graph of one kind of node or of many, as one matrix for each kind of edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from drgcn.errors import InputError
from drgcn.sampling.csr_graph import CSRGraph

EdgeType = tuple[str, str, str]

#: Names for the nodes and edges of a graph that gives them none.
NODE, EDGE = "node", ("node", "to", "node")


@dataclass(frozen=True, eq=False)
class TypedGraphs:
    """What a sampler reads.

    Attributes:
        graphs: For each kind of edge, who sends to whom.
        edge_ids: For each kind of edge, where each entry stands in ``edge_index``; ``None`` if
            entries are known by their place in the matrix.
        num_nodes: Number of nodes of each kind.
        typed: Whether kinds have names; if not, they are ``NODE`` and ``EDGE``.
    """

    graphs: dict[EdgeType, CSRGraph]
    edge_ids: dict[EdgeType, Tensor | None]
    num_nodes: dict[str, int]
    typed: bool

    @classmethod
    def read(
        cls, source: Data | HeteroData | CSRGraph | Mapping[EdgeType, CSRGraph]
    ) -> TypedGraphs:
        """From PyG's data objects, or from matrices, which may be mapped from disk."""
        if isinstance(source, CSRGraph):
            return cls._of_matrices({EDGE: source}, typed=False)
        if isinstance(source, HeteroData):
            return cls._of_hetero(source)
        if isinstance(source, Data):
            nodes = _count(source, "the graph")
            graph, edge_ids = _matrix(source, EDGE, (nodes, nodes))
            return cls({EDGE: graph}, {EDGE: edge_ids}, {NODE: nodes}, typed=False)
        if isinstance(source, Mapping) and all(isinstance(g, CSRGraph) for g in source.values()):
            return cls._of_matrices(dict(source), typed=True)
        raise InputError(
            f"Expected Data, HeteroData, a CSRGraph, or a dictionary of CSRGraph by type of edge; "
            f"found {type(source).__name__}."
        )

    @classmethod
    def _of_hetero(cls, data: HeteroData) -> TypedGraphs:
        counts = {kind: _count(data[kind], f"nodes '{kind}'") for kind in data.node_types}
        graphs: dict[EdgeType, CSRGraph] = {}
        edge_ids: dict[EdgeType, Tensor | None] = {}
        for kind in data.edge_types:
            source, _, target = kind
            if unknown := {source, target} - counts.keys():
                raise InputError(
                    f"Expected edges {kind} between types {sorted(counts)}; found "
                    f"{sorted(unknown)}. Give these nodes features or num_nodes."
                )
            size = (counts[source], counts[target])
            graphs[kind], edge_ids[kind] = _matrix(data[kind], kind, size)
        return cls(_some(graphs), edge_ids, counts, typed=True)

    @classmethod
    def _of_matrices(cls, graphs: dict[EdgeType, CSRGraph], typed: bool) -> TypedGraphs:
        counts: dict[str, int] = {}
        for kind, graph in _some(graphs).items():
            if not (isinstance(kind, tuple) and len(kind) == 3):
                raise InputError(f"Expected types as (source, name, target); found {kind!r}.")
            for node, size in ((kind[0], graph.num_cols), (kind[2], graph.num_rows)):
                if counts.setdefault(node, size) != size:
                    raise InputError(
                        f"Expected {counts[node]} nodes '{node}' everywhere; found {size} in the "
                        f"matrix of {kind}."
                    )
        return cls(graphs, dict.fromkeys(graphs), counts, typed)


def _some(graphs: dict[EdgeType, CSRGraph]) -> dict[EdgeType, CSRGraph]:
    if not graphs:
        raise InputError("Expected at least one type of edge; found none.")
    return graphs


def _count(store: Data, name: str) -> int:
    count = store.num_nodes
    if count is None:
        raise InputError(f"Expected a number of nodes; found none in {name}. Set num_nodes.")
    return int(count)


def _matrix(store: Data, kind: EdgeType, size: tuple[int, int]) -> tuple[CSRGraph, Tensor]:
    edges = store.get("edge_index", None)
    if not isinstance(edges, Tensor):
        raise InputError(
            f"Expected edge_index for edges {kind}; found {sorted(store.keys())}. Set edge_index, "
            f"or give a CSRGraph."
        )
    edges = edges.as_subclass(Tensor).long()
    # Values travel with their entries: numbers of the edges say afterwards which went where.
    ids = torch.arange(edges.size(-1), device=edges.device)
    graph = CSRGraph.from_edge_index(edges, size, ids)
    assert graph.value is not None
    return CSRGraph(graph.rowptr, graph.col, graph.num_cols), graph.value.to(graph.col.dtype)
