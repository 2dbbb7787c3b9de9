import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import f_classif

from drgcn import stability_k, variance_spread
from drgcn.errors import InputError, UndefinedStability
from drgcn.stability import class_share, discriminative_k, feature_variance, gate_saturation

from ..reference import layouts, stability

EVERY_LAYOUT = pytest.mark.parametrize("layout", layouts.ALL)

# Numbers computed independently of this package: (covariance, s, K).
ORACLES = {
    "open-6-01": (
        [[0.5848, -0.0318, -0.1749], [-0.0318, 0.9813, -0.4368], [-0.1749, -0.4368, 0.6776]],
        [0.89, 0.74, 0.702],
        0.9591906000686469,
    ),
    "open-6-03": (
        [
            [1.0016, 0.2829, -0.1594, -0.1267, -0.2477, -0.5678],
            [0.2829, 0.6282, 0.0461, 0.0444, -0.1511, -0.0924],
            [-0.1594, 0.0461, 2.2167, -0.9122, 0.1656, -0.5203],
            [-0.1267, 0.0444, -0.9122, 2.4606, 0.4111, 0.3377],
            [-0.2477, -0.1511, 0.1656, 0.4111, 0.4311, 0.1044],
            [-0.5678, -0.0924, -0.5203, 0.3377, 0.1044, 0.926],
        ],
        [0.706, 0.453, 0.644, 0.863, 0.726, 0.29],
        1.145892662510923,
    ),
    "open-6-06": (
        2.0 * (0.7 * np.eye(6) + 0.3),
        [0.935, 0.697, 0.591, 0.582, 0.672, 0.649],
        1.0147043045778472,
    ),
    "open-6-07": (
        2.0 * (1.1 * np.eye(6) - 0.1),
        [0.507, 0.56, 0.191, 0.499, 0.707, 0.301],
        0.9870005582442012,
    ),
    "open-8-05": (
        [
            [1.5894, 0.3978, -0.3508, 0.4012, -0.3233, -0.5644],
            [0.3978, 1.4593, 0.3984, -0.1753, 0.554, 0.0042],
            [-0.3508, 0.3984, 0.9436, -0.8308, 0.6022, 0.2126],
            [0.4012, -0.1753, -0.8308, 1.5897, -0.9782, -0.1236],
            [-0.3233, 0.554, 0.6022, -0.9782, 2.3952, 0.0083],
            [-0.5644, 0.0042, 0.2126, -0.1236, 0.0083, 0.4869],
        ],
        [
            0.6292312232931455,
            0.8868986084992406,
            0.9634519620749646,
            1.2304551221073676,
            1.1296287539832435,
            1.0484075129943655,
        ],
        1.0409939642403978,
    ),
}


@pytest.fixture
def x():
    return features(20, 5)


@pytest.fixture
def s():
    return vector(5)


