"""PPI: protein interactions in 24 tissues with one feature space and 121 labels a protein.

Three layouts: GraphSAGE's files, PyG's, and one file with rebuilt labels.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from drgcn.data.assemble import RawGraph, undirected
from drgcn.data.catalog import Description, PublishedFile
from drgcn.data.checks import checked_pairs, from_matrix, identity_numbers
from drgcn.data.downloader import Request
from drgcn.data.features import numeric_matrix, read_matrix
from drgcn.data.readers import read_array, read_arrays, read_json
from drgcn.data.splits import MultiLabels, sixty_by_identity
from drgcn.data.union import Piece, cut, join
from drgcn.errors import InputError

_Numbers = npt.NDArray[np.int64]

_FEATURES: Final = 50
_LABELS: Final = 121
# Training, validation and test graphs.
_GRAPHS: Final = {"train": 20, "val": 2, "test": 2}
# Nodes of each part, all its graphs together.
_NODES: Final = {"train": 44_906, "val": 6_514, "test": 5_524}
# SHA-256 of the sorted degrees of each part, loops left out: the same in both layouts, whatever
# the order of nodes.
_DEGREES: Final = {
    "train": "93db493ae0d222c019da5197112ac6c9f35e7f1404dd3d7e4c6426e6779ced9c",
    "val": "5bdfb23cf758326abc413fc13551949d0690c377b3f5e6c298861b4ceb212fe3",
    "test": "9bc4c8bf57710125f34de42fcb08691e46c9778f428a98ad65dcee9cbbd4171c",
}
# Parts as PyG's files name them.
_RAW_STEMS: Final = {"train": "train", "val": "valid", "test": "test"}
# Seed of the split by proteins: there is one such split.
_DISJOINT_SEED: Final = 0


def read(request: Request) -> RawGraph:
    """Read the disjoint union of the 24 graphs, from GraphSAGE's files or else from PyG's.

    ``data.graph`` is the number of each node's graph, in the manner of PyG's ``batch``.
    """
    if request.entry.family == "ppi-rebuilt":
        return _read_rebuilt(request)
    _require_features(request.entry, request.root)
    request.require_files()
    folder = request.root / "ppi"
    if _all_there(request.entry.files, request.root):
        parts = _read_graphsage(folder)
    else:
        parts = {part: _read_raw_part(folder, stem) for part, stem in _RAW_STEMS.items()}
    for part, pieces in parts.items():
        if len(pieces) != _GRAPHS[part]:
            raise InputError(
                f"{folder}: PPI has {_GRAPHS[part]} {part} graphs, but the files hold "
                f"{len(pieces)}: fetch them again"
            )
        columns, labels = pieces[0].x.shape[1], pieces[0].y.shape[1]
        if (columns, labels) != (_FEATURES, _LABELS):
            raise InputError(
                f"{folder}: PPI has {_FEATURES} features and {_LABELS} labels a node, but the "
                f"{part} files hold {columns} and {labels}: fetch them again"
            )
    _require_published_graphs(folder, parts)
    return join(parts, split="published")


def _require_published_graphs(folder: Path, parts: dict[str, list[Piece]]) -> None:
    """Refuse other graphs in the published form; no digests of the files themselves are known."""
    for part, pieces in parts.items():
        nodes = sum(len(piece.y) for piece in pieces)
        if nodes != _NODES[part]:
            raise InputError(
                f"{folder}: PPI has {_NODES[part]:,} {part} nodes, but the files hold {nodes:,}: "
                "fetch the published ones, or load your own graph by its path"
            )
        if degree_digest(pieces) != _DEGREES[part]:
            raise InputError(
                f"{folder}: expected the edges of PPI's {part} graphs as they were published; "
                "found others. Fetch the files again, or load your own graph by its path."
            )


def degree_digest(pieces: list[Piece]) -> str:
    """Return the SHA-256 of the sorted degrees of some graphs, loops left out."""
    degrees = [
        np.bincount(undirected(piece.pairs, len(piece.y)).edge_index[0], minlength=len(piece.y))
        for piece in pieces
    ]
    return hashlib.sha256(np.sort(np.concatenate(degrees)).astype("<i8").tobytes()).hexdigest()


def _read_rebuilt(request: Request) -> RawGraph:
    """Read the 24 graphs with rebuilt labels, split by graphs or by proteins.

    ``data.identity`` is the Entrez number of each node's protein, which is in many graphs. In the
    split ``disjoint`` all nodes of a protein are in one part, and every part has nodes in every
    graph.
    """
    request.require_files()
    path = request.root / request.entry.files[0].path
    arrays = read_arrays(path)
    needed = ("edges", "graph_id", "entrez", "features", "labels_approx", "label_go")
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise InputError(
            f"{path}: expected the arrays {', '.join(needed)}; found no {', '.join(missing)}. "
            "Put the whole file there (docs/data.md)."
        )
    x = numeric_matrix(arrays["features"], str(path))
    nodes = len(x)
    y, _ = from_matrix(arrays["labels_approx"], nodes, f"{path}, labels_approx")
    names = arrays["label_go"]
    graph, graphs = arrays["graph_id"], sum(_GRAPHS.values())
    if (x.shape[1], y.shape[1], names.shape) != (_FEATURES, _LABELS, (_LABELS,)) or not (
        graph.shape == (nodes,) and np.array_equal(np.unique(graph), np.arange(1, graphs + 1))
    ):
        raise InputError(
            f"{path}: expected {_FEATURES} features, {_LABELS} labels with names, and a graph "
            f"from 1 to {graphs} for each node; found features {x.shape}, labels {y.shape}, "
            f"{names.size} names and {len(np.unique(graph))} graphs. Put the whole file there "
            "(docs/data.md)."
        )
    pairs = checked_pairs(arrays["edges"].T, nodes, f"{path}, edges")
    pieces = iter(cut(x, y, pairs, graph, path))
    parts = {part: [next(pieces) for _ in range(count)] for part, count in _GRAPHS.items()}
    raw = join(parts, split="published", class_names=tuple(map(str, names)))
    protein = identity_numbers(arrays["entrez"], nodes, f"{path}, entrez")
    protein = protein[np.argsort(graph, kind="stable")]
    if request.split == "disjoint":
        raw = replace(
            raw,
            masks=sixty_by_identity(protein, _DISJOINT_SEED),
            split="disjoint",
            graph_names=tuple(f"tissue-{number}" for number in range(graphs)),
        )
    return replace(raw, identity=protein)


def _require_features(entry: Description, root: Path) -> None:
    """Refuse GraphSAGE's files without the features, which GraphSAGE can do without."""
    missing = [file.path for file in entry.files if not (root / file.path).is_file()]
    if missing == ["ppi/ppi-feats.npy"] and not _all_there(entry.other_files, root):
        raise InputError(
            f"{root / 'ppi'} holds GraphSAGE's files of PPI without ppi-feats.npy: no model can "
            f"be trained without features; put that file there, from {entry.home}"
        )


