"""Clicks as lines ``user item item ...``: the layout of LightGCN's files."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph

PARTS: Final = ("train", "valid", "test")
_Ints = npt.NDArray[np.int64]


def read_text_folder(
    folder: str | PathLike[str],
    *,
    keep_unseen: bool = False,
    files: Mapping[str, str] | None = None,
    name: str | None = None,
) -> ClickData:
    """Files of lines as one set with an official split.

    Day 0 holds the clicks of train, day 1 those of valid and day 2 those of test, so that
    ``ClickSplit.official(data)`` finds test from train and valid together, as LightGCN does.
    Users and items are numbered as in the files.

    Args:
        folder: Where the files lie.
        keep_unseen: Allow items in test that are in no other file. (default: refuse them)
        files: File of each part. (default: train.txt, test.txt, and valid.txt if it is there)
        name: What the set is called. (default: the folder's name)
    """
    folder = Path(folder)
    if files is None:
        files = {part: f"{part}.txt" for part in PARTS}
        if not (folder / files["valid"]).exists():
            del files["valid"]
    pieces = {part: read_lines(folder / file) for part, file in files.items()}
    users = np.concatenate([users for users, _, _ in pieces.values()])
    items = np.concatenate([items for _, items, _ in pieces.values()])
    if not len(users):
        raise InputError(f"Expected clicks in {folder}; its files hold users alone.")
    if not keep_unseen and "test" in pieces:
        seen = np.concatenate([pieces[part][1] for part in pieces if part != "test"])
        _refuse_unseen(pieces["test"][1], seen, folder / files["test"])
    lengths = [len(users) for users, _, _ in pieces.values()]
    days = np.repeat([PARTS.index(part) for part in pieces], lengths)
    graph = ClickGraph.from_pairs(
        torch.from_numpy(users),
        torch.from_numpy(items),
        1 + max(last for _, _, last in pieces.values()),
        1 + int(items.max()),
        torch.from_numpy(days),
    )
    if graph.num_clicks < len(users):
        _refuse_repeated(pieces, folder)
    return ClickData(graph, name=name or folder.resolve().name, parts=PARTS)


def read_lines(path: Path) -> tuple[_Ints, _Ints, int]:
    """Users and items of each click in a file of lines, and the largest user of a line.

    A line may hold a user alone. The text is turned into numbers as a whole.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"Expected a file {path}; {error.strerror}.") from None
    text = np.frombuffer(raw, dtype=np.uint8)
    space = (text == 32) | ((text >= 9) & (text <= 13))
    _refuse_other_signs(text, space, path)
    starts = np.flatnonzero(~space & np.concatenate([[True], space[:-1]]))
    if not len(starts):
        raise InputError(f"Expected lines of a user and items in {path}; it is empty.")
    ends = np.flatnonzero(~space & np.concatenate([space[1:], [True]]))
    if len(long := np.flatnonzero(ends - starts >= 18)):
        line = int((text[: starts[long[0]]] == 10).sum()) + 1
        raise InputError(f"Expected numbers of at most 18 digits in line {line} of {path}.")
    numbers = np.fromstring(raw.decode("ascii"), dtype=np.int64, sep=" ")
    lines = np.cumsum(text == 10)[starts]
    first = np.concatenate([[True], lines[1:] != lines[:-1]])
    users = numbers[first][np.cumsum(first) - 1]
    return users[~first], numbers[~first], int(numbers[first].max())


def _refuse_other_signs(
    text: npt.NDArray[np.uint8], space: npt.NDArray[np.bool_], path: Path
) -> None:
    digit = (text >= 48) & (text <= 57)
    wrong = np.flatnonzero(~(digit | space))
    if not len(wrong):
        return
    where = int(wrong[0])
    line = int((text[:where] == 10).sum()) + 1
    sign = chr(text[where])
    what = "a negative number" if sign == "-" else f"the sign {sign!r}"
    raise InputError(
        f"Expected whole numbers from 0 on in {path}; found {what} in line {line}. Number users "
        "and items first, or give a table of clicks."
    )


def _refuse_unseen(test: _Ints, seen: _Ints, path: Path) -> None:
    unseen = np.setdiff1d(test, seen)
    if len(unseen):
        raise InputError(
            f"Expected every item of {path} in a training file too; found {len(unseen):,} that "
            f"were never seen, the first is {unseen[0]}. Allow them with --keep-unseen."
        )


def _refuse_repeated(pieces: Mapping[str, tuple[_Ints, _Ints, int]], folder: Path) -> None:
    """A pair twice in one part is one click; in two parts it would be seen and to be found."""
    width = 1 + max(int(items.max(initial=0)) for _, items, _ in pieces.values())
    before = np.empty(0, dtype=np.int64)
    for part, (users, items, _) in pieces.items():
        keys = np.unique(users * width + items)
        both = np.intersect1d(before, keys, assume_unique=True)
        if len(both):
            raise InputError(
                f"Expected each click in one part of {folder} alone; found {len(both):,} of "
                f"{part} in a part before it, the first is of user {both[0] // width} on item "
                f"{both[0] % width}. Take them out of one."
            )
        before = np.union1d(before, keys)
