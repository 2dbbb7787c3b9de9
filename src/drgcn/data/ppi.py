"""PPI: protein interactions in 24 tissues with one feature space and 121 labels a protein."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drgcn.data import ppi_graphsage, ppi_raw
from drgcn.data.assemble import RawGraph
from drgcn.data.catalog import describe
from drgcn.data.description import PublishedFile
from drgcn.data.pieces import join
from drgcn.errors import InputError

_FEATURES: Final = 50
_LABELS: Final = 121
# Training, validation and test graphs.
_GRAPHS: Final = {"train": 20, "val": 2, "test": 2}


def require_features(root: Path) -> None:
    """Refuse GraphSAGE's files without the features, which GraphSAGE can do without."""
    entry = describe("ppi")
    missing = [file.path for file in entry.files if not (root / file.path).is_file()]
    if missing == ["ppi/ppi-feats.npy"] and not _all_there(entry.other_files, root):
        raise InputError(
            f"{root / 'ppi'} holds GraphSAGE's files of PPI without ppi-feats.npy: no model can "
            f"be trained without features; put that file there, from {entry.home}"
        )


def read(root: Path) -> RawGraph:
    """The disjoint union of the 24 graphs, from GraphSAGE's files or else from PyG's.

    ``data.graph`` says which graph each node belongs to, in the manner of PyG's ``batch``.
    """
    folder = root / "ppi"
    if _all_there(describe("ppi").files, root):
        parts = ppi_graphsage.read(folder, _GRAPHS)
    else:
        parts = ppi_raw.read(folder)
    for part, pieces in parts.items():
        if len(pieces) != _GRAPHS[part]:
            raise InputError(
                f"{folder}: PPI has {_GRAPHS[part]} {part} graphs, but the files hold "
                f"{len(pieces)}: fetch them again"
            )
        columns, labels = pieces[0].x.shape[1], pieces[0].y.shape[1]
        if (columns, labels) != (_FEATURES, _LABELS):
            raise InputError(
                f"{folder}: PPI has {_FEATURES} features and {_LABELS} labels a node, but the "
                f"{part} files hold {columns} and {labels}: fetch them again"
            )
    return join(parts, split="published")


def _all_there(files: tuple[PublishedFile, ...], root: Path) -> bool:
    return all((root / file.path).is_file() for file in files)
