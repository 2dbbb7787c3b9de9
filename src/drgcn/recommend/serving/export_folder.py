"""An export on disk: manifest, vectors with their ids, and what reads them back checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from drgcn._io import file_digest
from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable, attribute_rows
from drgcn.recommend.clicks.data import dump_manifest, manifest_facts
from drgcn.recommend.model.embedding import FoldIn, embed_cold
from drgcn.recommend.model.lightgcn import AttributedLightGCN
from drgcn.recommend.model.run_folder import load_run
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.retrieval.index import FaissIndex, read_index
from drgcn.recommend.serving.ids import IdLookup
from drgcn.sampling import CSRGraph
from drgcn.sampling.graph import load_tensor

USERS, ITEMS, ITEM_ARRAY = "users.parquet", "items.parquet", "items.npy"
INDEX, SEEN, MODEL, ATTRIBUTES = "index.faiss", "seen", "model", "attributes"
ITEM_ATTRIBUTES, COUNTS, FOLD_IN = "item_attributes", "counts", "fold_in"
LENGTHS: Final = f"{FOLD_IN}/lengths.npy"
LATELY: Final = f"{COUNTS}/lately.npy"
FORMAT: Final = "drgcn recommendations"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
# Facts that are looked up inside a manifest's dictionaries, and their types.
_USED: Final = (
    ("users", "count", int),
    ("items", "count", int),
    ("model", "sha256", str),
    ("data", "content_hash", str),
)
_GROUP = 1 << 14  # rows read together: a few megabytes
_WRITTEN = 1 << 18  # rows handed over at a time


@dataclass(frozen=True)
class ExportManifest:
    """The facts of an export.

    Attributes:
        model: Kind, gate and hash of the model.
        data: Name and content hash of the clicks, how many made neighbours, and before which day
            they lie (``None``: all).
        metric: What items are ranked by: ``"ip"``, the inner product.
        normalised: Whether vectors have length one (without the column of popularity), so that
            Euclidean distance ranks alike.
        dim: Columns of a vector, that of popularity included.
        dtype: ``"float32"`` or ``"float16"``.
        users: How many, the kind of their ids, and the table that maps rows to ids.
        items: Likewise.
        seen: Whether the clicks are there, so that seen items can be left out.
        cold_users: Whether users can be embedded from attributes alone.
        index: Facts of the faiss index: its effort (cells looked at, nprobe, for ivf), the recall
            it was tuned to and the recall measured, also of lists without seen items; ``None``
            without an index.
        environment: Versions and hardware.
        files: Size and SHA-256 of every file.
        fold_in: Whether users can be embedded from clicked items. (default: no, as in exports
            of earlier versions)
        popularity: Weight and half-life of the term for the popularity of items, which is the last
            column of their vectors; ``None`` if there is none.
    """

    model: dict[str, Any]
    data: dict[str, Any]
    metric: str
    normalised: bool
    dim: int
    dtype: str
    users: dict[str, Any]
    items: dict[str, Any]
    seen: bool
    cold_users: bool
    index: dict[str, Any] | None
    environment: dict[str, Any]
    files: dict[str, dict[str, Any]]
    fold_in: bool = False
    popularity: dict[str, Any] | None = None

    @classmethod
    def read(cls, folder: Path) -> ExportManifest:
        """The manifest of a folder."""
        writer = "`drgcn recommend export`"
        facts = manifest_facts(folder / MANIFEST, FORMAT, VERSION, writer, "export again")
        # The default of a field that an export must have is of no type that it may have.
        facts = {field.name: field.default for field in fields(cls)} | facts
        kinds = get_type_hints(cls)
        wrong = [name for name, kind in kinds.items() if not _is_kind(facts[name], kind)]
        wrong += [
            f"{name}.{key}"
            for name, key, kind in _USED
            if name not in wrong and not _is_kind(facts[name].get(key), kind)
        ]
        if wrong:
            raise InputError(
                f"Expected {', '.join(wrong)} in {folder / MANIFEST}; found none, or of another "
                f"type. Export again."
            )
        return cls(**{name: facts[name] for name in kinds})

    def write(self, folder: Path) -> None:
        """Write the manifest: the last file of an export."""
        dump_manifest(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **asdict(self)})

    def listed(self, name: str) -> list[str]:
        """The files of that name, or in a folder of that name."""
        return [file for file in self.files if file == name or file.startswith(f"{name}/")]

    def check(self, folder: Path, name: str) -> Path:
        """The path of a file, or of a folder of files, if they have the bytes they should have."""
        listed = self.listed(name)
        if not listed:
            raise InputError(f"Expected {name} in {folder / MANIFEST}; it is not listed there.")
        for file in listed:
            if not (folder / file).is_file() or file_facts(folder / file) != self.files[file]:
                raise InputError(
                    f"Expected {folder / file} with the size and SHA-256 of its {MANIFEST}; it is "
                    f"missing, cut short, or of another export. Export again."
                )
        return folder / name

    def check_shape(self, folder: Path, name: str, found: tuple[int, ...], count: int) -> None:
        """Refuse vectors that are not as many or as wide as the manifest says."""
        if found != (count, self.dim):
            raise InputError(
                f"Expected {count} vectors of {self.dim} columns in {folder / name}, as its "
                f"{MANIFEST} says; found the shape {list(found)}. Export again."
            )


def _is_kind(value: Any, kind: Any) -> bool:
    """Return whether a value has an annotated type; content of containers is not looked at."""
    if isinstance(kind, UnionType):
        return any(_is_kind(value, one) for one in get_args(kind))
    return type(value) is (get_origin(kind) or kind)


def file_facts(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": file_digest(path)}


def write_vectors(path: Path, ids: Any | None, vectors: Tensor) -> None:
    """Write columns ``id`` and ``vector``, a list of fixed size.

    Args:
        path: The file.
        ids: The id of each row, a pyarrow array. (default: 0, 1, 2, ...)
        vectors: ``[rows, d]``, float32 or float16.
    """
    import pyarrow as pa
    from pyarrow import parquet

    kind = pa.float16() if vectors.dtype == torch.float16 else pa.float32()
    element = pa.field("element", kind, nullable=False)
    listed = pa.list_(element, vectors.size(1))
    id_kind = pa.int64() if ids is None else ids.type
    schema = pa.schema([
        pa.field("id", id_kind, nullable=False), pa.field("vector", listed, nullable=False)
    ])  # fmt: skip
    # Floats do not compress; ids do.
    packing: dict[str, Any] = {"use_dictionary": False, "compression": {"id": "zstd"}}
    with parquet.ParquetWriter(path, schema, **packing) as writer:
        for begin in range(0, len(vectors), _WRITTEN):
            piece = vectors[begin : begin + _WRITTEN].cpu().contiguous().numpy()
            values = pa.FixedSizeListArray.from_arrays(pa.array(piece.ravel(), kind), type=listed)
            rows = (
                pa.array(np.arange(begin, begin + len(piece), dtype=np.int64))
                if ids is None
                else ids.slice(begin, len(piece))
            )
            writer.write_table(pa.table([rows, values], schema=schema), row_group_size=_GROUP)


class VectorTable:
    """A table of vectors, of which only what is asked for is read.

    Args:
        path: A file that :func:`write_vectors` wrote.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self.path = path
        self._held: Tensor | None = None
        try:
            self.file = parquet.ParquetFile(path)
            self.dim = int(self.file.schema_arrow.field("vector").type.list_size)
        except (pa.ArrowInvalid, OSError, KeyError, AttributeError) as error:
            raise InputError(
                f"Expected a whole table of vectors in {path}; {error}. Export again."
            ) from None

    def __len__(self) -> int:
        return int(self.file.metadata.num_rows)

    @cached_property
    def ids(self) -> Any:
        """The id of each row, a pyarrow array."""
        return self.file.read(columns=["id"])["id"].combine_chunks()

    def vectors(self) -> Tensor:
        """All vectors, in the type they are stored in."""
        return self._read(range(self.file.num_row_groups))

    def hold(self) -> None:
        """Keep all vectors in memory from now on: for who asks for few of them, and often."""
        self._held = self.vectors()

    def rows(self, index: Tensor) -> Tensor:
        """The vectors of some rows, as 32-bit floats; whole groups are read for them."""
        if self._held is not None:
            return self._held[index].float()
        group = torch.searchsorted(self._ends, index, right=True)
        needed, place = group.unique(return_inverse=True)
        sizes = self._ends.diff(prepend=self._ends.new_zeros(1))
        within = index - (self._ends - sizes)[group]
        before = sizes[needed].cumsum(0) - sizes[needed]
        return self._read(needed.tolist())[before[place] + within].float()

    @cached_property
    def _ends(self) -> Tensor:
        facts = self.file.metadata
        sizes = [facts.row_group(number).num_rows for number in range(facts.num_row_groups)]
        return torch.tensor(sizes, dtype=torch.int64).cumsum(0)

    def _read(self, groups: Any) -> Tensor:
        column = self.file.read_row_groups(list(groups), columns=["vector"])["vector"]
        pieces = [chunk.flatten().to_numpy().reshape(-1, self.dim) for chunk in column.chunks]
        # A copy, since arrow's memory must not be written to.
        return torch.from_numpy(np.concatenate([*pieces, np.empty((0, self.dim), _first(pieces))]))


