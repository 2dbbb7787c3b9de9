"""Verbs with odd arguments: done, or refused in one line that leaves nothing behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
import typer

from drgcn import cli
from drgcn.cli.verbs import app
from drgcn.errors import InputError

from ..data.graphs import small, write_csv
from .clicks import shop
from .generators import Target

_RECORD = "wine-random-gcn-*-seeds-0-19.json"
_RESULTS = Path(__file__).parents[2] / "results"

#: Verbs with arguments that make little work. What stands in braces is a path in the folder.
_SOUND: Final[dict[str, list[str]]] = {
    "train": ["wine", "--epochs", "2", "--seeds", "1", "--hidden", "4", "--out", "out"],
    "tune": ["wine", "--trials", "1", "--seeds", "1", "--epochs", "1", "--out", "out"],
    "baselines": ["wine", "--method", "label-propagation", "--seeds", "1", "--out", "out"],
    "stability": ["wine"],
    "audit": ["own"],
    "refine": ["own", "--out", "out"],
    "report": ["results"],
    "data info": ["wine"],
    "data verify": ["wine", "--data-root", "own"],
    "studies list": [],
    "studies show": ["main"],
    "reproduce": ["nothing", "--out", "out"],
    "recommend ingest": ["clicks.csv", "--out", "out"],
    "recommend info": ["shop/clicks"],
    "recommend train": [
        *("shop/clicks", "--out", "out", "--steps", "2", "--batch-size", "32", "--channels", "4"),
        *("--fan-outs", "2,2", "--negatives", "4"),
    ],
    "recommend evaluate": ["shop/run", "--n", "5"],
    "recommend export": ["shop/run", "--n", "5", "--out", "out"],
    "recommend query": ["shop/export", "--user", "u07"],
    "recommend compare": ["nothing", "--out", "out"],
    "recommend generate": ["--fraction", "0.0001", "--out", "out"],
    "recommend serve": ["nothing"],
    "data list": [],
    "data download": ["cora", "--offline", "--data-root", "own"],
    "data features": ["--text", "own/texts.jsonl", "--words", "own/words.txt", "--out", "x.npy"],
    "doctor": [],
}
_ODD: Final = [
    *("", " ", "a", "-1", "0", "1", "2", "nan", "inf", "1_000", "\u0663", "9" * 30, "1e400"),
    *("2147483648", "0.5", "true", "null", "[]", "{}", "a=b", "lr=1_0", "lr=nan", "hidden=-1"),
    *("=", "x" * 5000, "\udcff", "a\nb", "<script>", "..", ".", "own", "own/nodes.csv", "--", "-"),
    *("/dev/null", "nothing/at/all", "*", "wine", "dr", "cpu", "cuda", "mps", "1,2", "1,,2"),
]
# Options whose odd values would be long work or a wait, were they taken.
_NEVER: Final = ("--help", "--install-completion", "--ray-address", "--address", "--workers")


@cache
def _parameters(verb: str) -> list[Any]:
    command: Any = typer.main.get_command(app)
    for word in verb.split():
        command = command.commands[word]
    return [
        parameter
        for parameter in command.params
        if parameter.opts[0].startswith("-") and not {*parameter.opts} & {*_NEVER}
    ]


def _write_command(folder: Path, draw: random.Random) -> None:
    place = folder / "here"
    place.mkdir()
    verb = draw.choice(sorted(_SOUND))
    words = list(_SOUND[verb])
    if "own" in words:
        write_csv(place / "own", small())
    if "own/texts.jsonl" in words:
        (place / "own").mkdir(exist_ok=True)
        (place / "own" / "texts.jsonl").write_text('{"index": 0, "text": "a tree"}\n')
        (place / "own" / "words.txt").write_text("tree 1 2\n")
    if any(word.startswith("shop") for word in words):
        (place / "shop").symlink_to(shop())
    if "results" in words:
        (place / "results").mkdir()
        for path in sorted(_RESULTS.glob(_RECORD))[:2]:
            shutil.copy(path, place / "results")
    if "clicks.csv" in words:
        (place / "clicks.csv").write_text("user,item,time\na,x,1\nb,x,2\nb,y,90\n")
    for _ in range(draw.choice([0, 1, 1, 2])):
        if words and draw.random() < 0.3:
            words[draw.randrange(len(words))] = draw.choice(_ODD)
        else:
            chosen = draw.choice(_parameters(verb))
            words.append(draw.choice(chosen.opts))
            if not chosen.is_flag or draw.random() < 0.1:
                words.append(draw.choice(_ODD))
    if verb == "recommend generate":  # at half of the full size, minutes of sound work
        words = ["0.0001" if word in ("0.5", "1") else word for word in words]
    if draw.random() < 0.05 and words:
        del words[draw.randrange(len(words))]
    (folder / "words.json").write_text(json.dumps([*verb.split(), *words]))


def _run_command(folder: Path) -> tuple[int, str]:
    """Run a command in this process; a refusal is raised if it is one line that left nothing."""
    words = json.loads((folder / "words.json").read_text())
    place, before = folder / "here", os.getcwd()
    was = sorted(place.rglob("*"))
    printed, told = io.StringIO(), io.StringIO()
    os.chdir(place)
    argv, sys.argv = sys.argv, ["drgcn", *words]
    threads = torch.get_num_threads()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            cli.main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        os.chdir(before)
        sys.argv = argv
        torch.set_num_threads(threads)
    errors = [line for line in told.getvalue().splitlines() if line.startswith("error: ")]
    text = told.getvalue()[-2000:]
    if code == 2 and len(errors) == 1 and text.rstrip().endswith(errors[0][-1500:]):
        left = [str(path) for path in sorted(place.rglob("*")) if path not in was]
        if not left:
            raise InputError(errors[0])
        text = f"left behind: {left}\n{text}"
    return code, f"{words}\n{text}"


def _check_command(found: tuple[int, str]) -> None:
    code, text = found
    assert code in (0, 1), text
    assert code == 0 or "audit" in text or "verify" in text, text


TARGETS: Final[dict[str, Target]] = {
    "verb": Target(_write_command, _run_command, _check_command),
}
