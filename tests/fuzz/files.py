"""Changed files that lie beside a graph: texts, words, word vectors, features, settings."""

from __future__ import annotations

import csv
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import sparse

from drgcn.audit.leaks.words import read_feature_names
from drgcn.audit.report import audit
from drgcn.audit.texts import NodeTexts, WordVectors, title_features, words_of
from drgcn.cli.audit import _read_drop, _read_identity
from drgcn.data import load
from drgcn.data.features import read_matrix

from ..data.graphs import small, write_csv
from .generators import PLAIN, Target, _flipped, odd_array, odd_json

_GRAPH = small()
_TEXTS = ("a rule of thumb", "", "neural networks", "a tree and a graph")
_NODES = 2680  # of CoraR


def _word(draw: random.Random) -> str:
    return str(draw.choice([*PLAIN, "9" * 5000, "1_0", "0x10", "1e400"])).replace("\ud800", "?")


def _write_texts(folder: Path, draw: random.Random) -> None:
    write_csv(folder / "own", _GRAPH)
    lines: list[Any] = [
        {"index": i, "text": _TEXTS[i % len(_TEXTS)], "kind": "title"} for i in range(12)
    ]
    for _ in range(draw.choice([1, 1, 2])):
        place = draw.randrange(len(lines))
        lines[place] = odd_json(lines[place], draw)
    if draw.random() < 0.2:
        del lines[draw.randrange(len(lines))]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, lines)))


def _audit_texts(folder: Path) -> int:
    """Read texts, and use all of them: what is accepted must not fail later."""
    nodes = NodeTexts.read(folder / "texts.jsonl")
    title_features(nodes.texts, WordVectors({"rule": 0}, np.ones((1, 3), dtype=np.float32)))
    data = load(folder / "own", sparse=True)
    audit(data, list(nodes.texts)).to_json()
    return len(nodes.texts)


def _check_texts(found: int) -> None:
    assert found == 12


def _write_words(folder: Path, draw: random.Random) -> None:
    lines = [f"{word} {i}.5 -1 2e-3" for i, word in enumerate(["rule", "tree", "neural", "a b"])]
    if draw.random() < 0.3:
        lines.insert(0, "4 3")
    row = draw.randrange(len(lines))
    cells = lines[row].split(" ")
    cells[draw.randrange(len(cells))] = _word(draw)
    lines[row] = " ".join(cells)
    (folder / "words.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _check_words(found: WordVectors) -> None:
    assert set(found.index) <= {"rule", "tree", "neural"}
    assert np.isfinite(found.matrix).all()
    assert len(found.matrix) == len(found.index)


def _rows(names: list[str], rows: list[list[str]]) -> Callable[[Path, random.Random], None]:
    """Write a table with a few cells changed."""

    def write(folder: Path, draw: random.Random) -> None:
        table = [list(names), *map(list, rows)]
        for _ in range(draw.choice([1, 1, 2])):
            row = draw.choice(table)
            row[draw.randrange(len(row))] = _word(draw)
        if draw.random() < 0.2:
            draw.choice(table).append("more")
        with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table)

    return write


def _check_names(found: tuple[str | None, ...]) -> None:
    assert 0 < len(found) <= 4
    assert all(name is None or isinstance(name, str) for name in found)


def _check_drop(found: dict[int, str]) -> None:
    assert len(found) <= 6  # three rows, any of which a cell with an end of line may cut in two
    assert all(type(node) is int and isinstance(reason, str) for node, reason in found.items())


def _write_identity(folder: Path, draw: random.Random) -> None:
    lines = [str(i // 2) for i in range(12)]
    lines[draw.randrange(12)] = _word(draw)
    (folder / "things.txt").write_text("\n".join(lines), encoding="utf-8")


def _check_identity(found: Any) -> None:
    assert found.shape == (12,)
    assert int(found.min()) >= -1


def _write_features(folder: Path, draw: random.Random) -> None:
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    kind = draw.choice(["npy", "npz", "csr", "pkl", "sparse pkl"])
    if kind in ("npy", "npz"):
        value = odd_array(x, draw)
        value = np.zeros(0) if value is None else value
        save = np.save if kind == "npy" else np.savez
        save(folder / f"x.{kind}", value)
    elif kind == "csr":
        sparse.save_npz(folder / "x.npz", sparse.csr_matrix(x))
        with np.load(folder / "x.npz") as archive:
            arrays = dict(archive)
        key = draw.choice(sorted(arrays))
        value = odd_array(arrays[key], draw)
        arrays[key] = np.zeros(0) if value is None else value
        np.savez(folder / "x.npz", **arrays)
    else:
        stored: Any = odd_array(x, draw) if kind == "pkl" else sparse.coo_matrix(x[::-1])
        (folder / "x.pkl").write_bytes(pickle.dumps(stored, draw.choice([2, 4, 5])))


def _read_features(folder: Path) -> Any:
    (path,) = folder.iterdir()
    return read_matrix(path)


def _check_features(found: Any) -> None:
    values = found.data if sparse.issparse(found) else found
    assert found.ndim == 2
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


def refined_set(folder: Path, **changes: Any) -> None:
    """Write the files of ``corar``, some of them with other content."""
    place = folder / "refined"
    place.mkdir()
    for name, content in {**_REFINED, **changes}.items():
        (place / f"{name}.pkl").write_bytes(pickle.dumps(content, 4))


_REFINED: Final[dict[str, Any]] = {
    "corax_adj": sparse.eye(_NODES, k=1, format="csr"),
    "corax_labels": np.eye(7)[np.arange(_NODES) % 7],
    "corax_features": np.ones((_NODES, 2), dtype=np.float32),
}


def _write_refined_set(folder: Path, draw: random.Random) -> None:
    chosen = draw.choice(sorted(_REFINED))
    value = _REFINED[chosen]
    if sparse.issparse(value):
        odd = [value[:-1], value.T.tocoo(), value.tocsc(), value * np.nan, -value, [1], None]
        value = draw.choice(odd)
    else:
        value = odd_array(value, draw)
    refined_set(folder, **{chosen: value})


TARGETS: Final[dict[str, Target]] = {
    "texts": Target(_flipped(_write_texts), _audit_texts, _check_texts),
    "word vectors": Target(
        _flipped(_write_words),
        lambda folder: WordVectors.read(
            folder / "words.txt", words_of(("rule tree neural network",))
        ),
        _check_words,
    ),
    "feature names": Target(
        _flipped(_rows(["dim", "word", "confident"], [[str(i), f"w{i}", "1"] for i in range(4)])),
        lambda folder: read_feature_names(folder / "table.csv"),
        _check_names,
    ),
    "dropped nodes": Target(
        _flipped(_rows(["node", "reason"], [["3", "bad"], ["5", ""], ["7", "x"]])),
        lambda folder: _read_drop(folder / "table.csv"),
        _check_drop,
    ),
    "identity": Target(
        _flipped(_write_identity),
        lambda folder: _read_identity(folder / "things.txt", 12),
        _check_identity,
    ),
    "features": Target(_flipped(_write_features), _read_features, _check_features),
    "refined set": Target(
        _flipped(_write_refined_set), lambda folder: load("corar", folder, offline=True)
    ),
}
