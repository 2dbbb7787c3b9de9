"""MovieLens-100k in RecBole's atomic files: ratings with times, and attributes of both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.raw_tables import attribute_table, read_rows

FILES: Final = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")
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


def read_movielens_100k(folder: Path) -> ClickData:
    """Every rating is a click, whatever its stars; day 0 is the first day with one, in UTC.

    Users have their age as a number, gender and occupation as categories. Items have the year as
    a number and a column for each genre. Zip codes (nearly one a user) and titles are left out.
    """
    tables = {}
    for file in FILES:
        header, *rows = read_rows(folder / file, "\t", len(_HEADERS[file]))
        if header != _HEADERS[file]:
            raise InputError(
                f"Expected the columns {', '.join(_HEADERS[file])} in {folder / file}; found "
                f"{', '.join(header)}."
            )
        tables[file] = rows
    ratings, people, films = (tables[file] for file in FILES)
    events = np.array([[user, item, time] for user, item, _, time in ratings], dtype=np.float64)
    events = events.astype(np.int64)
    user_ids, item_ids = (
        np.unique(np.array([row[0] for row in rows], dtype=np.int64)) for rows in (people, films)
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
            f"Expected every {side} of {FILES[0]} in its table; {len(unknown):,} ratings are of "
            f"others, the first of {unknown[0]}."
        )
    return torch.from_numpy(place)


def _people(rows: list[list[str]]) -> AttributeTable:
    _, age, gender, occupation, _ = zip(*rows, strict=True)
    return attribute_table({"age": age}, {"gender": gender, "occupation": occupation}, {})


def _films(rows: list[list[str]]) -> AttributeTable:
    _, _, year, genres = zip(*rows, strict=True)
    years = [text if text.isdigit() else "" for text in year]
    return attribute_table({"year": years}, {}, {"genre": [text.split() for text in genres]})
