from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from drgcn.data import load, readers
from drgcn.data.readers import read_pickle
from drgcn.errors import InputError

from .graphs import small, write_npz, write_parquet, write_pt, write_sparse_npz

ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    np.array([True, False]),
    np.arange(3, dtype=">i2"),
    np.zeros((0, 3), dtype=np.float32),
    np.float32(2.5),
]
MATRICES = [
    form(np.diag([1.0, 0, 3]))
    for form in (
        sparse.csr_matrix,
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.csc_array,
        sparse.coo_matrix,
        sparse.coo_array,
    )
]


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_come_back(tmp_path: Path, array: Any, protocol: int) -> None:
    got = read_pickle(_write(tmp_path / "a.pkl", pickle.dumps(array, protocol)))
    assert np.array_equal(got, array)
    assert got.dtype == array.dtype


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("matrix", MATRICES, ids=lambda m: type(m).__name__)
def test_sparse_matrices_come_back_as_csr(tmp_path: Path, matrix: Any, protocol: int) -> None:
    got = read_pickle(_write(tmp_path / "m.pkl", pickle.dumps(matrix, protocol)))
    assert isinstance(got, sparse.csr_array)
    assert (got.toarray() == matrix.toarray()).all()


def test_adjacency_lists_come_back(tmp_path: Path) -> None:
    graph = collections.defaultdict(list, {0: [1, 2], 1: [0]})
    got = read_pickle(_write(tmp_path / "g.pkl", pickle.dumps(graph, 2)))
    assert got == {0: [1, 2], 1: [0]}
    assert type(got) is dict


def test_names_of_old_scipy_and_python_are_understood(tmp_path: Path) -> None:
    new = pickle.dumps(sparse.csr_matrix(np.eye(2)), 2)
    old = new.replace(b"scipy.sparse._csr", b"scipy.sparse.csr")
    old = old.replace(b"numpy._core", b"numpy.core")
    assert old != new
    assert read_pickle(_write(tmp_path / "old.pkl", old)).toarray().tolist() == [[1, 0], [0, 1]]


class _Call:
    """Pickles as a call of any function with any arguments."""

    def __init__(self, function: Any, *args: Any) -> None:
        self._reduced = (function, args)

    def __reduce__(self) -> Any:
        return self._reduced


def _hostile(mark: Path) -> dict[str, Any]:
    code = f"open({str(mark)!r}, 'w')"
    return {
        "os.system": _Call(os.system, f"touch {mark}"),
        "builtins.eval": _Call(eval, code),
        "builtins.exec": _Call(exec, code),
        "builtins.open": _Call(open, str(mark), "w"),
        "builtins.getattr": _Call(getattr, "text", "upper"),
        "nested": {"a": [1, (np.eye(2), _Call(os.mkdir, str(mark)))]},
        "as a key": {_Call(os.mkdir, str(mark)): 1},
        "numpy.load": _Call(np.load, str(mark)),
        "numpy.save": _Call(np.save, str(mark), 1),
        "numpy.fromfile": _Call(np.fromfile, str(mark)),
        "in a defaultdict": collections.defaultdict(eval, {1: [2]}),
        "in an object array": np.array([_Call(os.mkdir, str(mark))], dtype=object),
    }


@pytest.mark.parametrize("kind", list(_hostile(Path("m"))))
@pytest.mark.parametrize("protocol", [2, 4])
def test_hostile_pickles_run_nothing(tmp_path: Path, kind: str, protocol: int) -> None:
    mark = tmp_path / "mark"
    bad = _write(tmp_path / "bad.pkl", pickle.dumps(_hostile(mark)[kind], protocol))
    with pytest.raises(InputError) as caught:
        read_pickle(bad)
    assert list(tmp_path.iterdir()) == [bad]
    assert caught.value.__suppress_context__
    assert "asks for" in str(caught.value)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("posix", "system"),
        ("numpy.f2py", "compile"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy._core.multiarray", "frombuffer"),
        ("numpy.lib.npyio", "load"),
        ("numpy", "core.multiarray.fromfile"),
        ("scipy.sparse", "load_npz"),
        ("scipy.sparse._csr", "csr_matrix.__class__"),
        ("collections", "defaultdict.__init__"),
        ("builtins", "list.__class__"),
        ("_codecs", "decode"),
        ("copyreg", "_reconstructor"),
    ],
)
def test_only_the_listed_names_are_admitted(tmp_path: Path, module: str, name: str) -> None:
    stack_global = (
        pickle.PROTO
        + b"\x04"
        + b"".join(
            pickle.SHORT_BINUNICODE + bytes([len(word)]) + word.encode() for word in (module, name)
        )
    )
    content = stack_global + pickle.STACK_GLOBAL + pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.STOP
    with pytest.raises(InputError, match=f"asks for {module}.{name}"):
        read_pickle(_write(tmp_path / "bad.pkl", content))


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


