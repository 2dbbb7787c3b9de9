"""Which seeds are trained together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch

from drgcn.errors import InputError
from drgcn.training.trainer import Trainer

CPU_LANES = 4

# A recorded epoch keeps a memory pool of its own beside that of the epochs before it, and
# allocators round up.
_PEAKS_PER_PASS = 2.0
_SHARE_OF_FREE_MEMORY = 0.9


def seed_blocks(
    seeds: tuple[int, ...], device: torch.device, at_once: int | None = None
) -> list[tuple[int, ...]]:
    """The seeds that are trained together.

    On CPU a seed always trains in the same lane of the same block of four, whether its
    neighbours were asked for or not. Vectorised kernels round the last elements of an array
    differently from the others, so only this makes a seed's numbers the same to the bit. More
    lanes would be faster for many seeds, fewer for one: docs/decisions.md has the figures.
    Elsewhere all seeds form one block, or several of nearly equal size.
    """
    if device.type == "cpu":
        starts = sorted({seed - seed % CPU_LANES for seed in seeds})
        return [tuple(range(start, start + CPU_LANES)) for start in starts]
    passes = -(-len(seeds) // min(at_once or len(seeds), len(seeds)))
    ends = [len(seeds) * number // passes for number in range(passes + 1)]
    return [seeds[start:end] for start, end in pairwise(ends)]


def seeds_that_fit(
    make_trainer: Callable[[tuple[int, ...]], Trainer],
    seeds: tuple[int, ...],
    device: torch.device,
) -> int:
    """How many seeds can be trained at once in the memory of a CUDA device that is free.

    One epoch of one seed and one epoch of two are run and thrown away; what the second adds is
    what each further seed will need.
    """
    if len(seeds) < 3:
        return len(seeds)
    torch.cuda.empty_cache()
    one, two = (_peak(make_trainer, seeds[:count], device) for count in (1, 2))
    free, _ = torch.cuda.mem_get_info(device)
    each = max(two - one, 1)
    shared = max(one - each, 0)
    room = int((_SHARE_OF_FREE_MEMORY * free / _PEAKS_PER_PASS - shared) // each)
    if room < 1:
        raise InputError(
            f"Expected room for one seed, about {one * _PEAKS_PER_PASS / 2**30:.1f} GiB; found "
            f"{free / 2**30:.1f} GiB free on {device}. Free memory, or use a smaller model."
        )
    return min(room, len(seeds))


def _peak(
    make_trainer: Callable[[tuple[int, ...]], Trainer],
    seeds: tuple[int, ...],
    device: torch.device,
) -> int:
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    trainer = make_trainer(seeds)
    trainer.run_epoch()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    del trainer
    torch.cuda.empty_cache()
    return peak
