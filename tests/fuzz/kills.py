"""``python -m tests.fuzz.kills KILLS``: kill verbs, go on, and compare.

Every verb is run once to its end. Then, again and again into a new folder, it is killed once or a
few times, and run to its end: results must be the same to the bit, whole files that a kill left
must stay as they are, and nothing else may be left. One kill in three is at a random instant; the
others are before or after a step on a file, for these take little of the time.
Processes are forked from one that has imported the library, so that a kill hits the work and not
the imports.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import hashlib
import importlib
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..children import CHILDREN, PRELOAD
from .steps import steps_seen

_PATIENCE = 400.0  # seconds for a run to its end, on a machine that is busy
_FACTS = ("seconds", "started", "sha256", "environment", "positives_per_second")


@dataclass(frozen=True)
class Verb:
    """A verb to kill.

    Attributes:
        run: Runs it to its end in a folder that has its input.
        prepare: Writes the input.
        result: Facts of the output that must be the same each time.
        codes: Exit codes that it may have where a step fails.
    """

    run: Callable[[Path], None]
    prepare: Callable[[Path], None]
    result: Callable[[Path], Any]
    codes: tuple[int, ...] = (0, 2)


def main() -> int:
    """Return the exit code: 1 if there was a defect."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills")
    parser.add_argument("kills", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="file to write the counts to")
    parser.add_argument("--workers", type=int, default=1, help="verbs run at once")
    parser.add_argument("--only", choices=sorted(VERBS), help="one verb")
    asked = parser.parse_args()
    verbs = {asked.only: VERBS[asked.only]} if asked.only else VERBS
    CHILDREN.set_forkserver_preload([*PRELOAD, *_IMPORTED])
    begun = time.monotonic()
    parts = list(_parts(list(verbs), asked.kills))
    with ThreadPoolExecutor(asked.workers) as pool:
        found = pool.map(lambda part: kill(*part, f"{part} {asked.seed}"), parts)
        counts = {name: Counter[str]() for name in verbs}
        for (name, *_), one in zip(parts, found, strict=True):
            counts[name].update(one)
            print(f"{name:18}", dict(counts[name]), flush=True)
    everything = sum(counts.values(), Counter[str]())
    print(f"{'all':18}", dict(everything), f"{time.monotonic() - begun:.0f} s")
    if asked.record is not None:
        asked.record.parent.mkdir(parents=True, exist_ok=True)
        facts = _facts(counts, everything, time.monotonic() - begun, asked.seed)
        asked.record.write_text(json.dumps(facts, indent=1) + "\n")
        print(f"written to {asked.record}")
    return int(any(everything[kind] for kind in _DEFECTS))


# Else every process would import them again.
_IMPORTED = [
    *("tests.fuzz.kills", "tests.studies.reproduce.small_plan", "drgcn.cli.comparing"),
    *("drgcn.cli.recommend.train_run", "drgcn.recommend.serving.exporting", "drgcn.audit"),
    *("drgcn.recommend.clicks.ingest", "drgcn.studies.run", "duckdb", "pyarrow.parquet"),
]
_TOGETHER = 60  # kills for which a verb is run to its end once
FINISHED = 3  # exit code where a verb has refused to do again what is done
_COUNTS = ("kills", "before the end", "resumes")
_DEFECTS = ("failed", "other result", "changed", "left behind", "stuck")


def _facts(
    counts: dict[str, Counter[str]], everything: Counter[str], seconds: float, seed: int
) -> dict[str, Any]:
    import torch

    from drgcn.records import environment

    names = (*_COUNTS, *_DEFECTS)
    return {
        "format": "drgcn kills",
        "environment": environment(torch.device("cpu")),
        "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "seed": seed,
        **{name: everything[name] for name in names},
        "verbs": {verb: {n: found[n] for n in names} for verb, found in counts.items()},
    }


def _parts(verbs: list[str], kills: int) -> Iterator[tuple[str, int, int]]:
    """Yield verbs with the first and the last of the kills to do together."""
    for place, name in enumerate(verbs):
        wanted = kills * (place + 1) // len(verbs) - kills * place // len(verbs)
        for first in range(0, wanted, _TOGETHER):
            yield name, first, min(first + _TOGETHER, wanted)


