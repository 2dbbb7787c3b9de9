"""Propagation matrices for the layer samplers' tests, and the mean of many draws."""

import torch

from drgcn.sampling import CSRGraph

NODES = 12


def as_graph(dense, kind=torch.int64):
    """The non-zeros of a matrix, by rows."""
    row, col = dense.nonzero().T
    counts = torch.bincount(row, minlength=len(dense))
    rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return CSRGraph(rowptr.to(kind), col.to(kind), dense.size(1), dense[row, col])


def uneven_matrix(nodes=NODES, cols=None, seed=1):
    """Columns of very different norm and fill, a hub, an empty row and an empty column."""
    draw = torch.Generator().manual_seed(seed)
    shape = (nodes, cols or nodes)
    dense = torch.rand(*shape, generator=draw, dtype=torch.float64) + 0.1
    dense *= torch.rand(*shape, generator=draw) < 0.4
    dense *= torch.logspace(-1, 1, shape[1], dtype=torch.float64)
    dense[2] = torch.rand(shape[1], generator=draw, dtype=torch.float64) + 0.5  # a hub
    dense[5] = 0
    dense[:, 3] = 0
    return dense


def many(function, draws):
    """What a function returns at each of many calls, all of them in one go."""
    call = torch.vmap(lambda _: function(), randomness="different")
    return call(torch.arange(draws))


def assert_mean(found, expected, errors=4.5):
    """The mean of draws ``[n, ...]`` is within so many of its own standard errors."""
    error = found.std(0) / len(found) ** 0.5
    gap = (found.mean(0) - expected).abs()
    assert (gap <= errors * error + 1e-9).all(), float((gap / (error + 1e-12)).max())


def assert_not_mean(found, expected, errors=10.0):
    """The mean of draws is farther away than chance explains."""
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - expected).abs() > errors * error).any()
