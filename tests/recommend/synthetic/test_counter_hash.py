"""SplitMix64 in torch's signed integers, against its published outputs and Python's integers."""

import math

import pytest
import torch

from drgcn.recommend.synthetic.random import (
    below,
    counters,
    hash64,
    high_bits,
    scatter_bits,
    stream_key,
)
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


@pytest.mark.parametrize("key", [0, 1, 2**63, 2**64 - 1, 0xDEADBEEF12345678])
def test_every_counter_equals_pythons(key):
    places = [0, 1, 2**31, 2**40 + 7, 2**62, 2**63 - 1]
    found = hash64(key, torch.tensor(places)).tolist()
    assert found == [as_signed(nth(key, n)) for n in places]


def test_high_bits_have_no_sign():
    z = hash64(5, torch.arange(1000))
    for count in (1, 16, 32, 63):
        assert high_bits(z, count).tolist() == [nth(5, n) >> (64 - count) for n in range(1000)]


@pytest.mark.parametrize("limit", [1, 7, 1000, 6_338_428, 2**31])
def test_below_stays_below_and_is_uniform(limit):
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
