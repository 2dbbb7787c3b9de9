import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from drgcn.errors import InputError
from drgcn.recommend.serving.ids import IdLookup, read_ids


def literal(ids, wanted):
    texts = [str(value) for value in ids]
    return [texts.index(str(value)) if str(value) in texts else -1 for value in wanted]


@pytest.mark.parametrize(("ordered", "whole"), [(True, True), (False, True), (False, False)])
def test_rows_are_those_of_a_search_one_by_one(ordered, whole):
    random.seed(0)
    numbers = random.sample(range(-50, 300), 120)
    ids = sorted(numbers) if ordered else numbers
    if not whole:
        ids = [f"é{value}" if value % 3 else f"{value}" for value in ids]
        ids = sorted(ids, key=str.encode) if ordered else ids
    lookup = IdLookup(pa.array(ids, pa.int64() if whole else pa.large_string()))
    wanted = [*ids[::7], 1000, "nobody", "", "007", "+7", " 7", "é1", "7.0", 10**30, *ids[:5]]
    expected = literal(ids, wanted)
    assert lookup.rows(wanted).tolist() == expected
    texts = pa.array([str(value) for value in wanted])
    assert lookup.rows(texts).tolist() == expected
    assert lookup.rows(pa.chunked_array([texts.dictionary_encode()])).tolist() == expected
    many = pa.concat_arrays([texts] * 400)  # goes by a hash table
    assert lookup.rows(many).tolist() == expected * 400
    rows = np.array([3, 0, 3])
    assert lookup.ids(rows).to_pylist() == [ids[3], ids[0], ids[3]]


def test_numbers_and_texts_written_alike_are_the_same():
    whole = IdLookup(pa.array([5, 6, 7], pa.int64()))
    assert whole.rows(["6", 7]).tolist() == [1, 2]
    assert whole.rows(pa.array([7, 5], pa.int16())).tolist() == [2, 0]
    text = IdLookup(pa.array(["5", "6"], pa.large_string()))
    assert text.rows(pa.array([6, 9])).tolist() == [1, -1]


def test_numbers_of_64_bits_and_more():
    ids = [-(2**63), -(10**18), 10**18 - 1, 10**18, 2**63 - 1]
    lookup = IdLookup(pa.array(ids, pa.int64()))
    others = [-(2**63) - 1, 2**63, 2**64 + 10**18, 10**19, 10**400]
    rows = [0, 1, 2, 3, 4, -1, -1, -1, -1, -1]
    assert lookup.rows([*ids, *others]).tolist() == rows
    texts = [str(value) for value in (*ids, *others)]
    assert lookup.rows(texts).tolist() == rows
    assert lookup.rows(pa.array(texts)).tolist() == rows
    assert lookup.listed(np.array([4, 0])) == [ids[4], ids[0]]


def test_ids_that_cannot_be_ids():
    lookup = IdLookup(pa.array([5, 6, 7], pa.int64()))
    with pytest.raises(InputError, match="whole numbers or text; found double"):
        lookup.rows(pa.array([1.0]))
    with pytest.raises(InputError, match="1 of 2 have none"):
        lookup.rows(pa.array([1, None]))
    assert IdLookup(pa.array([], pa.int64())).rows([1]).tolist() == [-1]


def test_files_of_ids_that_are_no_text(tmp_path):
    path = tmp_path / "ids.csv"
    for content in (b"us\xffer,other\n1,2\n", b"user,other\n\xff,2\n"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="Expected a whole table of ids"):
            read_ids(path)
    ends = pa.py_buffer(np.arange(3, dtype=np.int32))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"\xffa")])
    path = tmp_path / "ids.parquet"
    pa.parquet.write_table(pa.table({"user": texts}), path)
    with pytest.raises(InputError, match="Expected a whole table of ids"):
        read_ids(path)
