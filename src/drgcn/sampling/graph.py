"""Graphs for samplers: a CSR matrix, or one for each type of edge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from drgcn._io import plain_file
from drgcn.errors import InputError
from drgcn.records import UNSOUND, load_sealed, reason_of, sealed

EdgeType = tuple[str, str, str]

#: Names for the nodes and edges of a graph that gives them none.
NODE, EDGE = "node", ("node", "to", "node")

_FILES = ("rowptr", "col", "value")
_FACTS = "graph.json"
_CHUNK = 1 << 20  # rows looked at together


@dataclass(frozen=True, eq=False)
class CSRGraph:
    """A matrix by rows: row ``v`` holds the nodes that send to ``v``, and their weights.

    Attributes:
        rowptr: Where each row begins ``[rows + 1]``, 32- or 64-bit integers.
        col: The senders, row after row ``[entries]``, likewise.
        num_cols: Number of nodes that could send.
        value: Weight of each entry ``[entries]``; ``None`` if all are one.
    """

    rowptr: Tensor
    col: Tensor
    num_cols: int
    value: Tensor | None = None
    _most_entries: dict[int, int] = field(default_factory=dict, repr=False)

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int | tuple[int, int],
        value: Tensor | None = None,
    ) -> CSRGraph:
        """Return the graph with edges ``(u, v)`` as entries in row ``v``; repeated ones are kept.

        Args:
            edge_index: Edges ``[2, E]``.
            num_nodes: Number of nodes; of sources and of targets where these are not the same.
            value: Weight of each edge. (default: one)
        """
        if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.is_floating_point():
            raise InputError(
                f"Expected edge_index of shape [2, edges] with integers; found "
                f"{edge_index.dtype} of shape {list(edge_index.shape)}."
            )
        sources, targets = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
        source, target = edge_index
        for name, nodes, size in (("source", source, sources), ("target", target, targets)):
            if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < size:
                raise InputError(
                    f"Expected {name} nodes from 0 to {size - 1}; found {int(nodes.min())} to "
                    f"{int(nodes.max())}."
                )
        order = torch.argsort(target * sources + source)  # rows in order, and sorted in each
        kind = _index_type(max(sources, targets, edge_index.size(1)))
        counts = torch.bincount(target, minlength=targets)
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls(
            rowptr.to(kind),
            source[order].to(kind),
            sources,
            None if value is None else value[order],
        )

    @classmethod
    def open(cls, folder: Path | str, mmap: bool = True) -> CSRGraph:
        """Open a graph that :meth:`save` wrote.

        Args:
            folder: Its folder.
            mmap: Map arrays into memory and read them as needed. (default: yes)

        Raises:
            InputError: If a file is missing or damaged, or an entry lies outside the matrix.
        """
        folder = Path(folder)
        try:
            facts = load_sealed(folder / _FACTS)
            arrays = {
                name: load_tensor(folder / f"{name}.npy", mmap)
                for name in _FILES
                if name in facts["arrays"]
            }
            value = arrays.get("value")
            graph = cls(arrays["rowptr"], arrays["col"], facts["num_cols"], value)
            _check_entries(graph)
            digest = graph._digest()
            if facts.get("content", digest) != digest:  # earlier versions wrote none
                raise ValueError("an array is not what was written")
            return graph
        except InputError:
            raise
        except (OSError, *UNSOUND) as error:
            raise InputError(
                f"Expected a folder that CSRGraph.save wrote; found {folder} ({reason_of(error)})."
            ) from None

    def save(self, folder: Path | str) -> None:
        """Write the arrays as ``.npy`` files, for :meth:`open`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, values in self._arrays():
            np.save(folder / f"{name}.npy", values.cpu().numpy())
        self.write_facts(folder)

    def write_facts(self, folder: Path) -> None:
        """Write what :meth:`open` needs beside the arrays, with their digest: the last file."""
        arrays = [name for name, _ in self._arrays()]
        facts = {"num_cols": self.num_cols, "arrays": arrays, "content": self._digest()}
        (folder / _FACTS).write_text(json.dumps(sealed(facts)), encoding="utf-8")

    def _arrays(self) -> list[tuple[str, Tensor]]:
        found = [(name, getattr(self, name)) for name in _FILES]
        return [(name, values) for name, values in found if values is not None]

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for name, values in self._arrays():
            digest.update(f"[{name} {values.dtype} {list(values.shape)}]".encode())
            digest.update(values.cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.rowptr.numel() - 1

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return self.col.numel()

    @property
    def degree(self) -> Tensor:
        """Entries in each row."""
        return self.rowptr.diff()

    @property
    def row(self) -> Tensor:
        """Row of each entry."""
        rows = torch.arange(self.num_rows, device=self.col.device)
        return rows.repeat_interleave(self.degree, output_size=self.num_entries)

    @cached_property
    def longest_row(self) -> int:
        """Entries in the longest row."""
        return int(self.degree.max()) if self.num_rows else 0

    @cached_property
    def row_sum(self) -> Tensor:
        """Sum of the values in each row."""
        if self.value is None:
            return self.degree.to(torch.get_default_dtype())
        return self.value.new_zeros(self.num_rows).index_add(0, self.row, self.value)

    def most_entries(self, rows: int, distinct: bool = True) -> int:
        """Return the most entries that so many rows can have together."""
        if not distinct or rows > self.num_rows:
            return rows * self.longest_row
        if rows not in self._most_entries:
            self._most_entries[rows] = int(self.degree.topk(rows).values.sum())
        return self._most_entries[rows]

    def trimmed(self, max_degree: int, seed: int = 0) -> CSRGraph:
        """Return the graph with at most so many entries in each row, chosen uniformly.

        Values are kept as they are: a trimmed row sums to less.
        """
        if max_degree < 1:
            raise InputError(f"Expected max_degree to be at least one; found {max_degree}.")
        row = self.row
        generator = torch.Generator().manual_seed(seed)
        noise = torch.rand(self.num_entries, dtype=torch.float64, generator=generator)
        order = torch.argsort(row + noise.to(row.device))  # each row in random order
        rank = torch.arange(self.num_entries, device=row.device) - self.rowptr[:-1].long()[row]
        kept = order[rank < max_degree].sort().values
        counts = self.degree.clamp(max=max_degree)
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0).to(counts.dtype)])
        value = None if self.value is None else self.value[kept]
        return CSRGraph(rowptr, self.col[kept], self.num_cols, value)

    def rows(self, index: Tensor) -> CSRGraph:
        """Some of the rows, in the order asked for."""
        start = self.rowptr[index].long()
        size = self.rowptr[index + 1].long() - start
        ends = size.cumsum(0)
        place = torch.arange(int(size.sum()), device=size.device)
        entry = place + (start + size - ends).repeat_interleave(size, output_size=len(place))
        value = None if self.value is None else self.value[entry]
        rowptr = torch.cat([ends.new_zeros(1), ends])
        return CSRGraph(rowptr, self.col[entry], self.num_cols, value)

    def to(self, device: torch.device | str) -> CSRGraph:
        """The same graph on another device."""
        value = None if self.value is None else self.value.to(device)
        return CSRGraph(self.rowptr.to(device), self.col.to(device), self.num_cols, value)


