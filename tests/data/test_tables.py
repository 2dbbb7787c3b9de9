from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drgcn.data import load
from drgcn.errors import DrgcnWarning, InputError

from .graphs import small, write_csv, write_parquet

NODES = """id,height,weight,label,split
a,1.5,2,cat,train
b,0,-1e-3,dog,val
c,3,4,cat,test
d,5,6,,
"""
EDGES = "source,target\na,b\nb,a\nc,c\na,c\na,c\n"


def _write(folder: Path, nodes: str | bytes = NODES, edges: str | bytes = EDGES) -> Path:
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(raw)
    return folder


def test_a_small_folder_is_read_as_written(tmp_path: Path) -> None:
    data = load(_write(tmp_path))
    assert data.x.tolist() == [[1.5, 2], [0, pytest.approx(-1e-3)], [3, 4], [5, 6]]
    assert data.y.tolist() == [0, 1, 0, -1]
    assert data.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert data.train_mask.tolist() == [True, False, False, False]
    info = data.dataset
    assert info.class_names == ("cat", "dog")
    assert (info.self_loops, info.duplicate_edges, info.unlabelled) == (1, 1, 1)
    assert (info.name, info.split, info.normalize) == (tmp_path.name, "given", "none")


def test_columns_of_words_are_left_out_and_named_at_once(tmp_path: Path) -> None:
    rows = "a,Ulm,1,1850-06-01,,1,u,train\nb,Hof,2,1848-11-20,,0,v,val\nc,,3,,,1,u,test\n"
    nodes = f"id,name,size,opened,note,open,label,split\n{rows}"
    words = r"nodes\.csv: left out .* name \('Ulm'\), opened \('1850-06-01'\), note \(empty\)$"
    with pytest.warns(DrgcnWarning, match=words):
        data = load(_write(tmp_path, nodes, "source,target\na,b\n"))
    assert data.x.tolist() == [[1, 1], [2, 0], [3, 1]]


def test_columns_of_words_and_numbers_are_named_at_once(tmp_path: Path) -> None:
    nodes = "id,size,height,tracks\na,n/a,1,\nb,2,2,3\n"
    with pytest.raises(InputError, match=r"'n/a' in .* \(so in the columns tracks\)$"):
        load(_write(tmp_path, nodes, "source,target\na,b\n"))


def test_a_folder_may_be_given_as_text(tmp_path: Path) -> None:
    assert load(str(_write(tmp_path))).num_nodes == 4


def test_a_folder_with_a_datasets_name_is_reached_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wine").mkdir()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "wine")
    _write(tmp_path / "mine")
    assert load("wine").num_nodes == 178
    assert load("./wine/").num_nodes == 4
    assert load("mine").num_nodes == 4


def test_whole_number_ids_match_across_csv_and_parquet(tmp_path: Path) -> None:
    _write(tmp_path, NODES.replace("a,", "1,", 1).replace("b,", "2,", 1))
    (tmp_path / "edges.csv").unlink()
    # Whole numbers that a tool stored as floats because of a gap elsewhere.
    pq.write_table(pa.table({"source": [1.0], "target": [2.0]}), tmp_path / "edges.parquet")
    assert load(tmp_path).edge_index.tolist() == [[0, 1], [1, 0]]


def test_ids_are_words_and_keep_their_zeros(tmp_path: Path) -> None:
    nodes = "id,f,label,split\n007,1,x,train\n7,2,y,val\n70,3,x,test\n"
    data = load(_write(tmp_path, nodes, "source,target\n007,7\n"))
    assert data.edge_index.tolist() == [[0, 1], [1, 0]]


def test_byte_order_marks_blanks_quotes_and_windows_lines_are_fine(tmp_path: Path) -> None:
    nodes = '\ufeffid,"f, of x",label\r\n a ,1,"big, red"\r\nb,2,x\r\n"c",3,x\r\n'
    data = load(_write(tmp_path, nodes, "source,target\r\na, b\r\n"))
    assert data.dataset.class_names == ("big, red", "x")
    assert data.num_edges == 2