@pytest.mark.parametrize(
    "body",
    [
        # A factory that is not the bare type list, and the type itself as a callable.
        _global("builtins", "list") + pickle.EMPTY_TUPLE + pickle.REDUCE,
        _global("numpy", "ndarray"),
        # An attempt to rewrite a class: (None, {"__setstate__": ...}) as its state.
        _global("numpy", "ndarray")
        + pickle.NONE
        + pickle.EMPTY_DICT
        + pickle.TUPLE2
        + pickle.BUILD,
        _global("collections", "defaultdict")
        + pickle.NONE
        + pickle.EMPTY_DICT
        + pickle.TUPLE2
        + pickle.BUILD,
        # An array that never got its content; a matrix with nothing in it.
        _global("numpy", "ndarray") + pickle.EMPTY_TUPLE + pickle.REDUCE,
        _global("scipy.sparse.csr", "csr_matrix")
        + pickle.EMPTY_TUPLE
        + pickle.NEWOBJ
        + pickle.EMPTY_DICT
        + pickle.BUILD,
        # Things from outside the file: a persistent id, a registered extension.
        pickle.PERSID + b"1\n",
        pickle.EXT1 + b"\x01",
    ],
)
def test_misused_names_are_refused(tmp_path: Path, body: bytes) -> None:
    before = {standin: dict(vars(standin)) for standin in readers._ADMITTED.values()}
    with pytest.raises(InputError):
        read_pickle(_write(tmp_path / "bad.pkl", pickle.PROTO + b"\x02" + body + pickle.STOP))
    assert {cls: dict(vars(cls)) for cls in readers._ADMITTED.values()} == before


def test_forged_type_codes_never_reach_numpy(tmp_path: Path) -> None:
    # Raw bytes behind an object type would be read as addresses.
    forged = pickle.dumps(np.arange(2, dtype=np.int64), 2).replace(b"i8", b"O8")
    with pytest.raises(InputError, match="'O8' is not one of plain numbers"):
        read_pickle(_write(tmp_path / "bad.pkl", forged))


def test_matrices_with_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    matrix = sparse.csr_matrix(np.eye(2))
    matrix.indices[0] = 100
    with pytest.raises(InputError):
        read_pickle(_write(tmp_path / "bad.pkl", pickle.dumps(matrix, 2)))


def test_pickles_that_contain_themselves_are_refused(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InputError):
        read_pickle(_write(tmp_path / "bad.pkl", pickle.dumps(loop, 2)))


def test_every_truncation_is_an_input_error(tmp_path: Path) -> None:
    whole = pickle.dumps({"a": [np.arange(4), sparse.csr_matrix(np.eye(3))]}, 2)
    path = tmp_path / "cut.pkl"
    for length in range(len(whole)):
        with pytest.raises(InputError):
            read_pickle(_write(path, whole[:length]))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=80), st.integers(0, 400))
def test_garbage_gives_a_value_or_an_input_error(tmp_path: Path, noise: bytes, place: int) -> None:
    buffer = io.BytesIO(pickle.dumps(sparse.csr_matrix(np.eye(3)), 2))
    buffer.seek(place)
    buffer.write(noise)
    for content in (noise, buffer.getvalue()):
        with contextlib.suppress(InputError):
            read_pickle(_write(tmp_path / "noise.pkl", content))


def test_message_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"empty\.pkl is not a complete pickle"):
        read_pickle(_write(tmp_path / "empty.pkl", b""))


@pytest.mark.parametrize("write", [write_npz, write_pt, write_parquet, write_sparse_npz])
def test_what_would_unpack_to_more_than_memory_holds_is_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any
) -> None:
    suffix = {write_pt: ".pt", write_parquet: ""}.get(write, ".npz")
    path = write(tmp_path / f"graph{suffix}", small())
    monkeypatch.setattr(readers, "MEMORY_BUDGET", 100)
    with pytest.raises(InputError, match="half of this machine's memory"):
        load(path)


@pytest.mark.parametrize("last", [-1, -(2**63)])
def test_ends_of_rows_below_zero_are_refused(last):
    """The differences of the second overflow, and look as if rows went on."""
    arrays = {
        "data": np.ones(3),
        "indices": np.array([1, 0, 0]),
        "indptr": np.array([0, 1, 2, last]),
        "shape": np.array([3, 3]),
    }
    with pytest.raises(InputError, match="do not form a CSR matrix"):
        readers.csr_from_parts(arrays, "", "it")
