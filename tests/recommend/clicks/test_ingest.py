"""Tables into folders, held against dictionaries."""

import datetime
import gzip
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from drgcn.recommend.clicks import ClickData, ClickGraph, IngestSettings, ingest, ingest_sql
from drgcn.recommend.clicks.graph import npy_stream, write_clicks

from .tables import (
    DAY,
    START,
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
WRITERS = {"csv": write_csv, "parquet": write_parquet}
IDS = {
    "text": ("u{}".format, "i {}, é".format),
    "whole": (int, lambda item: item * 10**12 - 5 * 10**13),
    "mixed": ("{:03d}".format, lambda item: f"{item}" if item % 2 else f"x{item}"),
}


def made(tmp_path, clicks, name="out", **arguments):
    settings = arguments.pop("settings", IngestSettings(threads=1))
    report = ingest(clicks, tmp_path / name, settings=settings, **arguments)
    return ClickData.load(tmp_path / name), report


@pytest.mark.parametrize(
    ("form", "ids", "seed"),
    [("csv", "text", 0), ("csv", "whole", 1), ("csv", "mixed", 0), ("parquet", "whole", 0),
     ("parquet", "mixed", 1)],
)  # fmt: skip
def test_clicks_are_those_of_the_dictionary(tmp_path, form, ids, seed):
    user_id, item_id = IDS[ids]
    events = random_events(seed, user_id=user_id, item_id=item_id)
    written = events
    if form == "csv":
        written = [(user, f'"{item}"', time) for user, item, time in events]
    path = WRITERS[form](tmp_path / f"clicks.{form}", NAMES, written)
    data, report = made(tmp_path, path)
    users, items, first = literal_clicks(events)
    assert clicks_of(data.graph) == first
    assert pairs_by_item(data.graph) == list(first)
    assert ids_of(data.user_ids, len(users)) == users
    assert ids_of(data.item_ids, len(items)) == items
    assert (report.events, report.clicks) == (len(events), len(first))
    assert report.days == (0, max(first.values()))
    assert data.graph.by_user.col.dtype == data.graph.by_item.col.dtype
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name, "out"]
    assert not (tmp_path / "out" / "work").exists()


def test_form_order_parts_and_threads_do_not_matter(tmp_path):
    events = random_events(3, user_id=int)
    hashes = set()
    first = write_parquet(tmp_path / "a.parquet", NAMES, events)
    shuffled = random.Random(0).sample(events, len(events))
    (tmp_path / "parts").mkdir()
    for part in range(3):
        write_csv(tmp_path / "parts" / f"{part}.tsv", NAMES, shuffled[part::3], "\t")
    packed = tmp_path / "b.csv.gz"
    text = write_csv(tmp_path / "b.csv", NAMES, shuffled).read_bytes()
    packed.write_bytes(gzip.compress(text))
    as_text = [(str(user), str(item), time) for user, item, time in events]
    text_ids = write_parquet(tmp_path / "c.parquet", NAMES, as_text)
    for number, source in enumerate((first, tmp_path / "parts", packed, text_ids, [first])):
        settings = IngestSettings(threads=1 + number % 2)
        data, _ = made(tmp_path, source, f"out{number}", settings=settings)
        hashes.add(data.content_hash)
        assert data.user_ids is None  # 0, 1, 2, ... already
    assert len(hashes) == 1


def test_times_in_1970_are_told(tmp_path):
    path = write_csv(tmp_path / "clicks.csv", NAMES, [("a", "x", 0), ("a", "y", 20_240_531)])
    _, report = made(tmp_path, path)
    assert report.days == (0, 234)
    assert any("begin in 1970" in line for line in report.lines())


def test_little_memory_gives_the_same(tmp_path):
    draw = random.Random(0)
    rows = [
        (draw.randrange(30_000), draw.randrange(9000), draw.randrange(13)) for _ in range(10**5)
    ]
    path = write_parquet(tmp_path / "clicks.parquet", NAMES, rows)
    much, _ = made(tmp_path, path, "much")
    little, report = made(
        tmp_path, path, "little", settings=IngestSettings(memory="40MB", threads=1)
    )
    assert little.content_hash == much.content_hash
    assert report.clicks == len({row[:2] for row in rows})


