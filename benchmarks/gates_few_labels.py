"""Do weights measured on a handful of labels help, over a plain model with as many choices?

The few-labels part of docs/study-plan.md: for each set and number of labels a class, splits are
drawn anew, and every row is trained with all of its choices, seeds and splits as lanes of one pass
(on CUDA). A choice is made on each split's validation nodes. What has a file in --out is not
trained again.

    python benchmarks/gates_few_labels.py --device cuda
    python benchmarks/gates_few_labels.py --report
    python benchmarks/gates_few_labels.py --count
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isnan, nan, prod
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch_geometric.data import Data

from drgcn._io import write_once
from drgcn.data import load, random_splits
from drgcn.data.downloader import data_root
from drgcn.errors import InputError
from drgcn.nn import GCN
from drgcn.records import environment
from drgcn.stats import decide
from drgcn.training import fit

# Sets by the unit that counts once in tests: graphs of one source say much the same.
UNITS: dict[str, tuple[str, ...]] = {
    "cora": ("cora", "graphs/cora_ml.npz"),
    "citeseer": ("citeseer", "graphs/citeseer_full.npz"),
    "pubmed": ("pubmed",),
    "dblp": ("graphs/dblp.npz",),
    "amazon-photo": ("amazon-photo",),
    "coauthor-cs": ("coauthor-cs",),
    "blogcatalog": ("blogcatalog",),
    "flickr": ("graphs/flickr.npz",),
    "tolokers": ("tolokers",),
    "chameleon": ("chameleon-filtered",),
    "squirrel": ("squirrel-filtered",),
    "twitch": tuple(f"twitch:{g}" for g in ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "ZHTW")),
    "digits": ("digits",),
    "breast-cancer": ("breast-cancer",),
    "wine": ("wine",),
}
STANDARDISED = ("breast-cancer", "wine", "digits", "tolokers")
LABELS = (1, 2, 5, 10, 20)
# Splits from 0 on were looked at before the plan was written.
FIRST_SPLIT = 1000
# Rows: the gate, and the choices of a setting, the first of which is taken where all are alike.
ROWS: dict[str, tuple[str | None, dict[str, Sequence[float]]]] = {
    "plain": (None, {"dropout": (0.5,)}),
    "plain, tuned": (None, {"dropout": (0.5, 0.2, 0.65, 0.8)}),
    "class-share": ("class-share", {"exponent": (0.0, 0.25, 0.5, 0.75)}),
    "shuffled-class-share": ("shuffled-class-share", {"exponent": (0.0, 0.25, 0.5, 0.75)}),
    "variance": ("variance", {"exponent": (0.0, -0.5, -0.25, 0.25)}),
    "class-share and dropout": (
        "class-share",
        {"exponent": (0.0, 0.25, 0.5, 0.75), "dropout": (0.5, 0.2, 0.65, 0.8)},
    ),
    "plain, tuned more": (
        None,
        {"dropout": (0.5, 0.2, 0.65, 0.8), "weight_decay": (5e-4, 0.0, 5e-3, 5e-2)},
    ),
    "dr": ("dr", {"dropout": (0.5,)}),
    "dr-one": ("dr-one", {"dropout": (0.5,)}),
    "dr-exp": ("dr-exp", {"dropout": (0.5,)}),
    "static": ("static", {"dropout": (0.5,)}),
    "constant": ("constant", {"dropout": (0.5,)}),
}
# Rows of sixteen choices, for five labels a class alone.
AT_FIVE = ("class-share and dropout", "plain, tuned more")
# The family of tests, by number of labels: each row against another.
TESTS = (
    ("class-share", "plain, tuned"),
    ("class-share", "shuffled-class-share"),
    ("class-share and dropout", "plain, tuned more"),
    ("dr-one", "plain"),
    ("dr-exp", "plain"),
)


def open_set(name: str, root: Path) -> Data:
    """Load a set: of the catalogue, one graph of Twitch, or a file below the folder of data."""
    scaling = "standard" if name in STANDARDISED else "row"
    if name.startswith("twitch:"):
        return load("twitch", root, graph=name.partition(":")[2], normalize=scaling, offline=True)
    path = root / name if name.endswith(".npz") else name
    return load(path, root, normalize=scaling, offline=True)


def splits_of(data: Data, labels: int, count: int) -> Data:
    """Draw splits with some labels a class, and up to 30 to validate; the rest is tested."""
    smallest = int(torch.bincount(data.y[data.y >= 0]).min())
    to_validate = min(30, (smallest - labels) // 2)
    if to_validate < 1:
        raise InputError(f"Expected more than {labels + 1} nodes of each class; found {smallest}.")
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + count)
    return random_splits(data, seeds, counts=(labels, to_validate))


def train_row(
    data: Data, gate: str | None, choices: Mapping[str, Sequence[float]], options: Any
) -> dict[str, Any]:
    """Train all choices of a row on all splits, and return the accuracies of each network."""
    width, classes = data.num_features, int(data.y.max()) + 1
    grid = {"split": range(options.splits), **choices}
    make = partial(GCN, width, 64, classes, reweight=gate)
    result = fit(
        make,
        data,
        range(options.seeds),
        grid=grid,
        epochs=options.epochs,
        device=options.device,
    )
    columns = zip(
        result.seeds, result.settings, result.val_accuracy, result.test_accuracy, strict=True
    )
    return {
        "seconds": round(result.seconds, 2),
        "networks": [
            {"seed": seed, **settings, "val": round(val, 5), "test": round(test, 5)}
            for seed, settings, val, test in columns
        ],
    }


def chosen_tests(found: dict[str, Any]) -> list[float]:
    """Return the test accuracy in % of each split, by the choice best on its validation nodes."""
    names, by_split = list(found["choices"]), {}
    for network in found["networks"]:
        setting = tuple(network[name] for name in names)
        by_split.setdefault(network["split"], {}).setdefault(setting, []).append(network)
    tests = []
    for _, settings in sorted(by_split.items()):
        means = [
            (mean(n["val"] for n in own), mean(n["test"] for n in own))
            for own in settings.values()
        ]
        # A setting with a network that diverged is never chosen; of equals the first is.
        usable = [pair for pair in means if not isnan(pair[0])]
        _, test = max(usable, key=itemgetter(0), default=(nan, nan))
        tests.append(100 * test)
    return tests


def jobs(options: Any) -> Iterator[tuple[str, int, str]]:
    """Yield sets, numbers of labels and rows."""
    for name in options.sets or [name for unit in UNITS.values() for name in unit]:
        for labels in options.labels or LABELS:
            for row in options.rows or ROWS:
                if row not in AT_FIVE or labels == 5:
                    yield name, labels, row


def file_of(out: Path, name: str, labels: int, row: str) -> Path:
    """Return the path of a row's file."""
    words = f"{name}-{labels}-{row}".replace("/", "-").replace(":", "-").replace(", ", "-")
    return out / f"{words.replace(' ', '-')}.json"


