"""Every Triton kernel against its CPU counterpart, in Triton's interpreter: needs no GPU.

Run by test_kernels.py in a process of its own, for the interpreter is chosen at import.
"""

import importlib

import torch
import torch.nn.functional as F

from drgcn.kernels.attention import attention_backward, attention_forward
from drgcn.kernels.dropout import hashed_factors
from drgcn.kernels.reweighting import scaled_rows_backward, squeeze_excite, squeeze_excite_backward
from drgcn.kernels.sparse import (
    csr_lookup,
    csr_product,
    largest_entries,
    largest_entries_backward,
    sampled_product,
)
from drgcn.nn.graph import neighborhoods
from drgcn.nn.lgcn import LargestNeighbors, _Largest, _LargestGradient
from drgcn.reweighting import gate_gradients
from drgcn.sampling import CSRGraph
from drgcn.sampling.layers import _Lookup
from drgcn.training.randomness import LEVELS, _factors_at, dropout_factors, levels_of

attention = importlib.import_module("drgcn.nn.gat")
spmm = importlib.import_module("drgcn.nn.sparse")  # the attribute of that name is the function

NODES, LANES = 60, 3


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def main():
    torch.manual_seed(0)
    hub = torch.stack([torch.arange(50), torch.zeros(50, dtype=torch.int64)])
    pattern = neighborhoods(torch.cat([torch.randint(NODES, (2, 150)), hub], dim=1), NODES)
    for k in (1, 8, 64, 200):
        values, x, y = draw(LANES, pattern.nnz), draw(LANES, NODES, k), draw(LANES, NODES, k)
        for transpose in (False, True):
            expected = spmm._SparseProduct.apply(values, x, pattern, transpose)
            found = csr_product(pattern, values, x, transpose=transpose)
            torch.testing.assert_close(found, expected)
        expected = spmm._SampledProduct.apply(x, y, pattern)
        torch.testing.assert_close(sampled_product(pattern, x, y), expected)
    matrix = spmm.SparseMatrix(pattern, draw(pattern.nnz))
    graph, x = LargestNeighbors.of(matrix), draw(NODES, 5)
    matrix.values[10:20], x[7:11] = 1.0, x[6]  # equal values, of which the first goes first
    out, chosen = largest_entries(matrix, x, 3)
    expected, entries = _Largest.apply(x, graph, 3)
    assert torch.equal(out, expected)
    assert torch.equal(chosen[out > 0], entries[out > 0])
    grad = draw(*out.shape)
    torch.testing.assert_close(
        largest_entries_backward(matrix, grad, chosen),
        _LargestGradient.apply(grad, expected, entries, graph),
    )
    target, source = 5 * draw(LANES, NODES), 5 * draw(LANES, NODES)
    alpha = attention._Attention.apply(target, source, pattern, 0.2)
    torch.testing.assert_close(attention_forward(target, source, pattern, 0.2), alpha)
    arguments = (draw(LANES, pattern.nnz), alpha, target, source, pattern, 0.2)
    torch.testing.assert_close(
        attention_backward(*arguments), attention._AttentionGradient.apply(*arguments)
    )
    keys = torch.tensor([0, 1, -5, 2**62 + 17, -(2**63)])
    for dtype in (torch.float32, torch.float64):
        dropped = round(0.6 * LEVELS)
        scale = LEVELS / (LEVELS - dropped)
        found = hashed_factors(keys, 1003, dropped - LEVELS // 2, scale, dtype)
        assert torch.equal(found, dropout_factors(keys, 1003, 0.6, dtype))
    levels = levels_of([0.0, 0.5, 0.6, 0.25, 0.9])
    least, scale = levels - LEVELS // 2, (LEVELS / (LEVELS - levels).double()).float()
    found = hashed_factors(keys, 1003, least, scale, torch.float32)
    assert torch.equal(found, _factors_at(keys, levels, 1003, torch.float32))
    dense = torch.rand(NODES, NODES) * (torch.rand(NODES, NODES) < 0.2)
    dense[3] = 0
    dense[4] = torch.rand(NODES)
    row, col = dense.nonzero().T
    for value in (dense[row, col], None):
        graph = CSRGraph.from_edge_index(torch.stack([col, row]), NODES, value)
        expected = dense if value is not None else (dense > 0).float()
        rows, cols = torch.randint(NODES, (LANES, 17)), torch.randint(NODES, (LANES, 300))
        found = csr_lookup(graph, rows, cols)
        assert torch.equal(found, expected[rows[:, :, None], cols[:, None, :]])
        assert torch.equal(found, _Lookup.apply(rows, cols, graph))
    for d, g in ((5, 2), (128, 11), (602, 25)):
        shapes = ((d,), (g, d), (g,), (d, g), (d,))
        mean, squeeze, squeeze_bias, excite, excite_bias = (
            torch.randn(LANES, *shape) / shape[-1] ** 0.5 for shape in shapes
        )
        arguments = (mean, squeeze, squeeze_bias, excite, excite_bias)
        s, hidden = squeeze_excite(*arguments)
        expected = F.elu((squeeze @ mean[..., None])[..., 0] + squeeze_bias)
        torch.testing.assert_close(hidden, expected)
        logits = (excite @ expected[..., None])[..., 0] + excite_bias
        torch.testing.assert_close(s, torch.sigmoid(logits))
        grad = torch.randn(LANES, d)
        found = squeeze_excite_backward(grad, s, mean, hidden, squeeze, excite)
        torch.testing.assert_close(found, gate_gradients(grad, *arguments))
    for d, k in ((3, 1), (602, 128), (70, 1000)):
        weight, s, grad = torch.randn(LANES, d, k), torch.randn(LANES, d), torch.randn(LANES, d, k)
        found = scaled_rows_backward(grad, weight, s)
        torch.testing.assert_close(found, (grad * s[..., None], (grad * weight).sum(-1)))
    print("all kernels agree")


if __name__ == "__main__":
    main()
