"""``python -m tests.fuzz MINUTES``: feed malformed input to everything, and count.

Each input is known by its target and its seed: the same seed makes the same input again
(``--again TARGET SEED``). Workers are processes of their own: one that a signal ends, or that
hangs in foreign code, is counted and started anew.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

_MEMORY = 16 << 30
_WORKERS = 2
_SILENT = 150.0  # seconds without a new input after which a worker hangs in foreign code
#: Outcomes of an input; all but the first two are defects.
KINDS = ("refused", "accepted", "silent acceptance", "traceback", "hang", "signal")
_NAMES = {"unsound": "silent acceptance"}


def main() -> int:
    """Return the exit code: 1 if there was a defect."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("minutes", type=float, nargs="?", default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--only", nargs="+", metavar="TARGET", help="targets (default: all)")
    parser.add_argument("--record", type=Path, help="file to write the counts to")
    parser.add_argument("--again", nargs=2, metavar=("TARGET", "SEED"))
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.again:
        return again(asked.again[0], int(asked.again[1]))
    if asked.worker:
        work(Path(asked.worker[0]), int(asked.worker[1]), asked.worker[2:])
        return 0
    return run(asked.minutes * 60, asked.seed, asked.record, asked.only or [])


def again(name: str, seed: int) -> int:
    """Make one input again, and print what became of it."""
    from .generators import small_world
    from .targets import TARGETS

    _limit_memory()
    with small_world(), tempfile.TemporaryDirectory() as folder:
        found = TARGETS[name].outcome(Path(folder), random.Random(f"{name} {seed}"))
    print(found.kind, found.words, sep="\n")
    return int(found.defect)


def work(log: Path, seed: int, only: list[str]) -> None:
    """Run targets on every second seed for ever, with a line before and after each input."""
    import torch

    from .generators import small_world
    from .targets import TARGETS

    targets = {name: TARGETS[name] for name in only or TARGETS}
    torch.set_num_threads(1)
    _limit_memory()
    # A command that is run in this process may write to it.
    with log.open("a", encoding="utf-8") as file, small_world():
        while True:
            for name, target in targets.items():
                print(f"{name}\t{seed}", end="\t", file=file, flush=True)
                with tempfile.TemporaryDirectory() as folder:
                    found = target.outcome(Path(folder), random.Random(f"{name} {seed}"))
                words = json.dumps(found.words if found.defect else "")
                print(_NAMES.get(found.kind, found.kind), words, sep="\t", file=file, flush=True)
            seed += _WORKERS


def _limit_memory() -> None:
    # A reader that asks for more gets a MemoryError, and the machine stays alive.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def run(seconds: float, seed: int, record: Path | None, only: list[str]) -> int:
    """Run workers for some seconds, print what they found, and write it down."""
    with tempfile.TemporaryDirectory(prefix="drgcn-fuzz-") as folder:
        logs = [Path(folder) / f"{number}.log" for number in range(_WORKERS)]
        workers = {log: _start(log, seed + number, only) for number, log in enumerate(logs)}
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                time.sleep(1)
                for log, worker in workers.items():
                    if worker.poll() is None and _age(log) > _SILENT:
                        worker.kill()
                        worker.wait()
                        _note(log, "hang")
                    if (code := worker.poll()) is not None:
                        if code > 0 and not log.stat().st_size:
                            raise SystemExit("a worker cannot begin; its words stand above")
                        _note(log, "signal" if code < 0 else "traceback")
                        workers[log] = _start(log, _last_seed(log, seed) + _WORKERS, only)
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait()
        lines = [line for log in logs for line in _lines(log)]
    return report(lines, seconds, seed, record)


def _start(log: Path, seed: int, only: list[str]) -> subprocess.Popen[bytes]:
    log.touch()
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.fuzz",
            "--worker",
            str(log),
            str(seed),
            *only,
        ],
        # Threads that wait take no time of the processor, which is what a hang is told by.
        env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"},
        stdout=subprocess.DEVNULL,
    )


def _age(log: Path) -> float:
    return time.time() - log.stat().st_mtime


def _note(log: Path, kind: str) -> None:
    """End the line of the input during which a worker ended."""
    text = log.read_text(encoding="utf-8")
    if text and not text.endswith("\n"):
        with log.open("a", encoding="utf-8") as file:
            print(kind, json.dumps(""), sep="\t", file=file)


def _lines(log: Path) -> list[list[str]]:
    """Inputs that were ended, as target, seed, kind and words."""
    text = log.read_text(encoding="utf-8")
    return [line.split("\t") for line in text.split("\n") if line.count("\t") == 3]


def _last_seed(log: Path, first: int) -> int:
    lines = _lines(log)
    return int(lines[-1][1]) if lines else first


def report(lines: list[list[str]], seconds: float, seed: int, record: Path | None) -> int:
    """Print the counts and the first of every defect; return the exit code."""
    counts: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for name, number, kind, words in lines:
        counts.setdefault(name, Counter())[kind] += 1
        said = json.loads(words)
        key = "".join(said.strip().splitlines()[-3:])
        if kind in KINDS[2:] and key not in seen:
            seen.add(key)
            print(f"{kind}: target {name!r}, seed {number}\n{said}\n", flush=True)
    everything = sum(counts.values(), Counter[str]())
    print(f"{'target':20}{'inputs':>9}" + "".join(f"{kind:>19}" for kind in KINDS))
    for name, found in {**dict(sorted(counts.items())), "all": everything}.items():
        print(f"{name:20}{found.total():>9,}" + "".join(f"{found[k]:>19,}" for k in KINDS))
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(_facts(counts, everything, seconds, seed), indent=1) + "\n")
        print(f"written to {record}")
    return int(not lines or any(everything[kind] for kind in KINDS[2:]))


def _facts(
    counts: dict[str, Counter[str]], everything: Counter[str], seconds: float, seed: int
) -> dict[str, Any]:
    import torch

    from drgcn.records import environment

    return {
        "format": "drgcn fuzz",
        "environment": environment(torch.device("cpu")),
        "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "minutes": round(seconds / 60, 2),
        "processes": _WORKERS,
        "first_seed": seed,
        "inputs": everything.total(),
        **{kind: everything[kind] for kind in KINDS},
        "targets": {
            name: {"inputs": found.total()} | {kind: found[kind] for kind in KINDS}
            for name, found in sorted(counts.items())
        },
    }


if __name__ == "__main__":
    sys.exit(main())
