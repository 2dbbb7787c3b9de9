"""Safe readers of NumPy, JSON and pickle files: nothing that a file holds is ever run.

Some datasets are published as pickles. An ordinary unpickler calls any function that a file names;
even numpy's own hooks trust their arguments. Here every name in a file is looked up in a short
table of stand-ins that only record their arguments. When the whole file has been read,
:func:`_resolve` builds the arrays itself from the recorded shapes, types and bytes.
"""

from __future__ import annotations

import io
import json
import math
import operator
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn._io import plain_file
from drgcn.errors import InputError, warn
from drgcn.records import without_repetition

# Arrays by name; where object arrays are read, sparse matrices too.
Arrays = Mapping[str, Any]

#: Bytes that the content of a file may take in memory: half of this machine's.
MEMORY_BUDGET: Final = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
# Objects that a pickle may describe for each of its bytes. Each reference to a list takes two
# bytes, however much is in it: lists of lists of lists can grow without end.
_OBJECTS_PER_BYTE: Final = 16
# Whole numbers below this all have hashes of their own.
_LARGEST_KEY: Final = 1 << 60


def require_memory(needed: int, source: object) -> None:
    """Refuse what would take more memory than a file may, before it is asked for."""
    if needed > MEMORY_BUDGET:
        raise InputError(
            f"{source}: expected what fits into half of this machine's memory, "
            f"{MEMORY_BUDGET / 2**30:,.1f} GiB; found sizes that ask for {_gib(needed)}. "
            "Check the file, or use a smaller graph."
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count < 2**60 else "far more"


_EXHAUSTED: Final[dict[type[Exception], str]] = {
    MemoryError: "it asks for more memory than there is",
    RecursionError: "it is nested too deeply",
    UnicodeError: "it has text that is not UTF-8",
    OverflowError: "it has a number out of range",
}


@contextmanager
def refuse_exhaustion(source: object) -> Iterator[None]:
    """Turn errors of memory, depth, range and text that a file causes into an ``InputError``."""
    try:
        yield
    except tuple(_EXHAUSTED) as error:
        reason = next(words for kind, words in _EXHAUSTED.items() if isinstance(error, kind))
        raise InputError(
            f"Expected a graph; {source} is damaged or none ({reason}). Check it."
        ) from None


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
        with plain_file(path).open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"{path} holds a single array, but an .npz archive was expected")
            _require_unpacked(archive.zip, path)
            arrays = {}
            for key in archive.files:
                try:
                    arrays[key] = _read_member(archive, key, objects)
                except InputError as refusal:
                    words = f"{path}: {key!r} is left out: {refusal}"
                    warn(words)
            return arrays
    except InputError:
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        raise InputError(_numpy_refusal(path, error)) from None


def _require_unpacked(archive: zipfile.ZipFile, source: object) -> None:
    """Refuse an archive that would unpack to more than memory is meant to hold, or that holds two
    files of one name."""
    require_memory(sum(member.file_size for member in archive.infolist()), source)
    names = archive.namelist()
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{source} holds {name!r} twice: save it again")


def _require_filled(stream: Any, size: int) -> bool:
    """Refuse an array whose header asks for more bytes than follow; true if it holds objects."""
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[np.lib.format.read_magic(stream)]
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        return True
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError("the header of an array asks for more than follows")
    return False


def _is_pickled(error: Exception) -> bool:
    return "allow_pickle" in str(error) and "Object arrays" in str(error)


def _read_member(archive: Any, key: str, objects: bool) -> Any:
    name = f"{key}.npy"
    if name not in archive.zip.namelist():
        raise InputError("it is no array")
    with archive.zip.open(name) as member:
        size = archive.zip.getinfo(name).file_size
        if not _require_filled(member, size) or not objects:
            return archive[key]
        content = member.read()
    return _unwrapped(_unpickled(content))


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
        with plain_file(path).open("rb") as file:
            if file.read(6) == np.lib.format.MAGIC_PREFIX:
                file.seek(0)
                _require_filled(file, path.stat().st_size)
            file.seek(0)
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
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
            raise ValueError("indices and indptr are no whole numbers")
        if data.dtype.kind not in "biuf":
            raise ValueError("data are no numbers")
        rows, columns = map(operator.index, shape.tolist())
        require_memory(8 * (rows + columns), source)
        matrix = sparse.csr_array((native(data), indices, indptr), shape=(rows, columns))
        _require_rows(matrix)
    except KeyError as error:
        raise InputError(
            f"{source}: a sparse matrix needs {prefix}data, {prefix}indices, {prefix}indptr and "
            f"{prefix}shape, but {error.args[0]} is not there"
        ) from None
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        raise InputError(
            f"{source}: {prefix}data, indices, indptr and shape do not form a CSR matrix ({error})"
        ) from None
    return matrix


def _require_rows(matrix: Any) -> None:
    """Refuse a CSR or CSC matrix whose parts do not fit, with a ``ValueError``."""
    matrix.check_format(full_check=True)
    # Not checked above where the last entry is 0 or below, and there by differences, which may
    # overflow: kernels would write far behind their arrays.
    if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
        raise ValueError("indptr goes down")


