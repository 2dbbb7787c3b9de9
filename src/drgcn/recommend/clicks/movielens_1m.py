"""MovieLens-1M: ratings of three stars and more in a fixed split, with attributes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.raw_tables import attribute_table, read_rows
from drgcn.recommend.clicks.text_layout import PARTS, read_text_folder

FILES: Final = (*(f"{part}.txt" for part in PARTS), "users.dat", "movies.dat", "item_to_raw.csv")
# GroupLens' user 3598 gave no film three stars: those after him move up by one.
_ABSENT_USER: Final = 3598


def read_movielens_1m(folder: Path) -> ClickData:
    """The split as it was published, with 26 items in test alone, and GroupLens' attributes.

    Users have age group, gender and occupation as categories. Items have the year as a number
    and a column for each genre; where the published map does not say which film an item is, all
    of its attributes are missing. Zip codes and titles are left out.
    """
    data = read_text_folder(folder, keep_unseen=True, name="movielens-1m")
    users = _users(folder / "users.dat", data.graph.num_users)
    return replace(data, users=users, items=_items(folder, data.graph.num_items))


def _users(path: Path, count: int) -> AttributeTable:
    rows = {int(row[0]): row for row in read_rows(path, "::", 5)}
    raw = [index + 1 + (index + 1 >= _ABSENT_USER) for index in range(count)]
    if missing := [identifier for identifier in raw if identifier not in rows]:
        raise InputError(f"Expected user {missing[0]} in {path}; there is none.")
    _, gender, age, occupation, _ = zip(*(rows[identifier] for identifier in raw), strict=True)
    return attribute_table({}, {"gender": gender, "age": age, "occupation": occupation}, {})


def _items(folder: Path, count: int) -> AttributeTable:
    films = {row[0]: row for row in read_rows(folder / "movies.dat", "::", 3)}
    raw = {int(row[0]): row[1] for row in read_rows(folder / "item_to_raw.csv", ",", 2)[1:]}
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