def features(nodes, d, seed=0):
    """Columns of different scales, a third of the entries zero."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, d, generator=generator, dtype=torch.float64)
    scale = torch.rand(d, generator=generator, dtype=torch.float64) * 3
    return x * scale * (torch.rand(nodes, d, generator=generator) < 2 / 3)


def vector(d, seed=1):
    return torch.rand(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# K


@EVERY_LAYOUT
def test_k_equals_the_double_sum_of_the_paper(x, s, layout):
    expected = stability.k(stability.covariance(x.numpy()), s.numpy())
    assert stability_k(layout(x), s) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("c", "s", "k"), ORACLES.values(), ids=ORACLES.keys())
def test_k_of_a_given_covariance_is_that_of_the_oracle(c, s, k):
    x = torch.from_numpy(stability.features_of_covariance(np.array(c)))
    assert stability_k(x, torch.tensor(s, dtype=torch.float64)) == pytest.approx(k, rel=1e-10)


def test_k_of_given_data_is_that_of_oracle_open_6_12():
    x = torch.tensor(
        [
            [0.34, 0.16, 0.13],
            [1.57, -0.43, 0.39],
            [0.39, -0.26, -1.19],
            [0.66, 0.23, 0.02],
            [-0.01, -0.01, -0.93],
            [0.26, -1.84, -0.07],
            [-1.54, -0.39, 0.67],
        ],
        dtype=torch.float64,
    )
    s = torch.tensor([0.82, 0.57, 0.42], dtype=torch.float64)
    assert stability_k(x, s) == pytest.approx(1.1285125779081018, rel=1e-10)


@pytest.mark.parametrize("constant", [1.0, 0.5, -3.0])
def test_k_of_a_constant_vector_is_one(x, constant):
    for layout in layouts.ALL:
        s = torch.full((5,), constant, dtype=torch.float64)
        assert stability_k(layout(x), s) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("factor", [1e-6, -2.0, 1e6])
def test_k_does_not_depend_on_the_scale_of_the_vector(x, s, factor):
    assert stability_k(x, s * factor) == pytest.approx(stability_k(x, s), rel=1e-12)


@pytest.mark.parametrize("factor", [1e-6, -2.0, 1e6])
def test_k_does_not_depend_on_the_scale_of_the_features(x, s, factor):
    for layout in layouts.ALL:
        assert stability_k(layout(x * factor), s) == pytest.approx(stability_k(x, s), rel=1e-12)


def test_k_does_not_depend_on_offsets_of_the_features(x, s):
    x = (x * 1024).round() / 1024  # so that adding the offset rounds nothing away
    offset = torch.tensor([1e6, -3e6, 0, 5e5, 2e6], dtype=torch.float64)
    assert stability_k(x + offset, s) == pytest.approx(stability_k(x, s), rel=1e-9)


def test_k_does_not_depend_on_the_order_of_dimensions(x, s):
    order = torch.tensor([3, 0, 4, 1, 2])
    assert stability_k(x[:, order], s[order]) == pytest.approx(stability_k(x, s), rel=1e-12)


def test_k_falls_below_one_when_loud_dimensions_are_damped(x):
    assert stability_k(x, feature_variance(x).rsqrt()) < 1


def test_k_rises_above_one_when_loud_dimensions_are_amplified(x):
    assert stability_k(x, feature_variance(x).sqrt()) > 1


def test_k_takes_features_and_vectors_under_gradient(x, s):
    expected = stability_k(x, s)
    assert stability_k(x.requires_grad_(), s.requires_grad_()) == expected


@settings(max_examples=50, derandomize=True, deadline=None, database=None)
@given(
    nodes=st.integers(2, 12),
    d=st.integers(2, 7),
    layout=st.sampled_from(layouts.ALL),
    seed=st.integers(0, 99),
)
def test_k_is_a_rayleigh_quotient_and_not_negative(nodes, d, layout, seed):
    x = torch.randn(nodes, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    s = vector(d, seed)
    k = stability_k(layout(x), s)
    assert k >= 0
    expected = stability.rayleigh_quotient(np.cov(x.T, bias=True), s.numpy())
    assert k == pytest.approx(expected, rel=1e-8)


# Where K is undefined


@pytest.mark.parametrize("constant", [0.0, 1.0, -2.0])
def test_k_of_constant_features_is_undefined(s, constant):
    for layout in layouts.ALL:
        with pytest.raises(UndefinedStability):
            stability_k(layout(torch.full((7, 5), constant, dtype=torch.float64)), s)


def test_k_of_the_zero_vector_is_undefined(x):
    for layout in layouts.ALL:
        with pytest.raises(UndefinedStability):
            stability_k(layout(x), torch.zeros(5))


def test_k_of_one_node_is_undefined(x, s):
    with pytest.raises(UndefinedStability):
        stability_k(x[:1], s)


@pytest.mark.parametrize("layout", [layouts.dense, layouts.csr])
def test_k_of_one_dimension_is_undefined(layout):
    x = torch.tensor([[1.0], [2.0], [4.0], [0.0]])
    with pytest.raises(UndefinedStability):
        stability_k(layout(x), torch.tensor([0.3]))


def test_k_of_equal_dimensions_is_undefined():
    x = torch.tensor([1.0, 2.0, 4.0, 7.0])[:, None].expand(4, 3)
    with pytest.raises(UndefinedStability):
        stability_k(x, torch.tensor([0.2, 0.5, 0.9]))


def test_k_of_dimensions_equal_up_to_constants_is_undefined():
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        column = torch.randn(20, 1, generator=generator, dtype=torch.float64)
        x = column + torch.randn(1, 3, generator=generator, dtype=torch.float64)
        with pytest.raises(UndefinedStability):
            stability_k(x, vector(3, seed))


def test_k_of_one_sparse_dimension_is_undefined_for_any_data():
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        column = torch.randn(20, 1, generator=generator, dtype=torch.float64)
        with pytest.raises(UndefinedStability):
            stability_k(column.to_sparse_csr(), vector(1, seed))


@pytest.mark.parametrize("layout", layouts.SPARSE)
def test_k_of_constant_sparse_features_is_undefined_for_any_constant(s, layout):
    with pytest.raises(UndefinedStability):
        stability_k(layout(torch.full((7, 5), 0.1, dtype=torch.float64)), s)


@pytest.mark.parametrize("shape", [(4,), (1, 5), ()])
def test_vectors_of_another_shape_are_refused(x, shape):
    with pytest.raises(ValueError, match=r"s of shape \[5\]"):
        stability_k(x, torch.ones(shape))


# Variances


def test_variances_equal_those_of_numpy(x):
    for layout in layouts.ALL:
        torch.testing.assert_close(feature_variance(layout(x)), torch.from_numpy(x.numpy().var(0)))


def test_variances_are_computed_in_float64(x):
    for layout in layouts.ALL:
        short = (x + 1000).float()
        expected = torch.from_numpy(short.double().numpy().var(0))
        torch.testing.assert_close(feature_variance(layout(short)), expected)


def test_spread_equals_that_of_numpy(x):
    for layout in layouts.ALL:
        variance = x.numpy().var(0)
        expected = variance.std() / variance.mean()
        assert variance_spread(layout(x)) == pytest.approx(expected, rel=1e-10)


def test_spread_of_equal_variances_is_zero():
    for layout in layouts.ALL:
        x = torch.tensor([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0], [1.0, 1.0, 3.0], [0.0, 0.0, 4.0]])
        assert variance_spread(layout(x)) == 0


def test_spread_of_constant_features_is_undefined():
    with pytest.raises(UndefinedStability):
        variance_spread(torch.ones(4, 3))


@pytest.mark.parametrize("layout", layouts.SPARSE)
def test_spread_of_constant_sparse_features_is_undefined_for_any_constant(layout):
    with pytest.raises(UndefinedStability):
        variance_spread(layout(torch.full((7, 4), 0.1, dtype=torch.float64)))


# Shares of variance between classes


@pytest.fixture
def labelled():
    """Features and classes; the second feature tells classes apart, the last is constant."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    x[:, 1] += torch.arange(60) % 3
    x[:, 3] = 7.0
    return x, torch.arange(60) % 3


