"""Fills docs/recommend_astar.md: parameters, columns, and what is measured at 1 % of full size.

Prints nothing if all is well. ``--check`` says by its exit code whether the page would change,
and leaves it and the picture alone.

    python docs/make_astar.py
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Final

import torch
from astar_figure import astar_figure
from astar_oracle import known_tastes, popular, recall
from pictures import save_figure
from torch import Tensor

from drgcn.recommend.clicks import ClickData
from drgcn.recommend.synthetic import AstarParameters, checksum, generate_astar
from drgcn.recommend.synthetic.attributes import (
    ITEM_NUMBERS,
    item_categories,
    number_columns,
    user_categories,
)
from drgcn.recommend.synthetic.clicks import TopicMap, draw_tastes
from drgcn.reporting.tables import Table

PAGE: Final = Path(__file__).parent / "recommend_astar.md"
PICTURE: Final = Path(__file__).parent / "images" / "astar.png"
FRACTION: Final = 0.01
PARAMETERS: Final = AstarParameters()


def parameter_table() -> str:
    """Every parameter, its value, and what the class says about it."""
    words = re.sub(r"\s+", " ", (AstarParameters.__doc__ or "").split("Attributes:")[1])
    names = [field.name for field in fields(AstarParameters)]
    found = re.findall(rf"({'|'.join(names)}): (.*?)(?= (?:{'|'.join(names)}): |$)", words)
    meaning = {name: text.strip() for name, text in found}
    rows = [[f"`{name}`", _value(getattr(PARAMETERS, name)), meaning[name]] for name in names]
    return Table(["parameter", "value", "meaning"], rows).markdown()


def _value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def column_tables() -> str:
    """Columns of numbers, of which users have the first, and columns of categories."""
    numbers = [
        [
            column.name,
            f"factor {column.factor}" if column.carries == "latent" else column.carries,
            f"{column.scale:g}",
            f"log-normal, {column.log_spread:g}"
            if column.log_spread
            else f"bell, {column.offset}",
            f"{column.missing / 655.36:.3g} %",
        ]
        for column in number_columns(ITEM_NUMBERS)
    ]
    topics = PARAMETERS.sized(1).topics
    categories = [
        [
            side,
            column.name,
            column.carries,
            f"{column.size:,}",
            f"{column.fidelity / 655.36:.3g} %" if column.fidelity else "",
            f"{column.missing / 655.36:.3g} %",
        ]
        for side, columns in (
            ("users", user_categories(topics)),
            ("items", item_categories(topics)),
        )
        for column in columns
    ]
    number_head = ["column", "carries", "scale", "shape, and log spread or offset", "missing"]
    category_head = ["side", "column", "carries", "categories", "fidelity", "missing"]
    tables = (Table(number_head, numbers), Table(category_head, categories))
    return "\n\n".join(table.markdown() for table in tables)


def measured(data: ClickData, topics: TopicMap, new: list[float]) -> str:
    """What one hundredth of full size looks like."""
    graph = data.graph
    rows = []
    for side, degree in (("users", graph.by_user.degree), ("items", graph.by_item.degree)):
        ordered = degree.sort().values
        at = [int(ordered[int(share * len(ordered))]) for share in (0.5, 0.9, 0.99)]
        rows.append(
            [side, f"{len(ordered):,}", *map(str, at), f"{int(ordered[-1]):,}"]
            + [f"{100 * float((degree == count).double().mean()):.2f} %" for count in (0, 1)]
            + [f"{_tail(degree, 20 if side == 'users' else 100):.2f}"]
        )
    head = ["side", "number", "median", "90 %", "99 %", "most", "without clicks", "one click"]
    days = ", ".join(f"{100 * share:.1f} %" for share in new[-3:])
    before = f"at most {100 * max(new[:-3]):.2f} % of any day's" if max(new[:-3]) else "none"
    tastes = draw_tastes(0, graph.num_users, PARAMETERS, 0, topics)
    ways = {
        "the most popular items of the days before": popular(data),
        "favourites and popularity in topics known, no drift": known_tastes(
            data, topics, tastes, PARAMETERS, factors=False, drift=False
        ),
        "with drift": known_tastes(data, topics, tastes, PARAMETERS, factors=False, drift=True),
        "with drift and factors": known_tastes(
            data, topics, tastes, PARAMETERS, factors=True, drift=True
        ),
    }
    rows_of_recall = [[way, _percent(*recall(data, top))] for way, top in ways.items()]
    return (
        f"{data.name}, {graph.num_clicks:,} clicks, {len(topics.sizes):,} topics of "
        f"{int(topics.sizes.min())} to {int(topics.sizes.max()):,} items, checksum "
        f"`{checksum(data)}`. Tail exponents are maximum likelihood estimates from 20 clicks of a "
        f"user and 100 of an item on.\n\n{Table([*head, 'tail'], rows).markdown()}\n\n"
        f"In the last three days {days} of the clicks fall into rising topics of their users; "
        f"before, {before}.\n\n"
        "How well the last day can be found, for 2,000 users who click on it (mean over users, "
        "with standard error). The lower rows know what no model is told; they say what there is "
        f"to learn.\n\n{Table(['top 50 by', 'Recall@50'], rows_of_recall).markdown()}"
    )


def _percent(mean: float, error: float) -> str:
    return f"{100 * mean:.1f} ± {100 * error:.1f} %"


def _tail(degree: Tensor, least: int) -> float:
    values = degree[degree >= least].double()
    return 1 + values.numel() / float((values / (least - 0.5)).log().sum())


def new_shares(data: ClickData, topics: TopicMap) -> list[float]:
    """Share of each day's clicks that fall into the rising topic of their user."""
    graph, days = data.graph, data.graph.days
    assert days is not None
    rising = draw_tastes(0, graph.num_users, PARAMETERS, 0, topics).topics[:, 3]
    user = torch.arange(graph.num_users).repeat_interleave(graph.by_user.degree)
    topic = topics.topic_at(topics.place_of[graph.by_user.col.long()].long())
    new = (topic == rising[user]).double()
    return [float(new[days == day].mean()) for day in range(PARAMETERS.days)]


def filled(page: str, blocks: dict[str, str]) -> str:
    """The page with new text between its marks."""
    for name, text in blocks.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        page = pattern.sub(lambda _, new=f"{begin}\n{text}\n{end}": new, page)
    return page


def main() -> int:
    """Makes page and picture, or compares."""
    blocks = {"parameters": parameter_table(), "columns": column_tables()}
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv and "--measured" not in sys.argv:
        return int(filled(page, blocks) != page)
    data = generate_astar(FRACTION)
    topics = TopicMap.draw(PARAMETERS, PARAMETERS.sized(FRACTION), 0, torch.device("cpu"))
    new = new_shares(data, topics)
    blocks["measured"] = measured(data, topics, new)
    if "--check" in sys.argv:
        return int(filled(page, blocks) != page)
    PAGE.write_text(filled(page, blocks), encoding="utf-8")
    save_figure(astar_figure(data, new), PICTURE, dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
