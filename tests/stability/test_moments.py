import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader as GraphLoader

from drgcn.errors import InputError, NonFiniteError, UndefinedStability
from drgcn.stability import FeatureMoments, rows, stability_k

from ..reference import layouts

QUICK = settings(max_examples=40, derandomize=True, deadline=None, database=None)


def features(n, d, seed=0, offset=0.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    x = x * (torch.rand(n, d, generator=generator) < 0.6)
    # On a grid, so that adding the offset rounds nothing away.
    return (x * 1024).round() / 1024 + offset


def expected(x, weight=None):
    return torch.from_numpy(
        np.cov(x.numpy().T, bias=True, aweights=None if weight is None else weight.numpy())
    ).reshape(x.size(1), x.size(1))


def close(found, wanted, rtol=1e-10):
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=1e-12)


@QUICK
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    d=st.integers(1, 5),
    seed=st.integers(0, 99),
    layout=st.sampled_from(layouts.ALL),
    offset=st.sampled_from([0.0, 1e6]),
    order=st.randoms(use_true_random=False),
)
def test_chunks_in_any_order_and_merged_in_any_way_equal_one_pass(
    sizes, d, seed, layout, offset, order
):
    x = features(sum(sizes) + 2, d, seed, offset)
    parts = list(torch.split(x, [*sizes, 2]))
    order.shuffle(parts)
    pieces = [FeatureMoments(d).update(layout(part)) for part in parts]
    order.shuffle(pieces)
    whole = FeatureMoments(d)
    for piece in pieces:
        whole.merge(piece)
    assert whole.weight == len(x)
    rtol = 1e-7 if offset else 1e-10
    torch.testing.assert_close(whole.covariance(), expected(x), rtol=rtol, atol=1e-9)
    close(whole.mean, x.mean(0))


@QUICK
@given(
    counts=st.lists(st.integers(0, 4), min_size=3, max_size=12),
    seed=st.integers(0, 99),
    layout=st.sampled_from(layouts.ALL),
    diagonal=st.booleans(),
)
def test_weights_equal_repetition(counts, seed, layout, diagonal):
    counts = torch.tensor([*counts, 1, 1])
    x = features(len(counts), 3, seed)
    weighted = FeatureMoments(3, diagonal=diagonal).update(layout(x), counts)
    repeated = FeatureMoments(3, diagonal=diagonal).update(x.repeat_interleave(counts, 0))
    assert weighted.weight == repeated.weight
    close(weighted.variance(), repeated.variance())
    ones = torch.ones(3)
    close(weighted.variance_along(ones), repeated.variance_along(ones))