@pytest.mark.parametrize(
    ("form", "unit", "shown"),
    [
        ("csv", "second", lambda time: time),
        ("parquet", "millisecond", lambda time: time * 1000 + 999),
        ("csv", "microsecond", lambda time: time * 10**6),
        ("parquet", "nanosecond", lambda time: time * 10**9),
        ("csv", "second", lambda time: time + 0.5),
        ("parquet", "second", lambda time: time + 0.5),
        (
            "csv",
            "date",
            lambda time: datetime.datetime.fromtimestamp(time, datetime.UTC).isoformat(),
        ),
        (
            "parquet",
            "date",
            lambda time: str(datetime.datetime.fromtimestamp(time, datetime.UTC).date()),
        ),
        (
            "csv",
            "date",
            lambda time: f"{datetime.datetime.fromtimestamp(time, datetime.UTC):%Y%m%d}",
        ),
        (
            "parquet",
            "date",
            lambda time: int(f"{datetime.datetime.fromtimestamp(time, datetime.UTC):%Y%m%d}"),
        ),
        ("csv", "day", lambda time: time // DAY - START // DAY),
    ],
)
def test_times_of_every_kind(tmp_path, form, unit, shown):
    events = random_events(5, 200)
    written = [(user, item, shown(time)) for user, item, time in events]
    path = WRITERS[form](tmp_path / f"clicks.{form}", NAMES, written)
    data, report = made(tmp_path, path)
    assert report.time_unit == unit
    assert clicks_of(data.graph) == literal_clicks(events)[2]
    if unit == "day":
        assert report.day_zero == ""
        return
    assert report.day_zero == "2023-11-14"
    zero = datetime.date(2023, 11, 16)
    data, _ = made(tmp_path, path, "later", settings=IngestSettings(day_zero=zero, threads=1))
    days = literal_clicks(events, day_zero=zero.toordinal() - 719_163)[2]
    assert clicks_of(data.graph) == days
    assert min(days.values()) == -2


def test_times_that_parquet_knows_as_such_and_zones(tmp_path):
    events = random_events(6, 100)
    stamps = [datetime.datetime.fromtimestamp(time, datetime.UTC) for _, _, time in events]
    columns = {"user": [e[0] for e in events], "item": [e[1] for e in events]}
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    variants = {
        "plain": pa.array([stamp.replace(tzinfo=None) for stamp in stamps], pa.timestamp("us")),
        "zoned": pa.array(stamps, pa.timestamp("ms", tz="America/New_York")),
        "precise": pa.array(stamps, pa.timestamp("ns", tz="America/New_York")),
        "words": pa.array([stamp.astimezone(zone).isoformat() for stamp in stamps]),
    }
    for name, times in variants.items():
        parquet.write_table(pa.table({**columns, "time": times}), tmp_path / f"{name}.parquet")
        data, report = made(tmp_path, tmp_path / f"{name}.parquet", name)
        assert report.time_unit == "date"
        assert clicks_of(data.graph) == literal_clicks(events)[2], name


def test_other_names_and_no_times(tmp_path):
    events = random_events(7, 150)
    names = ('the "user"', "it'em", "when")
    path = write_parquet(tmp_path / "clicks.parquet", names, events)
    settings = IngestSettings(user=names[0], item=names[1], time=None)
    data, report = made(tmp_path, path, settings=settings, name="quiet")
    assert list(clicks_of(data.graph)) == list(literal_clicks(events)[2])
    assert data.graph.days is None
    assert report.days is None
    assert data.name == "quiet"


def literal_rows(ids, table, column):
    """The value of each node, ``None`` where there is none."""
    values = {row["id"]: row[column] for row in table}
    return [values.get(identifier) for identifier in ids]


@pytest.mark.parametrize("form", WRITERS)
def test_attributes_are_those_of_the_dictionary(tmp_path, form):
    events = random_events(8)
    draw = random.Random(1)
    people = [
        {
            "id": f"u{k}",
            "age": draw.choice([None, draw.uniform(-1e6, 1e6)]),
            "town": draw.choice([None, "Bern", "Aarau", "Zug"]),
            "zip": draw.choice(["01", "1", "001"]),
            "junk": k,
            "visits": draw.randrange(5),
        }
        for k in draw.sample(range(5, 60), 50)
    ]
    path = write_parquet(tmp_path / "clicks.parquet", NAMES, events)
    rows = [tuple(person.values()) for person in people]
    table = WRITERS[form](tmp_path / f"people.{form}", tuple(people[0]), rows)
    settings = IngestSettings(
        user_key="id", category=("zip", "visits"), ignore=("junk",), threads=1
    )
    data, report = made(tmp_path, path, users=table, settings=settings)
    users, _, first = literal_clicks(events, more_users=[person["id"] for person in people])
    assert clicks_of(data.graph) == first
    assert ids_of(data.user_ids, len(users)) == users
    found = data.users
    assert found.numeric_names == ("age",)
    assert found.category_names == ("town", "zip", "visits")
    ages = [math.nan if age is None else age for age in literal_rows(users, people, "age")]
    assert found.numeric[:, 0].tolist() == pytest.approx(ages, rel=1e-6, nan_ok=True)
    for column, name in enumerate(found.category_names):
        values = found.category_values[column].to_pylist()
        assert values == sorted(values)
        assert len(values) == found.category_sizes[column]
        seen = [None if c < 0 else values[c] for c in found.categories[:, column].tolist()]
        expected = literal_rows(users, people, name)
        assert seen == [None if value is None else str(value) for value in expected]
    clicked, known = {event[0] for event in events}, {person["id"] for person in people}
    assert report.users.cold == len(known - clicked)
    assert report.users.bare == len(clicked - known)
    assert report.users.bare_example == min(clicked - known)
    assert report.users.cold
    assert report.users.bare
    words = "\n".join(report.lines())
    assert (
        f"users: {report.users.bare} have clicks and no row of attributes, the first is 'u"
        in words
    )
    assert data.items is None


def test_kinds_of_attributes_in_parquet(tmp_path):
    path = write_parquet(tmp_path / "clicks.parquet", NAMES, [("a", 1, START), ("b", 2, START)])
    table = {
        "item": [1, 2, 3],
        "price": pa.array([1, None, 3], pa.int16()),
        "weight": [1.5, math.nan, None],
        "new": [True, None, False],
        "since": pa.array([0, 1, None], pa.date32()),
        "colour": pa.array(["red", "", None]).dictionary_encode(),
    }
    parquet.write_table(pa.table(table), tmp_path / "items.parquet")
    data, report = made(tmp_path, path, items=tmp_path / "items.parquet")
    items = data.items
    assert items.numeric_names == ("price", "weight", "since")
    assert str(items.numeric.tolist()) == "[[1.0, 1.5, 0.0], [nan, nan, 1.0], [3.0, nan, nan]]"
    assert items.category_names == ("new", "colour")
    assert items.categories.tolist() == [[1, 1], [-1, 0], [0, -1]]
    assert items.category_values[1].to_pylist() == ["", "red"]
    assert report.items.cold == 1
    assert data.item_ids.to_pylist() == [1, 2, 3]


def test_a_text_that_means_nothing(tmp_path):
    path = write_csv(tmp_path / "clicks.csv", NAMES, [("NA", 1, START), ("b", 2, START)])
    rows = [("NA", "NA", 1), ("b", 5, "NA")]
    table = write_csv(tmp_path / "users.csv", ("user", "age", "size"), rows)
    settings = IngestSettings(missing=("", "-"))
    data, _ = made(tmp_path, path, users=table, settings=settings)
    assert data.users.category_names == ("age", "size")
    rows = [("c", "-", 1), ("b", 5, "-")]
    table = write_csv(tmp_path / "users.csv", ("user", "age", "size"), rows)
    data, _ = made(tmp_path, path, "again", users=table, settings=settings)
    assert data.user_ids.to_pylist() == ["NA", "b", "c"]
    assert str(data.users.numeric.tolist()) == "[[nan, nan], [5.0, nan], [nan, 1.0]]"


def test_a_file_that_grows(tmp_path):
    for pieces in [[], [3, 0, 4], [1] * 200]:
        values = np.arange(sum(pieces), dtype=np.int16)
        with npy_stream(tmp_path / "a" / "b.npy", np.int16) as append:
            for end, length in zip(np.cumsum(pieces), pieces, strict=True):
                append(values[end - length : end].astype(np.int64))
        found = np.load(tmp_path / "a" / "b.npy")
        assert found.dtype == np.int16
        assert found.tolist() == values.tolist()


@pytest.mark.parametrize(("seed", "with_days"), [(0, True), (1, True), (2, True), (0, False)])
def test_batches_may_end_anywhere(tmp_path, seed, with_days):
    draw = random.Random(seed)
    rows = sorted((draw.randrange(12), draw.randrange(4), draw.randrange(5)) for _ in range(80))
    ends = sorted(draw.randrange(81) for _ in range(25))  # some batches are empty
    batches = []
    for begin, end in zip([0, *ends], [*ends, 80], strict=True):
        columns = list(zip(*rows[begin:end], strict=True)) or [(), (), ()]
        arrays = [pa.array(column, pa.int32()) for column in columns]
        batches.append(pa.record_batch(arrays, names=["u", "i", "d"]))
    first = {}
    for user, item, day in rows:
        first.setdefault((user, item), day if with_days else None)
    assert write_clicks(batches, tmp_path, 13, 5, with_days) == len(first) < 80
    graph = ClickGraph.load(tmp_path)
    assert clicks_of(graph) == first
    assert pairs_by_item(graph) == list(first)
    assert (graph.num_users, graph.num_items) == (13, 5)


def test_the_size_of_batches_does_not_matter(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    clicks = write_csv(tmp_path / "c.csv", ("user", "item", "time"), random_events(0))
    rows = [(f"u{k}", k, "abc"[k % 3]) for k in range(60)]
    users = write_csv(tmp_path / "u.csv", ("user", "age", "kind"), rows)
    settings = IngestSettings(threads=1)
    hashes = []
    for size in (2**20, 7):
        monkeypatch.setattr(ingest_sql, "_BATCH", size)
        ingest(clicks, tmp_path / f"{size}", users=users, settings=settings)
        hashes.append(ClickData.load(tmp_path / f"{size}").content_hash)
    assert hashes[0] == hashes[1]
