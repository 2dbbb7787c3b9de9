"""Everything that a release needs but the upload; ``make release-check`` runs it.

Builds the sdist, and the wheel from it, in a folder that is thrown away; checks both, the
version, the citation and the sizes of files; then installs the wheel into a clean environment for
each extra alone, checks that its requirements agree, and runs small commands there. With further
interpreters (``--python python3.12``) the command line is tried under each without torch.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST = 400 * 2**10  # bytes of a tracked file
TOOLS = ("build", "twine", "cffconvert")

TRAIN = "drgcn train planted --model mlp --seeds 2 --epochs 3 --hidden 8 --out runs"
CLICKS = "drgcn recommend generate --fraction 0.0002 --out clicks"
RUN = "drgcn recommend train clicks --out run --model lightgcn --channels 8 --epochs 1"
# Small commands by extra, in a folder of their own; the core's run first.
SMOKE = {
    "": (
        "drgcn",
        TRAIN,
        "drgcn report runs --html report.html",
        "drgcn stability digits --json",
        CLICKS,
        RUN,
    ),
    "text": ("python -c 'import transformers; import drgcn.audit.texts'",),
    "tune": (
        "drgcn tune planted --model mlp --strategy tpe --trials 2 --seeds 2 --fresh-seeds 2 "
        "--epochs 3 --out tuned",
    ),
    "cluster": ("python -c 'import ray.train, ray.tune; import drgcn.studies.reproduce.ray'",),
    "recommend": (
        CLICKS + " --tables",
        "drgcn recommend ingest clicks/clicks.parquet --out read",
        RUN.replace("clicks", "read"),
        "drgcn recommend export run --out export",
    ),
    "ials": ("python -c 'import implicit; import drgcn.recommend.retrieval.baselines'",),
    "docs": ("python -c 'import furo, jupytext, myst_parser, sphinx_gallery'",),
    "serve": (
        CLICKS,
        RUN,
        "drgcn recommend export run --out export",
        "drgcn recommend query export --user 7 --n 3",
        "drgcn recommend serve export --port 0 > said 2>&1 & for i in $(seq 200); do sleep 0.5; "
        "grep -q http: said && break; done; kill $!; grep http: said",
    ),
}


def version_faults(root: Path = ROOT) -> list[str]:
    """Return where the version differs: package, citation and changelog have to agree."""
    source = (root / "src" / "drgcn" / "_version.py").read_text()
    version = re.findall(r'__version__ = "(.+)"', source)[0]
    faults = []
    cited = re.findall(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    if cited != [version]:
        faults.append(f"CITATION.cff has version {cited}, the package {version}")
    heads = re.findall(r"^## \[(.+?)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if not heads or heads[0] != version:
        faults.append(f"CHANGELOG.md begins with {heads[:1]}, the package has version {version}")
    return faults


def large_files(root: Path = ROOT) -> list[str]:
    """Return tracked files that are larger than a package's repository should hold."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    names = [name for name in listed.stdout.decode().split("\0") if name]
    sizes = {name: (root / name).stat().st_size for name in names if (root / name).is_file()}
    return [f"{name} has {size:,} bytes" for name, size in sizes.items() if size > LARGEST]


def content_faults(names: list[str]) -> list[str]:
    """Return what is missing from a wheel, and what should not be in it."""
    wanted = ("drgcn/py.typed", "drgcn/reporting/base.html.jinja", "entry_points.txt", "LICENSE")
    faults = [f"the wheel lacks {one}" for one in wanted if not any(one in name for name in names)]
    inside = re.compile(r"drgcn/|drgcn-[^/]+\.dist-info/")
    return faults + [f"the wheel holds {name}" for name in names if not inside.match(name)]


