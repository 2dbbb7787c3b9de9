"""``drgcn data``: what datasets there are, and whether they are here and whole."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from typing import Annotated, Any

import typer

from drgcn.cli.options import DataRoot, Json, Offline

app = typer.Typer(help="List, inspect, verify and download datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A dataset's name.")]


@app.command("list")
def list_datasets(json: Json = False) -> None:
    """List the datasets by name."""
    from rich.console import Console
    from rich.table import Table

    from drgcn.data.catalog import describe, names

    entries = [describe(name) for name in names()]
    if json:
        keys = ("name", "title", "splits", "licence", "home")
        print(jsonlib.dumps([{key: getattr(entry, key) for key in keys} for entry in entries]))
        return
    table = Table("name", "what it is", "splits")
    for entry in entries:
        splits = ", ".join(entry.splits[:4]) + (", ..." if len(entry.splits) > 4 else "")
        table.add_row(entry.name, entry.title, splits)
    Console().print(table)


@app.command("info")
def info(
    dataset: Annotated[str, typer.Argument(help="A dataset's name, or a path to your own.")],
    split: Annotated[str | None, typer.Option(help="Split.")] = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Load a dataset and say what is in it; of several graphs, the size of each."""
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from drgcn.data import load, names
    from drgcn.data.union import graph_sizes

    own: dict[str, Any] = {}
    if dataset.lower() not in names() and Path(dataset).exists():
        own["require_labels"] = False  # looking needs no labels; training does
    data = load(dataset, data_root, split=split, offline=offline, **own)
    facts, graphs = data.dataset.to_dict(), graph_sizes(data)
    if json:
        several = {"graphs": [asdict(graph) for graph in graphs]} if graphs else {}
        print(jsonlib.dumps(facts | several))
        return
    table = Table(show_header=False)
    for key, value in facts.items():
        if value is not False and value not in ("", None, {}, []):
            table.add_row(key.replace("_", " "), _shown(value))
    if graphs:
        table.add_row("graphs", "\n".join(map(str, graphs)))
    Console().print(table)


def _shown(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, list):
        return ", ".join(map(str, value[:20])) + (", ..." if len(value) > 20 else "")
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command("verify")
def verify(name: Name, data_root: DataRoot = None, json: Json = False) -> None:
    """Compare a dataset's files with their published checksums."""
    from drgcn.data.downloader import verify as verify_files

    states = verify_files(name, data_root)
    if json:
        print(jsonlib.dumps(dict(states)))
    elif not states:
        print(f"{name} is made on the spot: it has no files")
    else:
        for path, state in states:
            print(f"{state:<10} {path}")
    if any(state in ("missing", "different") for _, state in states):
        raise typer.Exit(1)


@app.command("download")
def download(name: Name, data_root: DataRoot = None, offline: Offline = False) -> None:
    """Fetch a dataset's files; those that are here and whole are kept."""
    from drgcn.data.downloader import download as download_files

    for path in download_files(name, data_root, offline=offline):
        print(path)
