import numpy as np
import pytest
import torch
from sklearn.feature_selection import f_classif

from drgcn.errors import InputError, UndefinedStability
from drgcn.stability import class_share, discriminative_k, gate_saturation, stability_k

from ..reference import layouts


@pytest.fixture
def x():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    x[:, 1] += torch.arange(60) % 3
    x[:, 3] = 7.0
    return x


@pytest.fixture
def y():
    return torch.arange(60) % 3


@pytest.mark.parametrize("layout", layouts.ALL)
def test_the_share_is_that_of_the_analysis_of_variance(x, y, layout):
    share = class_share(layout(x), y)
    f, _ = f_classif(x[:, :3].numpy(), y.numpy())
    wanted = f * 2 / (f * 2 + 57)  # between 2 degrees of freedom, within 57
    np.testing.assert_allclose(share[:3], wanted, rtol=1e-9)
    assert share[3] == 0
    assert share.argmax() == 1


def test_rows_without_label_or_outside_the_mask_are_not_seen(x, y):
    mask = torch.rand(60, generator=torch.Generator().manual_seed(1)) < 0.7
    unknown = y.clone()
    unknown[::5] = -1
    seen = mask & (unknown >= 0)
    torch.testing.assert_close(class_share(x, unknown, mask), class_share(x[seen], y[seen]))


def test_k_takes_the_shares_of_propagated_features_and_the_spread_of_the_features(x, y):
    after = x.roll(1, 1)
    found = discriminative_k(x, y, propagated=after)
    assert found == pytest.approx(stability_k(x, class_share(after, y).sqrt()), rel=1e-12)


def test_loud_noise_puts_it_below_one_and_loud_signal_above(x, y):
    noise = torch.tensor([10.0, 1, 10, 1])
    signal = torch.tensor([1.0, 10, 1, 1])
    assert discriminative_k(x * noise, y) < 1 < discriminative_k(x * signal, y)


def test_one_class_says_nothing(x):
    with pytest.raises(UndefinedStability, match="1 classes"):
        class_share(x, torch.zeros(60, dtype=torch.long))


@pytest.mark.parametrize("y", [torch.zeros(60), torch.zeros(60, 2).long(), torch.zeros(3).long()])
def test_labels_of_another_form_are_refused(x, y):
    with pytest.raises(InputError, match="class number"):
        class_share(x, y)


def test_saturation_counts_both_ends():
    s = torch.tensor([[0.0, 0.0009, 0.0011, 0.5], [0.9989, 0.9991, 1.0, 0.2]])
    assert gate_saturation(s) == 0.5
    assert gate_saturation(s, margin=0.25) == 0.875
    for margin in (0, 0.5, -1):
        with pytest.raises(InputError, match="margin"):
            gate_saturation(s, margin=margin)
    with pytest.raises(InputError, match="empty"):
        gate_saturation(torch.empty(0))
