"""Twenty-four small graphs in the form of PPI, and the two ways they are published."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

COUNTS = {"train": 20, "val": 2, "test": 2}
STEMS = {"train": "train", "val": "valid", "test": "test"}


@dataclass(frozen=True)
class Tissue:
    part: str
    x: np.ndarray
    y: np.ndarray
    pairs: np.ndarray


def tissues(seed: int = 0) -> list[Tissue]:
    """Connected graphs of 5 to 8 nodes; two have nodes without ties at their end."""
    rng = np.random.default_rng(seed)
    made = []
    for part in (part for part, count in COUNTS.items() for _ in range(count)):
        core = int(rng.integers(5, 9))
        chain = np.stack([np.arange(core - 1), np.arange(1, core)])
        pairs = np.concatenate([chain, rng.integers(core, size=(2, 4)), [[0], [0]]], axis=1)
        if len(made) == 3:
            pairs, core = np.concatenate([pairs, [[core], [core + 1]]], axis=1), core + 2
        if len(made) in (3, 21):
            core += 1
        made.append(
            Tissue(
                part, rng.normal(3.0, 2.0, (core, 50)), rng.integers(2, size=(core, 121)), pairs
            )
        )
    return made


def _rows(graphs: list[Tissue]) -> tuple[list[int], np.ndarray]:
    sizes = [len(graph.y) for graph in graphs]
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    pairs = [graph.pairs + start for graph, start in zip(graphs, starts, strict=True)]
    return sizes, np.concatenate(pairs, axis=1)


def write_raw(folder: Path, graphs: list[Tissue]) -> Path:
    """As torch_geometric.datasets.PPI keeps them."""
    folder.mkdir(parents=True, exist_ok=True)
    first = 1
    for part, stem in STEMS.items():
        chosen = [graph for graph in graphs if graph.part == part]
        sizes, pairs = _rows(chosen)
        numbers = np.repeat(np.arange(first, first + len(chosen)), sizes)
        first += len(chosen)
        np.save(folder / f"{stem}_feats.npy", np.concatenate([graph.x for graph in chosen]))
        np.save(folder / f"{stem}_labels.npy", np.concatenate([graph.y for graph in chosen]))
        np.save(folder / f"{stem}_graph_id.npy", numbers)
        content = {
            "directed": False,
            "multigraph": False,
            "graph": {},
            "nodes": [{"id": node} for node in range(sum(sizes))],
            "links": [{"source": a, "target": b} for a, b in pairs.T.tolist()],
        }
        (folder / f"{stem}_graph.json").write_text(json.dumps(content))
    return folder


def write_graphsage(folder: Path, graphs: list[Tissue], *, words: bool = False) -> Path:
    """As GraphSAGE publishes them; with ``words``, as a newer networkx would with other ids.

    The parts are stored in another order than they are read: flags decide, not places.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ordered = [
        graph for part in ("test", "train", "val") for graph in graphs if graph.part == part
    ]
    sizes, pairs = _rows(ordered)
    nodes: list[dict[str, Any]] = [
        {"id": 0, "val": graph.part == "val", "test": graph.part == "test"}
        for graph, size in zip(ordered, sizes, strict=True)
        for _ in range(size)
    ]
    y = np.concatenate([graph.y for graph in ordered])
    ids = [f"p{row}" if words else row for row in range(len(nodes))]
    for row, node in enumerate(nodes):
        node["id"] = ids[row]
    links = [{"source": ids[a], "target": ids[b]} for a, b in pairs.T.tolist()]
    content = {
        "directed": False,
        "nodes": nodes[::-1] if words else nodes,
        "edges" if words else "links": links,
    }
    (folder / "ppi-G.json").write_text(json.dumps(content))
    rows = {str(name): row for row, name in enumerate(ids)}
    (folder / "ppi-id_map.json").write_text(json.dumps(rows))
    classes = {str(name): y[row].tolist() for row, name in enumerate(ids)}
    (folder / "ppi-class_map.json").write_text(json.dumps(classes))
    np.save(folder / "ppi-feats.npy", np.concatenate([graph.x for graph in ordered]))
    return folder


def write_rebuilt(folder: Path, graphs: list[Tissue], proteins: int = 12) -> Path:
    """As the file with rebuilt labels has them: a protein is in many graphs, once in each."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes, pairs = _rows(graphs)
    rng = np.random.default_rng(0)
    np.savez(
        folder / "ppi_rebuilt.npz",
        edges=pairs.T.astype(np.int32),
        graph_id=np.repeat(np.arange(1, len(graphs) + 1), sizes).astype(np.int8),
        entrez=100 + np.concatenate([rng.permutation(proteins)[:size] for size in sizes]),
        features=(np.concatenate([graph.x for graph in graphs]) > 3).astype(np.uint8),
        labels_approx=np.concatenate([graph.y for graph in graphs]).astype(np.uint8),
        label_go=np.array([f"GO:{number:07d}" for number in range(121)]),
    )
    return folder