def kill(name: str, first: int, last: int, seed: str) -> Counter[str]:
    """Kill a verb from the first time to the last, and count what came of it."""
    verb, draw, counts = VERBS[name], random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="drgcn-kills-", ignore_cleanup_errors=True) as place:
        source = Path(place) / "source"
        source.mkdir()
        verb.prepare(source)
        whole = _copy(source, Path(place) / "whole")
        _run(name, whole)  # the first takes longer than those that follow
        whole = _copy(source, Path(place) / "again")
        begun = time.monotonic()
        if _run(name, whole) != 0:
            told = (Path(place) / "told.txt").read_text()[-2000:]
            raise RuntimeError(f"{name} does not run to its end: {told}")
        seconds = time.monotonic() - begun
        steps = int((Path(place) / "steps.txt").read_text())
        expected, files = verb.result(whole), names(whole)
        now = first
        while now < last:
            folder = _copy(source, Path(place) / f"killed-{now}")
            instants = []
            for _ in range(min(draw.choice([1, 1, 2, 4]), last - now)):
                if now % 3:
                    step, late = _step(now - now // 3 - 1, steps)
                    instants.append(f"step {step} of {steps}")
                    code = _run(name, folder, step=step, late=late)
                else:
                    instants.append("any")
                    code = _run(name, folder, seconds=draw.uniform(0, 1.05 * seconds))
                now += 1
                counts["kills"] += 1
                counts["before the end"] += code not in (0, FINISHED)
                if code in (0, FINISHED):
                    break
            before = _whole_files(folder)
            counts["resumes"] += 1
            code = _run(name, folder)
            found = Counter(
                {
                    "stuck": code is None,
                    "failed": code not in (None, 0, FINISHED),
                    "changed": any(
                        _whole_files(folder).get(path) != digest for path, digest in before.items()
                    ),
                }
            )
            if code in (0, FINISHED):
                found["other result"] = verb.result(folder) != expected
                found["left behind"] = names(folder) != files
            for kind, number in found.items():
                if number:
                    told = (Path(place) / "told.txt").read_text()[-500:]
                    print(f"{name}: {kind} after kill {now - 1}, {instants}, {told}", flush=True)
                    print(sorted(names(folder) ^ files), flush=True)
            counts.update(found)
            shutil.rmtree(folder)
    return counts


def _step(number: int, steps: int) -> tuple[int, bool]:
    """Return a step to be killed at, and whether after it: from the last ones backwards, where
    the results are written, and in turn with them evenly all over."""
    place, late = number // 2, number // 2 % 2 == 1
    if number % 2:
        return (steps - 1 - place // 2) % steps, late
    return int(place * 0.618034 * steps) % steps, late


def _copy(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


def _run(
    name: str,
    folder: Path,
    *,
    seconds: float | None = None,
    step: int | None = None,
    late: bool = False,
) -> int | None:
    """Run a verb in a process of its own, and kill it after some seconds, or before (or if it is
    late after) a step; return its exit code, or ``None`` if it did not end."""
    process = CHILDREN.Process(target=_child, args=(name, folder, step, late))
    process.start()
    process.join(_PATIENCE if seconds is None else seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None if seconds is None else process.exitcode
    return process.exitcode


def _child(name: str, folder: Path, step: int | None, late: bool) -> None:
    import torch

    torch.set_num_threads(1)
    os.chdir(folder)
    os.setsid()
    done = mmap.mmap(-1, 8)  # which workers of a verb share

    def count(kind: str, _: str) -> None:
        if kind != "read":
            number = int.from_bytes(done[:], "little")
            done[:] = (number + 1).to_bytes(8, "little")
            if number == step:
                os.killpg(0, signal.SIGKILL)

    def nothing(kind: str, path: str) -> None: ...

    told = (folder.parent / "told.txt").open("a")
    looks = (nothing, count) if late else (count, nothing)
    with (
        told,
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(told),
        steps_seen(folder, *looks),
    ):
        try:
            VERBS[name].run(folder)
        except SystemExit as ending:
            if ending.code:
                raise
    if step is None:
        whole = int.from_bytes(done[:], "little")
        (folder.parent / "steps.txt").write_text(str(whole))


def names(folder: Path) -> set[str]:
    """Files of a folder, hidden ones too; those of suites are numbered."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("out/suites/")}


def _whole_files(folder: Path) -> dict[str, str]:
    """Digests of the records that a kill left: nothing may change them."""
    return {
        path.relative_to(folder).as_posix(): _hash(path)
        for path in folder.glob("out/*")
        if path.is_file() and path.name.endswith(".json") and "-seeds-" in path.name
    }


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _command(*words: str) -> Callable[[Path], None]:
    def run(_: Path) -> None:
        from drgcn import cli

        sys.argv = ["drgcn", *words]
        cli.main()

    return run


def _unless_there(words: tuple[str, ...], out: str) -> Callable[[Path], None]:
    """Run a command unless its folder is there: a folder is there as a whole or not at all."""

    def run(folder: Path) -> None:
        if not (folder / out).exists():
            _command(*words)(folder)

    return run


def _train(folder: Path) -> None:
    runs = importlib.import_module("drgcn.studies.run")
    runs.run.__kwdefaults__["checkpoint_every"] = 0.0
    words = ("wine", "--seeds", "8", "--epochs", "20", "--hidden", "8", "--out", "out")
    _command("train", *words)(folder)


def _reproduce(folder: Path) -> None:
    from ..studies.reproduce import small_plan

    runs = importlib.import_module("drgcn.studies.run")
    runs.run.__kwdefaults__["checkpoint_every"] = 0.0
    (folder / "out").mkdir(exist_ok=True)
    # Forked, as the verb itself is here: fresh interpreters would import for most of the time.
    small_plan.ProcessRunner = functools.partial(  # type: ignore[misc]
        small_plan.ProcessRunner, start="fork"
    )
    small_plan.main(folder / "out", 2, epochs=6)


def records(folder: Path) -> Any:
    from ..studies.reproduce.small_plan import without_times

    found = without_times(folder / "out")
    return {key: (repr(facts[0]), facts[1], facts[2], facts[3]) for key, facts in found.items()}


def _own_graph(folder: Path) -> None:
    from ..data.graphs import small, write_csv

    write_csv(folder / "own", small())


def _shop(folder: Path) -> None:
    from .clicks import shop

    for name in ("clicks", "run"):
        shutil.copytree(shop() / name, folder / name)


def recommend_train(folder: Path, steps: int = 40) -> None:
    done = (folder / "out" / "settings.json").exists()
    try:
        _command("recommend", "train", *_TRAINING, "--steps", str(steps))(folder)
    except SystemExit as ending:
        if done and ending.code == 2:
            sys.exit(FINISHED)  # a run that is there is not trained again
        raise


def _tables(folder: Path) -> None:
    from ..recommend.clicks.tables import random_events, write_parquet

    for number, name in enumerate(("first", "second")):
        events = random_events(number, 5_000)
        write_parquet(folder / f"{name}.parquet", ("user", "item", "time"), events)


def _ingest(folder: Path) -> None:
    if not (folder / "out").exists():
        _no_exit(_command("recommend", "ingest", "first.parquet", "--out", "out"), folder)
    _command("recommend", "ingest", "second.parquet", "--append", "--out", "out")(folder)


def _no_exit(run: Callable[[Path], None], folder: Path) -> None:
    try:
        run(folder)
    except SystemExit as ending:
        if ending.code:
            raise


def _clicks(folder: Path) -> Any:
    """The clicks; clicks that are appended again change nothing but the list of what was added."""
    from drgcn.recommend.clicks import ClickData

    return ClickData.load(folder / "out").content_hash


def contents(folder: Path) -> dict[str, Any]:
    """Digests of all files of the output; of JSON, the facts that are no times."""
    found: dict[str, Any] = {}
    for path in sorted((folder / "out").rglob("*")):
        if path.is_file() and "checkpoint" not in path.name:
            name = path.relative_to(folder).as_posix()
            if path.suffix == ".json":
                found[name] = _plain(json.loads(path.read_text()))
            elif path.suffix == ".toml":  # which names the folder of the clicks
                found[name] = path.read_text().replace(str(folder), "")
            else:
                found[name] = _hash(path)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k not in _FACTS}
    return [_plain(one) for one in value] if isinstance(value, list) else value


_TRAINING = (
    *("clicks", "--out", "out", "--batch-size", "64", "--channels", "8"),
    *("--fan-outs", "3,2", "--negatives", "8", "--checkpoint-every", "0", "--device", "cpu"),
)
VERBS: dict[str, Verb] = {
    "train": Verb(_train, lambda folder: None, records),
    "reproduce": Verb(_reproduce, lambda folder: None, records),
    "refine": Verb(_unless_there(("refine", "own", "--out", "out"), "out"), _own_graph, contents),
    "recommend train": Verb(recommend_train, _shop, contents, codes=(0, 2, FINISHED)),
    "recommend export": Verb(
        _unless_there(("recommend", "export", "run", "--n", "5", "--out", "out"), "out"),
        _shop,
        contents,
    ),
    "recommend ingest": Verb(_ingest, _tables, _clicks),
}


if __name__ == "__main__":
    sys.exit(main())