def run(*words: str | Path, **settings: object) -> str:
    """Run a command and return its output; show it and stop if it fails."""
    line = [str(word) for word in words]
    settings = {"cwd": ROOT, **settings}
    ended = subprocess.run(line, capture_output=True, text=True, check=False, **settings)
    if ended.returncode:
        sys.exit(f"failed: {' '.join(line)}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def made_environment(folder: Path, python: str = sys.executable) -> Path:
    """Make an environment, and return its folder of commands."""
    run(python, "-m", "venv", folder)
    return folder / "bin"


def build(folder: Path) -> Path:
    """Build sdist and wheel, check both, and return the wheel."""
    tools = made_environment(folder / "tools")
    run(tools / "pip", "install", "--quiet", *TOOLS)
    run(tools / "cffconvert", "--validate", "--infile", ROOT / "CITATION.cff")
    dist = folder / "dist"
    run(tools / "python", "-m", "build", "--outdir", dist, ROOT)
    files = sorted(dist.iterdir())
    run(tools / "twine", "check", "--strict", *files)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        stop_on(content_faults(archive.namelist()))
    with tarfile.open(sdist) as archive:
        tracked = run("git", "ls-files", "src").split()
        held = {name.partition("/")[2] for name in archive.getnames()}
        stop_on([f"the sdist lacks {name}" for name in tracked if name not in held])
    for file in files:
        print(f"built {file.name}, {file.stat().st_size / 2**10:.0f} KiB", flush=True)
    return wheel


def try_extra(wheel: Path, extra: str, folder: Path) -> None:
    """Install the wheel with one extra alone and run its commands."""
    began = time.monotonic()
    binaries = made_environment(folder / "environment")
    pins = (ROOT / "constraints.txt").read_text()
    torch = re.findall(r"^torch==.*$", pins, re.MULTILINE)
    # Most of what is installed is never imported here: nothing is compiled beforehand.
    install = (binaries / "pip", "install", "--quiet", "--no-compile")
    run(*install, *torch)
    wanted = f"{wheel}[{extra}]" if extra else wheel
    run(*install, "-c", ROOT / "constraints.txt", wanted)
    run(binaries / "pip", "check")
    own = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    own.pop("PYTHONPATH", None)
    work = folder / "work"
    work.mkdir()
    for words in SMOKE[extra]:
        run("bash", "-c", words, cwd=work, env=own)
    seconds = time.monotonic() - began
    print(f"{extra or 'core'}: installed, checked, ran ({seconds:.0f} s)", flush=True)


def try_python(wheel: Path, python: str, folder: Path) -> None:
    """Try the command line under another interpreter, with all core requirements but torch's."""
    binaries = made_environment(folder, python)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    light = [one for one in project["dependencies"] if not one.startswith("torch")]
    run(binaries / "pip", "install", "--quiet", *light)
    run(binaries / "pip", "install", "--quiet", "--no-deps", wheel)
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for words in (["--version"], ["--help"], ["train", "--help"], ["data", "list"]):
        run(binaries / "drgcn", *words, env=own)
    run(binaries / "python", "-m", "compileall", "-q", folder / "lib")
    print(f"{python}: the command line without torch", flush=True)


def stop_on(faults: list[str]) -> None:
    """End with exit code 1 if there are any faults."""
    if faults:
        sys.exit("\n".join(faults))


def main() -> None:
    """Check everything in turn; the first fault ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra", action="append", help="these alone; core for none")
    parser.add_argument("--python", action="append", default=[], help="a further interpreter")
    options = parser.parse_args()
    stop_on(version_faults() + large_files())
    chosen = [("" if name == "core" else name) for name in options.extra or ["core", *SMOKE]]
    with tempfile.TemporaryDirectory(prefix="drgcn-release-") as name:
        folder = Path(name)
        wheel = build(folder)
        for number, python in enumerate(options.python):
            try_python(wheel, python, folder / f"python-{number}")
        for extra in dict.fromkeys(chosen):
            with tempfile.TemporaryDirectory(dir=folder) as own:
                try_extra(wheel, extra, Path(own))
    print("all is in order; what is left is a tag and the upload")


if __name__ == "__main__":
    main()
