"""Measure the lists of ``drgcn recommend train`` beside classical ones, on published sets.

The model is trained once, as the command trains it, with its term for popularity chosen by
validation; the same weights without that term are beside it, and on demand a second training with
``--half-life auto``. So are popular items, those popular lately, item-kNN, EASE and, where
``implicit`` is installed, iALS, each with settings that validation chose. All are tested once.
``over`` is by how much the model's recall is above that of the row, paired by user, with its 95 %
interval.

    python benchmarks/recommend_lists.py movielens-100k=days:30 movielens-1m=official
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measuring import write_csv

from drgcn.recommend.clicks.data import has_ages
from drgcn.recommend.clicks.splits import hold_out
from drgcn.recommend.retrieval.baselines import score_baselines
from drgcn.recommend.retrieval.evaluation import Estimate, UserValues, evaluate
from drgcn.recommend.serving import LoadedRun

_N = 20
_MEASURES = ("recall", "ndcg", "hit_rate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", help="names of sets and their splits, NAME=SPLIT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--half-life", action="store_true", help="also train with a half-life")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as place:
        for number, one in enumerate(args.sets):
            name, _, split = one.partition("=")
            run = Path(place) / str(number)
            found = rows_of(name, split, run, args)
            rows += found
            print(json.dumps(found), file=sys.stderr)
    write_csv("recommend_lists", rows, torch.device(args.device), args.out)


def rows_of(name: str, split: str, run: Path, args: argparse.Namespace) -> list[dict[str, object]]:
    """One set: the model with and without popularity, and every classical list."""
    record = train(name, split, run, args)
    loaded = LoadedRun.open(run)
    kind = json.loads((run / "settings.json").read_text())["model"]["kind"]
    ours = values_of(loaded, args.device)
    tested: list[tuple[str, str, UserValues]] = [(kind, str(loaded.popularity), ours)]
    if loaded.popularity.weight:
        plain = replace(loaded, training={**loaded.training, "popularity": None})
        tested.append((f"{kind}, --popularity 0", "", values_of(plain, args.device)))
    if args.half_life and has_ages(loaded.data):
        aged = run.with_name(f"{run.name}-aged")
        chosen = train(name, split, aged, args, "--half-life", "auto")["half_life"]["chosen"]
        if chosen != "none":
            other = LoadedRun.open(aged)
            settings = f"{chosen} days, {other.popularity}"
            tested.append((f"{kind}, --half-life auto", settings, values_of(other, args.device)))
    part = loaded.split()
    validation = hold_out(part.train, by_time=not loaded.data.parts)
    for score in score_baselines(
        validation, part, [_N], exclude_seen=True, data=loaded.data, memory=12 * 2**30
    ):
        if not score.refused:
            settings = ", ".join(f"{key} {value:g}" for key, value in score.settings.items())
            tested.append((score.name, settings, score.lists[_N].values))
    facts = {"data": name, "split": split, "seed": args.seed}
    return [
        {**facts, "lists": lists, "settings": settings, **measures(values), **over(ours, values)}
        | {"seconds": f"{record['seconds']:.0f}" if values is ours else ""}
        for lists, settings, values in tested
    ]


def train(
    name: str, split: str, run: Path, args: argparse.Namespace, *more: str
) -> dict[str, Any]:
    """The record of a run that the command line trained."""
    program = ("-c", "from drgcn.cli import main; main()", "recommend", "train", name)
    words = ("--out", str(run), "--split", split, "--seed", str(args.seed), *more)
    own = ("--threads", str(args.threads), "--device", args.device, "--json")
    done = subprocess.run(
        [sys.executable, *program, *words, *own], stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(done.stdout))


def values_of(run: LoadedRun, device: str) -> UserValues:
    split = run.split()
    return evaluate(
        *run.vectors(split.train, device), split, _N, exclude_seen=True, baselines=False
    ).values


def measures(values: UserValues) -> dict[str, object]:
    """Means over users in percent; recall with its interval, and by groups of users."""
    found = {f"{one}@{_N}": Estimate.of(values.of_group(one)) for one in _MEASURES}
    recall = found[f"recall@{_N}"]
    facts: dict[str, object] = {name: percent(one.mean) for name, one in found.items()}
    facts |= {"low": percent(recall.low), "high": percent(recall.high)}
    for group in ("warm", "cold"):
        mean = Estimate.of(values.of_group("recall", group)).mean
        facts[group] = percent(mean) if mean == mean else ""
    return facts


def over(ours: UserValues, other: UserValues) -> dict[str, object]:
    """By how much our recall is above that of other lists."""
    if other is ours:
        return {"over": "", "over_low": "", "over_high": ""}
    found = ours.less(other)
    parts = {"over": found.mean, "over_low": found.low, "over_high": found.high}
    return {name: f"{100 * value:+.2f}" for name, value in parts.items()}


def percent(value: float) -> str:
    return f"{100 * value:.2f}"


if __name__ == "__main__":
    main()
