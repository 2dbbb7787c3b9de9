"""Runs the rows of a comparison with a progress bar, and prints them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from torch_geometric.data import Data

from drgcn.data.catalog import remark_of
from drgcn.errors import UndefinedStability
from drgcn.reporting.tables import Table
from drgcn.stability import variance_spread
from drgcn.studies.comparison import Comparison, Guess, k_words, summarize
from drgcn.studies.experiment import Experiment, unusual
from drgcn.studies.run import Outcome, run, usual_loss
from drgcn.training import Progress as FitProgress
from drgcn.training.objectives import is_share
from drgcn.training.task import tested_labels


def run_rows(
    experiments: Sequence[Experiment], data: Data, seeds: range, out: Path, device: torch.device
) -> list[Outcome]:
    """Runs one experiment after the other, all seeds of each at once."""
    columns = (
        TextColumn("{task.description:>16}"),
        BarColumn(bar_width=16),
        TaskProgressColumn(),
        TextColumn("{task.fields[now]:<22}"),
        TimeRemainingColumn(elapsed_when_finished=True, compact=True),
    )
    outcomes = []
    # On standard error, so that standard output holds nothing but the result.
    with Progress(*columns, console=Console(stderr=True)) as bars:
        for experiment in experiments:
            task = bars.add_task(experiment.label, total=1, now="")

            def show(now: FitProgress, task: Any = task, row: Experiment = experiment) -> None:
                bars.update(
                    task,
                    completed=now.epochs_done,
                    total=now.epochs_in_all,
                    now=_words(now, row.metric),
                )

            try:
                outcome = run(experiment, data, seeds, out, device=device, progress=show)
            except KeyboardInterrupt:
                bars.stop()
                print("interrupted; run the same command again to go on", file=sys.stderr)
                raise typer.Exit(130) from None
            outcomes.append(outcome)
            bars.update(task, completed=1, total=1)
            if not outcome.trained:
                bars.update(task, now="from records")
    return outcomes


def print_comparison(data: Data, outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """The table, what it means, and where its records are."""
    guess = guess_of(data, outcomes[0].experiment.metric)
    report = comparison(data, outcomes, guess)
    if as_json:
        print(json.dumps(report))
        return
    console = Console()
    info, varied = data.dataset, report["variance_spread"] is not None
    remark = remark_of(info.name)
    console.print(
        f"\n[bold]{info.name}[/bold]{f' ({remark})' if remark else ''}, split {info.split}: "
        f"{info.nodes:,} nodes, {info.edges:,} "
        f"edges, {info.features:,} features, {info.classes} {_predicted(data)}; {info.train:,} / "
        f"{info.val:,} / {info.test:,} nodes to train, validate, test. Spread of feature "
        f"variances: {report['variance_spread'] if varied else 'none, all are constant'}; "
        f"{guess.words}."
    )
    if settings := unusual(outcomes[0].experiment):
        console.print(f"Departing from the usual training: {settings}.")
    console.print(_table(report["rows"], guess).rich())
    if report["verdict"]:
        console.print(report["verdict"])
    elif not report["learnt"]:
        console.print(f"Nothing was learnt: no row is better than a guess ({guess.words}).")
    for row in report["rows"]:
        for path in row["records"]:
            console.print(f"  {path}", style="dim", highlight=False, soft_wrap=True)


def guess_of(data: Data, metric: str | None) -> Guess:
    """Return the best constant answer for the test nodes of a dataset."""
    labels, objective = tested_labels(data, None, usual_loss(data), metric)
    return Guess.of(objective, labels)


def comparison(data: Data, outcomes: Sequence[Outcome], guess: Guess) -> dict[str, Any]:
    """Everything ``--json`` prints."""
    compared = Comparison({o.experiment.reweight: o.seeds for o in outcomes}, guess)
    rows = []
    share = guess.number(0.01)  # of a summary in percent
    for outcome in outcomes:
        summary = summarize(outcome.seeds)
        over_plain = compared.over_plain(outcome.experiment.reweight)
        rows.append(
            {
                "row": outcome.experiment.label,
                "reweight": outcome.experiment.reweight,
                "test_accuracy_mean": round(share * summary.mean, 6),
                "test_accuracy_std": _finite(share * summary.std),
                "val_accuracy_mean": round(share * summary.val_mean, 6),
                "seeds": summary.seeds,
                "gain_over_plain": over_plain
                and [_finite(value) for value in astuple(over_plain)],
                "k": [_finite(value) for value in summary.k],
                "best_epoch_mean": round(summary.best_epoch, 1),
                "records": [str(path) for path in outcome.paths],
            }
        )
    return {
        "dataset": data.dataset.to_dict(),
        "metric": guess.metric,
        "guess": round(guess.number(guess.score), 6),
        "learnt": compared.learnt,
        "variance_spread": _spread(data),
        "rows": rows,
        "verdict": compared.verdict,
    }


def _predicted(data: Data) -> str:
    if usual_loss(data) is None:
        return "classes"
    return "value to predict" if data.dataset.classes == 1 else "values to predict"


def _words(now: FitProgress, metric: str | None) -> str:
    """Loss and validation, and how many seeds train together where that is not all of them."""
    percent = metric is None or is_share(metric)
    validation = f"{100 * now.val_accuracy:.1f} %" if percent else f"{now.val_accuracy:.4g}"
    words = f"loss {now.train_loss:.3f} val {validation}"
    if now.seeds_at_once >= now.seeds:
        return words
    return f"{words}, {now.seeds_at_once} of {now.seeds} seeds at once"


def _table(rows: Sequence[dict[str, Any]], guess: Guess) -> Table:
    test = f"test {guess.unit} (n={rows[0]['seeds']})"
    digits = guess.digits
    cells = []
    for row in rows:
        std, over = row["test_accuracy_std"], row["gain_over_plain"]
        spread = "" if std is None else f" ± {std:.{digits}f}"
        accuracy = f"{row['test_accuracy_mean']:.{digits}f}{spread}"
        gained = ""
        if over:
            mean, low, high = over
            gained = f"{mean:+.2f}" + ("" if low is None else f" [{low:+.2f}, {high:+.2f}]")
        cells.append((row["row"], accuracy, gained, k_words(row["k"])))
    return Table(("", test, f"gain over plain [95 %]{guess.gain_unit}", "K per layer"), cells)


def _spread(data: Data) -> float | None:
    try:
        return round(variance_spread(data.x), 2)
    except UndefinedStability:
        return None


def _finite(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return round(value, 6) if abs(value) < float("inf") else None
