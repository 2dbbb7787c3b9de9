"""``drgcn audit`` and ``refine``: duplicates, leaks and faults, and a dataset without them."""

from __future__ import annotations

import csv
import json as jsonlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn._io import write_whole
from drgcn.cli.options import (
    DataRoot,
    Dataset,
    FeatureFile,
    Json,
    Offline,
    ProgressLine,
    Quiet,
    Split,
    Threads,
    expect_new_folder,
    use_threads,
    whole_numbers,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from drgcn.audit.duplicates.features import Evidence as KindOfEvidence
    from drgcn.audit.refining.refine import Refined

TextFile = Annotated[
    Path | None,
    typer.Option(help='Texts of the nodes, one JSON line {"index", "text"} each.'),
]
SkipKind = Annotated[
    list[str] | None,
    typer.Option(
        help='Take texts of this "kind" for missing, such as lists of words made from the '
        "features; may be given several times.",
        show_default=False,
    ),
]
WordFile = Annotated[
    Path | None,
    typer.Option(help="Words of the feature columns: a CSV file with the columns dim and word."),
]


def audit(
    dataset: Dataset,
    text: TextFile = None,
    skip_kind: SkipKind = None,
    words: WordFile = None,
    identity: Annotated[
        str | None,
        typer.Option(
            help="What says which nodes are the same thing: a column or array of your own data, "
            "or a file with a value a line, empty where it is not known.",
            show_default="the dataset's own, if it has one",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Column or array of your own data with numbers to predict: it is no feature, and "
            "what needs classes is left out.",
            show_default="none",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the findings as Markdown here.")
    ] = None,
    split: Split = None,
    features: FeatureFile = None,
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look for duplicates, label leaks, and faults of graph, features and split.

    Features are looked at as they are stored, not normalised. Nothing is changed. The exit code
    is 1 if something serious is found.

    Example: drgcn audit cora --html cora.html
    """
    from drgcn.audit.leaks.words import read_feature_names
    from drgcn.audit.page import markdown_report, write_page
    from drgcn.audit.report import audit as run_audit

    for name, path in (("--html", html), ("--markdown", markdown)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise InputError(f"Expected {name} to be a file in a folder that exists; got {path}.")
    use_threads(threads)
    stored = StoredDataset(dataset, split, features, data_root, offline, identity, target)
    with ProgressLine("audit", quiet) as line:
        line.show("loading")
        data = stored.load()
        report = run_audit(
            data,
            None if text is None else read_texts(text, skip_kind or []),
            feature_names=None if words is None else read_feature_names(words),
            printed=printed_results(data) if "identity" in data else None,
            progress=lambda step, done, of: line.show(step, done / of),
        )
    if html is not None:
        write_page(report, html)
    if markdown is not None:
        write_whole(markdown, markdown_report(report))
    if json:
        print(report.to_json())
    else:
        for severity in report.counts:
            for finding in report.of(severity):
                print(f"{severity:<8} {finding.name}: {finding.summary}")
        counts = ", ".join(f"{count} {severity}" for severity, count in report.counts.items())
        remark = report.facts.get("remark")
        print(f"\n{report.dataset}{f' ({remark})' if remark else ''}: {counts}")
        if target is not None:
            print(f"{target} holds measured values: split, labels and leaks were not looked at")
    if report.worst == "serious":
        raise typer.Exit(1)


@dataclass(frozen=True)
class StoredDataset:
    """Options that name a dataset, which is loaded with its features as stored."""

    name: str
    split: str | None
    features: Path | None
    data_root: Path | None
    offline: bool
    identity: str | None = None
    target: str | None = None

    def load(self) -> Data:
        """Load the dataset, sparse and not normalised; own data needs no labels."""
        from drgcn.data import describe, load, names

        options: dict[str, Any] = {}
        if self.features is not None:
            options["features"] = str(self.features)
        if self.target is not None:
            options["target"] = self.target
        listed = None if self.identity is None else Path(self.identity)
        column = self.identity if listed is None or not listed.is_file() else None
        if self.name.lower().replace("_", "-") not in names() and Path(self.name).exists():
            options["require_labels"] = False
            if column is not None:
                options["identity"] = column
        elif column is not None and column != (own := describe(self.name).identity):
            known = f"{own}, or " if own else ""
            raise InputError(
                f"Expected --identity to be {known}a file with a value a line; found {column!r}, "
                f"which {self.name} does not have."
            )
        data = load(
            self.name,
            self.data_root,
            split=self.split,
            normalize="none",
            sparse=True,
            offline=self.offline,
            **options,
        )
        if listed is not None and column is None:
            data.identity = _read_identity(listed, data.num_nodes)
        return data if self.target is None else _without_labels(data)


def _without_labels(data: Data) -> Data:
    """Return a graph of measured values as one without labels: findings are about classes."""
    import torch

    nodes = int(data.num_nodes or 0)
    data.y = torch.full((nodes,), -1)
    for part in ("train", "val", "test"):
        data[f"{part}_mask"] = torch.zeros(nodes, dtype=torch.bool)
    none: dict[str, Any] = dict.fromkeys(("classes", "train", "val", "test"), 0)
    none |= {"class_names": (), "split": "none", "split_seed": None, "unlabelled": nodes}
    data.dataset = replace(data.dataset, **none)
    return data


def _read_identity(path: Path, nodes: int) -> Tensor:
    import numpy as np
    import torch

    from drgcn.data.checks import identity_numbers

    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"Expected {path} to be a text file in UTF-8; it is not.") from None
    return torch.from_numpy(identity_numbers(np.array(lines, dtype=np.str_), nodes, str(path)))


def printed_results(data: Data) -> dict[str, float]:
    """Return the paper's printed scores on a dataset, or on the one that it stands for."""
    from drgcn.data import describe, names
    from drgcn.studies.paper.page import printed_scores

    name = data.dataset.name
    task = (describe(name).stands_for or name) if name in names() else name
    found = printed_scores(task, data.dataset.split)
    return {
        f"{row} (printed, {task})": round(number.mean / 100, 6) for row, number in found.items()
    }


def read_texts(path: Path, skip_kinds: list[str]) -> list[str]:
    """Read the texts of a file in node order, empty where their kind is to be skipped."""
    from drgcn.audit.texts import NodeTexts

    nodes = NodeTexts.read(path)
    texts = list(nodes.texts)
    unknown = [kind for kind in skip_kinds if kind not in nodes.kinds]
    if unknown:
        known = ", ".join(map(repr, nodes.kinds)) or "none"
        raise InputError(f"Expected --skip-kind out of {known}; found {unknown[0]!r}.")
    if skip_kinds:
        with path.open("rb") as file:
            for entry in (jsonlib.loads(line) for line in file if line.strip()):
                if entry.get("kind") in skip_kinds:
                    texts[entry["index"]] = ""
    return texts


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
    quiet: Quiet = False,
) -> None:
    """Merge duplicate nodes, remove nodes and features, and write the result.

    The folder holds tables of nodes and edges that every command reads, a map with a line for
    every old node, and an account of what was done. Features are written as they are stored:
    add --normalize row when training on what was normalised by row before.

    Example: drgcn refine cora --out cora-refined
    """
    from drgcn.audit.refining.refine import refine_until_stable, write_refined
    from drgcn.data.features import read_matrix

    expect_new_folder(out)
    use_threads(threads)
    data = StoredDataset(dataset, split, features, data_root, offline).load()
    texts = None if text is None else read_texts(text, skip_kind or [])
    if texts is not None and len(texts) != data.num_nodes:
        raise InputError(
            f"Expected a text for each of {data.num_nodes:,} nodes; found {len(texts):,}. Give an "
            "empty text to a node that has none."
        )
    chosen = list(dict.fromkeys(evidence or [Evidence.exact, Evidence.text]))
    columns: list[int] = []
    if remove_features is not None:
        columns = [*whole_numbers(remove_features, "--remove-features", "3,17")]
    gone = {} if drop is None else _read_drop(drop)
    if drop_empty:
        gone = _empty_nodes(data, texts) | gone
    if new_features is not None and not new_features.is_file():
        raise InputError(f"Expected --new-features to be a file; {new_features} is none.")
    with ProgressLine("looking for duplicates", quiet) as line:
        # How many rounds there will be, and so the time left, nobody knows.
        line.show()
        refined = refine_until_stable(
            data,
            texts,
            evidence=[_KINDS[kind] for kind in chosen],
            drop=gone,
            feature_rule=rule.value,
            remove_features=columns,
            new_features=None if new_features is None else read_matrix(new_features),
            progress=lambda number, groups: line.say(
                f"round {number + 1}: {groups:,} groups of duplicates"
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
        if not all(re.fullmatch("[0-9]{1,15}", row["node"]) for row in rows):
            raise ValueError
        return {int(row["node"]): row.get("reason") or "dropped on request" for row in rows}
    except (KeyError, TypeError, ValueError, csv.Error):
        raise InputError(
            f"Expected {path} to be a CSV file in UTF-8 with the columns node (a number) and "
            "reason; it is not."
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