def facts_of(name: str, labels: int, row: str, options: Any) -> dict[str, Any]:
    """Return all that a file's numbers depend on, beside the data."""
    settings = {key: getattr(options, key) for key in ("epochs", "splits", "seeds")}
    return {"set": name, "labels": labels, "row": row, "choices": ROWS[row][1], **settings}


def read(job: tuple[str, int, str], options: Any) -> dict[str, Any] | None:
    """Read a row's file, if there is one; refuse one of other settings."""
    path = file_of(options.out, *job)
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    wanted = json.loads(json.dumps(facts_of(*job, options)))
    other = {key: found.get(key) for key, value in wanted.items() if found.get(key) != value}
    if other:
        raise InputError(f"Expected {path} of these settings; found {other}. Use another --out.")
    return found


def run(options: Any) -> None:
    """Train what has no file yet."""
    root, opened, data = data_root(options.data_root), "", None
    for name, labels, row in jobs(options):
        if read((name, labels, row), options) is not None:
            continue
        if name != opened:
            data, opened = open_set(name, root), name
        assert data is not None
        gate, choices = ROWS[row]
        try:
            found = train_row(splits_of(data, labels, options.splits), gate, choices, options)
        except InputError as error:
            print(f"{name}, {labels} labels a class, {row}: {error}")
            continue
        facts = facts_of(name, labels, row, options)
        facts["content_hash"] = data.dataset.content_hash
        facts["environment"] = environment(torch.device(options.device))
        content = {**facts, **found}
        write_once(file_of(options.out, name, labels, row), json.dumps(content, indent=1) + "\n")
        print(f"{name}, {labels} labels a class, {row}: {mean(chosen_tests(content)):.2f} %")


def report(options: Any) -> None:
    """Print the mean accuracies, and the tests over units."""
    files = {job: read(job, options) for job in jobs(options)}
    known = {job: chosen_tests(found) for job, found in files.items() if found is not None}
    rows = list(options.rows or ROWS)
    print("| set | labels a class | " + " | ".join(rows) + " |\n" + "|---" * (len(rows) + 2) + "|")
    for name, labels in dict.fromkeys((name, labels) for name, labels, _ in known):
        cells = [known.get((name, labels, row)) for row in rows]
        words = " | ".join("" if cell is None else f"{mean(cell):.2f}" for cell in cells)
        print(f"| {name} | {labels} | {words} |")
    asked = [(labels, *pair) for labels in options.labels or LABELS for pair in TESTS]
    gains = {test: unit_gains(known, *test) for test in asked}
    family = {test: values for test, values in gains.items() if len(values) > 1}
    for test, decision in zip(family, decide(list(family.values())), strict=True):
        labels, first, second = test
        print(f"\n{labels} labels a class, {first} over {second}, {len(family[test])} units:")
        print(f"{decision.words} ({decision.correction})")


def unit_gains(
    known: Mapping[tuple[str, int, str], list[float]], labels: int, first: str, second: str
) -> list[float]:
    """Return the mean gain of one row over another in each unit that has both."""
    found = []
    for unit in UNITS.values():
        pairs = [
            (known[name, labels, first], known[name, labels, second])
            for name in unit
            if (name, labels, first) in known and (name, labels, second) in known
        ]
        if pairs:
            found.append(mean(mean(a) - mean(b) for a, b in pairs))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="Print tables of what is there.")
    parser.add_argument("--count", action="store_true", help="Print the size of the work.")
    parser.add_argument("--sets", nargs="*", help="Sets, all by default.")
    parser.add_argument("--labels", nargs="*", type=int, help="Labels a class, all by default.")
    parser.add_argument("--rows", nargs="*", choices=ROWS, help="Rows, all by default.")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--data-root")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("results/gates/few-labels"))
    options = parser.parse_args()
    if options.count:
        rows = [row for _, _, row in jobs(options)]
        settings = sum(prod(len(values) for values in ROWS[row][1].values()) for row in rows)
        networks = settings * options.splits * options.seeds
        print(f"{len(rows):,} passes, {networks:,} networks, {networks * options.epochs:,} epochs")
    elif options.report:
        report(options)
    else:
        run(options)


if __name__ == "__main__":
    main()
