"""``drgcn recommend compare``: gates on clicks, paired by seed, with a record of every run."""

from __future__ import annotations

import json as jsonlib
import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Device,
    Json,
    ProgressLine,
    Quiet,
    Threads,
    expect_folder,
    use_device,
    use_threads,
    whole_numbers,
)
from drgcn.cli.recommend.train_options import Model, clicks_source, open_clicks, parse_half_lives
from drgcn.errors import InputError

if TYPE_CHECKING:
    from drgcn.recommend.clicks import ClickData
    from drgcn.recommend.model.fitting import Look
    from drgcn.recommend.study.settings import StudyRecord, StudySettings
    from drgcn.reporting.tables import Table


_OWN: dict[str, Any] = {"show_default": "the recipe's"}
_training = partial(typer.Option, rich_help_panel="The training, shared by all gates")


def compare(
    data: Annotated[
        str, typer.Argument(help="A known set, `astar`, or a folder that `ingest` wrote.")
    ],
    more: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="Further names after --gates.")
    ] = None,
    gates: Annotated[
        str,
        typer.Option(help="Of none, constant, static, dr.", show_default="all; none for lightgcn"),
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="How many, from 0.")] = 5,
    model: Annotated[
        Model, typer.Option(help="SAGE, hybrid, or LightGCN without gates.")
    ] = Model.sage,
    fast: Annotated[
        bool, typer.Option("--fast", help="LightGCN with a softmax loss: a variant.")
    ] = False,
    split: Annotated[str | None, typer.Option(help="time or official.", **_OWN)] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="Days in test and validation each.", **_OWN)
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Test the weights kept by validation (kept), or ones trained on all clicks "
            "before the test, for as long as validation says (refit) or --epochs-max (fixed).",
            **_OWN,
        ),
    ] = None,
    n: Annotated[
        str | None, typer.Option(help="Lengths of lists; validation looks at the first.", **_OWN)
    ] = None,
    epochs_max: Annotated[float | None, _training(help="Most epochs.", **_OWN)] = None,
    every: Annotated[float | None, _training(help="Epochs between looks.", **_OWN)] = None,
    patience: Annotated[
        int | None, _training(min=1, help="Looks without a better one.", **_OWN)
    ] = None,
    batch_size: Annotated[int | None, _training(min=1, help="Clicks.", **_OWN)] = None,
    lr: Annotated[float | None, _training(help="Learning rate.", **_OWN)] = None,
    search: Annotated[
        str | None,
        _training(help="lr=3e-4,1e-3,3e-3: choose it by validation of the plain model alone."),
    ] = None,
    half_life: Annotated[
        str | None,
        _training(
            help="Days after which a click is drawn half as often; of several, as in 3,10,30, and "
            "of auto, validation chooses.",
            show_default="none",
        ),
    ] = None,
    channels: Annotated[int | None, _training(min=1, help="Width.", **_OWN)] = None,
    fan_outs: Annotated[str | None, _training(help="As in 10,5.", **_OWN)] = None,
    bfloat16: Annotated[bool, _training("--bfloat16", help="Products in bfloat16.")] = False,
    fraction: Annotated[float, typer.Option(help="Of full size, for `astar`.")] = 0.01,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at once on the device, each a process.")
    ] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("results/recommend"),
    runs: Annotated[
        bool,
        typer.Option(
            "--runs/--no-runs",
            help="Leave every model in the folder runs of --out, for `evaluate` and `export`.",
        ),
    ] = True,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints.")
    ] = 30.0,
    data_root: DataRoot = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train every gate and seed to a plateau on validation, test each once, and compare.

    One record a run; what is on record is not run again, so the same command goes on after an
    interruption. Gates share everything but themselves.

    Example: drgcn recommend compare movielens-100k --gates none constant static dr --seeds 5
    """
    from drgcn.recommend.study import compare as run_study
    from drgcn.records import environment

    use_threads(threads)
    where = use_device(device)
    expect_folder(out)
    given = {
        "split": split,
        "days": days,
        "protocol": protocol,
        "epochs_max": epochs_max,
        "every": every,
        "patience": patience,
        "batch_size": batch_size,
        "lr": lr,
        "channels": channels,
        "bfloat16": bfloat16 or None,
        "n": None if n is None else whole_numbers(n, "--n", "20,50"),
        "fan_outs": None if fan_outs is None else whole_numbers(fan_outs, "--fan-outs", "10,5"),
    }
    half_lives = [days for days in parse_half_lives(half_life) if days is not None]
    if len(half_lives) == 1:
        given["half_life"] = half_lives.pop()
    load = partial(study_clicks, data, fraction, where, data_root)
    clicks = load()
    chosen, rates = chosen_gates(gates, more or [], model), searched_rates(search)
    with ProgressLine("comparing", quiet, resumes=True) as line:
        told = StudyProgress(line, len(chosen) * seeds + len(rates))
        records = run_study(
            clicks,
            _study_settings(clicks, model, fast, given),
            out,
            gates=chosen,
            seeds=range(seeds),
            search_lr=rates,
            half_lives=half_lives,
            device=where,
            environment=environment(where),
            checkpoint_every=checkpoint_every,
            # Several processes have no line in common.
            begin=told.begin if jobs == 1 else None if quiet else print_run,
            jobs=jobs,
            load=load,
            runs=out / "runs" if runs else None,
            source={} if data == "astar" else clicks_source(data, data_root),
        )
    show(records, json)


def _study_settings(
    clicks: ClickData, model: Model, fast: bool, given: dict[str, Any]
) -> StudySettings:
    """Return the recipe of a set of clicks, changed by the options that were given."""
    from drgcn.recommend.study.settings import recipe

    changes = {name: value for name, value in given.items() if value is not None}
    usual = recipe(clicks.name, model.value, fast=fast)
    if clicks.parts and usual.split == "time":
        changes.setdefault("split", "official")
    return replace(usual, **changes)


def study_clicks(name: str, fraction: float, device: Any, root: Path | None) -> ClickData:
    """Load the clicks of a name or folder, or generate a fraction of ``astar``."""
    if name != "astar":
        return open_clicks(name, root)
    from drgcn.recommend.synthetic import generate_astar

    return generate_astar(fraction, device=device)


def chosen_gates(text: str, more: list[str], model: Model) -> list[Any]:
    """Read the names of gates, separated by commas or spaces; all gates if there are none."""
    from drgcn.recommend.study.settings import GATES

    names = [*text.replace(",", " ").split(), *more]
    if not names:
        return ["none"] if model is Model.lightgcn else list(GATES)
    if unknown := [name for name in names if name not in GATES]:
        raise InputError(f"Expected gates of {', '.join(GATES)}; found {unknown[0]!r}.")
    return names


def searched_rates(text: str | None) -> list[float]:
    """Read ``lr=3e-4,1e-3`` as numbers."""
    if text is None:
        return []
    name, _, values = text.partition("=")
    try:
        found = [float(jsonlib.loads(value)) for value in values.split(",")]
    except (ValueError, TypeError):
        found = []
    if name != "lr" or not found or not all(0 < value < math.inf for value in found):
        raise InputError(f"Expected --search such as lr=3e-4,1e-3,3e-3; found {text!r}.")
    return found


class StudyProgress:
    """Progress of a study, a run after the other.

    Args:
        line: Where it is shown.
        runs: Number of runs.
    """

    def __init__(self, line: ProgressLine, runs: int) -> None:
        self.line, self.runs, self.begun = line, runs, 0

    def begin(self, settings: StudySettings, record: StudyRecord | None) -> Look:
        """Show the run that starts; return a function that shows how it goes."""
        share = self.begun / self.runs
        self.begun += 1
        words = f"{_run_words(settings)} ({self.begun} of {self.runs})"
        self.line.show(words + ("" if record is None else ": on record"), share)

        def look(step: int, loss: float, recall: float) -> None:
            said = f"{words}: step {step}, loss {loss:.4f}"
            if recall == recall:  # it is not a number where nothing is validated
                said += f", validation {100 * recall:.2f} %"
            self.line.show(said, share)

        return look


def print_run(settings: StudySettings, record: StudyRecord | None) -> None:
    """Print the run that starts."""
    known = "" if record is None else ": on record"
    print(f"{_run_words(settings)}{known}", file=sys.stderr, flush=True)


def _run_words(settings: StudySettings) -> str:
    return f"{settings.model} {settings.gate}, seed {settings.seed}, lr {settings.lr:g}"


def show(records: list[StudyRecord], json: bool) -> None:
    """Print recall of every gate, their differences, and the verdict."""
    from drgcn.recommend.study.tables import (
        comparisons,
        decide_gates,
        difference_rows,
        recall_rows,
        title,
        verdict,
    )

    found = comparisons(records)
    words = verdict(decide_gates(found)[0])
    if json:
        tests = [record.recall() for record in records]
        names = [record.file_name for record in records]
        print(jsonlib.dumps({"records": names, "recall": tests, "verdict": words}))
        return
    for one in found:
        print(f"{title(one)}; in %, mean and deviation over seeds")
        _print(recall_rows(one).transposed())
    if (differences := difference_rows(found)).rows:
        _print(differences)
        print(words)


def _print(table: Table) -> None:
    from rich.console import Console

    Console().print(table.rich())
