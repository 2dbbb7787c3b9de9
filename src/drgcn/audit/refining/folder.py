"""A refined dataset as a folder that ``load`` reads, written whole or not at all."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drgcn._io import whole_folder
from drgcn.audit.refining.node_map import Refined
from drgcn.data.loader import load
from drgcn.errors import DrgcnWarning, InputError

FILES = {
    "nodes.parquet": "a row per node: id, features, label, split; the id is the old number",
    "edges.csv": "a row per undirected edge, by ids",
    "node_map.csv": "a row per old node: its new number, and why it went if it did",
    "refined.json": "what was done, in numbers, with label conflicts and the rules",
    "text.jsonl": "the text of each node, by new number",
}


def write_refined(refined: Refined, folder: str | PathLike[str]) -> Path:
    """Write the folder; ``load(folder)`` then gives ``refined.data`` back.

    Everything is written under another name beside the folder, loaded and compared, and renamed
    at the end: a run that is cut off leaves no folder of this name.

    Args:
        refined: What to write.
        folder: A folder that does not exist yet.

    Returns:
        The folder.

    Raises:
        InputError: If the folder exists, or the tables cannot hold the dataset.
    """
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise InputError(f"Expected a folder that does not exist yet; {folder} is there already.")
    if refined.data.y.ndim == 2 or "graph" in refined.data:
        what = "several labels a node" if refined.data.y.ndim == 2 else "several graphs"
        raise InputError(
            f"Expected one graph with one label a node; found {what}, which tables of nodes and "
            "edges cannot hold. Save refined.data with torch.save instead."
        )
    with whole_folder(folder) as partial:
        _write_files(refined, partial)
        _check(refined, partial)
    return folder


def _write_files(refined: Refined, folder: Path) -> None:
    _write_nodes(refined, folder / "nodes.parquet")
    ids = [str(nodes[0]) for nodes in refined.node_map.members()]
    source, target = refined.data.edge_index.numpy()
    once = np.flatnonzero(source < target)
    lines = [f"{ids[source[edge]]},{ids[target[edge]]}\n" for edge in once]
    (folder / "edges.csv").write_text("source,target\n" + "".join(lines), encoding="utf-8")
    refined.node_map.write(folder / "node_map.csv")
    account = json.dumps(refined.to_dict(), indent=2, ensure_ascii=False)
    (folder / "refined.json").write_text(account + "\n", encoding="utf-8")
    if refined.texts is not None:
        entries = [{"index": i, "text": text} for i, text in enumerate(refined.texts)]
        text = "".join(f"{json.dumps(entry)}\n" for entry in entries)
        (folder / "text.jsonl").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(_readme(refined, folder), encoding="utf-8")


def _write_nodes(refined: Refined, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    data, info = refined.data, refined.data.dataset
    members = refined.node_map.members()
    x = data.x if data.x.layout == torch.strided else data.x.to_dense()
    columns: dict[str, Any] = {"id": pa.array([str(nodes[0]) for nodes in members])}
    columns |= {f"f{column}": pa.array(x[:, column].numpy()) for column in range(x.shape[1])}
    names = info.class_names
    columns["label"] = pa.array([names[label] if label >= 0 else "" for label in data.y.tolist()])
    if refined.has_split:
        words = np.full(info.nodes, "", dtype="<U5")
        for part in ("train", "val", "test"):
            words[data[f"{part}_mask"].numpy()] = part
        columns["split"] = pa.array(words.tolist())
    parquet.write_table(pa.table(columns), path)


def _check(refined: Refined, folder: Path) -> None:
    """What was written is read again, as its reader will."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrgcnWarning)
        try:
            labelled = bool((refined.data.y >= 0).any())
            again = load(folder, require_labels=labelled)
        except InputError as error:
            words = str(error).replace(f"{folder}{os.sep}", "")
            raise InputError(f"The refined dataset cannot be written: {words}") from None
    kept = ["x", "y", "edge_index"]
    kept += ["train_mask", "val_mask", "test_mask"] if refined.has_split else []
    dense: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: (  # noqa: E731
        tensor if tensor.layout == torch.strided else tensor.to_dense()
    )
    for key in kept:
        if not torch.equal(dense(refined.data[key]), again[key]):
            raise InputError(
                f"The refined dataset cannot be written: {key} would be read back differently. "
                "Save refined.data with torch.save instead."
            )


def _readme(refined: Refined, folder: Path) -> str:
    account = refined.to_dict()
    nodes, edges, origin = account["nodes"], account["edges"], account["refined from"]
    lines = [
        f"# {refined.data.dataset.name}",
        "",
        f"{nodes['kept']:,} of {nodes['before']:,} nodes: {nodes['merged']:,} were merged into "
        f"another node, {nodes['dropped']:,} dropped. {edges['after']:,} of {edges['before']:,} "
        f"undirected edges: {edges['inside']:,} were inside a group, {edges['repeated']:,} came "
        f"to repeat another, {edges['dropped']:,} went with dropped nodes. "
        f"{len(refined.conflicts):,} groups had members of different classes, and "
        f"{len(refined.left_training):,} training nodes left training.",
        "",
        f"Features of merged nodes: {refined.feature_rule}. Features were "
        f"{'not normalised' if origin.get('normalize', 'none') == 'none' else 'normalised'} when "
        "the set was refined, and are written as they were.",
        "",
        "| file | what it holds |",
        "|---|---|",
        *(f"| `{file}` | {what} |" for file, what in FILES.items() if (folder / file).is_file()),
        "",
    ]
    return "\n".join(lines)
