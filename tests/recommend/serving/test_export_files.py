import os

import numpy as np
import pyarrow as pa
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.serving import export_folder as vector_table
from drgcn.recommend.serving.export_folder import VectorTable, write_vectors
from drgcn.sampling import graph


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_what_is_written_is_read_back_in_any_order(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(vector_table, "_GROUP", 7)
    monkeypatch.setattr(vector_table, "_WRITTEN", 30)
    vectors = torch.randn(100, 5).to(kind)
    ids = pa.array([f"n{number}" for number in range(100)], pa.large_string())
    write_vectors(tmp_path / "t.parquet", ids, vectors)
    table = VectorTable(tmp_path / "t.parquet")
    assert (len(table), table.dim) == (100, 5)
    assert table.ids.equals(ids)
    assert table.vectors().dtype == kind
    torch.testing.assert_close(table.vectors(), vectors, rtol=0, atol=0)
    for index in ([99, 0, 50, 50, 6, 7], [], [13]):
        rows = torch.tensor(index, dtype=torch.int64)
        torch.testing.assert_close(table.rows(rows), vectors[rows].float(), rtol=0, atol=0)
    table.hold()
    rows = torch.tensor([98, 3])
    torch.testing.assert_close(table.rows(rows), vectors[rows].float(), rtol=0, atol=0)


def test_another_reader_finds_the_same(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    vectors = torch.randn(10, 3)
    write_vectors(tmp_path / "t.parquet", None, vectors)
    rows = duckdb.sql(f"SELECT id, vector FROM '{tmp_path}/t.parquet' ORDER BY id").fetchall()
    assert [row[0] for row in rows] == list(range(10))
    torch.testing.assert_close(torch.tensor([row[1] for row in rows]), vectors)


def test_a_table_cut_short_is_refused(tmp_path):
    write_vectors(tmp_path / "t.parquet", None, torch.randn(10, 3))
    whole = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[:-20])
    with pytest.raises(InputError, match="Expected a whole table of vectors"):
        VectorTable(tmp_path / "t.parquet")


def test_an_array_that_is_cut_off_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "items.npy"
    np.save(path, np.ones((4096, 16), np.float32))
    plain = graph.open_memmap

    def late(*args, **options):
        found = plain(*args, **options)
        os.truncate(path, 200)  # the pages of the map are gone: to touch one is SIGBUS
        return found

    monkeypatch.setattr(graph, "open_memmap", late)
    with pytest.raises(InputError, match="cut off"):
        graph.load_tensor(path, mmap=False)
