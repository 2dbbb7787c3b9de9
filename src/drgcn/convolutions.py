"""What of a model is a graph convolution of PyG, and how wide its input is."""

from __future__ import annotations

import torch
from torch_geometric.nn import MessagePassing

from drgcn.errors import InputError


def is_convolution(module: torch.nn.Module) -> bool:
    """Whether a module passes messages and has something to learn."""
    return isinstance(module, MessagePassing) and any(True for _ in module.parameters())


def widths_of(conv: torch.nn.Module) -> tuple[int, int]:
    """Feature dimensions of source and target nodes; -1 where only the data can tell."""
    width = getattr(conv, "in_channels", -1)
    if isinstance(width, dict):
        raise InputError(
            f"Expected one width per convolution; {type(conv).__name__} takes a width per node "
            f"type in one module. Call DimensionalReweighting per type instead."
        )
    source, target = width if isinstance(width, tuple | list) else (width, width)
    return source or -1, target or -1


def expect_foreign(model: torch.nn.Module) -> None:
    """Refuses models of :mod:`drgcn.nn`: their layers are no PyG convolutions, and fold a gate of
    their own into their weights."""
    for module in model.modules():
        # By name: who puts blocks into the models of others need not import ours.
        bases = (base.__module__ for base in type(module).__mro__)
        ours = any(name.startswith("drgcn.nn.") for name in bases)
        if ours and hasattr(module, "regularized_parameters"):
            name = type(module).__name__
            raise InputError(
                f"Expected a model of PyG convolutions; found {name} of drgcn.nn, which has Dr "
                f"blocks of its own. Build it with {name}(..., reweight='dr')."
            )
