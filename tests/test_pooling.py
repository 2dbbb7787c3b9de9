import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn.reweighting import scale_columns, weighted_mean

from .reference import layouts


@pytest.fixture
def x():
    """Seven nodes, five dimensions, about half zeros."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    return x * (torch.rand(7, 5, generator=generator) < 0.5)


WEIGHT = torch.tensor([1.0, 0.0, 2.0, 0.5, 3.0, 1.0, 0.25], dtype=torch.float64)
BATCH = torch.tensor([0, 0, 0, 2, 2, 3, 3])  # graph 1 has no nodes
EVERY_LAYOUT = pytest.mark.parametrize("layout", layouts.ALL)
SPARSE_LAYOUTS = pytest.mark.parametrize("layout", layouts.SPARSE)


@EVERY_LAYOUT
def test_mean_equals_that_of_numpy(x, layout):
    torch.testing.assert_close(weighted_mean(layout(x)), torch.from_numpy(x.numpy().mean(0)))


@EVERY_LAYOUT
def test_weighted_mean_equals_that_of_numpy(x, layout):
    expected = np.average(x.numpy(), axis=0, weights=WEIGHT.numpy())
    torch.testing.assert_close(weighted_mean(layout(x), WEIGHT), torch.from_numpy(expected))


def test_weights_are_normalised(x):
    for layout in layouts.ALL:
        torch.testing.assert_close(
            weighted_mean(layout(x), WEIGHT * 40), weighted_mean(layout(x), WEIGHT)
        )


def test_integer_weights_mean_repeated_nodes(x):
    for layout in layouts.ALL:
        times = torch.tensor([1, 3, 0, 2, 1, 1, 4])
        repeated = x.repeat_interleave(times, dim=0)
        torch.testing.assert_close(weighted_mean(layout(x), times), repeated.mean(0))


def test_zero_total_weight_gives_the_zero_vector(x):
    for layout in layouts.ALL:
        mean = weighted_mean(layout(x), torch.zeros(7))
        assert torch.equal(mean, torch.zeros(5, dtype=torch.float64))


def test_no_nodes_give_the_zero_vector(x):
    for layout in layouts.ALL:
        mean = weighted_mean(layout(x[:0]))
        assert torch.equal(mean, torch.zeros(5, dtype=torch.float64))


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_batched_mean_equals_a_loop_over_graphs(x, weight):
    for layout in layouts.ALL:
        parts = [graph == BATCH for graph in range(4)]
        loop = [weighted_mean(x[p], None if weight is None else weight[p]) for p in parts]
        torch.testing.assert_close(weighted_mean(layout(x), weight, BATCH), torch.stack(loop))


def test_graphs_need_not_be_contiguous(x):
    for layout in layouts.ALL:
        order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
        torch.testing.assert_close(
            weighted_mean(layout(x[order]), batch=BATCH[order]), weighted_mean(x, batch=BATCH)
        )


def test_batch_size_adds_empty_graphs_at_the_end(x):
    for layout in layouts.ALL:
        mean = weighted_mean(layout(x), batch=BATCH, batch_size=6)
        torch.testing.assert_close(mean[:4], weighted_mean(x, batch=BATCH))
        assert torch.equal(mean[4:], torch.zeros(2, 5, dtype=torch.float64))


def test_one_graph_of_zero_total_weight_leaves_the_others_alone(x):
    for layout in layouts.ALL:
        weight = WEIGHT.clone()
        weight[BATCH == 2] = 0
        mean = weighted_mean(layout(x), weight, BATCH)
        assert torch.equal(mean[2], torch.zeros(5, dtype=torch.float64))
        torch.testing.assert_close(mean[[0, 3]], weighted_mean(x, WEIGHT, BATCH)[[0, 3]])


def test_no_nodes_in_a_batch_give_one_zero_vector_per_graph(x):
    for layout in layouts.ALL:
        nobody = torch.empty(0, dtype=torch.long)
        mean = weighted_mean(layout(x[:0]), batch=nobody, batch_size=3)
        assert torch.equal(mean, torch.zeros(3, 5, dtype=torch.float64))


def test_sums_of_short_floats_run_in_float32():
    for layout in layouts.ALL:
        ones = torch.ones(4096, 2, dtype=torch.bfloat16)  # a bfloat16 sum of ones stops at 256
        mean = weighted_mean(layout(ones))
        assert mean.dtype == torch.float32
        assert torch.equal(mean, torch.ones(2))


@pytest.mark.parametrize("batch", [None, BATCH])
def test_scaling_sparse_features_equals_scaling_dense_ones(x, batch):
    for layout in layouts.SPARSE:
        s = torch.rand(5 if batch is None else (4, 5), generator=torch.Generator().manual_seed(1))
        s = s.double()
        expected = x * (s if batch is None else s[batch])
        torch.testing.assert_close(scale_columns(layout(x), s, batch).to_dense(), expected)


def test_scaling_keeps_layout_and_pattern(x):
    for layout in layouts.SPARSE:
        sparse = layout(x)
        scaled = scale_columns(sparse, torch.full((5,), 0.5, dtype=torch.float64))
        assert scaled.layout == sparse.layout
        assert scaled._nnz() == sparse._nnz()
        if layout in (layouts.coo, layouts.uncoalesced_coo):
            assert scaled.is_coalesced() == sparse.is_coalesced()


@pytest.mark.parametrize("shape", [(4,), (2, 4, 3)])
def test_features_must_be_a_matrix(shape):
    with pytest.raises(ValueError, match=r"shape \[nodes, d\]"):
        weighted_mean(torch.zeros(shape))


def test_other_layouts_are_refused_by_name(x):
    with pytest.raises(ValueError, match="sparse_csc"):
        weighted_mean(x.to_sparse_csc())


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(
    nodes=st.integers(0, 9),
    d=st.integers(1, 6),
    graphs=st.integers(1, 4),
    layout=st.sampled_from(layouts.SPARSE),
    seed=st.integers(0, 99),
)
def test_sparse_and_dense_means_agree(nodes, d, graphs, layout, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, d, generator=generator, dtype=torch.float64)
    x = x * (torch.rand(nodes, d, generator=generator) < 0.4)
    weight = torch.rand(nodes, generator=generator, dtype=torch.float64)
    batch = torch.randint(graphs, (nodes,), generator=generator)
    torch.testing.assert_close(
        weighted_mean(layout(x), weight, batch, graphs), weighted_mean(x, weight, batch, graphs)
    )
