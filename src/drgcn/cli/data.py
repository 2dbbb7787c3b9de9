"""``drgcn data``: list, inspect, verify and download datasets; features from texts."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn._io import replacing
from drgcn.cli.options import (
    DataRoot,
    Device,
    Json,
    Offline,
    ProgressLine,
    Quiet,
    Target,
    Threads,
    use_device,
    use_threads,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


app = typer.Typer(help="List, inspect, verify and download datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A dataset's name.")]


@app.command("list")
def list_datasets(json: Json = False) -> None:
    """List the datasets by name."""
    from rich.console import Console

    from drgcn.data.catalog import describe, names
    from drgcn.reporting.tables import Table

    entries = [describe(name) for name in names()]
    if json:
        keys = ("name", "title", "splits", "licence", "home")
        print(jsonlib.dumps([{key: getattr(entry, key) for key in keys} for entry in entries]))
        return
    rows = []
    for entry in entries:
        splits = ", ".join(entry.splits[:4]) + (", ..." if len(entry.splits) > 4 else "")
        rows.append((entry.name, entry.title, splits))
    Console().print(Table(("name", "what it is", "splits"), rows).rich())


@app.command("info")
def info(
    dataset: Annotated[str, typer.Argument(help="A dataset's name, or a path to your own.")],
    target: Target = None,
    split: Annotated[str | None, typer.Option(help="Split.")] = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Load a dataset and say what is in it; of several graphs, the size of each."""
    from rich.console import Console

    from drgcn.data import load, names
    from drgcn.data.catalog import remark_of
    from drgcn.data.union import graph_sizes
    from drgcn.reporting.tables import Table

    own: dict[str, Any] = {}
    if dataset.lower() not in names() and Path(dataset).exists():
        own["require_labels"] = False  # looking needs no labels; training does
    if target is not None:
        own["target"] = target
    data = load(dataset, data_root, split=split, offline=offline, **own)
    facts, graphs = data.dataset.to_dict(), graph_sizes(data)
    facts["listed_one_way"] = facts["edges"] - facts["listed_both_ways"]
    if remark := remark_of(data.dataset.name):
        facts["remark"] = remark
    if json:
        several = {"graphs": [asdict(graph) for graph in graphs]} if graphs else {}
        print(jsonlib.dumps(facts | several))
        return
    one_way, both_ways = facts.pop("listed_one_way"), facts.pop("listed_both_ways")
    facts["edges"] = f"{facts['edges']:,}: {one_way:,} listed one way, {both_ways:,} both ways"
    rows = [
        (key.replace("_", " "), _shown(value))
        for key, value in facts.items()
        if value is not False and value not in ("", None, {}, [])
    ]
    if graphs:
        rows.append(("graphs", "\n".join(map(str, graphs))))
    Console().print(Table((), rows).rich())


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
def download(
    name: Name,
    data_root: DataRoot = None,
    offline: Offline = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a dataset's files; those that are here and whole are kept."""
    from drgcn.data.downloader import download as download_files

    with ProgressLine("fetching", quiet, resumes=True) as line:
        paths = download_files(
            name,
            data_root,
            offline=offline,
            progress=lambda path, done, of: line.show(path, done / of),
        )
    if json:
        print(jsonlib.dumps({"files": [str(path) for path in paths]}))
        return
    for path in paths:
        print(path)


@app.command("features")
def features(
    out: Annotated[Path, typer.Option(help="The .npy file to write.")],
    name: Annotated[
        str | None, typer.Argument(help="corar or citeseerr; not needed with --text.")
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(help="GloVe's text file: mean word vectors and two lengths (CoraR)."),
    ] = None,
    encoder: Annotated[
        Path | None,
        typer.Option(help="Folder of a BERT-like model: mean last hidden state (CiteseerR)."),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            help='Texts, one JSON line {"index", "text"} a node.',
            show_default="refined/NAME_text.jsonl in the data root",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences encoded at a time.")] = 32,
    device: Device = "auto",
    threads: Threads = None,
    data_root: DataRoot = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make node features from text, by word vectors or by a language model.

    The result is as good as the text: from other text than the authors had, it differs from the
    features they published, and is called "rebuilt" wherever it is used.

    Example: drgcn data features corar --words glove.6B.300d.txt --out corar_features.npy
    """
    if (words is None) == (encoder is None):
        raise InputError("Expected either --words FILE or --encoder FOLDER, and not both.")
    if out.suffix != ".npy" or out.is_dir() or not out.parent.is_dir():
        raise InputError(f"Expected --out to be an .npy file in a folder that exists; got {out}.")
    from drgcn.audit.texts import NodeTexts
    from drgcn.data.downloader import data_root as find_root

    if text is not None:
        nodes = NodeTexts.read(text)
    elif name is not None:
        nodes = NodeTexts.of_dataset(find_root(data_root), name)
    else:
        raise InputError("Expected the name of a dataset, or --text FILE.")
    if words is not None:
        matrix = _from_words(nodes.texts, words, quiet)
        blank, lacking = ~matrix[:, :-2].any(axis=1), "without a known word"
    elif encoder is not None:
        use_threads(threads)
        matrix = _from_encoder(nodes.texts, encoder, batch_size, device, quiet)
        blank, lacking = ~matrix.any(axis=1), "without text"
    _write(matrix, out)
    if json:
        sizes = {"rows": matrix.shape[0], "columns": matrix.shape[1], "blank": int(blank.sum())}
        print(jsonlib.dumps({"out": str(out), **sizes, "texts": dict(nodes.kinds)}))
        return
    for kind, count in nodes.kinds.items():
        print(f"text: {count:,} x {kind}")
    print(f"{out}: {matrix.shape[0]:,} x {matrix.shape[1]:,}, {blank.sum():,} {lacking}")


def _from_words(texts: tuple[str, ...], path: Path, quiet: bool) -> npt.NDArray[np.float32]:
    from drgcn.audit.texts import WordVectors, title_features, words_of

    wanted = words_of(texts)
    with ProgressLine(f"looking for {len(wanted):,} words in {path}", quiet) as line:
        line.show()
        vectors = WordVectors.read(path, wanted)
        line.say(f"found {len(vectors):,} of {len(wanted):,} words")
    return title_features(texts, vectors)


def _from_encoder(
    texts: tuple[str, ...], folder: Path, batch_size: int, device: str, quiet: bool
) -> npt.NDArray[np.float32]:
    from drgcn.audit.texts import encode_texts

    with ProgressLine("reading", quiet) as line:
        return encode_texts(
            texts,
            folder,
            batch_size,
            lambda done, total: line.show(f"{done:,} of {total:,} sentences", done / total),
            use_device(device),
        )


def _write(matrix: npt.NDArray[np.float32], path: Path) -> None:
    import numpy as np

    with replacing(path) as partial, partial.open("wb") as file:
        np.save(file, matrix)
