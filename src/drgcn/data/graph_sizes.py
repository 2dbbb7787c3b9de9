"""The graphs of a union, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class GraphSize:
    """One of several graphs.

    Attributes:
        name: Its name.
        nodes: Number of nodes.
        edges: Number of undirected edges.
        parts: What its labelled nodes are for: ``train``, ``val``, ``test``.
    """

    name: str
    nodes: int
    edges: int
    parts: tuple[str, ...]

    def __str__(self) -> str:
        words = f"{self.name}: {self.nodes:,} nodes, {self.edges:,} edges"
        return f"{words} ({', '.join(self.parts)})" if self.parts else words


def graph_sizes(data: Data) -> list[GraphSize]:
    """Name, size and use of every graph in ``data``; empty where it is one graph.

    Args:
        data: As :func:`drgcn.load` returns it; several graphs have ``graph`` and ``graph_names``.
    """
    if "graph" not in data:
        return []
    count = int(data.graph.max()) + 1
    names = data.get("graph_names") or [f"graph {number}" for number in range(count)]
    nodes = data.graph.bincount(minlength=count).tolist()
    edges = data.graph[data.edge_index[0]].bincount(minlength=count).tolist()
    used = {
        part: set(data.graph[data[f"{part}_mask"]].tolist()) for part in ("train", "val", "test")
    }
    return [
        GraphSize(
            names[number],
            nodes[number],
            edges[number] // 2,
            tuple(part for part, graphs in used.items() if number in graphs),
        )
        for number in range(count)
    ]
