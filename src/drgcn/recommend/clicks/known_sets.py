"""Sets of clicks by name, and your own by folder: MovieLens, Gowalla, Amazon-book."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from drgcn._io import plain_file
from drgcn.data.downloader import data_root
from drgcn.errors import InputError, MissingDataError
from drgcn.recommend.clicks.attributes import AttributeTable
from drgcn.recommend.clicks.data import MANIFEST, ClickData
from drgcn.recommend.clicks.graph import ClickGraph

PARTS: Final = ("train", "valid", "test")
_Ints = npt.NDArray[np.int64]
MOVIELENS_100K_FILES: Final = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")
_DAY: Final = 86_400
_HEADERS: Final = {
    "ml-100k.inter": ["user_id:token", "item_id:token", "rating:float", "timestamp:float"],
    "ml-100k.user": [
        "user_id:token",
        "age:token",
        "gender:token",
        "occupation:token",
        "zip_code:token",
    ],
    "ml-100k.item": [
        "item_id:token",
        "movie_title:token_seq",
        "release_year:token",
        "class:token_seq",
    ],
}
MOVIELENS_1M_FILES: Final = (
    *(f"{part}.txt" for part in PARTS),
    "users.dat",
    "movies.dat",
    "item_to_raw.csv",
)
# GroupLens' user 3598 gave no film three stars: those after him move up by one.
_ABSENT_USER: Final = 3598
_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)
_GOWALLA: Final = {"train": "train_without_valid.txt", "valid": "valid.txt", "test": "test.txt"}


def read_rows(path: Path, separator: str, columns: int) -> list[list[str]]:
    """The fields of each line; every line must have as many."""
    rows = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.rstrip("\r\n").split(separator)
            if len(fields) != columns:
                raise InputError(
                    f"Expected {columns} fields in line {number} of {path}; found {len(fields)}. "
                    "The file is cut off or not the published one."
                )
            rows.append(fields)
    if not rows:
        raise InputError(f"Expected rows in {path}; it is empty.")
    return rows


def _whole(text: str) -> int:
    """A whole number from 0 on, in the digits that publishers use."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def attribute_table(
    numbers: Mapping[str, Sequence[str]],
    categories: Mapping[str, Sequence[str]],
    several: Mapping[str, Sequence[Iterable[str]]],
) -> AttributeTable:
    """A table out of columns of texts; an empty text is a missing value.

    Args:
        numbers: Columns of whole numbers.
        categories: Columns of categories; codes follow the values in ascending order.
        several: Columns with any number of values a row, each value a column of zeros and ones;
            a row without values has them missing.
    """
    import pyarrow as pa

    columns = {
        name: [_whole(text) if text else np.nan for text in texts]
        for name, texts in numbers.items()
    }
    for name, sets in several.items():
        known = [set(values) for values in sets]
        for value in sorted(set().union(*known)):
            columns[f"{name}: {value}"] = [
                float(value in values) if values else np.nan for values in known
            ]
    values = {name: sorted(set(texts) - {""}) for name, texts in categories.items()}
    codes = [
        [-1 if text == "" else values[name].index(text) for text in texts]
        for name, texts in categories.items()
    ]
    rows = len(next(iter([*numbers.values(), *categories.values(), *several.values()])))
    return AttributeTable(
        torch.tensor(list(columns.values()), dtype=torch.float32).view(-1, rows).T.contiguous(),
        torch.tensor(codes, dtype=torch.int32).view(-1, rows).T.contiguous(),
        tuple(columns),
        tuple(values),
        tuple(map(len, values.values())),
        tuple(pa.array(names, pa.large_string()) for names in values.values()),
    )


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
    Users and items are numbered by ascending id; ids without gaps are these numbers already.

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
    user_ids = np.unique(np.concatenate([lines for _, _, lines in pieces.values()]))
    item_ids = np.unique(items)
    users, items = np.searchsorted(user_ids, users), np.searchsorted(item_ids, items)
    graph = ClickGraph.from_pairs(
        torch.from_numpy(users),
        torch.from_numpy(items),
        len(user_ids),
        len(item_ids),
        torch.from_numpy(days),
    )
    if graph.num_clicks < len(users):
        _refuse_repeated(users * len(item_ids) + items, days, (user_ids, item_ids), folder)
    return ClickData(
        graph,
        user_ids=_ids_with_gaps(user_ids),
        item_ids=_ids_with_gaps(item_ids),
        name=name or folder.resolve().name,
        parts=PARTS,
    )


