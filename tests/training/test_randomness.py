import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from drgcn.streams import random_16bit, stream_key
from drgcn.training.randomness import (
    LEVELS,
    SeededRandomness,
    _factors_at,
    dropout_factors,
    levels_of,
)


def dropped(p: float, key: int = 1, size: int = 1 << 16) -> torch.Tensor:
    with SeededRandomness(torch.tensor(key)):
        return F.dropout(torch.ones(size), p)


def test_the_share_dropped_is_the_rate_and_the_mean_is_kept():
    for p in (0.1, 0.35, 0.5, 0.6, 0.9):
        out = dropped(p)
        share = float((out == 0).float().mean())
        assert abs(share - p) < 4 * (p * (1 - p) / out.numel()) ** 0.5
        assert abs(float(out.mean()) - 1) < 0.05


def test_everything_is_dropped_at_rate_one():
    assert torch.equal(dropped(1.0), torch.zeros(1 << 16))
    keys = torch.tensor([1, 2])
    factors = _factors_at(keys, levels_of([1.0, 0.0]), 1000, torch.float32)
    assert torch.equal(factors, torch.tensor([[0.0], [1.0]]).expand(2, 1000))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_factors_hashed_in_pieces_are_those_of_the_formula(dtype):
    keys = torch.tensor([[stream_key(3, "dropout"), -1, 2**63 - 5]])
    count = (1 << 17) + 3  # some pieces, the last of which is short
    rate = torch.tensor([[0.5, 0.25, 0.9]])
    level = (rate * LEVELS).round().long()
    keep = random_16bit(keys, count).long() >= (level - LEVELS // 2)[..., None]
    scale = (LEVELS / (LEVELS - level).double()).to(dtype)[..., None]
    assert torch.equal(_factors_at(keys, level, count, dtype), keep.to(dtype) * scale)
    assert torch.equal(
        dropout_factors(keys[0, 0], count, 0.5, dtype), keep[0, 0].to(dtype) * scale[0, 0]
    )


def test_survivors_are_scaled_by_the_keep_rate():
    out = dropped(0.35)
    torch.testing.assert_close(
        out[out > 0], torch.full_like(out[out > 0], 1 / 0.65), rtol=1e-4, atol=0
    )


def test_the_same_key_gives_the_same_mask_and_another_key_another():
    assert torch.equal(dropped(0.5), dropped(0.5))
    assert not torch.equal(dropped(0.5), dropped(0.5, key=2))


def test_two_dropouts_in_one_pass_have_different_masks():
    with SeededRandomness(torch.tensor(1)):
        first, second = F.dropout(torch.ones(1000)), F.dropout(torch.ones(1000))
    assert not torch.equal(first, second)


def test_modules_and_pyg_layers_are_covered():
    from torch_geometric.nn import GATConv

    conv = GATConv(4, 8, dropout=0.5)
    x, edges = torch.rand(6, 4), torch.randint(0, 6, (2, 20))

    def run() -> torch.Tensor:
        with SeededRandomness(torch.tensor(7)):
            return torch.nn.Dropout(0.5)(conv(x, edges))

    torch.manual_seed(0)
    first = run()
    torch.manual_seed(1)
    assert torch.equal(first, run())


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    x = torch.ones(10)
    with SeededRandomness(torch.tensor(1)):
        assert F.dropout(x, 0.5, training=False) is x
        assert F.dropout(x, 0.0) is x


def test_dropout_outside_the_context_is_torchs_own():
    torch.manual_seed(0)
    with SeededRandomness(torch.tensor(1)):
        pass
    expected_state = torch.random.get_rng_state()
    F.dropout(torch.ones(10))
    assert not torch.equal(expected_state, torch.random.get_rng_state())


def test_in_place_dropout_changes_its_input():
    x = torch.ones(100)
    with SeededRandomness(torch.tensor(1)):
        out = F.dropout(x, 0.5, inplace=True)
    assert out is x
    assert (x == 0).any()


def test_lanes_have_masks_of_their_own_under_vmap():
    def one(key: torch.Tensor) -> torch.Tensor:
        with SeededRandomness(key):
            return F.dropout(torch.ones(500), 0.5)

    keys = torch.tensor([1, 2])
    together = torch.vmap(one)(keys)
    assert torch.equal(together[0], one(keys[0]))
    assert torch.equal(together[1], one(keys[1]))


# Uniform numbers


def uniform(*size, key=1, **options):
    with SeededRandomness(torch.tensor(key)):
        return torch.rand(*size, **options)


def test_uniform_numbers_come_from_the_key_alone():
    torch.manual_seed(0)
    first = uniform(1000)
    state = torch.random.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(first, uniform(1000))
    torch.manual_seed(0)
    uniform(1000)
    assert torch.equal(state, torch.random.get_rng_state())  # torch's generator is not moved
    assert not torch.equal(first, uniform(1000, key=2))


def test_two_draws_in_one_pass_differ():
    with SeededRandomness(torch.tensor(1)):
        first, second = torch.rand(100), torch.rand(100)
    assert not torch.equal(first, second)
    assert abs(float(torch.corrcoef(torch.stack([first, second]))[0, 1])) < 0.4


def test_sizes_may_be_given_in_every_way_of_torch():
    expected = uniform(2, 3)
    for size in ((2, 3), [2, 3], torch.Size([2, 3])):
        assert torch.equal(uniform(size), expected)
        assert torch.equal(uniform(size=size), expected)
    assert uniform(()).shape == ()
    assert uniform(0).shape == (0,)
    assert uniform(3, requires_grad=True).requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_numbers_have_the_type_asked_for_and_stay_below_one(dtype):
    numbers = uniform(200_000, dtype=dtype)
    assert numbers.dtype is dtype
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    exact = numbers.double()
    assert abs(float(exact.mean()) - 0.5) < 0.003  # half a step of bfloat16 is 0.002


def test_numbers_are_uniform():
    for dtype in (torch.float64, torch.float32):
        numbers = uniform(1 << 18, dtype=dtype).double().numpy()
        assert stats.kstest(numbers, "uniform").pvalue > 1e-4
        assert abs(numbers.mean() - 0.5) < 4 * (1 / 12 / len(numbers)) ** 0.5
        assert abs(numbers.var() - 1 / 12) < 4 * (1 / 180 / len(numbers)) ** 0.5
        last = (numbers * 2**24).astype(np.int64) & 1  # the smallest digits too
        assert abs(last.mean() - 0.5) < 4 * 0.5 / len(numbers) ** 0.5


def test_a_generator_or_memory_of_the_callers_own_is_left_to_torch():
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(5)
    found = uniform(4, generator=generator)
    assert torch.equal(found, torch.rand(4, generator=torch.Generator().manual_seed(5)))
    memory = torch.empty(4)
    assert uniform(4, out=memory) is memory
    assert torch.equal(memory, torch.rand(4, generator=torch.Generator().manual_seed(3)))
    assert torch.equal(uniform(4, generator=None), uniform(4))  # none is not one


def test_lanes_draw_the_numbers_they_draw_alone():
    def one(key):
        with SeededRandomness(key):
            torch.rand(3)
            return torch.rand(5, 2), F.dropout(torch.ones(50))

    keys = torch.tensor([1, 2, -7])
    together = torch.vmap(one)(keys)
    for lane, key in enumerate(keys):
        for ours, alone in zip(together, one(key), strict=True):
            assert torch.equal(ours[lane], alone)
