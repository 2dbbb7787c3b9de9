"""Work cut into pieces that do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import torch

# Large enough to keep a GPU busy; small enough for the caches of a CPU.
_SIZES = {"cuda": 2**20, "cpu": 2**14}


def chunk_bounds(count: int, chunk: int) -> list[int]:
    """Where chunks begin, and the end."""
    return [*range(0, count, chunk), count]


def chunk_size(device: torch.device) -> int:
    """Nodes in a chunk, unless somebody asks for another number."""
    return _SIZES.get(device.type, 2**16)


def for_each_chunk(
    bounds: list[int], device: torch.device, work: Callable[[int, int], None]
) -> None:
    """Calls ``work(begin, end)`` for every chunk.

    On a CPU as many chunks as torch has threads are under way, each on one thread: threads that
    share every small operation would wait for each other most of the time.
    """
    pairs = list(pairwise(bounds))
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or len(pairs) == 1:
        for begin, end in pairs:
            work(begin, end)
        return
    with _one_thread_each(), ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, begin, end) for begin, end in pairs]:
            done.result()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that begin now take the number over
    try:
        yield
    finally:
        torch.set_num_threads(threads)