def _ids_with_gaps(ids: _Ints) -> Any | None:
    """The ids of rows, ascending, as a pyarrow array; ``None`` if they are 0, 1, 2, ..."""
    if int(ids[-1]) == len(ids) - 1:
        return None
    import pyarrow as pa

    return pa.array(ids)


def read_lines(path: Path) -> tuple[_Ints, _Ints, _Ints]:
    """Users and items of each click in a file of lines, and the user of each line.

    A line may hold a user alone. The text is turned into numbers as a whole.
    """
    try:
        raw = plain_file(path).read_bytes()
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
    return users[~first], numbers[~first], numbers[first]


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


def _refuse_repeated(pairs: _Ints, days: _Ints, ids: tuple[_Ints, _Ints], folder: Path) -> None:
    """A pair twice in one part is one click; in two parts it would be seen and to be found."""
    before = np.empty(0, dtype=np.int64)
    for day in np.unique(days):
        keys = np.unique(pairs[days == day])
        both = np.intersect1d(before, keys, assume_unique=True)
        if len(both):
            user, item = divmod(int(both[0]), len(ids[1]))
            raise InputError(
                f"Expected each click in one part of {folder} alone; found {len(both):,} of "
                f"{PARTS[day]} in a part before it, the first is of user {ids[0][user]} on item "
                f"{ids[1][item]}. Take them out of one."
            )
        before = np.union1d(before, keys)


def read_movielens_100k(folder: Path) -> ClickData:
    """Every rating is a click, whatever its stars; day 0 is the first day with one, in UTC.

    Users have their age as a number, gender and occupation as categories. Items have the year as
    a number and a column for each genre. Zip codes (nearly one a user) and titles are left out.
    """
    tables = {}
    for file in MOVIELENS_100K_FILES:
        header, *rows = read_rows(folder / file, "\t", len(_HEADERS[file]))
        if header != _HEADERS[file]:
            raise InputError(
                f"Expected the columns {', '.join(_HEADERS[file])} in {folder / file}; found "
                f"{', '.join(header)}."
            )
        tables[file] = rows
    ratings, people, films = (tables[file] for file in MOVIELENS_100K_FILES)
    events = np.array([[*map(_whole, (user, item, time))] for user, item, _, time in ratings])
    user_ids, item_ids = (
        np.unique(np.array([_whole(row[0]) for row in rows])) for rows in (people, films)
    )
    users = _places(user_ids, events[:, 0], "user")
    items = _places(item_ids, events[:, 1], "item")
    days = events[:, 2] // _DAY
    graph = ClickGraph.from_pairs(
        users, items, len(user_ids), len(item_ids), torch.from_numpy(days - days.min())
    )
    import pyarrow as pa

    return ClickData(
        graph,
        _people(sorted(people, key=lambda row: int(row[0]))),
        _films(sorted(films, key=lambda row: int(row[0]))),
        pa.array(user_ids),
        pa.array(item_ids),
        "movielens-100k",
    )


def _places(ids: np.ndarray, wanted: np.ndarray, side: str) -> torch.Tensor:
    place = np.searchsorted(ids, wanted).clip(max=len(ids) - 1)
    if (ids[place] != wanted).any():
        unknown = wanted[ids[place] != wanted]
        raise InputError(
            f"Expected every {side} of {MOVIELENS_100K_FILES[0]} in its table; {len(unknown):,} "
            f"ratings are of others, the first of {unknown[0]}."
        )
    return torch.from_numpy(place)


def _people(rows: list[list[str]]) -> AttributeTable:
    _, age, gender, occupation, _ = zip(*rows, strict=True)
    return attribute_table({"age": age}, {"gender": gender, "occupation": occupation}, {})


def _films(rows: list[list[str]]) -> AttributeTable:
    _, _, year, genres = zip(*rows, strict=True)
    years = [text if text.isdigit() else "" for text in year]
    return attribute_table({"year": years}, {}, {"genre": [text.split() for text in genres]})


def read_movielens_1m(folder: Path) -> ClickData:
    """The split as it was published, with 26 items in test alone, and GroupLens' attributes.

    Users have age group, gender and occupation as categories. Items have the year as a number
    and a column for each genre; where the published map does not say which film an item is, all
    of its attributes are missing. Zip codes and titles are left out.
    """
    data = read_text_folder(folder, keep_unseen=True, name="movielens-1m")
    if data.user_ids is not None or data.item_ids is not None:
        raise InputError(
            f"Expected users and items from 0 on without gaps in {folder}; found others. These "
            f"are not the published files: fetch them again."
        )
    users = _users(folder / "users.dat", data.graph.num_users)
    return replace(data, users=users, items=_items(folder, data.graph.num_items))


