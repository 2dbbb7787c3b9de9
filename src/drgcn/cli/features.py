"""``drgcn data features``: node features out of the nodes' texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drgcn.cli.options import DataRoot, Device, Threads, use_device, use_threads
from drgcn.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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
        matrix = _from_words(nodes.texts, words)
        blank, lacking = ~matrix[:, :-2].any(axis=1), "without a known word"
    elif encoder is not None:
        use_threads(threads)
        matrix = _from_encoder(nodes.texts, encoder, batch_size, device)
        blank, lacking = ~matrix.any(axis=1), "without text"
    _write(matrix, out)
    for kind, count in nodes.kinds.items():
        print(f"text: {count:,} x {kind}")
    print(f"{out}: {matrix.shape[0]:,} x {matrix.shape[1]:,}, {blank.sum():,} {lacking}")


def _from_words(texts: tuple[str, ...], path: Path) -> npt.NDArray[np.float32]:
    from drgcn.audit.texts import WordVectors, title_features, words_of

    wanted = words_of(texts)
    print(f"looking for {len(wanted):,} words in {path}", file=sys.stderr)
    vectors = WordVectors.read(path, wanted)
    print(f"found {len(vectors):,} of {len(wanted):,} words", file=sys.stderr)
    return title_features(texts, vectors)


def _from_encoder(
    texts: tuple[str, ...], folder: Path, batch_size: int, device: str
) -> npt.NDArray[np.float32]:
    from rich.console import Console
    from rich.progress import Progress

    from drgcn.audit.encoder import encode_texts

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("sentences", total=None)
        return encode_texts(
            texts,
            folder,
            batch_size,
            lambda done, total: bar.update(task, completed=done, total=total),
            use_device(device),
        )


def _write(matrix: npt.NDArray[np.float32], path: Path) -> None:
    """Writes the file whole or not at all."""
    import numpy as np

    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            np.save(file, matrix)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
