"""Dimensional reweighting for graph neural networks.

The public names are loaded when first used, so that ``import drgcn`` and the command line
start at once.
"""

from __future__ import annotations

import importlib

from drgcn._version import __version__ as __version__

TYPE_CHECKING = False  # the module typing takes longer than all else here
if TYPE_CHECKING:
    from typing import Any

    from drgcn.data import load as load
    from drgcn.insertion import insert_reweighting as insert_reweighting
    from drgcn.insertion import reweighting_blocks as reweighting_blocks
    from drgcn.reweighting import DimensionalReweighting as DimensionalReweighting
    from drgcn.reweighting import fold as fold
    from drgcn.stability import FeatureMoments as FeatureMoments
    from drgcn.stability import minimal_k as minimal_k
    from drgcn.stability import minimal_k_in_range as minimal_k_in_range
    from drgcn.stability import stability_k as stability_k
    from drgcn.stability import variance_spread as variance_spread
    from drgcn.studies.advice.advice import advise as advise
    from drgcn.studies.compare import compare as compare
    from drgcn.training import fit as fit
    from drgcn.training import load_fit as load_fit
    from drgcn.training.tracker import StabilityTracker as StabilityTracker


_HOMES = {
    "DimensionalReweighting": "drgcn.reweighting",
    "fold": "drgcn.reweighting",
    "insert_reweighting": "drgcn.insertion",
    "reweighting_blocks": "drgcn.insertion",
    "FeatureMoments": "drgcn.stability",
    "minimal_k": "drgcn.stability",
    "minimal_k_in_range": "drgcn.stability",
    "stability_k": "drgcn.stability",
    "variance_spread": "drgcn.stability",
    "load": "drgcn.data",
    "fit": "drgcn.training",
    "load_fit": "drgcn.training",
    "compare": "drgcn.studies.compare",
    "StabilityTracker": "drgcn.training.tracker",
    "advise": "drgcn.studies.advice.advice",
}

# Packages that ``import drgcn`` makes reachable, as in ``drgcn.nn.GCN``.
_ROOMS = ("data", "nn", "sampling", "stability", "theory", "training")

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"drgcn.{name}")
    raise AttributeError(f"module 'drgcn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