def _users(path: Path, count: int) -> AttributeTable:
    rows = {_whole(row[0]): row for row in read_rows(path, "::", 5)}
    raw = [index + 1 + (index + 1 >= _ABSENT_USER) for index in range(count)]
    if missing := [identifier for identifier in raw if identifier not in rows]:
        raise InputError(f"Expected user {missing[0]} in {path}; there is none.")
    _, gender, age, occupation, _ = zip(*(rows[identifier] for identifier in raw), strict=True)
    return attribute_table({}, {"gender": gender, "age": age, "occupation": occupation}, {})


def _items(folder: Path, count: int) -> AttributeTable:
    films = {row[0]: row for row in read_rows(folder / "movies.dat", "::", 3)}
    raw = {_whole(row[0]): row[1] for row in read_rows(folder / "item_to_raw.csv", ",", 2)[1:]}
    known = [index for index in range(count) if raw.get(index) in films]
    rows = [films[raw[index]] for index in known]
    years = [re.search(r"\((\d{4})\)\s*$", title) for _, title, _ in rows]
    table = attribute_table(
        {"year": [found[1] if found else "" for found in years]},
        {},
        {"genre": [genres.split("|") for _, _, genres in rows]},
    )
    numeric = torch.full((count, table.numeric.size(1)), np.nan)
    numeric[known] = table.numeric
    return replace(table, numeric=numeric, categories=table.categories.new_empty(count, 0))


@dataclass(frozen=True)
class KnownSet:
    """A published set.

    Attributes:
        files: Its files, in a folder of its name.
        read: What reads that folder.
        home: Where it is published.
    """

    files: tuple[str, ...]
    read: Callable[[Path], ClickData]
    home: str


KNOWN_SETS: Final = {
    "gowalla": KnownSet(
        tuple(_GOWALLA.values()),
        partial(read_text_folder, files=_GOWALLA, name="gowalla"),
        "github.com/gusye1234/LightGCN-PyTorch",
    ),
    "amazon-book": KnownSet(
        ("train.txt", "test.txt"),
        partial(read_text_folder, name="amazon-book"),
        "github.com/xiangwang1223/knowledge_graph_attention_network",
    ),
    "movielens-100k": KnownSet(
        MOVIELENS_100K_FILES, read_movielens_100k, "grouplens.org, by RecBole"
    ),
    "movielens-1m": KnownSet(
        MOVIELENS_1M_FILES, read_movielens_1m, "grouplens.org, in LightGCN's layout"
    ),
}


def load_clicks(
    name_or_folder: str | PathLike[str], root: str | PathLike[str] | None = None
) -> ClickData:
    """A set of clicks.

    Args:
        name_or_folder: A name of :data:`KNOWN_SETS`; or a folder that ``drgcn recommend ingest``
            or ``generate`` wrote; or a folder with train.txt and test.txt in LightGCN's layout.
        root: The data root; known sets lie in its folder ``recommend``. (default:
            ``$DRGCN_DATA``, else ``~/.cache/drgcn``)

    Raises:
        InputError: If there is no such set, or it cannot be read.
        MissingDataError: If files of a known set are not there.
    """
    if name_or_folder in KNOWN_SETS:
        return _load_known(str(name_or_folder), data_root(root) / "recommend")
    folder = Path(name_or_folder).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder of clicks or one of {', '.join(KNOWN_SETS)}; found "
            f"{str(name_or_folder)!r}."
        )
    if (folder / "train.txt").is_file() and not (folder / MANIFEST).exists():
        return read_text_folder(folder)
    return ClickData.load(folder)


def _load_known(name: str, root: Path) -> ClickData:
    known = KNOWN_SETS[name]
    if missing := [file for file in known.files if not (root / name / file).is_file()]:
        raise MissingDataError(
            f"Expected {', '.join(known.files)} in {root / name}; {', '.join(missing)} not found. "
            f"The set is published at {known.home}; put its files there, or set DRGCN_DATA."
        )
    try:
        return known.read(root / name)
    except InputError:
        raise
    except ValueError as error:  # a text where a number should be
        raise InputError(
            f"Expected the published files of {name} in {root / name}; they cannot be read "
            f"({error}). Fetch them again."
        ) from None
