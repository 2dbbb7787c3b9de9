"""``drgcn refine``: a dataset with its duplicates merged, as a folder of its own."""

from __future__ import annotations

import csv
import json as jsonlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drgcn.cli.audit import SkipKind, StoredDataset, TextFile, read_texts
from drgcn.cli.options import (
    DataRoot,
    Dataset,
    FeatureFile,
    Json,
    Offline,
    Split,
    Threads,
    use_threads,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch_geometric.data import Data

    from drgcn.audit.duplicates.features import Evidence as KindOfEvidence
    from drgcn.audit.refining.refine import Refined


class Evidence(StrEnum):
    """Kinds of evidence that nodes are duplicates."""

    exact = "exact"
    near = "near"
    text = "text"


class FeatureRule(StrEnum):
    """Rules for the features of merged nodes."""

    first = "first"
    mean = "mean"
    max = "max"


_KINDS: dict[Evidence, KindOfEvidence] = {
    Evidence.exact: "exact features",
    Evidence.near: "near features",
    Evidence.text: "text",
}


def refine(
    dataset: Dataset,
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist.")],
    text: TextFile = None,
    skip_kind: SkipKind = None,
    evidence: Annotated[
        list[Evidence] | None,
        typer.Option(
            help="What makes nodes duplicates: exact features, near features, text; may be given "
            "several times.",
            show_default="exact and text",
        ),
    ] = None,
    rule: Annotated[
        FeatureRule, typer.Option(help="Features of merged nodes.")
    ] = FeatureRule.first,
    drop: Annotated[
        Path | None,
        typer.Option(help="Nodes to leave out: a CSV file with the columns node and reason."),
    ] = None,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out nodes with neither features nor text.")
    ] = False,
    remove_features: Annotated[
        str | None, typer.Option(help="Columns to take out, such as 3,17.", show_default=False)
    ] = None,
    new_features: Annotated[
        Path | None,
        typer.Option(help="Features to use instead, a row per old node: .npy, .npz, .pkl."),
    ] = None,
    split: Split = None,
    features: FeatureFile = None,
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Merge duplicate nodes, take out nodes and features, and write the result.

    The folder holds tables of nodes and edges that every command reads, a map with a line for
    every old node, and an account of what was done. Features are written as they are stored:
    add --normalize row when training on what was normalised by row before.

    Example: drgcn refine cora --out cora-refined
    """
    from drgcn.audit.refining.refine import refine_until_stable, write_refined
    from drgcn.data.features import read_matrix

    if out.exists():
        raise InputError(f"Expected --out to be a new folder; {out} is there already.")
    use_threads(threads)
    data = StoredDataset(dataset, split, features, data_root, offline).load()
    texts = None if text is None else read_texts(text, skip_kind or [])
    chosen = list(dict.fromkeys(evidence or [Evidence.exact, Evidence.text]))
    gone = {} if drop is None else _read_drop(drop)
    if drop_empty:
        gone = _empty_nodes(data, texts) | gone
    if new_features is not None and not new_features.is_file():
        raise InputError(f"Expected --new-features to be a file; {new_features} is none.")
    refined = refine_until_stable(
        data,
        texts,
        evidence=[_KINDS[kind] for kind in chosen],
        drop=gone,
        feature_rule=rule.value,
        remove_features=[] if remove_features is None else _column_numbers(remove_features),
        new_features=None if new_features is None else read_matrix(new_features),
        progress=lambda number, groups: print(
            f"round {number + 1}: {groups:,} groups of duplicates", file=sys.stderr
        ),
    )
    write_refined(refined, out)
    if json:
        print(jsonlib.dumps(refined.to_dict()))
    else:
        _print_counts(refined)
        print(out)


def _empty_nodes(data: Data, texts: Sequence[str] | None) -> dict[int, str]:
    from drgcn.audit.graph_view import GraphView
    from drgcn.audit.hygiene import zero_rows

    rows = zero_rows(GraphView.of(data).x).nonzero()[0].tolist()
    if texts is None:
        return dict.fromkeys(rows, "no features")
    return {node: "no features and no text" for node in rows if not texts[node].strip()}


def _read_drop(path: Path) -> dict[int, str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        return {int(row["node"]): row.get("reason") or "dropped on request" for row in rows}
    except (KeyError, TypeError, ValueError, csv.Error):
        raise InputError(
            f"Expected {path} to be a CSV file in UTF-8 with the columns node (a number) and "
            "reason; it is not."
        ) from None


def _column_numbers(words: str) -> list[int]:
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise InputError(
            f"Expected --remove-features to be numbers with commas between; found {words!r}."
        ) from None


def _print_counts(refined: Refined) -> None:
    nodes, edges = refined.node_map.counts, refined.edges
    print(
        f"{len(refined.node_map.fates):,} nodes -> {nodes['kept']:,}: {nodes['merged']:,} merged, "
        f"{nodes['dropped']:,} dropped"
    )
    print(
        f"{edges.before:,} edges -> {edges.after:,}: {edges.inside:,} inside a group, "
        f"{edges.repeated:,} repeated, {edges.dropped:,} with dropped nodes"
    )
    print(
        f"{len(refined.conflicts):,} groups with different labels, {len(refined.left_training):,} "
        "nodes taken out of training"
    )
