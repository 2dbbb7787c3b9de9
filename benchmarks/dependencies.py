"""Sizes of the packages that drgcn asks for, and what importing them costs.

Each import is timed in a process of its own, in seconds of CPU, which other work on the machine
changes little; the least of several. NumPy is loaded beforehand, and torch before PyG.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import torch
from measuring import write_csv

ROOT = Path(__file__).parent.parent
MODULES = {
    "scikit-learn": "sklearn",
    "faiss-cpu": "faiss",
    "sphinx-mathjax-offline": "sphinx-mathjax-offline",  # with hyphens, as no import could say
}
TIMES = 2
CODE = """
import importlib, sys, time
for name in {before}:
    importlib.import_module(name)
start = time.process_time()
importlib.import_module({name!r})
print(time.process_time() - start)
"""


def requirements() -> dict[str, str]:
    """Return the extra of each requirement by its name; core for those of the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, str] = {}
    for extra, wanted in groups.items():
        for requirement in wanted:
            found.setdefault(re.match(r"[\w-]+", requirement)[0], extra)
    return found


def mebibytes(name: str) -> float:
    """Size of an installed package's own files."""
    files = metadata.distribution(name).files or []
    places = {Path(str(file.locate())) for file in files}
    return sum(place.stat().st_size for place in places if place.is_file()) / 2**20


def seconds(module: str) -> float:
    """Least CPU time that an import adds to what is loaded before."""
    before = {"numpy": [], "torch_geometric": ["numpy", "torch"]}.get(module, ["numpy"])
    code = CODE.format(before=before, name=module)
    words = [sys.executable, "-W", "ignore", "-c", code]
    runs = [subprocess.run(words, capture_output=True, text=True) for _ in range(TIMES)]
    return min(float(ran.stdout.split()[-1]) for ran in runs)


def main() -> None:
    """Measure what is installed, and write the record."""
    rows: list[dict[str, object]] = []
    for name, extra in requirements().items():
        module = MODULES.get(name, name.replace("-", "_"))
        if importlib.util.find_spec(module) is None:
            print(f"{name} is not installed: left out", flush=True)
            continue
        row = {"package": name, "extra": extra, "version": metadata.version(name)}
        row |= {"MiB": f"{mebibytes(name):.1f}", "import, CPU s": f"{seconds(module):.2f}"}
        rows.append(row)
        print(*row.values(), flush=True)
    write_csv("dependencies", rows, torch.device("cpu"), ROOT / "benchmarks" / "results", 1)


if __name__ == "__main__":
    main()
