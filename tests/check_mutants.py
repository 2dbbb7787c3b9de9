"""Plants the bugs of mutants.toml one by one, and says which of them the tests notice.

    python tests/check_mutants.py
    python tests/check_mutants.py --only "Holm's steps" --only "lock" --write results.json
    python tests/check_mutants.py --gaps  # bugs known to pass unnoticed

The work tree stays as it is: each bug is planted in a copy of the source and of docs/pages, which
come first on the path of the tests. A bug counts as caught if a test fails that passes without it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
LIMIT = 600  # seconds of one run; a bug that keeps the tests busy for longer is caught


@dataclass(frozen=True)
class Mutant:
    name: str
    old: str
    new: str
    tests: list[str]


@dataclass(frozen=True)
class Verdict:
    name: str
    caught: bool
    test: str
    seconds: float


class Copy:
    """A copy of the source, and the tests run against it."""

    def __init__(self, folder: Path) -> None:
        self.source, self.docs = folder / "src", folder / "docs"
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", self.source, ignore=ignored)
        shutil.copytree(ROOT / "docs", self.docs, ignore=shutil.ignore_patterns("*.md", "images"))
        self.files = {p: p.read_text(encoding="utf-8") for p in folder.rglob("*.py")}
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(self.source),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        }

    def expect_first(self) -> None:
        """Stops unless the tests would import this copy."""
        words = [sys.executable, "-c", "import drgcn; print(drgcn.__file__)"]
        found = subprocess.run(
            words, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(found).is_relative_to(self.source):
            raise SystemExit(f"the tests would import {found}, not the copy in {self.source}")

    def place(self, mutant: Mutant) -> Path:
        """The file that holds the snippet of a mutant."""
        counts = {path: text.count(mutant.old) for path, text in self.files.items()}
        if sum(counts.values()) != 1:
            raise SystemExit(
                f"{mutant.name}: expected its snippet once in the source, found it "
                f"{sum(counts.values())} times:\n{mutant.old}"
            )
        return max(counts, key=lambda path: counts[path])

    def write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # A file of the same size, written in the same second, would not be compiled anew.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def check(self, mutant: Mutant) -> Verdict:
        path = self.place(mutant)
        tests = existing(mutant.tests)
        start = time.perf_counter()
        self.write(path, self.files[path].replace(mutant.old, mutant.new))
        try:
            failed = self.first_failure(tests)
        finally:
            self.write(path, self.files[path])
        seconds = time.perf_counter() - start
        if failed is None:
            return Verdict(mutant.name, False, "", round(seconds, 1))
        return Verdict(mutant.name, True, failed, round(seconds, 1))

    def first_failure(self, tests: list[str]) -> str | None:
        """The first test that fails, or what else went wrong; nothing if all pass."""
        words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-rfE"]
        words += ["-o", f"pythonpath={self.docs}"]
        try:
            done = subprocess.run(
                [*words, *tests],
                cwd=ROOT,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end after {LIMIT} seconds"
        if done.returncode == 0:
            return None
        if done.returncode in (4, 5):  # misused, or no test was found
            raise SystemExit(f"pytest did not run:\n{done.stdout}{done.stderr}")
        lines = re.findall(
            r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", done.stdout, re.MULTILINE
        )
        return lines[0] if lines else "the tests ended without a summary"


def existing(tests: list[str]) -> list[str]:
    """Paths of tests from the root; one that is not there stands for the folder it was in."""
    found: list[str] = []
    for name in tests:
        path = TESTS / name
        while not path.exists():
            path = path.parent
        if path == TESTS:
            raise SystemExit(f"neither {name} nor its folder is among the tests: name another")
        found.append(str(path.relative_to(ROOT)))
    return list(dict.fromkeys(found))


def read_mutants(kind: str, only: list[str]) -> list[Mutant]:
    """All mutants of a kind, or those whose names contain one of some words."""
    raw = tomllib.loads((TESTS / "mutants.toml").read_text(encoding="utf-8"))
    mutants = [Mutant(**entry) for entry in raw.get(kind, [])]
    if len({mutant.name for mutant in mutants}) < len(mutants):
        raise SystemExit("two mutants have the same name")
    for words in only:
        if not any(words in mutant.name for mutant in mutants):
            raise SystemExit(f"no mutant is called {words!r}")
    return [m for m in mutants if not only or any(words in m.name for words in only)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="part of a mutant's name")
    parser.add_argument("--write", type=Path, help="write the results here, as JSON")
    parser.add_argument("--find", action="store_true", help="only look for the snippets")
    parser.add_argument("--gaps", action="store_true", help="run the gaps, not the mutants")
    options = parser.parse_args()
    mutants = read_mutants("gap" if options.gaps else "mutant", options.only)
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        for mutant in mutants:  # all of them before the first run
            copy.place(mutant)
            existing(mutant.tests)
        if options.find:
            print(f"all {len(mutants)} snippets occur once")
            return 0
        copy.expect_first()
        for mutant in mutants:
            one = copy.check(mutant)
            verdicts.append(one)
            word = "caught  " if one.caught else "SURVIVED"
            print(f"{word} {one.seconds:6.1f} s  {one.name}  {one.test}", flush=True)
            if options.write is not None:
                text = json.dumps([asdict(v) for v in verdicts], indent=1)
                options.write.write_text(text + "\n", encoding="utf-8")
        named = sorted({one.test for one in verdicts if "::" in one.test})
        if named and (failed := copy.first_failure(named)) is not None:
            print(f"{failed} fails without any mutant: what it caught does not count")
            return 1
    survived = [one.name for one in verdicts if not one.caught]
    print(f"{len(verdicts) - len(survived)} of {len(verdicts)} mutants are caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
