"""Small graphs and the ways a person would write them to disk."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scipy import sparse
from torch_geometric.data import Data

WORDS = np.array(["", "train", "val", "test"])


@dataclass(frozen=True)
class Graph:
    x: np.ndarray
    y: np.ndarray
    pairs: np.ndarray
    part: np.ndarray  # 0 nowhere, 1 train, 2 val, 3 test

    def changed(self, **changes: Any) -> Graph:
        return replace(self, **changes)

    @property
    def masks(self) -> dict[str, np.ndarray]:
        return {f"{word}_mask": self.part == i for i, word in enumerate(WORDS) if word}


def small(seed: int = 0, nodes: int = 12) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph(
        x=rng.normal(size=(nodes, 3)).astype(np.float32),
        y=np.arange(nodes) % 3,
        pairs=rng.integers(nodes, size=(2, 2 * nodes)),
        part=np.array([1, 2, 3, 1, 0, 1] * nodes)[:nodes],
    )


def write_csv(folder: Path, graph: Graph) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"f{i}" for i in range(graph.x.shape[1])), "label", "split"])
        for node, row in enumerate(graph.x):
            label = "" if graph.y[node] < 0 else int(graph.y[node])
            values = [repr(float(value)) for value in row]
            writer.writerow([f"n{node}", *values, label, WORDS[graph.part[node]]])
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        writer.writerows([f"n{a}", f"n{b}"] for a, b in graph.pairs.T)
    return folder


def write_parquet(folder: Path, graph: Graph) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    nodes: dict[str, Any] = {"id": np.arange(len(graph.y))}
    nodes |= {f"f{i}": column for i, column in enumerate(graph.x.T)}
    nodes["label"] = pa.array([None if y < 0 else int(y) for y in graph.y], pa.int64())
    nodes["split"] = pa.array([word or None for word in WORDS[graph.part].tolist()], pa.string())
    pq.write_table(pa.table(nodes), folder / "nodes.parquet")
    ends = {"source": graph.pairs[0], "target": graph.pairs[1]}
    pq.write_table(pa.table(ends), folder / "edges.parquet")
    return folder


def write_npz(path: Path, graph: Graph) -> Path:
    np.savez(path, x=graph.x, edge_index=graph.pairs, y=graph.y, split=WORDS[graph.part])
    return path


def write_sparse_npz(path: Path, graph: Graph) -> Path:
    csr = sparse.csr_array(graph.x)
    parts = {
        "x_data": csr.data,
        "x_indices": csr.indices,
        "x_indptr": csr.indptr,
        "x_shape": np.array(csr.shape),
    }
    np.savez(path, edge_index=graph.pairs, y=graph.y, **parts, **graph.masks)
    return path


def as_data(graph: Graph) -> Data:
    return Data(
        x=torch.from_numpy(graph.x),
        y=torch.from_numpy(graph.y),
        edge_index=torch.from_numpy(graph.pairs),
        **{key: torch.from_numpy(mask) for key, mask in graph.masks.items()},
    )


def write_pt(path: Path, graph: Graph) -> Path:
    torch.save(as_data(graph), path)
    return path


def write_pt_dict(path: Path, graph: Graph) -> Path:
    torch.save(as_data(graph).to_dict(), path)
    return path
