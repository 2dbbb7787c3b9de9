"""Reports of a search: its cost, its choice, and what that is worth on fresh seeds."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from drgcn._format import plural
from drgcn._io import write_whole
from drgcn.data.assemble import DatasetInfo
from drgcn.errors import InputError
from drgcn.records import UNSOUND, environment, expect_types, load_sealed, reason_of, sealed
from drgcn.stats import LEVEL, Decision, decide
from drgcn.studies.comparison import summarize
from drgcn.studies.records import RunRecord
from drgcn.studies.run import Outcome
from drgcn.studies.tuning.search import SAMPLERS, Search, rungs_of, trials_in_space

FORMAT = 1
FILE = "tuning.json"
_WHY_FRESH = (
    "the settings were chosen because they did well on the seeds of the search, so their accuracy "
    "there is too high"
)
_DATA_FACTS = ("name", "split", "nodes", "edges", "features", "classes", "train", "val", "test")


def tuning_report(
    searches: Sequence[Search],
    outcomes: Sequence[tuple[Outcome, Outcome]],
    info: DatasetInfo,
    *,
    trials: int,
    trials_asked: int,
    timeout: float | None,
    device: torch.device,
    out: Path,
) -> dict[str, Any]:
    """Everything that ``tuning.json`` holds.

    Args:
        searches: The searches: one, or the plain experiment's and the gated one's.
        outcomes: For each search, the untuned and the tuned experiment on fresh seeds.
        info: What was loaded.
        trials: How many trials of each search count.
        trials_asked: How many were asked for.
        timeout: The limit of time, if there was one.
        device: Where the work was done.
        out: Folder of the searches, with an earlier report if there was one.
    """
    seeds = sorted(outcomes[0][0].seeds)
    builds = {build for pair in outcomes for outcome in pair for build in outcome.builds}
    metric = RunRecord.read(outcomes[0][0].paths[0]).data["metric"]
    records = RunRecord.read_all(searches[0].folder)
    strategy = searches[0].strategy
    rungs = rungs_of(strategy, trials, searches[0].experiment.epochs)
    lane_epochs = len(searches[0].seeds) * sum(count * epochs for count, epochs in rungs)
    rows = [
        _row(outcome, tuned=tuned, out=out)
        for pair in outcomes
        for tuned, outcome in zip((False, True), pair, strict=True)
    ]
    return {
        "format": FORMAT,
        "data": {key: getattr(info, key) for key in (*_DATA_FACTS, "normalize", "content_hash")},
        "metric": metric,
        "budget": {
            "trials": trials,
            "trials_asked": trials_asked,
            "trials_in_space": trials_in_space(searches[0], trials_asked),
            "seeds": list(searches[0].seeds),
            "timeout": timeout,
            "rungs": [list(rung) for rung in rungs],
            "lane_epochs": lane_epochs,
        },
        "sampler": {
            "strategy": strategy,
            "name": SAMPLERS[strategy],
            "seed": searches[0].seed,
            "pruner": "successive halving" if strategy == "halving" else "none",
        },
        "space": {one.name: one.to_dict() for one in searches[0].space},
        "searches": [_search(search, trials) for search in searches],
        "fresh": {
            "seeds": seeds,
            "why": _WHY_FRESH,
            "rows": rows,
            # Rows of two builds differ in more than their settings.
            "differences": [_difference(*found) for found in _decisions(rows)]
            if len(builds) <= 1
            else [],
        },
        "tested_after": sorted({*earlier_looks(out), trials}),
        "environment": environment(device) | _optuna(strategy),
        "hardware": sorted({record.environment["device"] for record in records}),
    }


def _optuna(strategy: str) -> dict[str, str]:
    return {"optuna": importlib.metadata.version("optuna")} if strategy == "tpe" else {}


def write_report(report: dict[str, Any], out: Path) -> Path:
    """Write the report whole or not at all."""
    return write_whole(out / FILE, json.dumps(sealed(report), indent=1, allow_nan=False) + "\n")


def _search(search: Search, trials: int) -> dict[str, Any]:
    epochs, seconds = search.spent(trials)
    best = search.best(trials)
    done = search.trials[:trials]
    curve: list[float | None] = []
    for trial in done if search.strategy != "halving" else ():  # whose trials differ in epochs
        known = [value for value in (*curve[-1:], trial.value) if value is not None]
        curve.append(max(known, default=None))
    return {
        "row": search.experiment.label,
        "experiment": search.experiment.to_dict(),
        "epochs": epochs,
        "seconds": round(seconds, 3),
        "failed": [
            {"trial": trial.number, "settings": trial.settings, "why": trial.reason}
            for trial in done
            if trial.value is None
        ],
        "best": {
            "trial": best.number,
            "untuned": search.chosen(trials) == search.experiment,
            "settings": best.settings,
            "val_accuracy": best.value,
        },
        "best_so_far": curve,
    }


def _row(outcome: Outcome, *, tuned: bool, out: Path) -> dict[str, Any]:
    summary = summarize(outcome.seeds)
    return {
        "row": outcome.experiment.label,
        "tuned": tuned,
        "test_accuracy_mean": round(summary.mean, 6),
        "test_accuracy_std": _finite(summary.std),
        "val_accuracy_mean": round(summary.val_mean, 6),
        "test_accuracy": [outcome.seeds[seed].test_accuracy for seed in sorted(outcome.seeds)],
        "records": [str(path.relative_to(out)) for path in outcome.paths],
    }


def _decisions(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str, Decision]]:
    """Tuned against untuned, and where two rows were tuned, the second against the first: all
    are one family.

    Args:
        rows: Of the report on fresh seeds: untuned and tuned, search by search.
    """
    pairs = [(tuned, usual) for usual, tuned in zip(rows[::2], rows[1::2], strict=True)]
    named = [(_name(tuned), "untuned") for tuned, _ in pairs]
    if len(rows) == 4:
        across = [(rows[2], rows[0]), (rows[3], rows[1])]
        pairs += across
        named += [(_name(gated), _name(plain)) for gated, plain in across]
    family = decide([_points(one, other) for one, other in pairs])
    return [(of, over, found) for (of, over), found in zip(named, family, strict=True)]


def _points(row: dict[str, Any], other: dict[str, Any]) -> list[float]:
    accuracies = zip(row["test_accuracy"], other["test_accuracy"], strict=True)
    return [100 * (one - another) for one, another in accuracies]


def _difference(of: str, over: str, decision: Decision) -> dict[str, Any]:
    gain = decision.test.gain
    return {
        "of": of,
        "over": over,
        "mean": _finite(gain.mean),
        "low": _finite(gain.low),
        "high": _finite(gain.high),
        "p": _finite(decision.test.p),
        "p_holm": _finite(decision.p_holm),
        "sure": decision.sure,
        "correction": decision.correction,
    }


def earlier_looks(out: Path) -> list[int]:
    """Return after how many trials earlier calls looked at the test nodes: who looks and then
    searches on has chosen with the test set's help.

    Raises:
        InputError: If there is a report, but not as it was written.
    """
    path = out / FILE
    try:
        found = load_sealed(path)["tested_after"]
        expect_types({"tested_after": list[int]}, {"tested_after": found}, "it")
    except FileNotFoundError:
        return []
    except (OSError, *UNSOUND) as error:
        raise InputError(
            f"Expected {path} to be the report of a search; it is none ({reason_of(error)}). "
            f"Remove it, or choose another --out."
        ) from None
    return list(found)


def _finite(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return round(value, 6) if abs(value) < float("inf") else None


def tuning_words(report: dict[str, Any]) -> str:
    """Format the cost, the choice, and the table on fresh seeds."""
    data, budget, fresh = report["data"], report["budget"], report["fresh"]
    asked, done = budget["trials_asked"], budget["trials"]
    lines = [
        f"{data['name']}, split {data['split']}: {plural(done, 'trial')} of "
        f"{plural(len(budget['seeds']), 'seed')}"
        + (f" for each of {len(report['searches'])} rows" if len(report["searches"]) > 1 else "")
        + (f"; {asked} were asked for, but {_why_fewer(budget)}" if done < asked else "")
        + ". Test labels were hidden.",
        f"space: {' '.join(_range(name, one) for name, one in report['space'].items())}",
        *_budget_words(report),
        "",
    ]
    for search in report["searches"]:
        lines += _search_words(search)
    width = max(len(_name(row)) for row in fresh["rows"])
    lines += ["", f"{'':<{width}}  test {report['metric']} %, {_seeds(fresh['seeds'])}"]
    for row in fresh["rows"]:
        std = row["test_accuracy_std"]
        spread = "" if std is None else f" ± {std:.2f}"
        lines.append(f"{_name(row):<{width}}  {row['test_accuracy_mean']:.2f}{spread}")
    lines.append("")
    found = _decisions(fresh["rows"]) if fresh["differences"] else []
    lines += [_difference_words(*each) for each in found]
    if not found:
        lines.append("Records of two builds, not compared. Tune again in another folder.")
    elif len(fresh["seeds"]) > 1:
        lines.append(f"Sure is a corrected p below {LEVEL} ({found[0][2].correction}).")
    if len(report["tested_after"]) > 1:
        looks = ", ".join(map(str, report["tested_after"]))
        lines += [
            "",
            f"The test nodes were looked at after {looks} trials: only the first look was blind.",
        ]
    return "\n".join(lines)


def _why_fewer(budget: dict[str, Any]) -> str:
    exhausted = budget["trials"] == budget.get("trials_in_space")
    return "the space has no more" if exhausted else "time was up"


def _budget_words(report: dict[str, Any]) -> list[str]:
    """Format the budget; reports from before there was a choice of strategies have none."""
    if "lane_epochs" not in report["budget"]:
        return []
    budget, strategy = report["budget"], report["sampler"]["strategy"]
    words = f"strategy: {strategy}; budget of a row: {budget['lane_epochs']:,} lane-epochs"
    if len(budget["rungs"]) > 1:
        rungs = [f"{trials} trials for {epochs} epochs" for trials, epochs in budget["rungs"]]
        words += f" ({', '.join(rungs)}; each from the start)"
    return [words]


def settings_words(settings: dict[str, Any]) -> str:
    """Settings as they are typed."""
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
    )


def _search_words(search: dict[str, Any]) -> list[str]:
    best, failed = search["best"], len(search["failed"])
    first = "the untuned settings" if best["untuned"] else f"trial {best['trial']}"
    return [
        f"{search['row']}: {search['epochs']:,} epochs, {search['seconds']:.0f} s"
        + (f", {failed} trials failed" if failed else ""),
        f"  best on validation ({100 * best['val_accuracy']:.2f} %, {first}): "
        f"{settings_words(best['settings'])}",
    ]


def _range(name: str, one: dict[str, Any]) -> str:
    if "choices" in one:
        return f"{name}={','.join(map(str, one['choices']))}"
    return f"{name}={one['low']:g}:{one['high']:g}{':log' if one['log'] else ''}"


def _name(row: dict[str, Any]) -> str:
    return f"{row['row']}, {'tuned' if row['tuned'] else 'untuned'}"


def _seeds(seeds: list[int]) -> str:
    if len(seeds) == 1:
        return f"fresh seed {seeds[0]}"
    return f"fresh seeds {seeds[0]} to {seeds[-1]}"


def _difference_words(of: str, over: str, decision: Decision) -> str:
    gain, words = decision.test.gain, f"{of} over {over}"
    if gain.mean == gain.low == gain.high == 0:
        return f"{words}: the same"
    mean = round(gain.mean, 2) + 0.0  # no minus in front of a zero
    if decision.test.seeds < 2:
        return f"{words}: {mean:+.2f} points (one seed allows no interval)"
    sure = "a sure difference" if decision.sure else "no sure difference"
    return (
        f"{words}: {mean:+.2f} points, 95 % interval {gain.low:+.2f} to {gain.high:+.2f}: {sure}"
    )