def test_parquet_types_are_understood(tmp_path: Path) -> None:
    graph = small()
    nodes = {
        "id": np.arange(12),
        "flag": np.arange(12) % 2 == 0,
        "half": graph.x[:, 0].astype(np.float16),
        "label": pa.array(["u", "v", None] * 4).dictionary_encode(),
    }
    pq.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / "edges.parquet")
    data = load(tmp_path)
    assert data.x[:, 0].tolist() == [1, 0] * 6
    assert data.y.tolist() == [0, 1, -1] * 4
    assert data.dataset.class_names == ("u", "v")


def test_numbers_may_be_written_in_any_usual_way(tmp_path: Path) -> None:
    nodes = "id,f,g,label\na,+1.5,1,x\nb,-2E-1,1.,y\nc, 3 ,.5,y\n"
    data = load(_write(tmp_path, nodes, "source,target\na,b\n"))
    assert data.x.tolist() == [[1.5, 1], [pytest.approx(-0.2), 1], [3, 0.5]]


def test_an_empty_split_column_is_no_split(tmp_path: Path) -> None:
    nodes = "id,f,label,split\n" + "".join(f"{i},{i},{i % 2},\n" for i in range(10))
    info = load(_write(tmp_path, nodes, "source,target\n1,2\n")).dataset
    assert (info.split, info.train, info.val, info.test) == ("random-60", 6, 2, 2)


def test_a_graph_without_edges_warns(tmp_path: Path) -> None:
    with pytest.warns(DrgcnWarning, match="lists no edges"):
        data = load(_write(tmp_path, edges="source,target\n"))
    assert data.num_edges == 0


def test_unused_edge_columns_warn(tmp_path: Path) -> None:
    with pytest.warns(DrgcnWarning, match="the columns Weight are not used.* named 'weight'"):
        data = load(_write(tmp_path, edges="source,target,Weight\na,b,2\n"))
    assert "edge_weight" not in data


def test_a_column_of_weights_is_read_in_the_order_of_the_edges(tmp_path: Path) -> None:
    listed = "c,b,0.5\na,b,2\nb,a,2\na,b,2\na,a,9\n"  # once, thrice, and a loop
    data = load(_write(tmp_path, edges=f"source,target,weight\n{listed}"))
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.edge_weight.tolist() == [2.0, 2.0, 0.5, 0.5]
    assert dict(data.dataset.options) == {"edge_weight": True}


