"""Reads pickled arrays without running a pickle.

Some datasets are published as pickles. An ordinary unpickler calls whatever a file names;
even numpy's own hooks trust what they are given. Here every name in a file is looked up in a
short table of stand-ins that only record their arguments. When the whole file has been read,
:func:`_resolved` builds the arrays itself from the recorded shapes, types and bytes.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from scipy import sparse

from drgcn.errors import InputError


class _Recorded:
    """A call that a pickle asked for: its arguments and state, nothing done with them."""

    # With ``__setstate__`` on the class, a file that tries to "restore the state" of the class
    # itself fails on a missing argument instead of rewriting our attributes.
    __slots__ = ("args", "state")
    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> Any:
        self = super().__new__(cls)
        self.args, self.state = args, None
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Dtype(_Recorded):
    """``numpy.dtype(code, align, copy)`` with a state that holds the byte order."""


class _Array(_Recorded):
    """``numpy.ndarray`` with a state (version, shape, dtype, fortran order, bytes)."""


class _Buffer(_Recorded):
    """The array form of protocol 5: (bytes, dtype, shape, order)."""


class _Scalar(_Recorded):
    """A numpy number: (dtype, bytes)."""


class _Encoded(_Recorded):
    """Bytes as Python 3 writes them for protocol 2: (text, "latin1"), or () for none."""


class _Sparse(_Recorded):
    """A scipy matrix whose state is the dictionary of its attributes."""


class _Csr(_Sparse):
    pass


class _Csc(_Sparse):
    pass


class _Coo(_Sparse):
    pass


class _ListFactory(_Recorded):
    """Stands for the type ``list`` where a defaultdict names it; never called."""


class _Mapping(dict[Any, Any]):
    """A defaultdict without its default."""

    def __init__(self, *factory: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        raise InputError("a dictionary with a state of its own is not read")


def _admitted() -> Mapping[tuple[str, str], type]:
    table: dict[tuple[str, str], type] = {
        ("numpy", "dtype"): _Dtype,
        ("numpy", "ndarray"): _Array,
        ("_codecs", "encode"): _Encoded,
        ("__builtin__", "bytes"): _Encoded,
        ("collections", "defaultdict"): _Mapping,
        ("__builtin__", "list"): _ListFactory,
        ("builtins", "list"): _ListFactory,
    }
    for core in ("numpy.core", "numpy._core"):
        table[f"{core}.multiarray", "_reconstruct"] = _Array
        table[f"{core}.multiarray", "scalar"] = _Scalar
        table[f"{core}.numeric", "_frombuffer"] = _Buffer
    for kind, standin in (("csr", _Csr), ("csc", _Csc), ("coo", _Coo)):
        for module in (f"scipy.sparse.{kind}", f"scipy.sparse._{kind}"):
            for form in ("matrix", "array"):
                table[module, f"{kind}_{form}"] = standin
    return MappingProxyType(table)


_ADMITTED: Final = _admitted()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Look a name up in the table; nothing is ever imported."""
        standin = _ADMITTED.get((module, name))
        if standin is None:
            raise InputError(f"it asks for {module}.{name}, and only arrays are read")
        return standin


def read_pickle(path: Path) -> Any:
    """The arrays, lists and dictionaries in a pickle file.

    Sparse matrices come as ``scipy.sparse.csr_array``, dense ones as ``numpy.ndarray``.

    Raises:
        InputError: If the file is damaged or asks for anything but numeric arrays.
    """
    try:
        with path.open("rb") as file:
            return _resolved(_Reader(file, encoding="latin1").load())
    except InputError as error:
        raise InputError(f"{path} was not read: {error}") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(
            f"{path} is not a complete pickle of arrays ({type(error).__name__}: {error}): "
            "fetch it again"
        ) from None


def _resolved(node: Any) -> Any:
    match node:
        case _Array():
            return _array(node)
        case _Buffer(args=(raw, dtype, shape, order)):
            return _filled(raw, dtype, shape, order)
        case _Scalar(args=(dtype, raw)):
            return _filled(raw, dtype, (), "C")[()]
        case _Encoded():
            return _bytes(node)
        case _Sparse(state=dict() as state):
            return _matrix(node, {str(key): _resolved(value) for key, value in state.items()})
        case _Recorded() | type():
            raise InputError(f"an object of kind {node!r} is incomplete or out of place")
        case dict():
            return {_resolved(key): _resolved(value) for key, value in node.items()}
        case list() | tuple():
            return type(node)(_resolved(item) for item in node)
        case _:
            return node


def _array(node: _Array) -> np.ndarray[Any, Any]:
    match node.state:
        case (int(), tuple() as shape, dtype, fortran, raw):
            return _filled(raw, dtype, shape, "F" if fortran else "C")
    raise InputError("an array without its shape, type and bytes")


def _filled(raw: Any, dtype: Any, shape: Any, order: str) -> np.ndarray[Any, Any]:
    flat = np.frombuffer(_bytes(raw), _number_type(dtype))
    return flat.reshape(shape, order="F" if order == "F" else "C").copy()


def _bytes(raw: Any) -> bytes:
    match raw:
        case bytes() | bytearray():
            return bytes(raw)
        case str():  # written by Python 2 and decoded as latin1: one character is one byte
            return raw.encode("latin1")
        case _Encoded(args=(str() as text, "latin1")):
            return text.encode("latin1")
        case _Encoded(args=()):
            return b""
    raise InputError(f"bytes were expected where a {type(raw).__name__} stands")


def _number_type(dtype: Any) -> np.dtype[Any]:
    match dtype:
        case _Dtype(args=(str() as code, *_), state=(int(), str() as order, *_)):
            if re.fullmatch(r"[biuf][1248]", code) and order in tuple("<>|="):
                return np.dtype(order + code)
            raise InputError(f"an array of type {code!r} is not one of plain numbers")
    raise InputError("an array without a number type")


def _matrix(node: _Sparse, state: dict[str, Any]) -> sparse.csr_array:
    shape = state.get("_shape", state.get("shape"))
    if isinstance(node, _Coo):
        coordinates = state.get("coords", (state.get("row"), state.get("col")))
        return sparse.csr_array(sparse.coo_array((state["data"], coordinates), shape=shape))
    form = sparse.csr_array if isinstance(node, _Csr) else sparse.csc_array
    matrix = form((state["data"], state["indices"], state["indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return sparse.csr_array(matrix)
