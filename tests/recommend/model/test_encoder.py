import math

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import AttributeTable
from drgcn.recommend.model import encoder as attribute_encoder
from drgcn.recommend.model.encoder import (
    AttributeEncoder,
    AttributeSummary,
    encode_bags,
    encode_means,
)

from .clicks import table

NODES = 50


def attributes(seed=0, missing=True):
    return table(NODES, torch.Generator().manual_seed(seed), missing)


def literal(encoder, found, node, known=True):
    """One node's vector, value by value."""
    summary = encoder.summary
    values, flags = [], []
    for column in range(len(summary.numeric_names)):
        raw = float(found.numeric[node, column])
        if math.isnan(raw):
            values.append(0.0)
        else:
            x = math.copysign(math.log1p(abs(raw)), raw)
            values.append((x - summary.mean[column]) / summary.deviation[column])
        if column in summary.flagged:
            flags.append(float(math.isnan(raw)))
    filling = [0.0] * (-(len(values) + len(flags)) % 8)
    parts = [torch.tensor(values + flags + filling)]
    offset = 0
    for column, size in enumerate(summary.category_sizes):
        code = int(found.categories[node, column])
        parts.append(encoder.table[offset + (code if 0 <= code < size else size)])
        offset += size + 1
    if encoder.id_table is not None:
        parts.append(encoder.id_table[node if known else -1])
    return torch.cat(parts)


@pytest.mark.parametrize("ids", [0, 5])
def test_nodes_and_means_equal_those_computed_value_by_value(ids):
    found = attributes()
    summary = AttributeSummary.of(found, NODES)
    encoder = AttributeEncoder(summary, id_channels=ids)
    ready = encoder.prepare(found)
    one_by_one = torch.stack([literal(encoder, found, node) for node in range(NODES)])
    nodes = torch.arange(NODES)[:, None]
    torch.testing.assert_close(encode_means(encoder, ready, nodes), one_by_one)
    assert encoder.out_channels == one_by_one.size(1) == 8 + 16 + ids
    drawn = torch.randint(NODES + 1, (30, 4))
    drawn[0] = NODES  # nobody at all
    for row, mean in zip(drawn, encode_means(encoder, ready, drawn), strict=True):
        real = row[row < NODES]
        expected = one_by_one[real].mean(0) if real.numel() else torch.zeros_like(mean)
        torch.testing.assert_close(mean, expected)


def test_gradients_reach_embeddings_of_somebody_only():
    found = attributes()
    encoder = AttributeEncoder(AttributeSummary.of(found, NODES), id_channels=3)
    ready = encoder.prepare(found)
    drawn = torch.randint(NODES + 1, (30, 4))
    weight = torch.randn(30, encoder.out_channels)
    (encode_means(encoder, ready, drawn) * weight).sum().backward()
    found_grads = encoder.table.grad.clone(), encoder.id_table.grad.clone()
    encoder.zero_grad()
    total = 0
    for row, w in zip(drawn, weight, strict=True):
        real = row[row < NODES]
        for node in real:
            total = total + (literal(encoder, found, int(node)) * w).sum() / len(real)
    total.backward()
    torch.testing.assert_close(found_grads[0], encoder.table.grad)
    torch.testing.assert_close(found_grads[1], encoder.id_table.grad)
    assert not found_grads[0][-1].any()
    assert not found_grads[1][-1].any()


def test_bags_of_different_sizes_are_means_too():
    found = attributes()
    encoder = AttributeEncoder(AttributeSummary.of(found, NODES), id_channels=3)
    ready = encoder.prepare(found)
    nodes, offsets = torch.randint(NODES, (20,)), torch.tensor([0, 3, 3, 12])
    bags = encode_bags(encoder, ready, nodes, offsets)
    single = encode_means(encoder, ready, torch.arange(NODES)[:, None])
    for row, piece in enumerate((nodes[:3], nodes[3:3], nodes[3:12], nodes[12:])):
        expected = single[piece].mean(0) if piece.numel() else torch.zeros_like(bags[0])
        torch.testing.assert_close(bags[row], expected)


def test_statistics_come_from_seen_rows_and_standardise_them():
    found = attributes(missing=False)
    seen = torch.arange(NODES) < 30
    summary = AttributeSummary.of(found, NODES, seen)
    x = AttributeEncoder(summary).prepare(found).numeric[:NODES, :3]
    torch.testing.assert_close(x[seen].mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x[seen].std(0, unbiased=False), torch.ones(3))
    assert summary.flagged == ()
    assert AttributeSummary.from_json(summary.to_json()) == summary


def test_pieces_of_a_table_add_up(monkeypatch):
    from drgcn.recommend.model import encoder as attribute_summary

    whole = AttributeSummary.of(attributes(), NODES)
    encoder = AttributeEncoder(whole)
    ready = encoder.prepare(attributes())
    for module in (attribute_summary, attribute_encoder):
        monkeypatch.setattr(module, "_CHUNK", 7)
    pieces = AttributeSummary.of(attributes(), NODES)
    torch.testing.assert_close(pieces.mean, whole.mean)
    torch.testing.assert_close(pieces.deviation, whole.deviation)
    assert torch.equal(encoder.prepare(attributes()).numeric, ready.numeric)
    assert torch.equal(encoder.prepare(attributes()).codes, ready.codes)


def test_odd_columns_stay_finite():
    numeric = torch.full((NODES, 4), 5.0)  # constant; huge; all missing; infinite
    numeric[:, 1] = 1e30 * torch.randn(NODES)
    numeric[:, 2] = float("nan")
    numeric[3, 3] = float("inf")
    names = ("constant", "huge", "missing", "infinite")
    found = AttributeTable(numeric, torch.empty(NODES, 0).int(), names, (), ())
    finite = torch.arange(NODES) != 3
    summary = AttributeSummary.of(found, NODES, finite)
    for dtype in (torch.float32, torch.float16):
        assert AttributeEncoder(summary).prepare(found, dtype=dtype).numeric.isfinite().all()


def test_unseen_codes_count_as_missing_and_large_columns_are_hashed(monkeypatch):
    monkeypatch.setattr(attribute_encoder, "LARGEST_COLUMN", 5)
    codes = torch.tensor([[-1, 0], [3, 6], [99, 99]]).int()
    found = AttributeTable(torch.empty(3, 0), codes, (), ("small", "large"), (4, 7))
    encoder = AttributeEncoder(AttributeSummary.of(found, 3))
    ready = encoder.prepare(found)
    assert ready.codes[:3, 0].tolist() == [4, 3, 4]
    assert ready.codes[2, 1] == 5 + 5
    assert (ready.codes[:2, 1] >= 5).all()
    assert (ready.codes[:2, 1] < 10).all()
    assert encoder.rows == 5 + 6


def test_hashed_ids_are_shared_and_unknown_nodes_have_none():
    encoder = AttributeEncoder(AttributeSummary(1000), id_channels=4, id_rows=16)
    ready = encoder.prepare(None)
    assert ready.ids[:-1].unique().numel() == 16
    assert ready.ids[-1] == 16
    stranger = encoder.prepare(None, num_nodes=3, known=False)
    vectors = encode_means(encoder, stranger, torch.arange(3)[:, None])
    assert not vectors.any()


def test_other_columns_or_rows_are_refused():
    encoder = AttributeEncoder(AttributeSummary.of(attributes(), NODES))
    with pytest.raises(InputError, match="attributes the model was made for"):
        encoder.prepare(None)
    with pytest.raises(InputError, match="50 rows"):
        encoder.prepare(attributes().rows(torch.arange(10)))
