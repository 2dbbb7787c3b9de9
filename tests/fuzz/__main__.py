"""``python -m tests.fuzz SECONDS [FIRST_SEED]``: feed changed files to every reader, and count.

Each input is known by its target and its seed: the same seed makes the same files again.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from .generators import TARGETS, small_world

_MEMORY = 16 << 30
_KINDS = ("refused", "accepted", "unsound", "traceback", "hang")


def main(seconds: float, seed: int) -> int:
    """Return the exit code: 1 if there was a defect."""
    torch.set_num_threads(1)
    # A reader that asks for more gets a MemoryError, and the machine stays alive.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    counts = {name: Counter[str]() for name in TARGETS}
    seen: set[str] = set()
    end = time.monotonic() + seconds
    with small_world():
        while time.monotonic() < end:
            for name, target in TARGETS.items():
                with tempfile.TemporaryDirectory() as folder:
                    found = target.outcome(Path(folder), random.Random(f"{name} {seed}"))
                counts[name][found.kind] += 1
                last = found.words.strip().splitlines()[-3:]
                if found.defect and "".join(last) not in seen:
                    seen.add("".join(last))
                    print(f"{found.kind}: target {name!r}, seed {seed}\n{found.words}", flush=True)
            seed += 1
    print(f"{'target':20}{'inputs':>9}" + "".join(f"{kind:>11}" for kind in _KINDS))
    counts["all"] = sum(counts.values(), Counter[str]())
    for name, found_kinds in counts.items():
        numbers = (found_kinds.total(), *(found_kinds[kind] for kind in _KINDS))
        print(f"{name:20}{numbers[0]:>9,}" + "".join(f"{n:>11,}" for n in numbers[1:]))
    print(f"next seed: {seed}")
    return int(any(counts["all"][kind] for kind in _KINDS[2:]))


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(float(given[0]) if given else 60.0, int(given[1]) if len(given) > 1 else 0))
