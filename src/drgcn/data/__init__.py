"""Datasets by name, a user's own data, splits and downloads, read by safe readers only.

Importing this package (or :mod:`drgcn.data.catalog`) does not import torch: names that need it
are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from drgcn.data.catalog import Description, describe, names

if TYPE_CHECKING:
    from drgcn.data.assemble import DatasetInfo
    from drgcn.data.downloader import download, verify
    from drgcn.data.loader import load
    from drgcn.data.splits import random_splits
    from drgcn.data.union import unite

__all__ = [
    "DatasetInfo",
    "Description",
    "describe",
    "download",
    "load",
    "names",
    "random_splits",
    "unite",
    "verify",
]

_HOMES = {
    "DatasetInfo": "drgcn.data.assemble",
    "download": "drgcn.data.downloader",
    "load": "drgcn.data.loader",
    "random_splits": "drgcn.data.splits",
    "unite": "drgcn.data.union",
    "verify": "drgcn.data.downloader",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