def _first(pieces: list[Any]) -> Any:
    return pieces[0].dtype if pieces else np.float32


@dataclass(frozen=True, eq=False)
class ColdUsers:
    """The model without neighbours: its Dr gates are frozen and folded into the weights.

    Attributes:
        model: The model.
        table: Names and codes of the attributes, and those of the users of the export if it has
            their clicks.
    """

    model: ClickSAGE | AttributedLightGCN
    table: AttributeTable

    def vectors(self, rows: Sequence[Mapping[str, Any]]) -> Tensor:
        """Embeddings ``[rows, d]`` of what :meth:`encoded` takes."""
        with torch.no_grad():
            return embed_cold(self.model, "user", self.encoded(rows))

    def encoded(self, rows: Sequence[Mapping[str, Any]]) -> AttributeTable:
        """A table of new users.

        Args:
            rows: The attributes of each user by name. One that is not named or ``None`` is
                missing, as is a category that training has not seen.

        Raises:
            InputError: If a name is unknown, or a number is none.
        """
        for number, row in enumerate(rows):
            for name, value in row.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise InputError(
                        f"Expected finite numbers; found {value} for {name!r} of user {number}. "
                        f"Leave out what is not known, or give null."
                    )
        try:
            return attribute_rows(self.table, rows)
        except UnicodeEncodeError as error:
            raise InputError(
                f"Expected categories that are text; found {error.object!r}, with half a "
                f"character."
            ) from None


