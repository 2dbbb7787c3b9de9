import pytest
import torch

from drgcn.errors import InputError
from drgcn.nn import GCN
from drgcn.training import fit
from drgcn.training.fitting import seed_blocks, seeds_that_fit

CPU, CUDA = torch.device("cpu"), torch.device("cuda")  # needs no such device
GIB = 2**30


# Blocks


@pytest.mark.parametrize(
    ("seeds", "blocks"),
    [
        ((0,), [(0, 1, 2, 3)]),
        ((6,), [(4, 5, 6, 7)]),
        ((3, 4), [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ((9, 1, 8, 0), [(0, 1, 2, 3), (8, 9, 10, 11)]),
        (tuple(range(8)), [(0, 1, 2, 3), (4, 5, 6, 7)]),
    ],
)
def test_on_cpu_a_seed_has_its_place_in_a_block_of_four(seeds, blocks):
    assert seed_blocks(seeds, CPU) == blocks
    assert seed_blocks(seeds, CPU, at_once=1) == blocks  # whatever the memory


def test_elsewhere_all_seeds_are_one_block_if_they_fit():
    seeds = (5, 0, 7, 2, 1)
    for at_once in (None, 5, 6, 1000):
        assert seed_blocks(seeds, CUDA, at_once) == [seeds]


@pytest.mark.parametrize("at_once", range(1, 12))
def test_blocks_are_few_and_nearly_equal_and_keep_the_order(at_once):
    for count in range(1, 40):
        seeds = tuple(torch.randperm(count).tolist())
        blocks = seed_blocks(seeds, CUDA, at_once)
        assert tuple(seed for block in blocks for seed in block) == seeds
        sizes = [len(block) for block in blocks]
        assert max(sizes) <= at_once
        assert max(sizes) - min(sizes) <= 1
        assert len(blocks) == next(n for n in range(1, 99) if n * at_once >= count)


@pytest.mark.parametrize("seeds_at_once", [0, -1])
def test_at_least_one_seed_must_be_trained_at_once(tiny, seeds_at_once):
    with pytest.raises(InputError, match=f"seeds_at_once.* found {seeds_at_once}"):
        fit(lambda: GCN(24, 4, 4), tiny, [0], epochs=1, seeds_at_once=seeds_at_once)


# Free memory


class Device:
    """A CUDA device on paper: shared memory, and so much for every seed."""

    def __init__(self, monkeypatch, *, free, shared, each, beside=7 * GIB):
        self.shared, self.each, self.beside = shared, each, beside
        self.allocated = self.peak = beside  # what others hold is not a seed's need
        self.tried = []
        found = {
            "mem_get_info": lambda device: (free, 140 * GIB),
            "memory_allocated": lambda device: self.allocated,
            "max_memory_allocated": lambda device: self.peak,
            "reset_peak_memory_stats": lambda device: setattr(self, "peak", self.allocated),
            "synchronize": lambda device=None: None,
            "empty_cache": lambda: None,
        }
        for name, function in found.items():
            monkeypatch.setattr(torch.cuda, name, function)

    def make_trainer(self, seeds):
        self.tried.append(seeds)
        device = self

        class Trainer:
            def run_epoch(self):
                device.peak = max(
                    device.peak, device.beside + device.shared + len(seeds) * device.each
                )

        return Trainer()


def room(free, shared, each):
    """Nine tenths of the free memory, for two peaks: one of the recording, one of its replays."""
    count = 0
    while 2 * (shared + (count + 1) * each) <= 0.9 * free:
        count += 1
    return count


@pytest.mark.parametrize(
    ("free", "shared", "each"),
    [
        (100 * GIB, 1 * GIB, 4 * GIB),
        (100 * GIB, 0, 9 * GIB),
        (100 * GIB, 30 * GIB, 1 * GIB),
        (16 * GIB, 3 * GIB, GIB // 2),
        (16 * GIB, 1 * GIB, 5 * GIB),
    ],
)
def test_as_many_seeds_fit_as_free_memory_holds(monkeypatch, free, shared, each):
    device = Device(monkeypatch, free=free, shared=shared, each=each)
    seeds = tuple(range(20))
    expected = room(free, shared, each)
    assert 1 <= expected < 20
    assert seeds_that_fit(device.make_trainer, seeds, CUDA) == expected
    assert device.tried == [seeds[:1], seeds[:2]]


def test_no_more_seeds_fit_than_are_asked_for(monkeypatch):
    device = Device(monkeypatch, free=100 * GIB, shared=GIB, each=2**20)
    assert seeds_that_fit(device.make_trainer, (4, 2, 9), CUDA) == 3


def test_a_further_seed_that_needs_nothing_measurable_is_no_error(monkeypatch):
    device = Device(monkeypatch, free=100 * GIB, shared=GIB, each=0)
    assert seeds_that_fit(device.make_trainer, tuple(range(20)), CUDA) == 20


def test_one_or_two_seeds_are_not_measured(monkeypatch):
    device = Device(monkeypatch, free=0, shared=GIB, each=GIB)
    for count in (1, 2):
        assert seeds_that_fit(device.make_trainer, tuple(range(count)), CUDA) == count
    assert device.tried == []


def test_too_little_memory_for_one_seed_is_said(monkeypatch):
    device = Device(monkeypatch, free=4 * GIB, shared=2 * GIB, each=1 * GIB)
    with pytest.raises(InputError, match=r"about 6\.0 GiB; found 4\.0 GiB free on cuda"):
        seeds_that_fit(device.make_trainer, tuple(range(20)), CUDA)
