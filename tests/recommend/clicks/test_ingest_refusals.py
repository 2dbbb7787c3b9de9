"""Tables that cannot be used: one sentence each, and nothing is left behind."""

import builtins
import gzip
import math

import pyarrow as pa
import pytest
from pyarrow import parquet

from drgcn.errors import InputError
from drgcn.recommend.clicks import IngestSettings, ingest

from .tables import START, write_csv, write_parquet

pytest.importorskip("duckdb")

NAMES = ("user", "item", "time")
GOOD = [("a", 1, START), ("b", 2, START + 100_000)]


def refused(tmp_path, words, clicks, **arguments):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=words) as caught:
        ingest(clicks, tmp_path / "out", **arguments)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_column(tmp_path):
    for column in NAMES:
        names = [name if name != column else "other" for name in NAMES]
        path = write_csv(tmp_path / "c.csv", names, GOOD)
        words = f"Expected a column '{column}' in .*; found .*'other'.* Name it with --{column}"
        refused(tmp_path, words, path)


def test_times_that_cannot_be_read(tmp_path):
    for bad in ["soon", "", "nan", "epoch"]:
        path = write_csv(tmp_path / "c.csv", NAMES, [*GOOD, ("c", 3, bad)])
        refused(tmp_path, "found 1 rows without a readable one, such as", path)


def test_times_that_are_nan_in_parquet(tmp_path):
    path = write_parquet(tmp_path / "c.parquet", NAMES, [("a", 1, 1.0), ("b", 2, math.nan)])
    refused(tmp_path, "found 1 rows without a readable one, such as 'nan'", path)
    path = write_parquet(tmp_path / "c.parquet", NAMES, [("a", 1, 1.0), ("b", 2, None)])
    refused(tmp_path, "such as 'nothing'", path)


def test_numbers_that_are_no_dates(tmp_path):
    path = write_parquet(tmp_path / "c.parquet", NAMES, GOOD)
    settings = IngestSettings(time_unit="date")
    refused(tmp_path, "Expected dates in 'time' of .*; found BIGINT", path, settings=settings)


def test_times_too_far_apart(tmp_path):
    path = write_parquet(tmp_path / "c.parquet", NAMES, [*GOOD, ("c", 3, START * 9)])
    refused(tmp_path, "days that fit 16 bits; found 0 to 157", path)


def test_empty_files(tmp_path):
    (tmp_path / "c.csv").write_text("")
    refused(tmp_path, "a line of column names in .*; it is empty", tmp_path / "c.csv")
    path = write_csv(tmp_path / "c.csv", NAMES, [])
    refused(tmp_path, "at least one row in .*; it is empty", path)
    table = pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())})
    parquet.write_table(table, tmp_path / "c.parquet")
    settings = IngestSettings(time=None)
    refused(tmp_path, "at least one row", tmp_path / "c.parquet", settings=settings)


def test_a_truncated_parquet(tmp_path):
    for kept in [0, 20, -5]:
        path = write_parquet(tmp_path / "c.parquet", NAMES, GOOD * 100)
        path.write_bytes(path.read_bytes()[:kept])
        refused(tmp_path, "a whole parquet file; .* is cut off or damaged", path)


def test_a_parquet_damaged_inside(tmp_path):
    rows = [(f"user {k}", k, START + k) for k in range(5000)]
    path = write_parquet(tmp_path / "c.parquet", NAMES, rows)
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    refused(tmp_path, "The tables cannot be read", path)


def test_lines_of_the_wrong_length(tmp_path):
    path = write_csv(tmp_path / "c.csv", NAMES, [*GOOD, ("c", 3), *GOOD])
    refused(tmp_path, "The tables cannot be read: .*[Ll]ine: 4", path)


def test_sources_that_are_none(tmp_path):
    refused(tmp_path, "Expected a table at .*nowhere", tmp_path / "nowhere.csv")
    (tmp_path / "empty").mkdir()
    refused(tmp_path, "Expected parquet or CSV files in", tmp_path / "empty")
    one = write_csv(tmp_path / "c.csv", NAMES, GOOD)
    two = write_parquet(tmp_path / "c.parquet", NAMES, GOOD)
    refused(tmp_path, "all .parquet or all .csv", [one, two])
    other = write_csv(tmp_path / "d.csv", NAMES[::-1], GOOD)
    refused(tmp_path, "Expected the columns of .*c.csv in .*d.csv too", [one, other])
    twice = write_csv(tmp_path / "e.csv", ("user", "item", "User"), GOOD)
    refused(tmp_path, "different column names", twice)
    (tmp_path / "f.csv").write_bytes(b"us\xe9r,item\n")
    refused(tmp_path, "Expected UTF-8", tmp_path / "f.csv")
    (tmp_path / "out").mkdir()
    refused(tmp_path, "is there already", one)


def test_truth_values_are_no_times(tmp_path):
    path = write_parquet(tmp_path / "c.parquet", NAMES, [("a", 1, True), ("b", 2, False)])
    refused(tmp_path, "Expected times in 'time' of .*; found BOOLEAN", path)


def test_ids_that_cannot_be(tmp_path):
    path = write_parquet(tmp_path / "c.parquet", NAMES, [(1.0, 1, START), (2.0, 2, START)])
    refused(tmp_path, "whole numbers or text in 'user' of .*; found DOUBLE", path)
    for write, name in ((write_csv, "c.csv"), (write_parquet, "d.parquet")):
        path = write(tmp_path / name, NAMES, [*GOOD, ("", 3, START)])
        refused(tmp_path, "an id in every row of 'user' .*; 1 of 3 rows have none", path)


