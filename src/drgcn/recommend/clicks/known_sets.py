"""Sets of clicks by name, and your own by folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

from drgcn.data.downloader import data_root
from drgcn.errors import InputError, MissingDataError
from drgcn.recommend.clicks import movielens_1m, movielens_100k
from drgcn.recommend.clicks.click_data import MANIFEST, ClickData
from drgcn.recommend.clicks.text_layout import read_text_folder


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


def _gowalla(folder: Path) -> ClickData:
    return read_text_folder(folder, files=_GOWALLA, name="gowalla")


def _amazon_book(folder: Path) -> ClickData:
    return read_text_folder(folder, name="amazon-book")


_GOWALLA: Final = {"train": "train_without_valid.txt", "valid": "valid.txt", "test": "test.txt"}
KNOWN_SETS: Final = {
    "gowalla": KnownSet(
        tuple(_GOWALLA.values()), _gowalla, "github.com/gusye1234/LightGCN-PyTorch"
    ),
    "amazon-book": KnownSet(
        ("train.txt", "test.txt"),
        _amazon_book,
        "github.com/xiangwang1223/knowledge_graph_attention_network",
    ),
    "movielens-100k": KnownSet(
        movielens_100k.FILES, movielens_100k.read_movielens_100k, "grouplens.org, by RecBole"
    ),
    "movielens-1m": KnownSet(
        movielens_1m.FILES, movielens_1m.read_movielens_1m, "grouplens.org, in LightGCN's layout"
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