def _all_there(files: tuple[PublishedFile, ...], root: Path) -> bool:
    return all((root / file.path).is_file() for file in files)


def _read_graphsage(folder: Path) -> dict[str, list[Piece]]:
    """Read the graphs of each part from GraphSAGE's files.

    The graphs of a part are its largest connected components, as many as it has graphs, in the
    order of their first rows. Every other component, usually a protein or two without ties to
    the rest of its tissue, goes to the graph of the nearest row above its first (below, if there
    is none above) of the same part: the rows of a tissue are stored together.
    """
    # NOTE[DIFF]: GAT's preprocessing takes the components of three nodes and more for graphs, and
    # adds all smaller ones to the first graph of their part.
    path = folder / "ppi-G.json"
    stored = _read_node_link(path)
    ids = [str(node["id"]) for node in stored.nodes]
    rows = _rows(folder / "ppi-id_map.json", ids)
    x = read_matrix(folder / "ppi-feats.npy")
    if len(x) != len(ids):
        raise InputError(
            f"{folder / 'ppi-feats.npy'} has {len(x)} rows, but ppi-G.json has {len(ids)} nodes: "
            "the files do not belong together"
        )
    y = _labels(folder / "ppi-class_map.json", ids, rows)
    part_of = np.empty(len(ids), dtype=np.int64)
    part_of[rows] = _parts_of_nodes(path, stored.nodes)
    pairs = rows[stored.pairs]
    across = np.flatnonzero(part_of[pairs[0]] != part_of[pairs[1]])
    if len(across):
        raise InputError(
            f"{path}: edge {across[0]} joins nodes of different parts, but training, validation "
            "and test nodes are in graphs of their own: fetch the file again"
        )
    graph = _graph_of_rows(part_of, pairs, path)
    pieces = iter(cut(x, y, pairs, graph, path))
    return {part: [next(pieces) for _ in range(count)] for part, count in _GRAPHS.items()}