def test_weights_belong_to_the_content_unless_all_are_one(tmp_path: Path) -> None:
    def content(weight: str) -> str:
        edges = f"source,target,weight\na,b,{weight}\nb,c,1\n"
        return str(load(_write(tmp_path, edges=edges)).dataset.content_hash)

    plain = load(_write(tmp_path, edges="source,target\na,b\nb,c\n")).dataset.content_hash
    assert content("1.0") == plain
    assert len({plain, content("2"), content("0.5")}) == 3


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a,b,1\nb,a,2\n", r"edges\.csv: .*between node 'a' and node 'b'.*1 and 2"),
        ("a,b,-1\n", r"edges\.csv: .*found -1.0 between node 'a' and node 'b'"),
        ("a,b,\n", "an empty cell in the column 'weight'"),
        ("a,b,heavy\n", "'heavy' in the column 'weight'"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(tmp_path: Path, rows: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(_write(tmp_path, edges=f"source,target,weight\n{rows}"))


@pytest.mark.parametrize("name", ["y", "class", "Target", "labels"])
def test_classes_under_another_name_are_pointed_to_label(tmp_path: Path, name: str) -> None:
    nodes = f"id,f,{name}\na,1,0\nb,2,1\nc,3,1\n"
    with pytest.raises(
        InputError, match=f"in a column 'label'; found none, but a column '{name}'"
    ):
        load(_write(tmp_path, nodes), require_labels=False)


@pytest.mark.parametrize("table", ["nodes", "edges"])
def test_a_table_without_a_header_is_told_from_a_wrong_one(tmp_path: Path, table: str) -> None:
    _write(tmp_path, "id,f,label\n0,1.5,0\n1,0.5,1\n2,2.5,1\n", "source,target\n0,1\n")
    path = tmp_path / f"{table}.csv"
    path.write_text(path.read_text().split("\n", 1)[1])
    with pytest.raises(InputError, match=rf"{table}.csv: expected the names of the columns"):
        load(tmp_path)


def test_a_column_named_class_beside_label_is_said_to_be_a_feature(tmp_path: Path) -> None:
    nodes = "id,y,class,label\n" + "".join(f"{i},{i},{i % 2},{i % 2}\n" for i in range(9))
    with pytest.warns(DrgcnWarning, match="the column 'class' is taken for a feature") as caught:
        data = load(_write(tmp_path, nodes, "source,target\n1,2\n"))
    assert data.num_features == 2
    assert [str(one.message) for one in caught if "'y'" in str(one.message)] == []


def test_labels_are_needed_unless_waived(tmp_path: Path) -> None:
    nodes = "id,f\na,1\nb,2\n"
    _write(tmp_path, nodes, "source,target\na,b\n")
    with pytest.raises(InputError, match="but there is none"):
        load(tmp_path)
    data = load(tmp_path, require_labels=False)
    assert data.y.tolist() == [-1, -1]
    assert not (data.train_mask | data.val_mask | data.test_mask).any()


def _row(row: int, text: str) -> str:
    lines = NODES.splitlines()
    lines[row] = text
    return "\n".join(lines) + "\n"


MISTAKES: dict[str, tuple[str | bytes, str | bytes, str]] = {
    "edge to nowhere": (
        NODES,
        "source,target\na,b\na,z\n",
        r"line 3 has the target 'z', but no node",
    ),
    "duplicate id": (_row(2, "a,0,0,dog,val"), EDGES, r"'a' is in line 2 and again in line 3"),
    "empty id": (_row(2, ",0,0,dog,val"), EDGES, "line 3 has no id"),
    "no id column": (
        NODES.replace("id,", "name,", 1),
        EDGES,
        "needs a column 'id', but .* name, h",
    ),
    "no source column": (
        NODES,
        "from,target\na,b\n",
        "needs a column 'source', but .* from, targ",
    ),
    "NaN": (_row(1, "a,nan,2,cat,train"), EDGES, "line 2 has nan in the column 'height'"),
    "empty cell": (
        _row(2, "b,,1,dog,val"),
        EDGES,
        "line 3 has an empty cell in the column 'height'",
    ),
    "text in a number": (
        _row(2, "b,tall,1,dog,val"),
        EDGES,
        "line 3 has 'tall' in the column 'hei",
    ),
    "too large": (
        _row(2, "b,1e300,1,dog,val"),
        EDGES,
        "line 3 has 1e.300 .* finite float32",
    ),
    "unlabelled training node": (
        _row(1, "a,1,2,,train"),
        EDGES,
        "node 'a' is in the train part but",
    ),
    "unknown split word": (_row(2, "b,0,1,dog,valid"), EDGES, "node 'b' has 'valid'"),
    "empty split": (_row(2, "b,0,1,dog,test"), EDGES, "the val part of the split is empty"),
    "one class": (NODES.replace("dog", "cat"), EDGES, "but there is only 'cat'"),
    "semicolons": (NODES.replace(",", ";"), EDGES, "nodes.csv has semicolons between"),
    "cut row": (NODES + "e,1", EDGES, "line 6 has 2 cells, but the header has 5"),
    "measured labels": (
        "id,f,label\na,1,0.25\nb,2,1.5\nc,3,2\n",
        EDGES,
        r"nodes\.csv: labels must be classes, but they are 3 numbers such as 0\.25",
    ),
    "no features": ("id,label\na,x\nb,y\n", EDGES, "no feature columns: add at least one"),
    "empty nodes": ("", EDGES, "nodes.csv is empty"),
    "header only": ("id,f,label\n", EDGES, "has a header but no rows"),
    "column twice": (
        NODES.replace("weight", "height"),
        EDGES,
        "the column 'height' is there twice",
    ),
    "saved row index": ("," + NODES.replace("\n", "\n0,")[:-2], EDGES, "column 1 has no name"),
    "broken row in another encoding": (NODES.encode() + b"e,\xff\n", EDGES, "UTF-8"),
    "UTF-16": (NODES.encode("utf-16"), EDGES, "UTF-8"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_one_clear_sentence(tmp_path: Path, mistake: str) -> None:
    nodes, edges, message = MISTAKES[mistake]
    with pytest.raises(InputError, match=message) as caught:
        load(_write(tmp_path, nodes, edges))
    error = caught.value
    assert str(tmp_path) in str(error)
    assert "\n" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__


@pytest.mark.parametrize("last", ["e,tall,1,cat,test", "e,1", "a,1,1,cat,test"])
@pytest.mark.parametrize("marks", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_places_are_lines_as_an_editor_counts_them(
    tmp_path: Path, last: str, marks: str, end: str
) -> None:
    lines = NODES.splitlines()
    lines[2:2] = ["", ""]
    lines[5] = lines[5].replace("cat", '"a cat\n or two"').replace("dog", '"a dog\n or two"')
    text = end.join([*lines, "", last, ""])
    line = text.split("\n").index(last + end[:-1]) + 1
    with pytest.raises(InputError, match=rf"line {line}\b"):
        load(_write(tmp_path, (marks + text).encode(), EDGES))


def test_missing_tables_are_named(tmp_path: Path) -> None:
    (_write(tmp_path) / "edges.csv").unlink()
    with pytest.raises(InputError, match=r"has no edges\.csv or edges\.parquet: write one"):
        load(tmp_path)


def test_two_tables_for_one_thing_are_refused(tmp_path: Path) -> None:
    write_parquet(_write(tmp_path), small())
    with pytest.raises(InputError, match=r"both nodes\.csv and nodes\.parquet"):
        load(tmp_path)


def test_parquet_gaps_are_placed(tmp_path: Path) -> None:
    write_parquet(tmp_path, small())
    table = pa.table({"id": [1, 2], "f": [1.0, None], "label": ["a", "b"]})
    pq.write_table(table, tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match=r"nodes\.parquet: row 2 has no value in the column 'f'"):
        load(tmp_path)


def test_parquet_columns_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path, small())
    for column in (
        pa.array([[1], [2]]),
        pa.array([b"a", b"b"]),
        pa.array(["a", "2"]),
    ):
        table = pa.table({"id": [1, 2], "f": column, "label": ["a", "b"]})
        pq.write_table(table, tmp_path / "nodes.parquet")
        with pytest.raises(InputError, match=r"nodes\.parquet: .*'f'"):
            load(tmp_path)


@pytest.mark.parametrize("column", ["id", "label", "split"])
def test_parquet_text_that_is_not_utf8_is_damage(tmp_path: Path, column: str) -> None:
    write_csv(tmp_path, small())
    (tmp_path / "nodes.csv").unlink()
    words = {"id": ["a", "b"], "label": ["x", "y"], "split": ["train", "val"]}
    words[column] = ["wrong", "right"]
    path = tmp_path / "nodes.parquet"
    pq.write_table(pa.table(words | {"f": [1.0, 2.0]}), path)
    path.write_bytes(path.read_bytes().replace(b"wrong", b"wr\xffng"))
    with pytest.raises(InputError, match=r"nodes\.parquet is damaged .*UTF8"):
        load(tmp_path)


def test_truncated_parquet_is_an_input_error(tmp_path: Path) -> None:
    write_parquet(tmp_path, small())
    whole = (tmp_path / "nodes.parquet").read_bytes()
    for length in (0, 4, len(whole) // 2, len(whole) - 1):
        (tmp_path / "nodes.parquet").write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"nodes\.parquet is damaged"):
            load(tmp_path)


def test_reading_a_good_folder_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(write_csv(tmp_path, small()))
