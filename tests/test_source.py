"""The shape of the source: sizes, what verbs load, and the words of docstrings."""

import ast
import contextlib
import functools
import re
import statistics
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .check_mutants import existing, read_mutants
from .source_figures import VERBS, closure, lines, modules, only_for_a_sibling, tree

# Extras whose packages a verb imports by name; the others say what is missing when it is needed.
NEEDED = {"recommend serve": ("recommend", "serve")}

# Every set of extras in a child of one process that has loaded torch and PyG.
PROGRAM = """
import importlib, os, sys
import scipy.stats, sklearn.linear_model, torch, torch_geometric.nn, torch_geometric.datasets

def load(blocked, names):
    for name in blocked:
        sys.modules[name] = None  # importing it fails as if it were not installed
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            if error.name != "triton":
                raise SystemExit(f"{name}: {error}")

for extras, blocked, names in JOBS:
    if (child := os.fork()) == 0:
        load(blocked, names)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"with the extras {extras}")
"""


def test_files_are_topics_not_closets():
    assert len(modules()) <= 233
    assert statistics.median(lines()) > 150
    assert len(only_for_a_sibling()) <= 60


def test_every_planted_bug_has_its_place(request):
    root = request.config.rootpath
    files = [
        path.read_text() for folder in ("src", "docs") for path in (root / folder).rglob("*.py")
    ]
    mutants = [*read_mutants("mutant", []), *read_mutants("gap", [])]
    assert [one.name for one in mutants if sum(text.count(one.old) for text in files) != 1] == []
    assert all(existing(one.tests) for one in mutants)


def test_train_is_read_in_about_seventy_modules():
    assert len(closure("drgcn.cli.train")) <= 73


def test_report_loads_nothing_that_trains():
    rooms = {name.split(".")[1] for name in closure("drgcn.cli.report")}
    assert not rooms & {"nn", "training", "sampling", "recommend", "kernels"}


def test_modules_import_nothing_beyond_the_extras_of_their_verbs(request):
    for extras, beyond, names in _loads(request.config.rootpath / "pyproject.toml"):
        for name in names:
            assert not _imported_at_once(name) & {*beyond} - {"triton"}, (name, extras)


@functools.cache
def _imported_at_once(name):
    """Packages that a module imports when it is loaded itself, and not in a function."""
    found, waiting = set(), [*tree(name).body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


@pytest.mark.slow
def test_verbs_load_with_their_documented_extras_alone(request):
    jobs = _loads(request.config.rootpath / "pyproject.toml")
    words = [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("JOBS", repr(jobs))]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def _loads(project):
    """By sets of extras: packages that may not be imported, and the modules of the verbs."""
    jobs = []
    for extras in dict.fromkeys([(), *NEEDED.values()]):
        verbs = [verb for verb in VERBS if NEEDED.get(verb, ()) == extras]
        names = set().union(*(closure(f"drgcn.{VERBS[verb]}") for verb in verbs))
        jobs.append((extras, sorted(_packages_beyond(extras, project)), sorted(names)))
    return jobs


def test_recommend_train_knows_nothing_of_the_papers_studies():
    rooms = {name.split(".")[1] for name in closure("drgcn.cli.recommend.train")}
    assert not rooms & {"studies", "theory", "baselines", "audit"}


def _packages_beyond(extras, pyproject):
    """Installed packages that neither the core nor these extras bring, by their import names."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    allowed = {"drgcn"}
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        if name in allowed or (requirement.marker and not requirement.marker.evaluate()):
            continue
        allowed.add(name)
        with contextlib.suppress(metadata.PackageNotFoundError):
            wanted += metadata.requires(name) or []
    found = metadata.packages_distributions()
    return [
        package
        for package, owners in found.items()
        if not {canonicalize_name(owner) for owner in owners} & allowed and package.isidentifier()
    ]


def test_docstrings_say_what_a_thing_is_or_does():
    asking = re.compile(r"(What|How|Which|Whether|Who|Where|When|Why)\b")
    found = []
    for name, path in modules().items():
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if asking.match(text):
                    found.append(f"{path}: {text.splitlines()[0]}")
    assert not found, "\n".join(found)
