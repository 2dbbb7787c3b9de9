"""Figures of the source: files, lines, importers, and what each verb of the command line loads.

Run it to see them: ``python tests/source_figures.py``. ``test_source.py`` keeps those that matter.
"""

from __future__ import annotations

import ast
import statistics
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
VERBS = {
    "audit": "cli.audit",
    "baselines": "cli.baselines",
    "data": "cli.data",
    "demo": "cli.demo",
    "doctor": "cli.demo",
    "refine": "cli.audit",
    "report": "cli.report",
    "reproduce": "cli.reproduce",
    "stability": "cli.stability",
    "studies": "cli.studies",
    "theory": "cli.theory",
    "train": "cli.train",
    "tune": "cli.tune",
    "recommend compare": "cli.recommend.compare",
    "recommend evaluate": "cli.recommend.evaluate",
    "recommend export": "cli.recommend.export",
    "recommend generate": "cli.recommend.clicks",
    "recommend info": "cli.recommend.clicks",
    "recommend ingest": "cli.recommend.clicks",
    "recommend query": "cli.recommend.export",
    "recommend serve": "cli.recommend.serve",
    "recommend train": "cli.recommend.train",
}


@cache
def modules() -> Mapping[str, Path]:
    """Return the files of the package by the names of their modules."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        words = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


@cache
def tree(name: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(modules()[name].read_text("utf-8"))


@cache
def imports() -> Mapping[str, set[str]]:
    """Return which modules of the package each module imports, in functions too."""
    return {name: _imported(tree(name)) for name in modules()}


def closure(name: str) -> set[str]:
    """Return the modules that can be loaded by a module, with the packages they lie in.

    The package itself and the command line's tables of verbs are left out: they name everything,
    and load it when asked for.
    """
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in found or one in ("drgcn", "drgcn.cli", "drgcn.cli.recommend"):
            continue
        found.add(one)
        waiting.extend(imports()[one])
        waiting.append(one.rpartition(".")[0])
    return found


def importers() -> Mapping[str, set[str]]:
    """Return by which modules each module is imported."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, targets in imports().items():
        for target in targets - {name}:
            found[target].add(name)
    return found


def only_for_a_sibling() -> list[str]:
    """Return modules that one other module of the same folder imports, and nobody else."""
    by = importers()
    return [
        name
        for name, path in modules().items()
        if path.name != "__init__.py"
        and len(by[name]) == 1
        and next(iter(by[name])).rpartition(".")[0] == name.rpartition(".")[0]
    ]


def lines() -> list[int]:
    """Return the numbers of lines of all files, in order."""
    return sorted(len(path.read_text("utf-8").splitlines()) for path in modules().values())


def _imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules() else node.module)
    return {name for name in found if name in modules()}


def main() -> None:
    """Print the figures."""
    count = lines()
    by = importers()
    single = sum(len(by[name]) == 1 for name in modules())
    print(f"files {len(count)}, lines {sum(count):,}, median {statistics.median(count):.0f}")
    print(f"90 % have up to {count[int(0.9 * len(count))]} lines, the longest {count[-1]}")
    print(f"modules with one importer {single}, a sibling {len(only_for_a_sibling())}")
    for verb, name in VERBS.items():
        print(f"{verb}: {len(closure(f'drgcn.{name}'))} modules")


if __name__ == "__main__":
    main()
