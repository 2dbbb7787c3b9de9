"""How much of a gate is stuck at its ends."""

from __future__ import annotations

from torch import Tensor

from drgcn.errors import InputError

MARGIN = 1e-3


def gate_saturation(s: Tensor, margin: float = MARGIN) -> float:
    r"""The share of entries of a sigmoid gate below ``margin`` or above ``1 - margin``.

    There the sigmoid has a slope below ``margin``, a 250th of its greatest for the default: such
    an entry hardly learns any more, and its dimension is as good as switched off, or passed on
    as it is.

    Args:
        s (Tensor): Gate vector, of any shape.
        margin (float, optional): Distance from 0 and 1. (default: :obj:`1e-3`)

    Example:
        >>> gate_saturation(torch.tensor([0.0005, 0.5, 0.9995, 0.9]))
        0.5
    """
    if not 0 < margin < 0.5:
        raise InputError(f"Expected a margin between 0 and 0.5; found {margin}.")
    if s.numel() == 0:
        raise InputError("Expected a gate with entries; found an empty one.")
    s = s.detach().double()
    return float(((s < margin) | (s > 1 - margin)).double().mean())
