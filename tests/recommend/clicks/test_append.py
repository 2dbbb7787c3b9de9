"""Rows that are left out, attributes with several values, and clicks that join a folder."""

import datetime
import json
import math
import os
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from drgcn import _io
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, IngestSettings, append, ingest

from ...children import CHILDREN
from .tables import (
    DAY,
    clicks_of,
    ids_of,
    literal_clicks,
    pairs_by_item,
    random_events,
    write_csv,
    write_parquet,
)

pytest.importorskip("duckdb")

NAMES = ("user", "item", "time")
ONE = IngestSettings(threads=1)


def settings(**options):
    return IngestSettings(threads=1, **options)


def test_ratings_below_a_threshold_are_no_clicks(tmp_path):
    events = random_events(0, 200)
    stars = [(number * 7) % 5 + 1 for number in range(len(events))]
    rows = [(*event, star) for event, star in zip(events, stars, strict=True)]
    path = write_csv(tmp_path / "a.csv", (*NAMES, "stars"), rows)
    report = ingest(path, tmp_path / "out", settings=settings(rating="stars", min_rating=3.5))
    kept = [event for event, star in zip(events, stars, strict=True) if star >= 3.5]
    users, items, first = literal_clicks(kept)
    data = ClickData.load(tmp_path / "out")
    assert clicks_of(data.graph) == first
    assert (ids_of(data.user_ids, 0), ids_of(data.item_ids, 0)) == (users, items)
    assert (report.events, report.left_out.below) == (len(kept), len(events) - len(kept))
    assert any("stars below 3.5 left out" in line for line in report.lines())
    for option, value in (("min_rating", 6), ("rating", "user")):
        wrong = {"rating": "stars", "min_rating": 3.5, option: value}
        with pytest.raises(InputError, match="Expected a number in every row"):
            ingest(path, tmp_path / "no", settings=settings(**wrong))


def test_a_core_by_taking_out_one_by_one(tmp_path):
    events = random_events(1, 260)
    path = write_csv(tmp_path / "a.csv", NAMES, events)
    table = write_csv(tmp_path / "u.csv", ("user", "age"), [(f"u{k}", k) for k in range(50)])
    pairs = {event[:2] for event in events}
    while True:
        counts = [[pair[side] for pair in pairs] for side in (0, 1)]
        few = [p for p in pairs if any(counts[side].count(p[side]) < 5 for side in (0, 1))]
        if not few:
            break
        pairs.remove(min(few))  # one at a time: the order does not matter
    assert 0 < len(pairs) < len({event[:2] for event in events})
    report = ingest(path, tmp_path / "out", users=table, settings=settings(core=5))
    data = ClickData.load(tmp_path / "out")
    users, items, first = literal_clicks([event for event in events if event[:2] in pairs])
    assert clicks_of(data.graph) == first
    assert (ids_of(data.user_ids, 0), ids_of(data.item_ids, 0)) == (users, items)
    assert data.users.numeric[:, 0].tolist() == [int(user[1:]) for user in users]
    assert report.left_out.users == len({event[0] for event in events}) - len(users)
    assert report.events + report.left_out.events == len(events)
    assert "5-core" in next(report.lines())
    with pytest.raises(InputError, match="smaller --core"):
        ingest(path, tmp_path / "no", settings=settings(core=1000))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_several_values_are_columns(tmp_path, form):
    genres = {0: ["war", "o'x"], 7: ["a b"], 14: [], 21: None, 28: ["a b", "war"]}
    clicks = write_csv(tmp_path / "a.csv", NAMES, [("u", item, 5) for item in genres])
    if form == "csv":
        rows = [(i, None if v is None else "; ".join(["", *v])) for i, v in genres.items()]
        items = tmp_path / "i.csv"
        text = "\n".join(["item,genre", *(f"{i},{v or ''}" for i, v in rows)])
        items.write_text(text + "\n")
    else:
        items = tmp_path / "i.parquet"
        parquet.write_table(pa.table({"item": [*genres], "genre": [*genres.values()]}), items)
    options = settings(several=("genre",), separator=";")
    report = ingest(clicks, tmp_path / "out", items=items, settings=options)
    table = ClickData.load(tmp_path / "out").items
    assert table.numeric_names == ("genre: a b", "genre: o'x", "genre: war")
    nothing = [math.nan] * 3
    expected = [[0, 1, 1], [1, 0, 0], nothing, nothing, [1, 0, 1]]
    np.testing.assert_array_equal(table.numeric, expected)
    assert report.items.several == (("genre", 3),)
    assert any("3 values of 'genre'" in line for line in report.lines())
    with pytest.raises(InputError, match="an attribute of"):
        ingest(clicks, tmp_path / "no", items=items, settings=settings(several=("gender",)))