@EVERY_LAYOUT
def test_the_share_is_that_of_the_analysis_of_variance(labelled, layout):
    x, y = labelled
    share = class_share(layout(x), y)
    f, _ = f_classif(x[:, :3].numpy(), y.numpy())
    wanted = f * 2 / (f * 2 + 57)  # between 2 degrees of freedom, within 57
    np.testing.assert_allclose(share[:3], wanted, rtol=1e-9)
    assert share[3] == 0
    assert share.argmax() == 1


def test_rows_without_label_or_outside_the_mask_are_not_seen(labelled):
    x, y = labelled
    mask = torch.rand(60, generator=torch.Generator().manual_seed(1)) < 0.7
    unknown = y.clone()
    unknown[::5] = -1
    seen = mask & (unknown >= 0)
    torch.testing.assert_close(class_share(x, unknown, mask), class_share(x[seen], y[seen]))


def test_k_takes_the_shares_of_propagated_features_and_the_spread_of_the_features(labelled):
    x, y = labelled
    after = x.roll(1, 1)
    found = discriminative_k(x, y, propagated=after)
    assert found == pytest.approx(stability_k(x, class_share(after, y).sqrt()), rel=1e-12)


def test_loud_noise_puts_it_below_one_and_loud_signal_above(labelled):
    x, y = labelled
    noise = torch.tensor([10.0, 1, 10, 1])
    signal = torch.tensor([1.0, 10, 1, 1])
    assert discriminative_k(x * noise, y) < 1 < discriminative_k(x * signal, y)


def test_one_class_says_nothing(labelled):
    x, _ = labelled
    with pytest.raises(UndefinedStability, match="1 classes"):
        class_share(x, torch.zeros(60, dtype=torch.long))


def test_one_row_of_each_class_says_nothing(labelled):
    x, y = labelled
    for ask in (class_share, discriminative_k):
        with pytest.raises(UndefinedStability, match="no class has two"):
            ask(x, y, torch.arange(60) < 3)
    assert class_share(x, y, torch.arange(60) < 4).max() < 1


@pytest.mark.parametrize(
    "mask", [torch.arange(20), torch.arange(60), torch.ones(60, 2).bool(), [3], torch.ones(())]
)
def test_masks_of_another_form_are_refused(labelled, mask):
    with pytest.raises(InputError, match=r"a boolean mask \[60\]"):
        class_share(*labelled, mask)


@pytest.mark.parametrize("y", [torch.zeros(60), torch.zeros(60, 2).long(), torch.zeros(3).long()])
def test_labels_of_another_form_are_refused(labelled, y):
    x, _ = labelled
    with pytest.raises(InputError, match="class number"):
        class_share(x, y)


@pytest.mark.parametrize("exponent", [-140, 140])
def test_k_knows_no_unit(labelled, exponent):
    x, s = labelled[0], torch.tensor([0.2, 0.5, 0.9, 0.4])
    found = stability_k(x * 10.0**exponent, s)
    assert found == pytest.approx(stability_k(x, s), rel=1e-12)


def test_squares_that_lose_their_digits_have_no_k(labelled):
    with pytest.raises(UndefinedStability, match="Multiply the features"):
        stability_k(labelled[0] * 1e-159, torch.tensor([0.2, 0.5, 0.9, 0.4]))


def test_saturation_counts_both_ends():
    s = torch.tensor([[0.0, 0.0009, 0.0011, 0.5], [0.9989, 0.9991, 1.0, 0.2]])
    assert gate_saturation(s) == 0.5
    assert gate_saturation(s, margin=0.25) == 0.875
    for margin in (0, 0.5, -1):
        with pytest.raises(InputError, match="margin"):
            gate_saturation(s, margin=margin)
    with pytest.raises(InputError, match="empty"):
        gate_saturation(torch.empty(0))