def _rows(path: Path, ids: list[str]) -> _Numbers:
    """Return the row of each node in the feature matrix."""
    row_of = read_json(path)
    rows = [row_of.get(name) for name in ids]
    if (
        len(row_of) != len(ids)
        or any(type(row) is not int for row in rows)
        or set(rows) != set(range(len(ids)))
    ):
        raise InputError(
            f"{path} must give each of the {len(ids)} nodes of ppi-G.json its row, 0 to "
            f"{len(ids) - 1}: the files do not belong together"
        )
    return np.array(rows, dtype=np.int64)


def _labels(path: Path, ids: list[str], rows: _Numbers) -> MultiLabels:
    labels_of = read_json(path)
    missing = next((name for name in ids if name not in labels_of), None)
    if missing is not None or len(labels_of) != len(ids):
        found = f"node {missing!r} has none" if missing is not None else f"{len(labels_of)} have"
        raise InputError(
            f"{path} must give each of the {len(ids)} nodes of ppi-G.json its labels, but "
            f"{found}: the files do not belong together"
        )
    try:
        listed = np.array([labels_of[name] for name in ids])
    except (ValueError, OverflowError):
        raise InputError(
            f"{path}: every node must have a list of zeros and ones, all of one length"
        ) from None
    y = np.empty_like(listed)
    y[rows] = listed
    return from_matrix(y, len(ids), str(path))[0]


def _parts_of_nodes(path: Path, nodes: list[dict[str, Any]]) -> list[int]:
    """Return 0, 1 or 2 for each training, validation or test node."""
    words = list(_GRAPHS)
    numbers = []
    for node in nodes:
        val, test = node.get("val"), node.get("test")
        if not isinstance(val, bool) or not isinstance(test, bool) or (val and test):
            raise InputError(
                f"{path}: node {node['id']!r} must have the flags 'val' and 'test', at most one "
                f"of them true, but they are {val!r} and {test!r}"
            )
        numbers.append(words.index("val" if val else "test" if test else "train"))
    return numbers


def _graph_of_rows(part_of: _Numbers, pairs: _Numbers, path: Path) -> _Numbers:
    """Return the number of each row's graph; numbers go up from part to part."""
    nodes = len(part_of)
    ones = np.ones(pairs.shape[1], dtype=np.int8)
    adjacency = sparse.coo_array((ones, (pairs[0], pairs[1])), shape=(nodes, nodes))
    _, component = csgraph.connected_components(adjacency, directed=False)
    names, first, label, size = np.unique(
        component, return_index=True, return_inverse=True, return_counts=True
    )
    graph_of = np.full(len(names), -1, dtype=np.int64)
    start = 0
    for number, (part, count) in enumerate(_GRAPHS.items()):
        here = np.flatnonzero(part_of[first] == number)
        if len(here) < count:
            raise InputError(
                f"{path}: PPI has {count} {part} graphs, but the {part} nodes form only "
                f"{len(here)} connected components: fetch the file again"
            )
        largest = here[np.lexsort((first[here], -size[here]))[:count]]
        largest = largest[np.argsort(first[largest])]
        graph_of[largest] = start + np.arange(count)
        settled = np.flatnonzero(np.isin(label, largest))
        others = np.setdiff1d(here, largest)
        nearest = settled[np.maximum(np.searchsorted(settled, first[others]) - 1, 0)]
        graph_of[others] = graph_of[label[nearest]]
        start += count
    return graph_of[label]


