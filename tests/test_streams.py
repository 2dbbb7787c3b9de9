from itertools import pairwise

import numpy as np
import torch
from scipy import stats

from drgcn.streams import call_key, mix, random_16bit, step_key, stream_key


def test_mix_is_splitmix64_after_a_multiplication():
    def literal(z: int) -> int:
        mask = (1 << 64) - 1
        z = (z * 0xD1342543DE82EF95) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    inputs = [0, 1, 2, 12345678901234567, 2**62 + 3]
    found = [int(v) % 2**64 for v in mix(torch.tensor(inputs))]
    assert found == [literal(z) for z in inputs]


def test_negative_inputs_are_mixed_as_their_bits():
    assert len({int(v) for v in mix(torch.arange(-500, 500))}) == 1000


def test_random_integers_are_uniform():
    noise = random_16bit(torch.tensor(stream_key(3, "dropout")), 1 << 18).numpy()
    counts = np.bincount((noise.astype(np.int64) + 2**15) >> 8, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_every_bit_is_fair_and_no_two_bits_agree_too_often():
    noise = random_16bit(torch.tensor(stream_key(0, "dropout")), 1 << 16).numpy()
    bits = (noise[:, None] >> np.arange(16)) & 1
    assert np.abs(bits.mean(0) - 0.5).max() < 0.01
    correlation = np.corrcoef(bits.T) - np.eye(16)
    assert np.abs(correlation).max() < 0.02


def test_neighbouring_seeds_steps_and_positions_are_uncorrelated():
    count = 1 << 15

    def draw(seed: int, step: int) -> np.ndarray:
        key = step_key(torch.tensor(stream_key(seed, "dropout")), torch.tensor(step))
        return random_16bit(key, count).numpy().astype(float)

    first = draw(0, 1)
    for other in (draw(1, 1), draw(0, 2), np.roll(first, 1), np.roll(first, 4)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.03


def test_many_calls_in_one_step_keep_apart():
    keys = [int(call_key(torch.tensor(1), call)) for call in range(1000)]
    assert len(set(keys)) == 1000
    assert min(abs(a - b) for a, b in pairwise(sorted(keys))) > 2**40


def test_lanes_under_vmap_draw_what_they_draw_alone():
    keys = torch.tensor([stream_key(s, "dropout") for s in range(3)])
    together = torch.vmap(lambda key: random_16bit(key, 10))(keys)
    alone = torch.stack([random_16bit(key, 10) for key in keys])
    assert torch.equal(together, alone)


def test_streams_of_one_seed_differ():
    assert len({stream_key(5, name) for name in ("initialisation", "dropout", "batches")}) == 3