def split_events(events, days=5):
    """Events of the first days and of the rest, with users and items of their own."""
    start = min(time for *_, time in events) // DAY
    early = [event for event in events if event[2] // DAY - start < days]
    late = [event for event in events if event[2] // DAY - start >= days]
    early = [e for e in early if e[0] not in ("u10", "u3") and e[1] != 24]
    return early, late


def grown(before, events):
    """Numbers that were, then new ids in ascending order."""
    new = sorted(set(events) - set(before))
    return [*before, *new]


@pytest.mark.parametrize(
    ("form", "ids"), [("csv", "text"), ("parquet", "whole"), ("csv", "whole")]
)
def test_what_joins_a_folder(tmp_path, form, ids):
    user_id = "u{}".format if ids == "text" else (lambda number: number * 3 - 30)
    early, late = split_events(random_events(4, 300, users=12, user_id=user_id))
    late = [(user_id(99), 3, early[0][2]), *late, early[0]]
    write = write_csv if form == "csv" else write_parquet
    ingest(write(tmp_path / f"a.{form}", NAMES, early), tmp_path / "out", settings=ONE)
    before = ClickData.load(tmp_path / "out")
    users, items, first = literal_clicks(early)
    report = append(write(tmp_path / f"b.{form}", NAMES, late), tmp_path / "out", settings=ONE)
    data = ClickData.load(tmp_path / "out")
    users = grown(users, (event[0] for event in late))
    items = grown(items, (event[1] for event in late))
    assert ids_of(data.user_ids, len(users)) == users
    assert ids_of(data.item_ids, len(items)) == items
    zero = min(time for *_, time in early) // DAY
    expected = dict(first)
    for user, item, time in late:
        pair = (users.index(user), items.index(item))
        expected[pair] = min(expected.get(pair, 10**9), time // DAY - zero)
    assert clicks_of(data.graph) == dict(sorted(expected.items()))
    assert pairs_by_item(data.graph) == sorted(expected)
    assert report.clicks == len(expected) - len(first)
    assert report.users == len(users) - before.graph.num_users > 0
    assert report.days == (0, max(expected.values()))
    facts = json.loads((tmp_path / "out" / "clicks.json").read_text())
    assert facts["appended"][0]["before"] == before.content_hash != data.content_hash
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{form}", f"b.{form}", "out"]
    # Once more: nothing new, and nothing changes.
    again = append(tmp_path / f"b.{form}", tmp_path / "out", settings=ONE)
    assert (again.clicks, again.users, again.items) == (0, 0, 0)
    assert ClickData.load(tmp_path / "out").content_hash == data.content_hash


def test_attributes_that_join(tmp_path):
    rows = [("u1", 3, 0), ("u2", 10, 0)]
    clicks = write_csv(tmp_path / "a.csv", NAMES, rows)
    people = [("u1", 30, "red"), ("u2", None, "blue")]
    users = write_csv(tmp_path / "u.csv", ("user", "age", "colour"), people)
    ingest(clicks, tmp_path / "out", users=users, settings=ONE)
    more = write_csv(tmp_path / "b.csv", NAMES, [("u0", 3, 4), ("u9", 3, 5)])
    news = write_csv(tmp_path / "v.csv", ("colour", "user"), [("amber", "u0"), ("red", "u2")])
    report = append(more, tmp_path / "out", users=news, settings=ONE)
    data = ClickData.load(tmp_path / "out")
    assert ids_of(data.user_ids, 0) == ["u1", "u2", "u0", "u9"]
    assert data.users.category_values[0].to_pylist() == ["blue", "red", "amber"]
    assert data.users.categories[:, 0].tolist() == [1, 1, 2, -1]
    np.testing.assert_array_equal(data.users.numeric[:, 0], [30, *[math.nan] * 3])
    assert (report.updated_users, report.users, report.days) == (1, 2, (0, 5))
    other = write_csv(tmp_path / "w.csv", ("user", "x"), [("u1", 1)])
    for wrong, words in [
        ({"items": news, "settings": settings(item_key="user")}, "folder has none"),
        ({"settings": settings(time=None)}, "which have times"),
        ({"settings": settings(core=2)}, "k-core"),
        ({"settings": settings(time_unit="second")}, "counted as they came"),
        ({"users": other}, "folder has; found"),
    ]:
        with pytest.raises(InputError, match=words):
            append(more, tmp_path / "out", **{"settings": ONE, **wrong})
    assert ClickData.load(tmp_path / "out").content_hash == data.content_hash


def test_days_are_counted_as_before(tmp_path):
    days = write_csv(tmp_path / "a.csv", NAMES, [(1, 2, 19_000), (1, 3, 19_002)])
    zero = datetime.date(1970, 1, 1) + datetime.timedelta(19_000)
    ingest(days, tmp_path / "out", settings=settings(day_zero=zero))
    append(write_csv(tmp_path / "b.csv", NAMES, [(1, 4, 19_005)]), tmp_path / "out", settings=ONE)
    data = ClickData.load(tmp_path / "out")
    assert data.graph.days.tolist() == [0, 2, 5]
    data.save(tmp_path / "saved")  # says nothing of its days
    seconds = write_csv(tmp_path / "c.csv", NAMES, [(1, 5, 19_007 * DAY + 5)])
    for folder in ("out", "saved"):
        with pytest.raises(InputError, match="counted as they came"):
            append(seconds, tmp_path / folder, settings=ONE)
    append(seconds, tmp_path / "saved", settings=settings(day_zero=zero))
    assert ClickData.load(tmp_path / "saved").graph.days.tolist() == [0, 2, 5, 7]


def test_names_of_columns_are_kept(tmp_path):
    names = ("who", "what", "when")
    clicks = write_csv(tmp_path / "a.csv", names, [("u1", 3, 0)])
    items = write_csv(tmp_path / "i.csv", ("key", "genres", "note"), [(3, "war;art", "x y")])
    made = settings(
        user="who",
        item="what",
        time="when",
        item_key="key",
        several=("genres",),
        separator=";",
        ignore=("note",),
    )
    ingest(clicks, tmp_path / "out", items=items, settings=made)
    more = write_csv(tmp_path / "b.csv", names, [("u2", 3, 1)])
    append(more, tmp_path / "out")  # no item joins: nothing has the kept attributes
    more = write_csv(tmp_path / "c.csv", names, [("u2", 4, 1)])
    items = write_csv(tmp_path / "j.csv", ("key", "genres", "note"), [(4, "art;art", "z")])
    append(more, tmp_path / "out", items=items)
    data = ClickData.load(tmp_path / "out")
    assert (data.graph.num_users, data.graph.num_items) == (2, 2)
    assert data.items.numeric_names == ("genres: art", "genres: war")
    assert data.items.numeric.tolist() == [[1, 1], [1, 0]]
    path = tmp_path / "out" / "clicks.json"
    facts = json.loads(path.read_text())
    del facts["sha256"]
    for wrong in ({"user": 3}, {"colour": "red"}, [], {"several": [1]}, {"separator": ""}):
        path.write_text(json.dumps(facts | {"settings": wrong}))
        with pytest.raises(InputError, match="settings"):
            append(more, tmp_path / "out")
    for wrong in (
        *({"ingest": made} for made in ([1], {"left_out": "x"}, {"left_out": {"core": "x"}})),
        *({"ingest": {"day_zero": day}} for day in (3, "yesterday")),
        *({"appended": steps} for steps in (5, [1])),
    ):
        path.write_text(json.dumps(facts | wrong))
        with pytest.raises(InputError, match="account"):
            append(more, tmp_path / "out")
    again = f'{{"users": 7, {json.dumps(facts).removeprefix("{")}'
    path.write_text(again)
    with pytest.raises(InputError, match=r"no clicks\.json of that form"):
        ClickData.load(tmp_path / "out")


def test_ids_of_another_kind_do_not_join(tmp_path):
    ingest(write_csv(tmp_path / "a.csv", NAMES, [(1, 2, 0)]), tmp_path / "out", settings=ONE)
    more = write_csv(tmp_path / "b.csv", NAMES, [("x7", 2, 0)])
    with pytest.raises(InputError, match="whole numbers, as those of the folder; found 'x7'"):
        append(more, tmp_path / "out", settings=ONE)


def append_and_die(folder):
    def dying(*arguments, **more):
        os.kill(os.getpid(), signal.SIGKILL)

    os.chdir(folder)
    _io._exchange = dying  # all is written by then
    append("b.csv", "out", settings=ONE)


def test_killed_while_it_joins(tmp_path):
    early, late = split_events(random_events(4, 100, users=12))
    ingest(write_csv(tmp_path / "a.csv", NAMES, early), tmp_path / "out", settings=ONE)
    write_csv(tmp_path / "b.csv", NAMES, late)
    before = ClickData.load(tmp_path / "out").content_hash
    process = CHILDREN.Process(target=append_and_die, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert ClickData.load(tmp_path / "out").content_hash == before
    append(tmp_path / "b.csv", tmp_path / "out", settings=ONE)
    assert ClickData.load(tmp_path / "out").content_hash != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv", "out"]
