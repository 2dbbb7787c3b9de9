"""``drgcn audit``: duplicates, label leaks and faults of a dataset."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    Split,
    Threads,
    use_threads,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from drgcn.audit.report import Progress

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
    stored = StoredDataset(dataset, split, features, data_root, offline)
    with progress_bar() as progress:
        report = run_audit(
            stored.load(),
            None if text is None else read_texts(text, skip_kind or []),
            feature_names=None if words is None else read_feature_names(words),
            progress=progress,
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
        print(f"\n{report.dataset}: {counts}")
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

    def load(self) -> Data:
        """Load the dataset, sparse and not normalised; own data needs no labels."""
        from drgcn.data import load, names

        options: dict[str, Any] = {}
        if self.features is not None:
            options["features"] = str(self.features)
        if self.name.lower().replace("_", "-") not in names() and Path(self.name).exists():
            options["require_labels"] = False
        return load(
            self.name,
            self.data_root,
            split=self.split,
            normalize="none",
            sparse=True,
            offline=self.offline,
            **options,
        )


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


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """Show the current step on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("loading", total=None)
        yield lambda step, done, total: bar.update(
            task, description=step, completed=done, total=total
        )