def _read_raw_part(folder: Path, stem: str) -> list[Piece]:
    """Read the graphs of one part from PyG's files, in the order of their numbers."""
    x = read_matrix(folder / f"{stem}_feats.npy")
    labels = read_array(folder / f"{stem}_labels.npy")
    _require_same_rows(folder / f"{stem}_labels.npy", len(labels) if labels.ndim else 0, len(x))
    y, _ = from_matrix(labels, len(x), str(folder / f"{stem}_labels.npy"))
    graph = _graph_numbers(folder / f"{stem}_graph_id.npy", len(x))
    path = folder / f"{stem}_graph.json"
    stored = _read_node_link(path)
    _require_same_rows(path, len(stored.nodes), len(x))
    # A node's id is its row; the file may list the nodes in another order.
    rows = [node["id"] for node in stored.nodes]
    if set(rows) != set(range(len(rows))):
        raise InputError(
            f"{path}: ids must be the rows of {stem}_feats.npy, 0 to {len(rows) - 1}: the files "
            "do not belong together"
        )
    pairs = np.array(rows, dtype=np.int64)[stored.pairs]
    return cut(x, y, pairs, graph, path)


def _graph_numbers(path: Path, nodes: int) -> _Numbers:
    numbers: npt.NDArray[Any] = read_array(path)
    if numbers.dtype == np.float16:  # which does not reach to 2**31
        numbers = numbers.astype(np.float32)
    if (
        numbers.shape != (nodes,)
        or numbers.dtype.kind not in "iuf"
        or not ((numbers >= 0) & (numbers < 2**31)).all()
        or (numbers % 1 != 0).any()
    ):
        raise InputError(
            f"{path} must hold the number of its graph for each of the {nodes} nodes, but it "
            f"holds {numbers.dtype} values of shape {numbers.shape}: fetch it again"
        )
    return numbers.astype(np.int64)


def _require_same_rows(path: Path, found: int, nodes: int) -> None:
    if found != nodes:
        raise InputError(
            f"{path} has {found} nodes, but the features beside it have {nodes}: the files do not "
            "belong together"
        )


class _NodeLink(NamedTuple):
    """Nodes of a graph as listed, and its edges as places in that list, shape ``[2, E]``."""

    nodes: list[dict[str, Any]]
    pairs: _Numbers


def _read_node_link(path: Path) -> _NodeLink:
    """Read a graph from networkx's node-link JSON.

    Edges are listed under ``links`` (newer networkx: ``edges``). Their ends are ids, as networkx
    has written them since version 2, or else places in the list of nodes, as version 1 wrote them.
    """
    content = read_json(path)
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise InputError(f"{path} must list the nodes under 'nodes', but there are none")
    place: dict[str | int, int] = {}
    for number, node in enumerate(nodes):
        key = node.get("id") if isinstance(node, dict) else None
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise InputError(
                f"{path}: node {number} must have an id, a word or a whole number, but it is "
                f"{_short(node)}"
            )
        if key in place:
            raise InputError(
                f"{path}: the id {key!r} is at node {place[key]} and again at node {number}: ids "
                "must be unique"
            )
        place[key] = number
    links = content.get("links", content.get("edges"))
    if not isinstance(links, list):
        raise InputError(f"{path} must list the edges under 'links' or 'edges': fetch it again")
    return _NodeLink(nodes, _node_link_pairs(links, place, path))


def _node_link_pairs(links: list[Any], place: dict[str | int, int], path: Path) -> _Numbers:
    ends = []
    for number, link in enumerate(links):
        try:
            ends += [link["source"], link["target"]]
        except (TypeError, KeyError):
            raise InputError(
                f"{path}: edge {number} must have a source and a target, but it is {_short(link)}"
            ) from None
    try:
        places = [place[end] for end in ends]
    except (KeyError, TypeError):  # not all are ids: they are places, or one is wrong
        for number, end in enumerate(ends):
            if type(end) is not int or not 0 <= end < len(place):
                raise InputError(
                    f"{path}: edge {number // 2} names {_short(end)}, which is neither the id nor "
                    f"the place of one of the {len(place)} nodes"
                ) from None
        places = ends
    return np.array(places, dtype=np.int64).reshape(-1, 2).T


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