@QUICK
@given(seed=st.integers(0, 99), layout=st.sampled_from(layouts.SPARSE), full=st.booleans())
def test_sparse_equals_dense(seed, layout, full):
    x = features(15, 6, seed)
    x[:, 0] += 1e6  # stored in full: no digit may be lost
    weight = torch.rand(15, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weight[3] = 0
    options = {} if full else {"diagonal": True, "directions": torch.arange(1.0, 7.0)}
    sparse = FeatureMoments(6, **options).update(layout(x), weight)
    dense = FeatureMoments(6, **options).update(x, weight)
    for name, part in dense.state().items():
        torch.testing.assert_close(sparse.state()[name], part, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("layout", layouts.ALL)
@pytest.mark.parametrize("weighted", [False, True])
def test_an_offset_of_a_million_costs_no_digits(layout, weighted):
    x = features(200, 4)
    weight = torch.rand(200, dtype=torch.float64) if weighted else None
    moments = FeatureMoments(4)
    for start in range(0, 200, 37):
        part = slice(start, start + 37)
        moments.update(layout(x[part] + 1e6), None if weight is None else weight[part])
    close(moments.covariance(), expected(x, weight), rtol=1e-8)


def test_blocks_of_one_matrix_are_merged(monkeypatch):
    monkeypatch.setattr(rows, "_ENTRIES_PER_BLOCK", 8)
    monkeypatch.setattr(rows, "_FEWEST_ROWS", 1)
    x = features(31, 3, offset=5.0)
    close(FeatureMoments(3).update(x).covariance(), expected(x))


def test_memory_maps_are_read(tmp_path):
    x = features(50, 3).numpy().astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = FeatureMoments(3).update(mapped).covariance()
    close(found, expected(torch.from_numpy(x).double()))


def test_loaders_are_read():
    x = features(20, 3)
    wanted = expected(x)
    close(FeatureMoments.from_chunks(DataLoader(x, batch_size=7)).covariance(), wanted)
    pairs = DataLoader(TensorDataset(x, torch.zeros(20)), batch_size=7)
    close(FeatureMoments.from_chunks(pairs).covariance(), wanted)
    graphs = [Data(x=part, edge_index=torch.zeros(2, 0).long()) for part in x.split(6)]
    close(FeatureMoments.from_chunks(GraphLoader(graphs, batch_size=2)).covariance(), wanted)


def test_of_a_neighbour_batch_the_seed_nodes_count():
    x = features(6, 3)
    batch = Data(x=torch.cat([x, x + 100]), edge_index=torch.zeros(2, 0).long())
    batch.input_id, batch.batch_size = torch.arange(6), 6
    close(FeatureMoments.from_chunks([batch]).covariance(), expected(x))


def test_the_state_is_tensors_and_comes_back():
    x, s = features(20, 3), torch.tensor([0.1, 0.5, 0.9])
    for options in ({}, {"diagonal": True, "directions": s}):
        moments = FeatureMoments(3, **options).update(x[:11])
        state = moments.state()
        assert all(isinstance(part, torch.Tensor) for part in state.values())
        again = FeatureMoments.from_state(state).update(x[11:])
        assert moments.weight == 11
        assert stability_k(again, s) == pytest.approx(stability_k(x, s), rel=1e-12)


def test_diagonal_mode_keeps_no_matrix():
    moments = FeatureMoments(5, diagonal=True, directions=torch.rand(2, 5))
    sizes = {name: part.numel() for name, part in moments.state().items()}
    assert max(sizes.values()) == 15
    with pytest.raises(InputError, match="diagonal alone"):
        moments.update(features(9, 5)).covariance()
    with pytest.raises(InputError, match="directions=s"):
        stability_k(moments, torch.rand(5))


@pytest.mark.parametrize("center", [True, False])
def test_k_is_the_same_by_every_way(center):
    x, s = features(30, 4, offset=2.0), torch.tensor([0.1, 0.5, 0.9, 0.3])
    wanted = stability_k(x, s, center=center)
    full = FeatureMoments(4).update(x)
    thin = FeatureMoments(4, diagonal=True, directions=s).update(x)
    c = full.covariance(center=center)
    assert stability_k(full, s, center=center) == pytest.approx(wanted, rel=1e-12)
    assert stability_k(thin, s, center=center) == pytest.approx(wanted, rel=1e-12)
    assert stability_k(c, s, covariance=True) == pytest.approx(wanted, rel=1e-12)


def test_rows_can_be_weighted_in_k():
    x, s = features(10, 3), torch.tensor([0.1, 0.5, 0.9])
    weight = torch.tensor([1, 2, 0, 1, 3, 0, 1, 1, 1, 2])
    repeated = stability_k(x.repeat_interleave(weight, 0), s)
    assert stability_k(x, s, weight=weight) == pytest.approx(repeated, rel=1e-12)


# Bad input


@pytest.mark.parametrize("layout", layouts.ALL)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_named_and_leave_no_trace(layout, bad):
    moments = FeatureMoments(3).update(features(10, 3))
    before = {name: part.clone() for name, part in moments.state().items()}
    x = features(7, 3)
    x[4, 1] = bad
    row = r"row 14, column 1"
    with pytest.raises(NonFiniteError, match=row):
        moments.update(layout(x))
    for name, part in moments.state().items():
        assert torch.equal(part, before[name])


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, -1, 1], "negative weight at row 1"),
        ([1, 1, float("nan")], "row 2"),
        ([1, 1], r"\[3\]"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weight, words):
    with pytest.raises(InputError, match=words):
        FeatureMoments(2).update(features(3, 2), torch.tensor(weight))


def test_moments_that_do_not_fit_are_not_merged():
    with pytest.raises(InputError, match="to merge"):
        FeatureMoments(3).merge(FeatureMoments(4))
    with pytest.raises(InputError, match="to merge"):
        FeatureMoments(3).merge(FeatureMoments(3, diagonal=True))


@pytest.mark.parametrize("shape", [(4,), (4, 5), (2, 4, 3)])
def test_other_shapes_are_refused(shape):
    x = torch.rand(shape)
    with pytest.raises(InputError, match="Expected"):
        FeatureMoments(3).update(x)


def test_nothing_seen_has_no_moments():
    empty = FeatureMoments(3).update(torch.empty(0, 3)).update(torch.ones(2, 3), torch.zeros(2))
    assert empty.weight == 0
    with pytest.raises(UndefinedStability, match="no row"):
        empty.covariance()
    with pytest.raises(InputError, match="empty"):
        FeatureMoments.from_chunks([])
