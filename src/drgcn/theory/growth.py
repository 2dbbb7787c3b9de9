"""Theorem 2 by simulation: what happens to deviations from the fixed point, layer by layer."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.activation import RELU, Activation
from drgcn.theory.conditions import weights
from drgcn.theory.eigenspaces import Parts, decompose
from drgcn.theory.normalised_map import Normaliser, normalised_derivative, normalised_moment
from drgcn.theory.normalised_spectrum import normalised_spectrum
from drgcn.theory.symmetric_space import spectral_radius


def deviations(deviation: Tensor, layers: int, activation: Activation = RELU) -> list[Parts]:
    r"""Deviations from :math:`\mathbf{C}^*` after 0, 1, ... ``layers`` layers of Eq. 15, S = I.

    Theorem 2 says that they grow; with the exact map they shrink: the part in :math:`V_G` is
    gone after one layer, those in :math:`V_L` and :math:`V_M` go by their eigenvalues.
    """
    fixed = normalised_spectrum(deviation.size(0), activation).fixed_point
    c = fixed + deviation
    found = [decompose(deviation)]
    for _ in range(layers):
        c = normalised_moment(c, activation=activation)
        found.append(decompose(c - fixed))
    return found


def reweighted_fixed_point(
    s: Tensor,
    *,
    normaliser: Normaliser = "consistent",
    activation: Activation = RELU,
    tolerance: float = 1e-12,
    layers: int = 2000,
) -> Tensor:
    r"""The :math:`\mathbf{C}` with :math:`V_{d_\phi}(\mathbf{S}, \mathbf{C}) = \mathbf{C}`.

    For S other than a multiple of I it is not BSB1, so that Theorem 3 does not apply there.
    """
    s = weights(s, s.numel())
    c = normalised_spectrum(s.numel(), activation).fixed_point
    for _ in range(layers):
        after = normalised_moment(c, s, normaliser=normaliser, activation=activation)
        if float((after - c).abs().max()) <= tolerance * float(after.abs().max()):
            return after
        c = after
    raise InputError(f"The recursion did not settle within {layers} layers for this s.")


def growth_rate(s: Tensor, *, activation: Activation = RELU) -> float:
    r"""Rate of small deviations per layer if s acts in every layer, at its own fixed point.

    The spectral radius of the derivative, which Theorem 2 claims to be proportional to K.
    """
    fixed = reweighted_fixed_point(s, activation=activation)
    return spectral_radius(
        lambda change: normalised_derivative(fixed, change, s, activation=activation), s.numel()
    )


def backward_gain(c: Tensor, s: Tensor, *, samples: int = 20_000, seed: int = 0) -> float:
    r"""Mean squared gain of gradients through one layer of Eq. 15 with ReLU, by Monte Carlo.

    :math:`\frac{1}{d - 1} \mathbb{E} \|G A\|_F^2` for the Jacobian A from
    :math:`G\mathbf{Sh}` to the output. At :math:`\mathbf{C}^*` and S = I it is the backward
    eigenvalue of Theorem 3; a smaller K makes it larger.
    """
    d = c.size(0)
    s = weights(s, d)
    value, vector = torch.linalg.eigh(c)
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(samples, d, dtype=torch.float64, generator=draw)
    x = (noise * value.clamp(min=0.0).sqrt()) @ vector.T * s
    x = x - x.mean(1, keepdim=True)
    z = x * (d**0.5 / x.norm(dim=1, keepdim=True))
    on = (z > 0).double()
    # tr(G D A D) with D the slopes and A = G - z z^T / d, entry by entry.
    count = on.sum(1)
    own = count - (count + (on * z).square().sum(1)) / d
    shared = count - (count.square() + (on * z).sum(1).square()) / d
    return float((d / x.square().sum(1) * (own - shared / d)).mean() / (d - 1))
