"""What it brings to count clicks by their age, on a published set split by time.

The hybrid as ``drgcn recommend train`` trains it, with and without a half-life that validation
chooses; beside it popular items, the same with clicks counted by age, item-kNN, EASE and, where
``implicit`` is installed, iALS. All are chosen without the test, and tested once.

    python benchmarks/half_life.py --threads 1
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measuring import write_csv

from drgcn.recommend.clicks import SplitRule, load_clicks, split_clicks
from drgcn.recommend.clicks.data import click_weights
from drgcn.recommend.retrieval.evaluation import (
    measure_lists,
    popular_items,
    users_to_evaluate,
)

_N = 20
_MEASURES = ("recall", "ndcg", "hit_rate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="movielens-100k")
    parser.add_argument("--split", default="days:30")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as place:
        for seed in range(args.seeds):
            for half_life in ("auto", "none"):
                run = Path(place) / f"{half_life}-{seed}"
                rows += trained(args, run, half_life, seed)
    write_csv("half_life", rows, torch.device("cpu"), args.out)


def trained(
    args: argparse.Namespace, run: Path, half_life: str, seed: int
) -> list[dict[str, object]]:
    """A run and its test; with the first one, what every other list is worth."""
    start = time.perf_counter()
    options = ("--split", args.split, "--half-life", half_life, "--seed", str(seed))
    record = command("train", args.data, "--out", str(run), *options, threads=args.threads)
    chosen = (record.get("half_life") or {}).get("chosen", "none")
    seconds = time.perf_counter() - start
    first = half_life == "auto" and seed == 0
    asked = ("--n", str(_N), "--exclude-seen", *(("--baselines",) if first else ()))
    found = command("evaluate", str(run), *asked, threads=args.threads)

    def row(name: str, days: str, values: dict[str, Any], took: float | None) -> dict[str, object]:
        facts: dict[str, object] = {
            "data": args.data,
            "split": args.split,
            "lists": name,
            "half_life": days,
            "seed": seed,
        }
        for measure in _MEASURES:
            facts[f"{measure}@{_N}"] = f"{100 * values['all'][measure]['mean']:.2f}"
        facts["low"], facts["high"] = (
            f"{100 * values['all']['recall'][side]:.2f}" for side in ("low", "high")
        )
        for group in ("warm", "cold"):
            facts[group] = f"{100 * values[group]['recall']['mean']:.2f}"
        return facts | {"seconds": "" if took is None else f"{took:.0f}"}

    rows = [row("hybrid", chosen, found["model"], seconds)]
    if first:
        rows.append(row("popular", "none", found["popularity"], None))
        if chosen != "none":
            rows.append(row("popular, by age", chosen, popular_by_age(args, float(chosen)), None))
        for one in found["baselines"]:
            if not one["refused"]:
                rows.append(row(one["name"], "none", one["lists"][str(_N)], one["seconds"]))
    return rows


def popular_by_age(args: argparse.Namespace, half_life: float) -> dict[str, Any]:
    """The test of lists of the items with most clicks, which count by their age."""
    data = load_clicks(args.data)
    split = split_clicks(data, SplitRule.parse(args.split)).test
    train, weights = split.train.by_user, click_weights(data, split.train, half_life)
    found = measure_lists(
        lambda users: popular_items(train, users, _N, exclude_seen=True, weights=weights),
        train,
        split.targets.by_user,
        [users_to_evaluate(split)],
        [_N],
    )[_N]
    return json.loads(json.dumps(found.to_dict()))  # as the others come


def command(verb: str, *words: str, threads: int) -> dict[str, Any]:
    """What a verb of the command line says as JSON."""
    own = ("--threads", str(threads), "--device", "cpu", "--json")
    program = ("-c", "from drgcn.cli import main; main()", "recommend", verb)
    done = subprocess.run(
        [sys.executable, *program, *words, *own], stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
