"""The Triton kernels of this room against torch, in Triton's interpreter: needs no GPU.

Run by test_kernels.py in a process of its own, for the interpreter is chosen at import.
"""

import torch

from drgcn.recommend.model import sampling as systematic_draw
from drgcn.recommend.model.encoder import AttributeEncoder, AttributeSummary, encode_means
from drgcn.recommend.model.kernels import (
    drawn_on_cuda,
    encoded_mean,
    encoded_mean_backward,
    lse_backward,
    lse_forward,
)
from drgcn.recommend.model.losses import column_lse
from tests.recommend.model.clicks import graph, table


def draws():
    clicks = graph()
    for rows in (clicks.by_user, clicks.by_item):
        nodes = torch.randint(rows.num_rows + 1, (13, 5))
        for key, first, count in ((0, 0, 1), (-(2**62), 1000, 7), (2**63 - 1, 3, 10)):
            arguments = (rows, nodes, count, torch.tensor(key), first)
            expected = systematic_draw.draw_systematic(*arguments)
            assert torch.equal(drawn_on_cuda(*arguments), expected)


def encodings():
    nodes = 50
    found = table(nodes, torch.Generator().manual_seed(0))
    empty = found.numeric[:, :0], found.categories[:, :0]
    tables = {
        "both": found,
        "numbers": type(found)(found.numeric, empty[1], found.numeric_names, (), ()),
        "categories": type(found)(empty[0], found.categories, (), found.category_names, (4, 7)),
    }
    for name, kept in tables.items():
        encoder = AttributeEncoder(AttributeSummary.of(kept, nodes))
        for half in (torch.float32, torch.float16):
            ready = encoder.prepare(kept, dtype=half)
            exact = encoder.prepare(kept)
            for count in (1, 5, 10):
                drawn = torch.randint(nodes + 1, (77, count))
                drawn[0] = nodes
                expected = encode_means(encoder, exact, drawn)
                mean = encoded_mean(
                    encoder.table.detach(), drawn, ready.numeric, ready.codes, torch.float32
                )
                tolerance = 1e-5 if half == torch.float32 else 1e-2
                torch.testing.assert_close(mean, expected, atol=tolerance, rtol=tolerance)
                if name == "numbers":
                    continue
                grad = torch.randn(expected.shape)
                (wanted,) = torch.autograd.grad(expected, encoder.table, grad)
                numbers = ready.numeric.size(1)
                back = encoded_mean_backward(
                    grad, drawn, ready.codes, encoder.table.shape, numbers
                )
                torch.testing.assert_close(back, wanted, atol=1e-4, rtol=1e-4)
    # An embedding of the node itself: one category as wide as it takes.
    encoder = AttributeEncoder(AttributeSummary(nodes), id_channels=64)
    ready = encoder.prepare(None)
    drawn = torch.randint(nodes + 1, (33, 4))
    expected = encode_means(encoder, ready, drawn)
    codes = ready.ids[:, None]
    mean = encoded_mean(encoder.id_table.detach(), drawn, ready.numeric, codes, torch.float32)
    torch.testing.assert_close(mean, expected)


def sums():
    for rows, columns, width in ((3, 5, 16), (130, 200, 64), (200, 67, 32)):
        u = torch.randn(rows, width, requires_grad=True)
        v = torch.randn(columns, width, requires_grad=True)
        bias = torch.randn(columns)
        labels = torch.randint(9, (rows,)), torch.randint(9, (columns,))
        labels[0][0] = 100  # whom every column counts for
        expected = column_lse(u, v, bias, *labels)
        found = lse_forward(u.detach(), v.detach(), bias, *labels)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
        grad = torch.randn(rows)
        wanted = torch.autograd.grad(expected, (u, v), grad)
        back = lse_backward(grad, found, u.detach(), v.detach(), bias, *labels)
        torch.testing.assert_close(back, wanted, atol=1e-4, rtol=1e-4)
    # A row all of whose columns are left out.
    u, v, bias = torch.randn(4, 16), torch.randn(6, 16), torch.zeros(6)
    labels = torch.tensor([1, 0, 0, 0]), torch.ones(6, dtype=torch.int64)
    found = lse_forward(u, v, bias, *labels)
    assert found[0] == -torch.inf
    assert found[1:].isfinite().all()
    back = lse_backward(torch.tensor([0.0, 1, 1, 1]), found, u, v, bias, *labels)
    assert back[0].isfinite().all()
    assert back[1].isfinite().all()
    assert not back[0][0].any()


if __name__ == "__main__":
    torch.manual_seed(0)
    draws()
    encodings()
    sums()
    print("all kernels agree")
