"""A set as a folder: whole or not at all, and known by its content."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import AttributeTable, ClickData, ClickGraph
from drgcn.sampling import CSRGraph

from .tables import clicks_of


def small(**changes):
    users = torch.tensor([0, 1, 1, 3, 2])
    items = torch.tensor([1, 0, 2, 1, 1])
    graph = ClickGraph.from_pairs(users, items, 4, 3, torch.tensor([0, 1, 1, 2, 0]))
    table = AttributeTable(
        torch.tensor([[1.0], [float("nan")], [3.0], [4.0]]),
        torch.tensor([[0], [-1], [1], [1]], dtype=torch.int32),
        ("age",),
        ("town",),
        (2,),
        (pa.array(["a", "b"], pa.large_string()),),
    )
    ids = pa.array(["p", "q", "r", "s"], pa.large_string())
    return replace(ClickData(graph, table, None, ids, None, "small"), **changes)


@pytest.mark.parametrize("mmap", [True, False])
def test_written_and_read(tmp_path, mmap):
    data = small()
    assert data.save(tmp_path / "set") == tmp_path / "set"
    again = ClickData.load(tmp_path / "set", mmap)
    assert clicks_of(again.graph) == clicks_of(data.graph)
    assert again.user_ids.to_pylist() == ["p", "q", "r", "s"]
    assert again.item_ids is None
    assert again.items is None
    assert again.name == "small"
    assert again.content_hash == data.content_hash
    assert replace(again, known_hash="").content_hash == data.content_hash
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert again.to("cpu").users.numeric.shape == (4, 1)


def test_the_hash_sees_content_and_nothing_else():
    data = small()
    wide = CSRGraph(data.graph.by_user.rowptr.int(), data.graph.by_user.col.long(), 3)
    same = [
        replace(data, name="other"),
        replace(data, graph=replace(data.graph, by_user=wide)),
        replace(data, graph=replace(data.graph, days=data.graph.days.int())),
        replace(data, user_ids=data.user_ids.cast(pa.string())),
        replace(data, user_ids=pa.array(["o", "p", "q", "r", "s"]).slice(1)),
    ]
    assert {other.content_hash for other in same} == {data.content_hash}
    days = data.graph.days.clone()
    days[0] += 1
    numeric = data.users.numeric.clone()
    numeric[0] = 2
    different = [
        replace(data, graph=replace(data.graph, days=days)),
        replace(data, graph=replace(data.graph, days=None)),
        replace(data, graph=data.graph.until(2)),
        replace(data, users=None),
        replace(data, users=replace(data.users, numeric=numeric)),
        replace(data, users=replace(data.users, numeric_names=("years",))),
        replace(data, user_ids=pa.array(["pq", "", "r", "s"])),
        replace(data, user_ids=None),
        replace(data, parts=("train", "valid", "test")),
    ]
    hashes = [other.content_hash for other in different]
    assert len({data.content_hash, *hashes}) == len(hashes) + 1


def test_sides_must_fit():
    with pytest.raises(InputError, match="Expected ids of 3 items; found 2 rows"):
        small(item_ids=pa.array([1, 2]))
    with pytest.raises(InputError, match="Expected attributes of 4 users; found 2 rows"):
        small(users=small().users.rows(torch.tensor([0, 1])))


def test_folders_that_are_not_ours(tmp_path):
    with pytest.raises(InputError, match="is not there or is a file"):
        ClickData.load(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"has no clicks\.json of that form"):
        ClickData.load(tmp_path / "other")
    for text in ("{", "[]", '{"format": "something"}'):
        (tmp_path / "other" / "clicks.json").write_text(text)
        with pytest.raises(InputError, match=r"has no clicks\.json of that form"):
            ClickData.load(tmp_path / "other")
    manifest = small().save(tmp_path / "set") / "clicks.json"
    facts = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(facts | {"name": "another"}))
    with pytest.raises(InputError, match="it was changed since"):
        ClickData.load(tmp_path / "set")
    del facts["sha256"]  # as folders were before there were digests
    manifest.write_text(json.dumps(facts))
    assert ClickData.load(tmp_path / "set").name == facts["name"]
    manifest.write_text(json.dumps(facts | {"version": 99}))
    with pytest.raises(InputError, match=r"Expected version 1 .* has version 99"):
        ClickData.load(tmp_path / "set")
    manifest.write_text(json.dumps({key: facts[key] for key in ("format", "version", "name")}))
    with pytest.raises(InputError, match="Expected users, items, clicks"):
        ClickData.load(tmp_path / "set")
    manifest.write_text(json.dumps(facts | {"clicks": 77}))
    with pytest.raises(InputError, match="Files of different sets are mixed"):
        ClickData.load(tmp_path / "set")


def test_files_that_are_cut_off(tmp_path):
    for number, file in enumerate(("by_user/col.npy", "days.npy", "users/numeric.npy")):
        folder = small().save(tmp_path / f"set{number}")
        path = folder / file
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(InputError):
            ClickData.load(folder)


def test_arrays_of_another_set_are_noticed(tmp_path):
    folder = small().save(tmp_path / "set")
    np.save(folder / "days.npy", np.zeros(3, dtype=np.int16))
    with pytest.raises(InputError, match="one day for each of 5 clicks; found 3"):
        ClickData.load(folder)


def test_ids_that_are_cut_off(tmp_path):
    path = small().save(tmp_path / "set") / "user_ids.parquet"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError, match="Expected a whole table in"):
        ClickData.load(tmp_path / "set")


def test_nothing_is_written_over(tmp_path):
    small().save(tmp_path / "set")
    with pytest.raises(InputError, match="is there already"):
        small().save(tmp_path / "set")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def resaved(change):
    """Damage to an array of a folder: what a function makes of it."""

    def damage(path):
        np.save(path, change(np.load(path)))

    return damage


def one_changed(place, value):
    def change(array):
        array.flat[place] = value
        return array

    return resaved(change)


def written(content):
    return lambda path: path.write_bytes(content)


def facts_changed(**changes):
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def table_of(**columns):
    return lambda path: pa.parquet.write_table(pa.table(columns), path)


DEEP = b'{"format": ' + b"[" * 100_000
NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 4, [None, pa.py_buffer(np.arange(5, dtype=np.int32)), pa.py_buffer(b"\xff" * 4)]
)
DAMAGES = [
    # A number that lies outside: a kernel would follow it out of the array.
    *[(f"{side}/col.npy", one_changed(1, value)) for side in ("by_user", "by_item")
      for value in (-1, 1000, 2**31 - 1)],
    *[(f"{side}/rowptr.npy", one_changed(place, value)) for side in ("by_user", "by_item")
      for place, value in ((0, 1), (1, 2**40), (2, 0), (-1, 4), (-1, 6))],
    ("users/categories.npy", one_changed(0, 7)),
    ("users/categories.npy", one_changed(0, -2)),
    # A number that could be.
    ("by_user/col.npy", one_changed(0, 2)),
    ("by_item/col.npy", one_changed(0, 0)),
    ("by_item/col.npy", resaved(lambda col: col[[0, 2, 1, 3, 4]])),
    ("by_user/graph.json", facts_changed(num_cols=4)),
    ("days.npy", one_changed(0, 3)),
    ("users/numeric.npy", one_changed(0, 2)),
    ("users/categories.npy", one_changed(0, 1)),
    ("users/table.json", facts_changed(numeric_names=["size"])),
    ("users/values.parquet", table_of(column=[0, 0], value=pa.array(["a", "c"], "large_string"))),
    ("user_ids.parquet", table_of(id=["p", "q", "r", "t"])),
    ("clicks.json", facts_changed(content_hash="0" * 64)),
    ("clicks.json", facts_changed(parts=["train", "valid", "test"])),
    # Another type.
    ("by_user/col.npy", resaved(lambda col: col.astype(np.float64))),
    ("by_user/col.npy", resaved(lambda col: col.astype(">i4"))),
    ("by_item/rowptr.npy", resaved(lambda rowptr: rowptr[:, None])),
    ("days.npy", resaved(lambda days: days.astype(np.int64))),
    ("users/numeric.npy", resaved(lambda numeric: numeric.astype("U"))),
    ("by_user/graph.json", facts_changed(num_cols=1e400)),
    ("by_user/graph.json", facts_changed(arrays=3)),
    ("users/table.json", facts_changed(category_sizes=[1e400])),
    ("users/values.parquet", table_of(column=["a", "b"], value=["a", "b"])),
    ("user_ids.parquet", table_of(id=[1.5, 2.5, 3.5, 4.5])),
    ("user_ids.parquet", table_of(id=["p", None, "r", "s"])),
    ("user_ids.parquet", table_of(id=NOT_UTF8)),
    ("user_ids.parquet", table_of(name=["p", "q", "r", "s"])),
    *[("clicks.json", facts_changed(**{key: value})) for key, value in
      (("parts", 3), ("parts", [3]), ("name", None), ("clicks", "5"), ("content_hash", 0))],
    # No such file at all.
    *[(file, written(content)) for file in ("by_user/col.npy", "days.npy", "users/numeric.npy")
      for content in (b"", b"\x93NUMPY\x01\x00\xff\xff", b"PK\x03\x04")],
    *[(file, written(DEEP)) for file in ("clicks.json", "by_user/graph.json", "users/table.json")],
]  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return small().save(tmp_path_factory.mktemp("saved") / "set")


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_damaged_folder_is_refused_with_a_sentence(saved, tmp_path, number):
    file, damage = DAMAGES[number]
    folder = shutil.copytree(saved, tmp_path / "set")
    damage(folder / file)
    with pytest.raises(InputError) as caught:
        ClickData.load(folder)
    assert str(caught.value).startswith("Expected")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_sides_are_compared_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("drgcn.recommend.clicks.graph._CHUNK", 2)
    monkeypatch.setattr("drgcn.sampling.graph._CHUNK", 2)
    test_written_and_read(tmp_path, True)
    path = tmp_path / "set" / "by_item" / "col.npy"
    np.save(path, np.array([1, 0, 2, 3, 0], dtype=np.int32))
    with pytest.raises(InputError, match="an array is not what was written"):
        ClickData.load(tmp_path / "set")
    facts = json.loads(path.with_name("graph.json").read_text())
    earlier = {name: facts[name] for name in ("num_cols", "arrays")}
    path.with_name("graph.json").write_text(json.dumps(earlier))
    with pytest.raises(InputError, match="same clicks by user and by item"):
        ClickData.load(tmp_path / "set")