def test_attributes_that_cannot_be_used(tmp_path):
    for rows, settings, words in [
        ([("a", 1), ("a", 2)], {}, "one row for each 'user' in .*; 'a' has 2"),
        ([("a", "x"), ("b", 2)], {"numeric": ("age",)}, "numbers in 'age' .*such as 'x'"),
        ([("a", 1e39), ("b", 2)], {}, "finite numbers in 'age' .*; 1 rows"),
        ([("a", "-inf"), ("b", 2)], {}, "finite numbers in 'age' .*; 1 rows"),
        ([("a", 1)], {"user_key": "id"}, "a column 'id' in .*--user-key"),
        ([], {}, "at least one row"),
    ]:
        path = write_csv(tmp_path / "c.csv", NAMES, GOOD)
        users = write_csv(tmp_path / "users.csv", ("user", "age"), rows)
        refused(tmp_path, words, path, users=users, settings=IngestSettings(**settings))


def test_attributes_that_are_lists(tmp_path):
    path = write_csv(tmp_path / "c.csv", NAMES, GOOD)
    table = pa.table({"user": ["a"], "tags": [["x", "y"]]})
    parquet.write_table(table, tmp_path / "users.parquet")
    words = "numbers or texts in 'tags' .*--ignore"
    refused(tmp_path, words, path, users=tmp_path / "users.parquet")


def test_settings_that_cannot_be():
    for settings, words in [
        ({"time_unit": "week"}, "a time unit of auto"),
        ({"memory": "lots"}, "memory such as 4GB"),
        ({"threads": 0}, "at least one thread"),
        ({"user": "item"}, "different columns"),
        ({"numeric": ("a",), "category": ("a",)}, "more than one for a"),
        ({"category": ("a",), "several": ("a",)}, "more than one for a"),
        ({"rating": "stars"}, "least one together"),
        ({"rating": "stars", "min_rating": math.nan}, "finite least rating"),
        ({"memory": "\u0663GB"}, "memory such as 4GB"),
        ({"core": -1}, "core from 0 on"),
        ({"separator": ""}, "separator of at least one"),
    ]:
        with pytest.raises(InputError, match=words):
            IngestSettings(**settings)


def test_too_little_memory_is_said(tmp_path):
    rows = [(k, k % 77, START + k) for k in range(200_000)]
    path = write_parquet(tmp_path / "c.parquet", NAMES, rows)
    settings = IngestSettings(memory="1MB", threads=1)
    refused(tmp_path, "Expected the work to fit 1MB.*--memory", path, settings=settings)


def test_duckdb_is_named_if_it_is_not_there(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *rest)

    path = write_csv(tmp_path / "c.csv", NAMES, GOOD)
    monkeypatch.setattr(builtins, "__import__", without)
    refused(tmp_path, r"pip install '\.\[recommend\]'", path)


def test_a_damaged_gzip(tmp_path):
    path = write_csv(tmp_path / "c.csv", NAMES, GOOD * 50)
    whole = gzip.compress(path.read_bytes())
    for damaged in (
        whole[:2],
        whole[:12],
        whole[:-1],
        whole[:10] + b"\xff" * 50,
        whole[:-8] + bytes(4) + whole[-4:],  # the checksum
        whole + b"more",
        b"user,item,time\n",
    ):
        packed = tmp_path / "c.csv.gz"
        packed.write_bytes(damaged)
        refused(tmp_path, "Expected a whole gzip file of UTF-8 text", packed)


def test_a_small_gzip_of_very_many_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("drgcn.recommend.clicks.ingest_sql._UNPACKED", 1 << 20)
    packed = tmp_path / "c.csv.gz"
    packed.write_bytes(gzip.compress(b"user,item,time\n" + b"0,0,0\n" * 10**6))
    refused(tmp_path, "Expected at most", packed)


def test_a_header_without_an_end(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("user,item,time" + "x" * 200_000)
    refused(tmp_path, "Expected a line of column names", path)


def test_ids_that_are_bytes_or_lists(tmp_path):
    for user in (b"\xff", [1], {"a": 1}):
        path = write_parquet(tmp_path / "c.parquet", NAMES, [(user, 1, START)])
        refused(tmp_path, "whole numbers or text in 'user'", path)


@pytest.mark.parametrize("word", ["1_000", "0x10", "\u0663", "1e400", "9" * 400, "inf"])
def test_odd_ways_to_write_numbers_are_no_times_and_ratings(tmp_path, word):
    names = ("user", "item", "time", "stars")
    rows = [("a", "x", START, 3), ("b", "x", word, 3)]
    path = write_csv(tmp_path / "c.csv", names, rows)
    refused(tmp_path, "a time in every row", path)
    path = write_csv(tmp_path / "c.csv", names, [(*row[:2], START, row[2]) for row in rows])
    settings = IngestSettings(rating="stars", min_rating=1.0)
    refused(tmp_path, "a number in every row", path, settings=settings)


def test_a_word_with_an_underscore_is_a_category(tmp_path):
    path = write_csv(tmp_path / "c.csv", NAMES, GOOD)
    users = write_csv(tmp_path / "u.csv", ("user", "size"), [("a", "1_000"), ("b", "2_000")])
    report = ingest(path, tmp_path / "out", users=users)
    assert report.users.columns == (("size", "category"),)