def load_tensor(path: Path, mmap: bool = True) -> Tensor:
    """Load the array of an ``.npy`` file, mapped and read as needed or into memory at once.

    Raises:
        InputError: If the file is missing, cut off or damaged.
    """
    try:
        # Mapped first in any case: a header cannot ask for more than the file holds.
        array = open_memmap(plain_file(path), mode="c")
        # Not copied from the map: if the file is cut off meanwhile, that ends the process.
        tensor = torch.from_numpy(array if mmap else np.load(path, allow_pickle=False))
    except Exception as error:  # a damaged header can raise nearly anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"Expected a whole array in {path}; it is missing, cut off or damaged ({reason})."
        ) from None
    return tensor


def _check_entries(graph: CSRGraph) -> None:
    """Refuse a matrix of which a kernel would read or write beyond the arrays."""
    rowptr, col, num_cols = graph.rowptr, graph.col, graph.num_cols
    for name, values in (("rowptr", rowptr), ("col", col)):
        if values.dim() != 1 or values.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name} is {values.dtype} of shape {list(values.shape)}")
    if not isinstance(num_cols, int) or not 0 <= num_cols < 2**63:
        raise ValueError(f"num_cols is {num_cols!r}")
    if graph.value is not None and graph.value.shape != col.shape:
        raise ValueError(f"{graph.value.numel()} values for {col.numel()} entries")
    if not rowptr.numel() or int(rowptr[0]) != 0 or int(rowptr[-1]) != col.numel():
        raise ValueError(f"rowptr does not go from 0 to {col.numel()}")
    for begin in range(0, graph.num_rows, _CHUNK):
        piece = rowptr[begin : begin + _CHUNK + 1]
        if bool((piece[1:] < piece[:-1]).any()):
            raise ValueError("rowptr falls")
    if col.numel():
        least, most = (int(bound) for bound in col.aminmax())
        if least < 0 or most >= num_cols:
            raise ValueError(f"col goes from {least} to {most} in a matrix of {num_cols} columns")


def _index_type(largest: int) -> torch.dtype:
    return torch.int32 if largest < 2**31 else torch.int64


@dataclass(frozen=True, eq=False)
class TypedGraphs:
    """Matrices, edge numbers and node counts of a graph, by type.

    Attributes:
        graphs: For each type of edge its matrix, targets as rows.
        edge_ids: For each type of edge, the column of each entry in ``edge_index``; ``None`` if
            entries are numbered by their place in the matrix.
        num_nodes: Number of nodes of each type.
        typed: Whether types have names; if not, they are ``NODE`` and ``EDGE``.
    """

    graphs: dict[EdgeType, CSRGraph]
    edge_ids: dict[EdgeType, Tensor | None]
    num_nodes: dict[str, int]
    typed: bool

    @classmethod
    def read(
        cls, source: Data | HeteroData | CSRGraph | Mapping[EdgeType, CSRGraph]
    ) -> TypedGraphs:
        """Read PyG's data objects, or matrices, which may be mapped from disk."""
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
    # Edge numbers as values: sorted with the entries, they tell which edge went where.
    ids = torch.arange(edges.size(-1), device=edges.device)
    graph = CSRGraph.from_edge_index(edges, size, ids)
    assert graph.value is not None
    return CSRGraph(graph.rowptr, graph.col, graph.num_cols), graph.value.to(graph.col.dtype)
