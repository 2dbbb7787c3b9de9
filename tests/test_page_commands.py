"""The shell blocks of README and the site run, page by page, each page in a folder of its own.

The `drgcn` that they find first on their path adds the words of `SHORTER`, where the last value of
an option counts. Nothing else is changed but the port of a server, the clicks of a comparison, and
scripts that remake a page, which only check it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:\.venv/bin/)?(?:drgcn|make|pip|python|torchrun|curl|export|#!/bin) ?")
SHORTER = {
    "train": "--seeds 2 --epochs 2",
    "tune": "--trials 2 --seeds 2 --fresh-seeds 2 --epochs 2",
    "baselines": "--seeds 1 --method label-propagation",
    "reproduce": "--dry-run",  # a plan of hours
    "recommend generate": "--fraction 0.0001",
    "recommend train": "--epochs-max 0.1 --every 0.1",
    "recommend compare": "--fraction 0.0001 --seeds 1 --channels 8 --epochs-max 0.01 --every 0.01",
}
#: Lines that are not run, and why.
NOT_RUN = {
    r"make demo .*|make test .*|pip install .*": "makes environments, as release-check does",
    r"ray start .*|export DRGCN_DATA=.*|.*--ray-address .*": "a cluster: test_ray.py starts one",
    r"python benchmarks/gates_.*": "CUDA, and gates_few_labels.py is the plan as it was committed",
    r"#!/bin/bash|#SBATCH.*|head=.*|srun .*|  --.*": "SLURM, and the page says so",
}
DATASETS = r"\b(cora|citeseer|pubmed|gowalla|movielens-100k)\b"
#: Blocks that begin anew on their page, and what their reader has done before.
_CLICKS = "drgcn recommend generate --out clicks\n"
_EXPORT = "drgcn recommend train clicks --out run && drgcn recommend export run --out export\n"
ANEW = {
    "--out run --workers 2\n": _CLICKS,
    "torchrun --standalone": _CLICKS,
    "ingest movielens-100k": "",
    "ingest events.csv": "",
    "generate --fraction 0.01 --out clicks  ": "",
    "serve current": f"{_CLICKS}{_EXPORT}ln -s export current\n",
}
PAGES = {
    path.relative_to(ROOT).as_posix(): blocks
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if (blocks := [b for _, b in FENCE.findall(path.read_text("utf-8")) if COMMAND.match(b)])
}
# Serves in the background; an audit that finds something serious has exit code 1.
PROGRAM = f"""#!{sys.executable}
import subprocess, sys, time
from drgcn.cli import main
words = sys.argv[1:]
for verb, options in {{SHORTER}}.items():
    known = verb == "recommend train" and "--epochs" in words  # how long it trains
    if words[: len(verb.split())] == verb.split() and not known:
        sys.argv += options.split()
if words[:2] == ["recommend", "compare"] and "--gates" not in words:
    sys.argv += ["--gates", "none"]
if words[:2] == ["recommend", "serve"]:
    words += [] if "--port" in words else ["--port", "0"]
    alone = [sys.executable, "-c", "from drgcn.cli import main; main()", *words]
    with open("said", "w") as said:
        served = subprocess.Popen(alone, stdout=said, stderr=said)
    print(served.pid, file=open("served", "a"))
    while "http:" not in open("said").read() and served.poll() is None:
        time.sleep(0.2)
    sys.exit(served.poll())
try:
    main()
except SystemExit as ended:
    sys.exit(0 if words[0] == "audit" and ended.code == 1 else ended.code)
"""


def graph(folder):
    """Write a small graph as a folder of tables."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    labels = ["red", "blue"] * 20
    rows = [
        f"n{i},{random.normal(label == 'red'):.3f},{random.normal():.3f},{label}"
        for i, label in enumerate(labels)
    ]
    edges = [f"n{i},n{(i + 2) % 40}" for i in range(40)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,age,label", *rows]) + "\n")
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")


def texts_for(folder, nodes):
    """Write as many texts as a graph has nodes."""
    texts = [json.dumps({"index": i, "text": f"number {i}" if i else ""}) for i in range(nodes)]
    (folder / "texts.jsonl").write_text("\n".join(texts) + "\n")


def files_of_the_reader(folder):
    """Write what pages suppose that their reader has."""
    for name in ("my-graph", "my-folder", "path/to/folder"):
        graph(folder / name)
    texts_for(folder, 40)
    random = np.random.default_rng(0)
    clicks = [
        f"c{random.integers(80)},a{random.integers(30)},{1767300000 + 4000 * i}"
        for i in range(900)
    ]
    (folder / "events.csv").write_text("customer,article,timestamp\n" + "\n".join(clicks) + "\n")
    from pyarrow import parquet, table

    parquet.write_table(
        table({"id": [f"c{i}" for i in range(80)], "age": list(range(80))}),
        folder / "customers.parquet",
    )
    for name in ("docs", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "results", folder / "results")  # verbs write there


@pytest.fixture
def run(tmp_path):
    """Run a block in bash; what serves ends with the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folders = []

    def run(block, folder):
        if folder not in folders:
            folders.append(folder)
            programs = folder / ".venv" / "bin"
            programs.mkdir(parents=True)
            (programs / "drgcn").write_text(PROGRAM.replace("{SHORTER}", repr(SHORTER)))
            (programs / "drgcn").chmod(0o755)
            files_of_the_reader(folder)
        if "refine citeseer" in block:
            texts_for(folder, 3327)
        block = re.sub("(recommend compare) [a-z]+[-a-z0-9]*", r"\1 astar", block)  # small clicks
        block = re.sub(r"(python docs/make_\w+\.py)", r"\1 --check", block.replace("8765", port))
        path = f"{folder}/.venv/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "-ec", block],
            cwd=folder,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode == 0, f"{block}{done.stdout}{done.stderr}"

    yield run
    for folder in folders:
        if (folder / "served").exists():
            for number in (folder / "served").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGTERM)


def to_run(block):
    """Return the lines of a block that run here."""
    patterns = list(NOT_RUN)
    if not os.environ.get("DRGCN_DATA"):
        # What follows works on the clicks that were read.
        patterns.append(".*" if re.search(f"ingest {DATASETS}", block) else rf".*{DATASETS}.*")
    return (
        "\n".join(
            line for line in block.splitlines() if not any(re.fullmatch(p, line) for p in patterns)
        )
        + "\n"
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run(page, run, tmp_path):
    for extra in ("duckdb", "faiss", "fastapi") if "recommend" in page else ():
        if importlib.util.find_spec(extra) is None:
            pytest.skip(f"no {extra} here: pip install '.[recommend,serve]'")
    folder = tmp_path / "0"
    for number, block in enumerate(PAGES[page]):
        for words, before in ANEW.items():
            if words in block:
                folder = tmp_path / str(number)
                run(before, folder)
        run(to_run(block), folder)


def test_reasons_not_to_run_are_of_lines_that_there_are():
    lines = [line for blocks in PAGES.values() for block in blocks for line in block.splitlines()]
    assert len(PAGES) >= 14
    for pattern in NOT_RUN:
        for one in pattern.split("|"):
            assert any(re.fullmatch(one, line) for line in lines), one
