"""SplitMix64 in torch's signed integers, against its published outputs and Python's integers."""

import math

import numpy as np
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.synthetic.random import (
    CELLS,
    FIXED,
    clicks_of_users,
    counters,
    hash64,
    portable_power,
    rank_table,
    share_out,
    stream_key,
)
from drgcn.streams import below, high_bits, scatter_bits
from tests.recommend.synthetic.literal_astar import as_signed, key_of, nth, splitmix

# The first outputs of the reference implementation, as printed in several libraries.
PUBLISHED = {
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F],
    1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423],
}


@pytest.mark.parametrize("seed", PUBLISHED)
def test_published_outputs(seed):
    found = hash64(seed, torch.arange(3)).tolist()
    assert found == [as_signed(value) for value in PUBLISHED[seed]]
    assert splitmix(seed, 3) == PUBLISHED[seed]


def test_every_counter_equals_pythons():
    for key in [0, 1, 2**63, 2**64 - 1, 0xDEADBEEF12345678]:
        places = [0, 1, 2**31, 2**40 + 7, 2**62, 2**63 - 1]
        found = hash64(key, torch.tensor(places)).tolist()
        assert found == [as_signed(nth(key, n)) for n in places]


def test_high_bits_have_no_sign():
    z = hash64(5, torch.arange(1000))
    for count in (1, 16, 32, 63):
        assert high_bits(z, count).tolist() == [nth(5, n) >> (64 - count) for n in range(1000)]


def test_below_stays_below_and_is_uniform():
    for limit in [1, 7, 1000, 6_338_428, 2**31]:
        drawn = below(hash64(3, torch.arange(20_000)), limit)
        assert 0 <= int(drawn.min()) <= int(drawn.max()) < limit
        if limit == 7:
            counts = torch.bincount(drawn, minlength=7).double()
            chi2 = float(((counts - 20_000 / 7) ** 2 / (20_000 / 7)).sum())
            assert chi2 < 22.5  # 99.9 % of six degrees of freedom
        if limit > 1000:
            assert abs(float(drawn.double().mean()) / limit - 0.5) < 4 * math.sqrt(1 / 12 / 20_000)


def test_scattering_moves_half_of_the_bits():
    z = torch.arange(2000)
    for bit in (0, 13, 62):
        moved = scatter_bits(z) ^ scatter_bits(z ^ (1 << bit))
        share = sum(int(high_bits(moved << k, 1).sum()) for k in range(64)) / (64 * 2000)
        assert abs(share - 0.5) < 0.01


def test_keys_of_streams():
    paths = [(a, b) for a in range(20) for b in range(50)] + [(a,) for a in range(20)]
    keys = {stream_key(seed, *path) for seed in (0, 1, 2) for path in paths}
    assert len(keys) == 3 * len(paths)
    assert stream_key(9, 4, 2) == key_of(9, 4, 2)


def test_counters():
    assert counters(3, 6, torch.device("cpu")).tolist() == [3, 4, 5]


def test_power():
    for exponent in [0.0, 0.5, -1.5, 3.5, 2.25, -0.6, 7.03125]:
        x = np.array([1e-6, 0.3, 1.0, 2.0, 55.5])
        rounded = round(exponent * 4096) / 4096
        np.testing.assert_allclose(portable_power(x, exponent), x**rounded, rtol=1e-14)


def test_counts_add_up_and_descend():
    for users, clicks, most in [
        (352, 1298, 4),
        (35_247, 129_834, 396),
        (5, 5, 9),
        (5, 45, 9),
        (1000, 1500, 7),
    ]:
        at_least = clicks_of_users(users, clicks, 2.5, most)
        assert at_least.sum() == clicks
        assert at_least[0] == users
        assert len(at_least) == most
        assert (np.diff(at_least) <= 0).all()
        assert (at_least >= 0).all()


def test_counts_at_full_size():
    at_least = clicks_of_users(35_246_808, 129_834_116, 2.5, 10_000)
    assert at_least.sum() == 129_834_116
    assert (np.diff(at_least) <= 0).all()
    # Far out, ten times as many clicks are 10 ** 1.5 times as rare.
    assert at_least[199] / at_least[1999] == pytest.approx(10**1.5, rel=0.05)


def test_impossible_counts_are_refused():
    with pytest.raises(InputError, match="Expected 10 to 30 clicks"):
        clicks_of_users(10, 31, 2.5, 3)


def test_share_out():
    assert share_out(np.array([2.25, 1.5, 0.75]), 5).tolist() == [2, 2, 1]
    assert share_out(np.array([2.25, 1.5, 0.75]), 9).sum() == 9
    assert share_out(np.array([2.25, 1.5, 0.75]), 1).tolist() == [1, 0, 0]


def test_ranks_follow_the_law():
    """Shares of the first places in a topic are those of ``rank ** -a`` up to its integral."""
    knots = rank_table(2.4)
    assert len(knots) == CELLS + 1
    assert knots[0] == 0
    assert knots[-1] == FIXED
    assert (np.diff(knots) >= 0).all()
    u = np.arange(CELLS + 1) / CELLS
    np.testing.assert_allclose(knots / FIXED, u**3.5, atol=2**-31)