def _with_values(table: AttributeTable) -> AttributeTable:
    """Return a table whose codes have values; where none were kept, the codes themselves."""
    import pyarrow as pa

    if table.category_values or not table.category_names:
        return table
    texts = [[str(code) for code in range(size)] for size in table.category_sizes]
    values = tuple(pa.array(column, pa.large_string()) for column in texts)
    return replace(table, category_values=values)


class ExportFolder:
    """The files of an export.

    Args:
        folder: What ``drgcn recommend export`` wrote.

    Raises:
        InputError: If it is no export; and, when a file is first used, if the file is not the one
            that the manifest speaks of.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self.manifest = ExportManifest.read(self.folder)

    @property
    def num_users(self) -> int:
        """Number of users."""
        return int(self.manifest.users["count"])

    @property
    def num_items(self) -> int:
        """Number of items."""
        return int(self.manifest.items["count"])

    @cached_property
    def users(self) -> VectorTable:
        """Vectors and ids of users."""
        return self._table(USERS, self.num_users)

    @cached_property
    def items(self) -> Tensor:
        """Vectors of items, 32-bit floats."""
        path = self.manifest.check(self.folder, ITEM_ARRAY)
        vectors = load_tensor(path, mmap=False)
        self.manifest.check_shape(self.folder, ITEM_ARRAY, tuple(vectors.shape), self.num_items)
        return vectors.float()

    @cached_property
    def user_lookup(self) -> IdLookup:
        """Rows of users by id."""
        return IdLookup(self.users.ids)

    @cached_property
    def item_lookup(self) -> IdLookup:
        """Ids of items by row."""
        return IdLookup(self._table(ITEMS, self.num_items).ids)

    @cached_property
    def index(self) -> FaissIndex | None:
        """The index; ``None`` if the export has none."""
        facts = self.manifest.index
        if facts is None:
            return None
        index = read_index(self.folder / INDEX, facts)
        manifest = self.manifest
        manifest.check_shape(self.folder, INDEX, (index.num_items, index.dim), self.num_items)
        if index.metric != manifest.metric:
            raise InputError(
                f"Expected an index by {manifest.metric}, as {self.folder / MANIFEST} says of the "
                f"vectors; found {index.metric}. Export again."
            )
        return index

    @cached_property
    def seen(self) -> CSRGraph:
        """Items that each user has clicked; in memory, whatever becomes of the files."""
        if not self.manifest.seen:
            raise InputError(
                f"Expected an export with clicks, to leave out or explain by what was seen; "
                f"{self.folder} was written with --no-seen. Export again without it."
            )
        graph = CSRGraph.open(self.manifest.check(self.folder, SEEN), mmap=False)
        if (graph.num_rows, graph.num_cols) != (self.num_users, self.num_items):
            raise InputError(
                f"Expected clicks of {self.num_users} users on {self.num_items} items in "
                f"{self.folder / SEEN}; found {graph.num_rows} and {graph.num_cols}. Export again."
            )
        return graph

    @cached_property
    def cold_users(self) -> ColdUsers:
        """Encoder of users from attributes alone."""
        if not self.manifest.cold_users:
            raise InputError(
                "Expected a model that knows users by attributes; this one knows them by their "
                "clicks alone. Ask for users by id, or by the items they clicked."
            )
        folder = self.manifest.check(self.folder, ATTRIBUTES)
        return ColdUsers(self.model, _with_values(AttributeTable.load(folder, mmap=False)))

    @cached_property
    def model(self) -> ClickSAGE | AttributedLightGCN:
        """The model that embeds users who are not in the export."""
        folder = self.manifest.check(self.folder, MODEL)
        model, _ = load_run(folder)
        if not isinstance(model, ClickSAGE | AttributedLightGCN):
            raise InputError(
                f"Expected a model that knows attributes in {folder}; found "
                f"{type(model).__name__}."
            )
        return model

    @cached_property
    def fold_in(self) -> FoldIn:
        """Encoder of users from clicked items."""
        manifest = self.manifest
        if not manifest.fold_in:
            raise InputError(
                f"Expected an export that embeds users from clicked items; {self.folder} is of an "
                f"earlier version, or of a model that cannot. Export again, or ask by id."
            )
        manifest.check(self.folder, FOLD_IN)
        count = len(set(manifest.listed(FOLD_IN)) - {LENGTHS})
        inputs = tuple(
            self._array(f"{FOLD_IN}/{number}.npy", self.num_items).float()
            for number in range(count)
        )
        lengths = self._array(LENGTHS, self.num_users) if manifest.listed(LENGTHS) else None
        model = self.model if manifest.listed(MODEL) else None
        return FoldIn(inputs, manifest.normalised, model, lengths)

    @cached_property
    def item_categories(self) -> AttributeTable:
        """Categories of items, by which lists can be narrowed."""
        if not self.manifest.listed(ITEM_ATTRIBUTES):
            raise InputError(
                f"Expected an export with attributes of items, to choose by category; "
                f"{self.folder} has none. Read them in (`ingest --items`), and export again."
            )
        folder = self.manifest.check(self.folder, ITEM_ATTRIBUTES)
        return _with_values(AttributeTable.load(folder, mmap=False))

    @cached_property
    def item_clicks(self) -> Tensor:
        """Clicks on each item."""
        if self.manifest.listed(COUNTS):
            return self._array(f"{COUNTS}/items.npy", self.num_items)
        return torch.bincount(self.seen.col.long(), minlength=self.num_items)

    @cached_property
    def item_popularity(self) -> Tensor:
        """Clicks on each item, counted by their age if scores know the age of clicks."""
        if self.manifest.listed(LATELY):
            return self._array(LATELY, self.num_items)
        return self.item_clicks

    @cached_property
    def known_users(self) -> Tensor:
        """True for users of whom the model knows something, by clicks or attributes ``[users]``.

        An export of an earlier version that has no clicks does not tell: it counts all as known.
        """
        if self.manifest.cold_users:
            return torch.ones(self.num_users, dtype=torch.bool)
        if self.manifest.listed(COUNTS):
            return self._array(f"{COUNTS}/users.npy", self.num_users) > 0
        if self.manifest.seen:
            return self.seen.degree > 0
        return torch.ones(self.num_users, dtype=torch.bool)

    @cached_property
    def known_items(self) -> Tensor:
        """True for items of which the model knows something, likewise ``[items]``."""
        described = self.manifest.listed(MODEL) and self.manifest.listed(ITEM_ATTRIBUTES)
        if described or not self.manifest.listed(COUNTS):
            return torch.ones(self.num_items, dtype=torch.bool)
        return self.item_clicks > 0

    def _array(self, name: str, count: int) -> Tensor:
        found = load_tensor(self.manifest.check(self.folder, name), mmap=False)
        if not found.dim() or len(found) != count:
            raise InputError(
                f"Expected {count} rows in {self.folder / name}; found the shape "
                f"{list(found.shape)}. Export again."
            )
        return found

    def _table(self, name: str, count: int) -> VectorTable:
        table = VectorTable(self.manifest.check(self.folder, name))
        self.manifest.check_shape(self.folder, name, (len(table), table.dim), count)
        return table
