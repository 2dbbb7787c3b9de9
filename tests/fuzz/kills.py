"""``python -m tests.fuzz.kills KILLS``: kill verbs at random instants, go on, and compare.

Every verb is run once to its end. Then, again and again into a new folder, it is killed once or a
few times, and run to its end: results must be the same to the bit, whole files that a kill left
must stay as they are, and nothing else may be left. Processes are forked from one that has
imported the library, so that a kill hits the work and not the imports.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import hashlib
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..children import CHILDREN

_PATIENCE = 400.0  # seconds for a run to its end, on a machine that is busy
_FACTS = ("seconds", "started", "sha256", "environment", "positives_per_second")


@dataclass(frozen=True)
class Verb:
    """A verb to kill.

    Attributes:
        run: Runs it to its end in a folder that has its input.
        prepare: Writes the input.
        result: Facts of the output that must be the same each time.
    """

    run: Callable[[Path], None]
    prepare: Callable[[Path], None]
    result: Callable[[Path], Any]


def main() -> int:
    """Return the exit code: 1 if there was a defect."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills")
    parser.add_argument("kills", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="file to write the counts to")
    parser.add_argument("--only", choices=sorted(VERBS), help="one verb")
    asked = parser.parse_args()
    verbs = {asked.only: VERBS[asked.only]} if asked.only else VERBS
    counts: dict[str, Counter[str]] = {}
    begun = time.monotonic()
    for place, (name, verb) in enumerate(verbs.items()):
        wanted = asked.kills * (place + 1) // len(verbs) - asked.kills * place // len(verbs)
        counts[name] = kill(name, verb, wanted, random.Random(f"{name} {asked.seed}"))
        print(f"{name:18}", dict(counts[name]), flush=True)
    everything = sum(counts.values(), Counter[str]())
    print(f"{'all':18}", dict(everything), f"{time.monotonic() - begun:.0f} s")
    if asked.record is not None:
        asked.record.parent.mkdir(parents=True, exist_ok=True)
        facts = _facts(counts, everything, time.monotonic() - begun, asked.seed)
        asked.record.write_text(json.dumps(facts, indent=1) + "\n")
        print(f"written to {asked.record}")
    return int(any(everything[kind] for kind in _DEFECTS))


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


def kill(name: str, verb: Verb, kills: int, draw: random.Random) -> Counter[str]:
    """Kill a verb so many times, and count what came of it."""
    counts: Counter[str] = Counter()
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
        expected, files = verb.result(whole), _names(whole)
        while counts["kills"] < kills:
            folder = _copy(source, Path(place) / f"killed-{counts['kills']}")
            for _ in range(min(draw.choice([1, 1, 2, 4]), kills - counts["kills"])):
                counts["kills"] += 1
                code = _run(name, folder, kill_after=draw.uniform(0, 1.05 * seconds))
                counts["before the end"] += code != 0
            before = _whole_files(folder)
            counts["resumes"] += 1
            code = _run(name, folder)
            found = Counter(
                {
                    "stuck": code is None,
                    "failed": code not in (None, 0),
                    "changed": any(
                        _whole_files(folder).get(path) != digest for path, digest in before.items()
                    ),
                }
            )
            if code == 0:
                found["other result"] = verb.result(folder) != expected
                found["left behind"] = bool(_names(folder) - files)
            for kind, number in found.items():
                if number:
                    print(f"{name}: {kind} after kill {counts['kills']}", flush=True)
                    print(sorted(_names(folder) - files), flush=True)
            counts.update(found)
    return counts


def _copy(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


def _run(name: str, folder: Path, kill_after: float | None = None) -> int | None:
    """Run a verb in a process of its own; return its exit code, or ``None`` if it did not end."""
    process = CHILDREN.Process(target=_child, args=(name, folder))
    process.start()
    process.join(_PATIENCE if kill_after is None else kill_after)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None if kill_after is None else process.exitcode
    return process.exitcode


def _child(name: str, folder: Path) -> None:
    import torch

    torch.set_num_threads(1)
    os.chdir(folder)
    told = (folder.parent / "told.txt").open("a")
    with told, contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        VERBS[name].run(folder)


def _names(folder: Path) -> set[str]:
    """Files of a folder, hidden ones too; those of suites are numbered."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("out/.suites")}


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
    runs.run.__kwdefaults__["checkpoint_every"] = 0.1
    words = ("wine", "--seeds", "8", "--epochs", "60", "--hidden", "8", "--out", "out")
    _command("train", *words)(folder)


def _reproduce(folder: Path) -> None:
    from ..studies.reproduce import small_plan

    runs = importlib.import_module("drgcn.studies.run")
    runs.run.__kwdefaults__["checkpoint_every"] = 0.1
    (folder / "out").mkdir(exist_ok=True)
    # Forked, as the verb itself is here: fresh interpreters would import for most of the time.
    small_plan.ProcessRunner = functools.partial(  # type: ignore[misc]
        small_plan.ProcessRunner, start="fork"
    )
    small_plan.main(folder / "out", 2, epochs=12)


def _records(folder: Path) -> Any:
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


def _table(folder: Path) -> None:
    from ..recommend.clicks.tables import random_events, write_parquet

    write_parquet(folder / "clicks.parquet", ("user", "item", "time"), random_events(0, 20_000))


def _contents(folder: Path) -> dict[str, Any]:
    """Digests of all files of the output; of JSON, the facts that are no times."""
    found: dict[str, Any] = {}
    for path in sorted((folder / "out").rglob("*")):
        if path.is_file() and "checkpoint" not in path.name:
            name = path.relative_to(folder).as_posix()
            found[name] = _plain(json.loads(path.read_text())) if path.suffix == ".json" else ""
            found[name] = found[name] or _hash(path)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k not in _FACTS}
    return [_plain(one) for one in value] if isinstance(value, list) else value


_TRAINING = (
    *("clicks", "--out", "out", "--steps", "40", "--batch-size", "64", "--channels", "8"),
    *("--fan-outs", "3,2", "--negatives", "8", "--checkpoint-every", "0", "--device", "cpu"),
)
VERBS: dict[str, Verb] = {
    "train": Verb(_train, lambda folder: None, _records),
    "reproduce": Verb(_reproduce, lambda folder: None, _records),
    "refine": Verb(_unless_there(("refine", "own", "--out", "out"), "out"), _own_graph, _contents),
    "recommend train": Verb(_command("recommend", "train", *_TRAINING), _shop, _contents),
    "recommend export": Verb(
        _unless_there(("recommend", "export", "run", "--n", "5", "--out", "out"), "out"),
        _shop,
        _contents,
    ),
    "recommend ingest": Verb(
        _unless_there(("recommend", "ingest", "clicks.parquet", "--out", "out"), "out"),
        _table,
        _contents,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
