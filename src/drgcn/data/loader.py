"""``load``: datasets of the catalogue by name, and your own data by path."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from drgcn.data.assemble import RawGraph, assemble
from drgcn.data.catalog import Family, describe, names
from drgcn.data.checks import Columns, Parts, checked
from drgcn.data.downloader import Request, data_root
from drgcn.data.features import NORMALIZATIONS
from drgcn.data.graph_files import read_npz, read_saved
from drgcn.data.readers import refuse_exhaustion
from drgcn.data.tables import read_folder
from drgcn.errors import DrgcnWarning, InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Modules of this package whose ``read(request)`` knows the files of a family; each is imported
# when one of its sets is asked for.
_READERS: Final[Mapping[Family, str]] = {
    "planetoid": "planetoid",
    "refined": "planetoid",
    "gnn-benchmark": "graph_files",
    "heterophilous": "graph_files",
    "twitch": "twitch",
    "ppi": "ppi",
    "ppi-rebuilt": "ppi",
    "reddit": "reddit",
    "table": "small",
    "planted": "small",
    "reddit-like": "reddit_like",
}


def load(
    name: str | PathLike[str],
    root: str | PathLike[str] | None = None,
    *,
    split: str | None = None,
    split_seed: int = 0,
    normalize: str | None = None,
    sparse: bool = False,
    offline: bool = False,
    **options: Any,
) -> Data:
    """Load a dataset of the catalogue, or your own data, as one PyG ``Data``.

    The graph is undirected (both directions, sorted), without loops and repeated edges. ``y``
    is -1 where a label is unknown; where a node has several labels (``ppi``), it is a matrix of
    zeros and ones. ``identity``, where it is known, is equal for nodes that are the same thing and
    -1 where that is not known. ``data.dataset`` is a :class:`drgcn.data.DatasetInfo` that
    says what was loaded and what was done to it.

    Args:
        name: A name out of :func:`drgcn.data.names`, or the path of a folder with ``nodes`` and
            ``edges`` tables, an ``.npz`` or a ``.pt`` file (write ``./cora`` for a folder that
            bears a dataset's name).
        root: Data root; else ``$DRGCN_DATA``, else ``~/.cache/drgcn``.
        split: Name of the split; the dataset's first one if not given.
        split_seed: Seed of a random split. Nothing else depends on it.
        normalize: ``"row"``, ``"standard"`` or ``"none"``; the dataset's own default if not
            given.
        sparse: Return ``x`` as a ``torch.sparse_csr`` tensor.
        offline: Never download.
        **options: What one set takes alone: ``features`` (corar, citeseerr), ``graph``
            (twitch), ``k`` (digits, breast-cancer, wine), ``counts`` (reddit, reddit-like:
            ``"auto"``, ``"log"`` or ``"raw"``), ``scale`` and ``seed`` (reddit-like), the
            parameters of :func:`drgcn.data.small.make_planted`, ``require_labels`` and ``target``
            (own data: the column or array of measured values to predict, a regression), and
            ``identity`` (own data: the column or array that says which thing a node is).

    Example:
        >>> data = load("wine", k=5, normalize="standard")
        >>> data.dataset.nodes, data.dataset.classes
        (178, 3)

    Raises:
        InputError: If a name, option or file cannot be used; the message says why.
        MissingDataError: If files are not there and cannot be fetched.
    """
    if isinstance(split_seed, bool) or not isinstance(split_seed, int) or split_seed < 0:
        raise InputError(f"split_seed must be a whole number from 0 on, not {split_seed!r}")
    if normalize not in (None, *NORMALIZATIONS):
        raise InputError(
            f"normalize must be one of {', '.join(NORMALIZATIONS)}, not {normalize!r}"
        )
    path = _own_path(name)
    if path is not None:
        _check_options(path.name, options, ("require_labels", "target", "identity"))
        columns = Columns(options.pop("target", None), options.pop("identity", None))
        with refuse_exhaustion(path):
            raw = checked(_read_own(path, columns), split, split_seed, **options)
            return assemble(
                raw,
                name=path.stem,
                normalize=normalize or "none",
                as_sparse=sparse,
                home=str(path),
                options=columns.named,
            )

    entry = describe(str(name))
    _check_options(entry.name, options, entry.options)
    if split is not None and split not in entry.splits:
        raise InputError(
            f"{entry.name} has no split {split!r}: choose one of {', '.join(entry.splits)}"
        )
    request = Request(entry, data_root(root), split, split_seed, offline, options)
    with refuse_exhaustion(entry.name):
        raw = _reader(entry.family)(request)
    with warnings.catch_warnings(), refuse_exhaustion(entry.name):
        if normalize is None:
            # Reddit's signed rows are divided by their sums because the original code does so;
            # whoever has not asked for it needs no advice against it.
            warnings.filterwarnings("ignore", "dividing rows", DrgcnWarning)
        return assemble(
            raw,
            name=f"{entry.name}-{options['graph']}" if options.get("graph") else entry.name,
            normalize=normalize or entry.normalize,
            as_sparse=sparse,
            licence=entry.licence,
            citation=entry.citation,
            home=entry.home,
            options=tuple(sorted((key, _plain(value)) for key, value in options.items())),
        )


def _reader(family: Family) -> Callable[[Request], RawGraph]:
    module = import_module(f"drgcn.data.{_READERS[family]}")
    read: Callable[[Request], RawGraph] = module.read
    return read


def _own_path(name: str | PathLike[str]) -> Path | None:
    path = Path(name).expanduser()
    if not isinstance(name, str) or path.suffix in (".npz", ".pt") or set(name) & {"/", os.sep}:
        return path
    return None if name.lower().replace("_", "-") in names() or not path.exists() else path


def _read_own(path: Path, columns: Columns) -> Parts:
    if not path.exists():
        raise InputError(f"{path} does not exist: check the path")
    if path.is_dir():
        return read_folder(path, columns)
    if path.suffix == ".npz":
        return read_npz(path, columns)
    if path.suffix == ".pt":
        return read_saved(path, columns)
    raise InputError(
        f"{path} is no folder with nodes and edges tables, no .npz and no .pt file: own data is "
        "given in one of these forms"
    )


def _check_options(name: str, options: dict[str, Any], known: tuple[str, ...]) -> None:
    for option in options:
        if option not in known:
            raise InputError(
                f"{name} does not take the option {option!r}: it takes "
                f"{', '.join(known) if known else 'none'}"
            )


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
