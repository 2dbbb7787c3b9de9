"""Random symmetric matrices for tests, by dimension and seed."""

import torch
from hypothesis import strategies as st

SEEDS = st.integers(0, 10_000)


def sizes(least, most=6):
    return st.integers(least, most)


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def symmetric(d, seed=0):
    x = normal(d, d, seed=seed)
    return x + x.T


def covariance(d, seed=0):
    x = normal(d, d + 2, seed=seed)
    return x @ x.T / d


def gate(d, seed=0):
    s = (0.4 * normal(d, seed=seed + 1)).exp()
    return s / s.square().mean().sqrt()


def central_difference(function, point, direction, step=1e-5):
    return (function(point + step * direction) - function(point - step * direction)) / (2 * step)