def native(numbers: Any) -> Any:
    """Return an array or matrix of numbers in a type that scipy knows: no half floats, no byte
    order of another machine."""
    kind = np.dtype(np.float32) if numbers.dtype == np.float16 else numbers.dtype
    return numbers.astype(kind.newbyteorder("="))


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file.

    Raises:
        InputError: If the file is damaged or holds something else.
    """
    try:
        content = json.loads(plain_file(path).read_bytes(), object_pairs_hook=without_repetition)
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
        return _unpickled(plain_file(path).read_bytes())
    except InputError as error:
        raise InputError(f"{path} was not read: {error}") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(
            f"{path} is not a complete pickle of arrays ({type(error).__name__}: {error}): "
            "fetch it again"
        ) from None


class _Unpickler(pickle._Unpickler):
    """Reads a pickle into stand-ins; nothing is ever imported.

    It is the unpickler in Python, not the one in C: that one takes numbers of a file for sizes of
    its memo, and hashes the keys of dictionaries before anybody can look at them.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        """Look a name up in the table of stand-ins."""
        standin = _ADMITTED.get((module, name))
        if standin is None:
            raise InputError(f"it asks for {module}.{name}, and only arrays are read")
        return standin

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put([key, value])

    def _set_items(self) -> None:
        self._put(self.pop_mark())

    def _make_dict(self) -> None:
        items = self.pop_mark()
        self.stack.append({})
        self._put(items)

    def _put(self, items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | _Scalar) and not (
                isinstance(key, int) and abs(key) < _LARGEST_KEY
            ):
                # Others can be made to collide, or to take for ever to hash.
                raise InputError("it has a key that is neither a word nor a small whole number")
            self.stack[-1][key] = value

    def _refuse_set(self) -> None:
        raise InputError("it holds a set, and only arrays, lists and dictionaries are read")

    dispatch[pickle.SETITEM[0]] = _set_item
    dispatch[pickle.SETITEMS[0]] = _set_items
    dispatch[pickle.DICT[0]] = _make_dict
    dispatch[pickle.EMPTY_SET[0]] = dispatch[pickle.FROZENSET[0]] = _refuse_set


def _unpickled(content: bytes) -> Any:
    steps = iter(range(_OBJECTS_PER_BYTE * len(content)))
    return _resolve(_Unpickler(io.BytesIO(content), encoding="latin1").load(), steps)


def require_sound_archive(path: Path) -> None:
    """Refuse a ``.pt`` file that torch could not open within bounds of memory and time.

    Raises:
        InputError: If its sizes, or the keys of its dictionaries, are out of bounds.
        Exception: Nearly any, if it is no archive of ``torch.save``.
    """
    with zipfile.ZipFile(plain_file(path)) as archive:
        _require_unpacked(archive, path)
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        (name,) = (name for name in sizes if name.endswith("/data.pkl"))
        content = archive.read(name)
    _SavedUnpickler(content, name.removesuffix(".pkl"), sizes).load()


class _SavedUnpickler(_Unpickler):
    """Walks through the pickle of a ``.pt`` file; every name in it is a stand-in."""

    def __init__(self, content: bytes, folder: str, sizes: Mapping[str, int]) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self._folder, self._sizes = folder, sizes

    def find_class(self, module: str, name: str) -> Any:
        """Return a stand-in; those of sets are refused, as their members would be hashed."""
        if name in ("set", "frozenset", "Counter"):
            raise InputError(f"it asks for {module}.{name}")
        return _Mapping if name == "OrderedDict" else _Recorded

    def persistent_load(self, pid: Any) -> None:
        """Refuse a storage of more elements than the archive has bytes for it."""
        if not 0 <= pid[4] <= self._sizes[f"{self._folder}/{pid[2]}"]:
            raise InputError("it has a tensor of more elements than it holds")


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
    """A defaultdict without its default, or an empty ordered dictionary."""

    def __init__(self, *factory: Any) -> None:
        super().__init__()
        if factory and factory != (_ListFactory,):
            raise InputError("a dictionary made of other things is not read")

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


def _resolve(node: Any, steps: Iterator[int]) -> Any:
    if next(steps, None) is None:
        raise InputError("it refers to the same lists over and over")
    match node:
        case _Array():
            return _build_array(node, steps)
        case _Buffer(args=(raw, dtype, shape, order)):
            return _fill(raw, dtype, shape, order)
        case _Scalar(args=(dtype, raw)):
            return _fill(raw, dtype, (), "C")[()]
        case _Encoded():
            return _bytes(node)
        case _Sparse(state=dict() as state):
            return _build_matrix(
                node, {str(key): _resolve(value, steps) for key, value in state.items()}
            )
        case _Recorded() | type():
            raise InputError(f"an object of kind {node!r} is incomplete or out of place")
        case dict():
            return {_resolve(key, steps): _resolve(value, steps) for key, value in node.items()}
        case list() | tuple():
            return type(node)(_resolve(item, steps) for item in node)
        case _:
            return node


def _build_array(node: _Array, steps: Iterator[int]) -> np.ndarray[Any, Any]:
    match node.state:
        case (int(), tuple() as shape, _Dtype(args=("O8" | "O4", *_)), _, list() as entries):
            # Filled one by one: numpy would make a matrix of entries that are lists.
            array = np.empty(len(entries), dtype=object)
            for place, entry in enumerate(entries):
                array[place] = _resolve(entry, steps)
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
    shape: Any = state.get("_shape", state.get("shape"))
    require_memory(8 * sum(shape), "a sparse matrix")
    if isinstance(node, _Coo):
        coordinates = state.get("coords", (state.get("row"), state.get("col")))
        return sparse.csr_array(sparse.coo_array((state["data"], coordinates), shape=shape))
    form = sparse.csr_array if isinstance(node, _Csr) else sparse.csc_array
    matrix = form((state["data"], state["indices"], state["indptr"]), shape=shape)
    _require_rows(matrix)
    return sparse.csr_array(matrix)
