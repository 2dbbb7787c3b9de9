"""Runs the rows of a comparison with a progress bar, and prints them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch_geometric.data import Data

from drgcn.cli.options import ProgressLine
from drgcn.data.catalog import remark_of
from drgcn.errors import InputError, UndefinedStability
from drgcn.gates import Measurement, measured_gates
from drgcn.reporting.tables import Table
from drgcn.stability import variance_spread
from drgcn.stats import Summary
from drgcn.studies.build import usual_loss
from drgcn.studies.comparison import Comparison, Guess, k_words, summarize
from drgcn.studies.experiment import Experiment, unusual
from drgcn.studies.run import Outcome, run, run_grid
from drgcn.training import Progress as FitProgress
from drgcn.training.objectives import is_share
from drgcn.training.task import tested_labels

_TWO_BUILDS = (
    "Records of two builds, not compared: some rows were trained before this package, torch, PyG "
    "or the machine changed. Give another --out to train all of them again."
)

_LEGEND = (
    "±: standard deviation over the n seeds; [ ]: 95 % interval of the mean difference. K, for "
    "each gated layer: variance across feature dimensions after the gate over that before; below "
    "1 the gate damps loud dimensions, above 1 it amplifies them. static and constant are gates "
    "that see no data."
)


def run_rows(
    experiments: Sequence[Experiment],
    data: Data,
    seeds: range,
    out: Path,
    device: torch.device,
    quiet: bool = False,
) -> list[Outcome]:
    """Run one experiment after the other, all seeds of each at once."""
    rows = [[experiment] for experiment in experiments]
    return [outcome for (outcome,) in run_grids(rows, data, seeds, out, device, quiet)]


def run_grids(
    rows: Sequence[Sequence[Experiment]],
    data: Data,
    seeds: range,
    out: Path,
    device: torch.device,
    quiet: bool = False,
) -> list[list[Outcome]]:
    """Run one row after the other, all settings and seeds of each at once.

    An experiment by itself that cannot be trained is an error; of several the others go on.
    """
    found = []
    # On standard error, so that standard output holds nothing but the result.
    with ProgressLine("training", quiet, resumes=True) as line:
        for number, row in enumerate(rows):
            label = row[0].label + (f" ({number + 1} of {len(rows)})" if len(rows) > 1 else "")

            def show(
                now: FitProgress, row: Any = row, number: int = number, label: str = label
            ) -> None:
                words = _words(now, row[0].metric, "seeds" if len(row) == 1 else "networks")
                share = now.epochs_done / now.epochs_in_all
                line.show(words, (number + share) / len(rows), label)

            line.show("", number / len(rows), label)
            if len(row) == 1:
                found.append([run(row[0], data, seeds, out, device=device, progress=show)])
            else:
                found.append(run_grid(row, data, seeds, out, device=device, progress=show))
    return found


def print_comparison(data: Data, outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """The table, what it means, and where its records are."""
    guess = guess_of(data, outcomes[0].experiment.metric)
    report = comparison(data, outcomes, guess)
    if as_json:
        print(json.dumps(report))
        return
    console = Console()
    _print_head(console, data, report, guess, outcomes[0].experiment)
    console.print(_table(report["rows"], guess).rich())
    console.print(_LEGEND, style="dim", highlight=False)
    _print_verdict(console, report, guess)
    for row in report["rows"]:
        for path in row["records"]:
            console.print(f"  {path}", style="dim", highlight=False, soft_wrap=True)


def print_grid(
    data: Data,
    usual: Experiment,
    settings: Sequence[dict[str, Any]],
    rows: Sequence[Sequence[Outcome]],
    *,
    as_json: bool,
) -> None:
    """Print every setting of every row, and judge the best of each row on validation.

    Args:
        data: The graph.
        usual: The experiment whose settings were varied.
        settings: The settings.
        rows: Outcomes of each row, in the order of the settings.
        as_json: Print one JSON object instead of tables.
    """
    guess = guess_of(data, usual.metric)
    chosen = [best_on_validation(row, guess.higher_is_better) for row in rows]
    if not any(chosen):
        raise InputError(
            f"Expected a setting that can be trained; found none. {rows[0][0].reason}"
        )
    report = comparison(data, [outcome for outcome in chosen if outcome], guess)
    report["grid"] = [
        _grid_line(outcome, own, guess) | {"chosen": outcome is best}
        for row, best in zip(rows, chosen, strict=True)
        for outcome, own in zip(row, settings, strict=True)
    ]
    winners = [line for line in report["grid"] if line["chosen"]]
    for row, line in zip(report["rows"], winners, strict=True):
        row["settings"] = line["settings"]
    if as_json:
        print(json.dumps(report))
        return
    console = Console()
    _print_head(console, data, report, guess, usual)
    console.print(_grid_table(report["grid"], guess).rich())
    console.print(
        f"Chosen by the mean {guess.metric} on validation nodes, the first of equals. Test nodes "
        f"had no say."
    )
    named = [row | {"row": f"{row['row']}, {_settings_words(row)}"} for row in report["rows"]]
    console.print(_table(named, guess).rich())
    console.print(_LEGEND, style="dim", highlight=False)
    _print_verdict(console, report, guess)
    for line in report["grid"]:
        if line["reason"]:
            console.print(f"{line['row']}, {_settings_words(line)}: {line['reason']}")
    folders = {Path(path).parent for line in report["grid"] for path in line["records"]}
    for folder in sorted(folders):
        console.print(f"  {folder}", style="dim", highlight=False, soft_wrap=True)


def best_on_validation(outcomes: Sequence[Outcome], higher_is_better: bool) -> Outcome | None:
    """Return the outcome with the best mean over validation nodes, the first of equals; none if
    nothing could be trained."""
    trained = [outcome for outcome in outcomes if not outcome.reason]

    def worth(outcome: Outcome) -> float:
        mean = Summary.of([result.val_accuracy for result in outcome.seeds.values()]).mean
        return mean if higher_is_better else -mean

    return max(trained, key=worth, default=None)


def _grid_line(outcome: Outcome, settings: dict[str, Any], guess: Guess) -> dict[str, Any]:
    line: dict[str, Any] = {
        "row": outcome.experiment.label,
        "reweight": outcome.experiment.reweight,
        "settings": settings,
    }
    for name in ("val_accuracy", "test_accuracy"):
        values = [guess.number(getattr(result, name)) for result in outcome.seeds.values()]
        found = Summary.of(values)
        line |= {f"{name}_mean": _finite(found.mean), f"{name}_std": _finite(found.std)}
    return line | {
        "seeds": len(outcome.seeds),
        "reason": outcome.reason,
        "records": [str(path) for path in outcome.paths],
    }


def _grid_table(lines: Sequence[dict[str, Any]], guess: Guess) -> Table:
    names = list(lines[0]["settings"])
    cells = []
    for line in lines:
        scores = []
        for name in ("val_accuracy", "test_accuracy"):
            mean, std = line[f"{name}_mean"], line[f"{name}_std"]
            spread = "" if std is None else f" ± {std:.{guess.digits}f}"
            scores.append("-" if mean is None else f"{mean:.{guess.digits}f}{spread}")
        mark = "chosen" if line["chosen"] else ""
        cells.append((line["row"], *map(str, line["settings"].values()), *scores, mark))
    seeds = max(line["seeds"] for line in lines)
    return Table(("", *names, f"validation {guess.unit}", f"test (n={seeds})", ""), cells)


def _settings_words(line: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in line["settings"].items())


def _print_head(
    console: Console, data: Data, report: dict[str, Any], guess: Guess, usual: Experiment
) -> None:
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
    if settings := unusual(usual):
        console.print(f"Departing from the usual training: {settings}.")


def _print_verdict(console: Console, report: dict[str, Any], guess: Guess) -> None:
    if report["verdict"]:
        console.print(report["verdict"])
    elif not report["learnt"]:
        console.print(f"Nothing was learnt: no row is better than a guess ({guess.words}).")


def guess_of(data: Data, metric: str | None) -> Guess:
    """Return the best constant answer for the test nodes of a dataset."""
    labels, objective = tested_labels(data, None, usual_loss(data), metric)
    return Guess.of(objective, labels)


def comparison(data: Data, outcomes: Sequence[Outcome], guess: Guess) -> dict[str, Any]:
    """Everything ``--json`` prints."""
    compared = Comparison({o.experiment.reweight: o.seeds for o in outcomes}, guess)
    one_build = len(frozenset().union(*(outcome.builds for outcome in outcomes))) <= 1
    rows = []
    share = guess.number(0.01)  # of a summary in percent
    for outcome in outcomes:
        summary = summarize(outcome.seeds)
        over_plain = compared.over_plain(outcome.experiment.reweight) if one_build else None
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
        "verdict": compared.verdict if one_build or len(outcomes) == 1 else _TWO_BUILDS,
    }


def _predicted(data: Data) -> str:
    if usual_loss(data) is None:
        return "classes"
    return "value to predict" if data.dataset.classes == 1 else "values to predict"


def _words(now: FitProgress, metric: str | None, noun: str) -> str:
    """Loss and validation, and how many networks train together where that is not all of them."""
    percent = metric is None or is_share(metric)
    validation = f"{100 * now.val_accuracy:.1f} %" if percent else f"{now.val_accuracy:.4g}"
    words = f"loss {now.train_loss:.3f} val {validation}"
    if now.seeds_at_once >= now.seeds:
        return words
    return f"{words}, {now.seeds_at_once} of {now.seeds} {noun} at once"


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


def try_a_step(model: torch.nn.Module, num_features: int) -> None:
    """Sample a graph of two nodes: samplers check their settings only when they are made.

    Models that do not sample are left alone.
    """
    if not hasattr(model, "prepare_training"):
        return
    ones = torch.ones(num_features)
    for _, gate in measured_gates(model):
        gate.take(Measurement(ones, ones))
    data = Data(x=ones.expand(2, -1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    with torch.no_grad():
        model.sampled(torch.arange(2), *model.prepare_training(data))  # type: ignore[operator]
