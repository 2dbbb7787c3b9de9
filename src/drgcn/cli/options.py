"""Options that several verbs share, and the checks that come with them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drgcn.cli.writable import use_folder as use_folder
from drgcn.errors import InputError

if TYPE_CHECKING:
    import torch


class Gate(StrEnum):
    """What stands at the Dr position."""

    dr = "dr"
    none = "none"
    static = "static"
    constant = "constant"


class NormName(StrEnum):
    """Normalisation at the Dr position."""

    none = "none"
    batch = "batch"
    layer = "layer"
    graph = "graph"
    pair = "pair"


class Seen(StrEnum):
    """What training does not see of one graph."""

    none = "none"
    train = "train"
    apart = "apart"


class Rule(StrEnum):
    """Which epoch is tested."""

    best_validation = "best-validation"
    rising_loss = "rising-loss"
    patience = "patience"


Dataset = Annotated[
    str, typer.Argument(help="A dataset's name (see `drgcn data list`), or a path to your own.")
]
Split = Annotated[str | None, typer.Option(help="Split.", show_default="the first listed")]
Normalize = Annotated[
    str | None,
    typer.Option(help="Features: row, standard or none.", show_default="the dataset's own"),
]
FeatureFile = Annotated[
    Path | None, typer.Option(help="Feature file of corar or citeseerr: .npy, .npz, .pkl.")
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the datasets.", envvar="DRGCN_DATA", show_default="~/.cache/drgcn"
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never download.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]


def use_threads(threads: int | None) -> None:
    """Limits torch to a number of threads."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)


def use_device(name: str) -> torch.device:
    """The device of a name, if this machine has it."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"Expected --device cpu, cuda or auto; found {name!r}.") from None
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"Expected --device cpu, cuda or auto; found {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("Expected a CUDA device; this machine has none. Use --device cpu.")
    return device
