"""Safe readers of NumPy, JSON and pickle files: nothing that a file holds is ever run.

Some datasets are published as pickles. An ordinary unpickler calls any function that a file names;
even numpy's own hooks trust their arguments. Here every name in a file is looked up in a short
table of stand-ins that only record their arguments. When the whole file has been read,
:func:`_resolve` builds the arrays itself from the recorded shapes, types and bytes.
"""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.errors import DrgcnWarning, InputError

# Arrays by name; where object arrays are read, sparse matrices too.
Arrays = Mapping[str, Any]


def read_arrays(path: Path, *, objects: bool = False) -> Arrays:
    """Read all arrays of an ``.npz`` file, by name.

    Args:
        path: The file.
        objects: Whether to read pickled members too, by the rules of :func:`read_pickle`. Those
            that hold more than numbers, text and matrices are left out with a warning.

    Raises:
        InputError: If the file is damaged, no archive, or holds pickled objects without leave.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"{path} holds a single array, but an .npz archive was expected")
            arrays = {}
            for key in archive.files:
                try:
                    arrays[key] = _read_member(archive, key, objects)
                except InputError as refusal:
                    words = f"{path}: {key!r} is left out: {refusal}"
                    warnings.warn(words, DrgcnWarning, stacklevel=5)
            return arrays
    except InputError:
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        raise InputError(_numpy_refusal(path, error)) from None


def _is_pickled(error: Exception) -> bool:
    return "allow_pickle" in str(error) and "Object arrays" in str(error)


def _read_member(archive: Any, key: str, objects: bool) -> Any:
    try:
        return archive[key]
    except ValueError as error:
        if not objects or not _is_pickled(error):
            raise
    with archive.zip.open(f"{key}.npy") as member:
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[np.lib.format.read_magic(member)]
        read_header(member)
        return _unwrapped(_resolve(_Unpickler(member, encoding="latin1").load()))


def _unwrapped(value: Any) -> Any:
    """Return what an object array wraps: a matrix, numbers or words; else the array itself."""
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return value
    if value.ndim == 0:
        matrix = value.item()
        return matrix if isinstance(matrix, np.ndarray) or sparse.issparse(matrix) else value
    for kinds, dtype in (((str,), np.str_), ((bool, int, float, np.number), None)):
        if all(isinstance(entry, kinds) for entry in value.flat):
            return np.array(value.tolist(), dtype=dtype)
    return value


def read_array(path: Path) -> npt.NDArray[Any]:
    """Read the array of an ``.npy`` file; refuses the same files as :func:`read_arrays`."""
    try:
        with path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
            if isinstance(array, np.ndarray):
                return array
    except Exception as error:  # a damaged file can raise nearly anything
        raise InputError(_numpy_refusal(path, error)) from None
    raise InputError(f"{path} holds an archive, but a single array was expected")


def _numpy_refusal(path: Path, error: Exception) -> str:
    if _is_pickled(error):
        return (
            f"{path} holds pickled Python objects, which are never opened: save plain numeric "
            "arrays (a sparse matrix as its data, indices, indptr and shape)"
        )
    return f"{path} is damaged or no numpy file ({type(error).__name__}): save or fetch it again"


def csr_from_parts(arrays: Arrays, prefix: str, source: object) -> sparse.csr_array:
    """Build the CSR matrix stored as ``<prefix>data``, ``indices``, ``indptr`` and ``shape``."""
    try:
        data, indices, indptr, shape = (
            arrays[f"{prefix}{part}"] for part in ("data", "indices", "indptr", "shape")
        )
        rows, columns = shape.tolist()
        matrix = sparse.csr_array((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
    except KeyError as error:
        raise InputError(
            f"{source}: a sparse matrix needs {prefix}data, {prefix}indices, {prefix}indptr and "
            f"{prefix}shape, but {error.args[0]} is not there"
        ) from None
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"{source}: {prefix}data, indices, indptr and shape do not form a CSR matrix ({error})"
        ) from None
    return matrix


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file.

    Raises:
        InputError: If the file is damaged or holds something else.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is damaged or no JSON file ({type(error).__name__}): fetch it again"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a JSON object, not a {type(content).__name__}")
    return content


def read_pickle(path: Path) -> Any:
    """Read the arrays, lists and dictionaries in a pickle file.

    Sparse matrices come as ``scipy.sparse.csr_array``, dense ones as ``numpy.ndarray``.

    Raises:
        InputError: If the file is damaged or asks for anything but numeric arrays.
    """
    try:
        with path.open("rb") as file:
            return _resolve(_Unpickler(file, encoding="latin1").load())
    except InputError as error:
        raise InputError(f"{path} was not read: {error}") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(
            f"{path} is not a complete pickle of arrays ({type(error).__name__}: {error}): "
            "fetch it again"
        ) from None


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Look a name up in the table; nothing is ever imported."""
        standin = _ADMITTED.get((module, name))
        if standin is None:
            raise InputError(f"it asks for {module}.{name}, and only arrays are read")
        return standin


class _Recorded:
    """Recorded arguments and state of a call that a pickle asked for and that is not made."""

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
    """The type ``list`` where a defaultdict names it; never called."""


class _Mapping(dict[Any, Any]):
    """A defaultdict without its default."""

    def __init__(self, *factory: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        raise InputError("a dictionary with a state of its own is not read")


def _admitted_names() -> Mapping[tuple[str, str], type]:
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


_ADMITTED: Final = _admitted_names()


def _resolve(node: Any) -> Any:
    match node:
        case _Array():
            return _build_array(node)
        case _Buffer(args=(raw, dtype, shape, order)):
            return _fill(raw, dtype, shape, order)
        case _Scalar(args=(dtype, raw)):
            return _fill(raw, dtype, (), "C")[()]
        case _Encoded():
            return _bytes(node)
        case _Sparse(state=dict() as state):
            return _build_matrix(node, {str(key): _resolve(value) for key, value in state.items()})
        case _Recorded() | type():
            raise InputError(f"an object of kind {node!r} is incomplete or out of place")
        case dict():
            return {_resolve(key): _resolve(value) for key, value in node.items()}
        case list() | tuple():
            return type(node)(_resolve(item) for item in node)
        case _:
            return node


def _build_array(node: _Array) -> np.ndarray[Any, Any]:
    match node.state:
        case (int(), tuple() as shape, _Dtype(args=("O8" | "O4", *_)), _, list() as entries):
            # Filled one by one: numpy would make a matrix of entries that are lists.
            array = np.empty(len(entries), dtype=object)
            for place, entry in enumerate(entries):
                array[place] = _resolve(entry)
            return array.reshape(shape)
        case (int(), tuple() as shape, dtype, fortran, raw):
            return _fill(raw, dtype, shape, "F" if fortran else "C")
    raise InputError("an array without its shape, type and bytes")


def _fill(raw: Any, dtype: Any, shape: Any, order: str) -> np.ndarray[Any, Any]:
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


def _build_matrix(node: _Sparse, state: dict[str, Any]) -> sparse.csr_array:
    shape = state.get("_shape", state.get("shape"))
    if isinstance(node, _Coo):
        coordinates = state.get("coords", (state.get("row"), state.get("col")))
        return sparse.csr_array(sparse.coo_array((state["data"], coordinates), shape=shape))
    form = sparse.csr_array if isinstance(node, _Csr) else sparse.csc_array
    matrix = form((state["data"], state["indices"], state["indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return sparse.csr_array(matrix)
