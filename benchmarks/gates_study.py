"""When does reweighting help? The study of docs/study-plan.md, by parts that go on after a kill.

A pass trains all choices, splits and seeds of one gate on one set as lanes (on CUDA); each part of
a set is one file in --out, written anew after every pass. What is in it is not trained again, and
a file of other settings is refused. The part on PPI is not trained here: its networks are those of
`drgcn reproduce ppi-rebuilt`, whose records lie in the folder above --out.

    python benchmarks/gates_study.py --time --device cuda    # a trial: how long all would take
    python benchmarks/gates_study.py --device cuda           # all parts, in the order of the plan
    python benchmarks/gates_study.py --part depth --device cuda --minutes 8
    python benchmarks/gates_study.py --report few-labels
    python benchmarks/gates_study.py --count                 # what is left to be trained
"""

from __future__ import annotations

import argparse
import copy
import datetime
import json
import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from gates_answer import file_of, read_record, report
from gates_few_labels import (
    EPOCHS,
    FIRST_SPLIT,
    LABELS,
    PARTS,
    RECIPES,
    SIXTY,
    STANDARDISED,
    TRAINED,
    UNIT_OF,
    Cell,
    Pass,
    passes_of,
    planned_settings,
    sets_of,
)
from torch_geometric.data import Data

from drgcn._io import write_whole
from drgcn.data import load, random_splits
from drgcn.data.downloader import data_root
from drgcn.errors import DrgcnError, InputError
from drgcn.gates import gate_factory
from drgcn.nn import GAT, GCN, MLP, GraphSAGE, MixHop
from drgcn.nn.sparse import SparseMatrix
from drgcn.records import environment
from drgcn.stability import graph_stability
from drgcn.stability.measure import feature_variance, standardizing_k
from drgcn.studies.build import build, stopping_rule
from drgcn.studies.experiment import Experiment, recipe
from drgcn.studies.records import BUILD
from drgcn.training import FitResult, StepwiseDecay, fit

_TRIAL_EPOCHS = 20
_OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@dataclass(frozen=True)
class Options:
    """What a part is run with; splits and seeds are those of the plan if not given."""

    part: str
    sets: tuple[str, ...]
    splits: int
    seeds: int
    epochs: int | None
    device: str
    root: Path
    out: Path

    @property
    def settings(self) -> dict[str, Any]:
        """All that the numbers of a file depend on, beside plan and data."""
        usual = planned_settings(self.part)
        given = {"splits": self.splits, "seeds": self.seeds}
        return {"epochs": self.epochs or usual["epochs"], **given}


def open_set(name: str, root: Path, scaling: str | None = None, split: str | None = None) -> Data:
    """Load a set: of the catalogue, one graph of Twitch, or a file below the folder of data."""
    scaling = scaling or ("standard" if name in STANDARDISED else "row")
    if name.startswith("twitch:"):
        return load("twitch", root, graph=name.partition(":")[2], normalize=scaling, offline=True)
    path = root / name if name.endswith(".npz") else name
    return load(path, root, split=split, normalize=scaling, offline=True)


def open_case(part: str, name: str, case: str, root: Path) -> Data:
    """Load a set as a case of a part wants it."""
    if part == "dr-from-one":
        raw = case.endswith("raw")
        split = "random" if raw else case.split()[1]
        return open_set(name, root, "none" if raw else "row", split)
    return open_set(name, root, case if part == "scaling" else None)


def splits_of(data: Data, labels: int, count: int) -> Data:
    """Draw splits with some labels a class, and up to 30 to validate; the rest is tested.

    The graph that is returned has labels and masks alone.
    """
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + count)
    only = Data(y=data.y)  # features would be copied with every split
    if labels == SIXTY:
        return random_splits(only, seeds, counts=None)
    smallest = int(torch.bincount(data.y[data.y >= 0]).min())
    to_validate = min(30, (smallest - labels) // 2)
    if to_validate < 1:
        raise InputError(f"Expected more than {labels + 1} nodes of each class; found {smallest}.")
    return random_splits(only, seeds, counts=(labels, to_validate))


def maker(part: str, one: Pass, data: Data) -> Callable[[], torch.nn.Module]:
    """Return the function that makes a network of a pass."""
    width, classes = data.num_features, int(data.y.max()) + 1
    model = one.case if part == "models" else "gcn"
    gate: Any = None if one.arm == "plain" or one.arm.endswith(" norm") else one.arm
    if model == "mlp":
        if gate is not None and gate.endswith("class-share"):
            gate = gate_factory(gate, steps=0)
        return partial(MLP, width, 64, classes, reweight=gate)
    if model == "gat":
        return partial(GAT, width, 64, classes, dropout=0.5, reweight=gate)
    if model == "graphsage":
        return partial(GraphSAGE, width, 64, classes, dropout=0.5, reweight=gate)
    if model == "mixhop":
        # Binary features would not be those that a gate is measured on.
        sizes = {"hidden_dropout": 0.5, "binarize": False}
        return partial(MixHop, width, (22, 21, 21), classes, **sizes, reweight=gate)
    layers = int(one.case) if part == "depth" else 2
    norm = one.arm.removesuffix(" norm") if one.arm.endswith(" norm") else None
    return partial(GCN, width, 64, classes, num_layers=layers, norm=norm, reweight=gate)


def train(
    part: str, one: Pass, data: Data, cells: Sequence[tuple[Cell, Data]], options: Options
) -> FitResult:
    """Train all networks of a pass; they come back by cell, choice, split and seed."""
    if part in RECIPES:
        return _train_recipe(one, data, options)
    grid = []
    for place, (cell, _) in enumerate(cells):
        columns = range(place * options.splits, (place + 1) * options.splits)
        for values in product(*cell.choices.values()):
            setting = dict(zip(cell.choices, values, strict=True))
            grid += [{**setting, "split": column} for column in columns]
    several = copy.copy(data)
    for mask in ("train_mask", "val_mask", "test_mask"):
        several[mask] = torch.cat([drawn[mask] for _, drawn in cells], dim=1)
    return fit(
        maker(part, one, data),
        several,
        range(options.seeds),
        grid=grid,
        epochs=options.epochs or EPOCHS,
        device=options.device,
    )


def _train_recipe(one: Pass, data: Data, options: Options) -> FitResult:
    usual = recipe_of(data.dataset.name, one)
    cuts = usual.lr_cut_every
    return fit(
        partial(build, usual, data),
        data,
        range(options.seeds),
        grid={"lr": [usual.lr]},  # so that a network that diverges does not end the others
        epochs=options.epochs or usual.epochs,
        rule=stopping_rule(usual),
        optimizer=_OPTIMIZERS[usual.optimizer],
        lr=usual.lr,
        weight_decay=usual.weight_decay,
        schedule=None if cuts is None else StepwiseDecay(cuts),
        device=options.device,
    )


def recipe_of(name: str, one: Pass) -> Experiment:
    """Return the published experiment of a pass."""
    gate = None if one.arm == "plain" else one.arm
    model, split = one.case.split()
    return recipe(name, "random" if split == "raw" else split, model, reweight=gate)


@torch.no_grad()
def class_means(
    models: Sequence[torch.nn.Module], inputs: tuple[Any, ...], drawn: Data, seeds: int
) -> list[float]:
    """Return the mean share of test nodes that are right of each class, for models by choice,
    split and seed."""
    y, masks = drawn.y.clamp(min=0), drawn.test_mask
    weights = []
    for mask in masks.T:
        counts = torch.bincount(y[mask], minlength=int(y.max()) + 1)
        weights.append(mask / counts.clamp(min=1)[y] / (counts > 0).sum())
    device = next(models[0].parameters()).device
    y, splits = y.to(device), torch.stack(weights).double().to(device)
    found = [
        (model.eval()(*inputs).argmax(1) == y).double() @ splits[place // seeds % len(splits)]
        for place, model in enumerate(models)
    ]
    return torch.stack(found).tolist()


@torch.no_grad()
def layer_numbers(
    models: Sequence[torch.nn.Module], inputs: tuple[Any, ...], *, even: bool
) -> dict[str, list[list[float | None]]]:
    """Return K of every layer's gate of each model, and the K of equal variances in its place."""
    found: dict[str, list[list[float | None]]] = {name: [] for name in ("k", "k_even")[: 1 + even]}
    for model in models:
        layers = []
        for layer_input, s, _ in model.layers(*inputs):
            x = layer_input.to_csr() if isinstance(layer_input, SparseMatrix) else layer_input
            k = 1.0 if s is None else _rounded(graph_stability(x, s))
            layers.append((k, _even_k(x)) if even else (k,))
        for name, values in zip(found, zip(*layers, strict=True), strict=True):
            found[name].append(list(values))
    return found


def _even_k(x: torch.Tensor) -> float | None:
    """Return K of 1 / deviation over the dimensions that vary: ReLU leaves some that do not."""
    try:
        return _rounded(standardizing_k(x.to_dense()[:, feature_variance(x) > 0]))
    except DrgcnError:  # nothing varies
        return None


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 4)


def entries_of(
    part: str,
    one: Pass,
    data: Data,
    cells: Sequence[tuple[Cell, Data]],
    found: FitResult,
    options: Options,
) -> Iterator[dict[str, Any]]:
    """Yield what is recorded of each cell: percentages by choice, split and seed, in one row."""
    start, deep = 0, part == "depth"
    with_k = deep or (part in ("few-labels", "scaling") and one.arm != "plain")
    inputs: tuple[Any, ...] | None = None
    for cell, drawn in cells:
        settings = math.prod(len(values) for values in cell.choices.values())
        stop = start + settings * options.splits * options.seeds
        models = [model.to(options.device) for model in found.models[start:stop]]
        test = found.test_accuracy[start:stop]
        entry: dict[str, Any] = {
            "case": one.case,
            "arm": one.arm,
            "labels": cell.labels,
            "choices": cell.choices,
            "val": [_percent(value) for value in found.val_accuracy[start:stop]],
        }
        balanced = cell.labels in LABELS
        if inputs is None and (balanced or with_k):
            moved = copy.copy(data).to(options.device)  # PyG moves in place
            inputs = models[0].prepare(moved)
        if balanced:
            entry["accuracy"] = [_percent(value) for value in test]
            assert inputs is not None
            means = class_means(models, inputs, drawn, options.seeds)
            test = [math.nan if math.isnan(a) else b for a, b in zip(test, means, strict=True)]
        entry["test"] = [_percent(value) for value in test]
        if with_k:
            assert inputs is not None
            # Of the first seed: of all splits where depth is asked about, else of the first.
            each = options.seeds if deep else options.seeds * options.splits
            entry |= layer_numbers(models[::each], inputs, even=deep)
        yield entry
        start = stop
    assert start == len(found.test_accuracy)


def _percent(value: float) -> float | None:
    return None if math.isnan(value) else round(100 * value, 3)


def left_of(options: Options) -> list[tuple[str, Pass]]:
    """Return what the files of a part lack; refuse files that cannot be gone on with."""
    left = []
    for name in options.sets:
        path = file_of(options.out, options.part, name)
        record = read_record(path, options.part, name, options.settings)
        done = {(entry["case"], entry["arm"]) for entry in record["results"]} if record else set()
        lacking = [one for one in passes_of(options.part, name) if (one.case, one.arm) not in done]
        if record and lacking:
            _expect_one_build(record, path, options.device)
        left += [(name, one) for one in lacking]
    return left


def run_part(options: Options, until: float = math.inf) -> int:
    """Train what the files of a part lack, but begin nothing after a time of the monotonic clock;
    return how many passes ended in an error, which leave the others alone."""
    failed, opened = 0, (("", ""), Data())
    for name, one in left_of(options):
        if time.monotonic() >= until:
            break
        words = ", ".join(filter(None, (options.part, name, one.case, one.arm)))
        try:
            if opened[0] != (name, one.case):
                data = open_case(options.part, name, one.case, options.root)
                opened = ((name, one.case), data)
            seconds = run_pass(options, name, one, opened[1])
        except Exception as error:  # of data, a device, or memory: minutes on a GPU are dear
            if not isinstance(error, InputError):
                traceback.print_exc()
            print(f"{words}: failed: {error}", flush=True)
            failed += 1
        else:
            print(f"{words}: {seconds:.1f} s", flush=True)
    return failed


def run_pass(options: Options, name: str, one: Pass, data: Data) -> float:
    """Train a pass and add it to the file of its set; return its seconds."""
    path = file_of(options.out, options.part, name)
    record = read_record(path, options.part, name, options.settings) or new_record(name, options)
    content = record["data"].setdefault(one.case, data.dataset.content_hash)
    if content != data.dataset.content_hash:
        raise InputError(
            f"Expected the data that {path} began with ({content}); found "
            f"{data.dataset.content_hash}. Bring it back, or use another --out."
        )
    start = time.perf_counter()
    cells, left_out = drawn_cells(one, data, options)
    for entry in left_out:
        print(f"{name}, {entry['labels']} labels a class: {entry['left_out']}")
    entries: list[dict[str, Any]] = list(left_out)
    if cells:
        found = train(options.part, one, data, cells, options)
        entries += entries_of(options.part, one, data, cells, found, options)
    seconds = time.perf_counter() - start
    add(record, entries, seconds, options.device)
    write_whole(path, dumps(record))
    return seconds


def _expect_one_build(record: dict[str, Any], path: Path, device: str) -> None:
    """Refuse to go on with a file that another build began: its rows are compared."""
    now = environment(torch.device(device))
    for before in record["environments"]:
        if changed := [name for name in BUILD if before.get(name) != now.get(name)]:
            raise InputError(
                f"Expected {path} of one build; found another {' and '.join(changed)}. Train the "
                f"set anew in another --out, or with what it was begun with."
            )


def drawn_cells(
    one: Pass, data: Data, options: Options
) -> tuple[list[tuple[Cell, Data]], list[dict[str, Any]]]:
    """Return the cells of a pass with their splits, and entries of those that lack nodes."""
    cells, left_out = [], []
    for cell in one.cells:
        try:
            drawn = data if cell.labels == 0 else splits_of(data, cell.labels, options.splits)
            cells.append((cell, drawn))
        except InputError as error:
            entry = {"case": one.case, "arm": one.arm, "labels": cell.labels}
            left_out.append({**entry, "left_out": str(error)})
    return cells, left_out


def new_record(name: str, options: Options) -> dict[str, Any]:
    """Return a record without results."""
    return {
        "format": "drgcn gate study 1",
        "part": options.part,
        "set": name,
        "unit": UNIT_OF.get(name, name),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "settings": options.settings,
        "first_split": FIRST_SPLIT,
        "data": {},
        "environments": [],
        "seconds": 0.0,
        "results": [],
    }


def add(
    record: dict[str, Any], entries: list[dict[str, Any]], seconds: float, device: str
) -> None:
    """Add what a pass found, how long it took, and where it was run."""
    where = environment(torch.device(device))
    if where not in record["environments"]:
        record["environments"].append(where)
    place = record["environments"].index(where)
    trained = sum(len(entry.get("test", ())) for entry in entries)
    for entry in entries:
        share = len(entry.get("test", ())) / trained if trained else 0.0
        of_entry = {"seconds": round(share * seconds, 2), "environment": place}
        record["results"].append({**entry, **of_entry})
    record["seconds"] = round(record["seconds"] + seconds, 2)


def dumps(record: dict[str, Any]) -> str:
    """Return a record as JSON, one line a fact and one a result."""
    lines = [f'"{name}": {json.dumps(record[name])}' for name in record if name != "results"]
    results = ",\n".join(json.dumps(one, separators=(",", ":")) for one in record["results"])
    return "{\n" + ",\n".join(lines) + f',\n"results": [\n{results}\n]}}\n'


def networks(one: Pass, options: Options) -> int:
    """Return the number of networks of a pass."""
    settings = sum(math.prod(map(len, cell.choices.values())) for cell in one.cells)
    return settings * options.splits * options.seeds


def epochs_of(options: Options, name: str, one: Pass) -> int:
    """Return the epochs of a pass, of recipes with patience at most."""
    if options.epochs is not None:
        return options.epochs
    if options.part in RECIPES:
        return recipe_of(name, one).epochs
    return EPOCHS


def count(options: Options) -> None:
    """Print passes, networks and epochs of a part that its files lack."""
    work = left_of(options)
    total = sum(networks(one, options) for _, one in work)
    epochs = sum(networks(one, options) * epochs_of(options, name, one) for name, one in work)
    print(
        f"{options.part}: {len(work):,} passes left, {total:,} networks, {epochs:,} epochs at most"
    )


def trial(options: Options) -> float:
    """Train the largest pass of each set and case for a few epochs; return the seconds that the
    part would take by it. Passes of few lanes take longer a lane, so it is no upper bound."""
    short, total = replace(options, epochs=_TRIAL_EPOCHS), 0.0
    for name in options.sets:
        of_set = 0.0
        passes = passes_of(options.part, name)
        for case in dict.fromkeys(one.case for one in passes):
            alike = [one for one in passes if one.case == case]
            largest = max(alike, key=lambda one: networks(one, short))
            data = open_case(options.part, name, case, options.root)
            start = time.perf_counter()
            cells, _ = drawn_cells(largest, data, short)
            found = train(options.part, largest, data, cells, short)
            wall = time.perf_counter() - start
            each = found.seconds / len(found.seeds) / _TRIAL_EPOCHS
            known = epochs_of(options, name, largest)
            # Patience ends recipes long before their budget; a thousand epochs are usual.
            lanes = sum(networks(one, options) for one in alike) * min(known, 1000)
            of_set += len(alike) * (wall - found.seconds) + lanes * each
        print(f"{options.part}, {name}: about {of_set:.0f} s", flush=True)
        total += of_set
    print(f"{options.part}: about {total:.0f} s", flush=True)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="*", choices=TRAINED, default=list(TRAINED))
    parser.add_argument("--report", choices=PARTS, metavar="PART", help="Print a part's tables.")
    parser.add_argument("--count", action="store_true", help="Print the size of the work.")
    parser.add_argument("--time", action="store_true", help="Print how long it would take.")
    parser.add_argument("--sets", nargs="*", help="Sets, all by default.")
    parser.add_argument("--splits", type=int, help="For a trial; the plan's by default.")
    parser.add_argument("--seeds", type=int, help="For a trial; the plan's by default.")
    parser.add_argument("--epochs", type=int, help="For a trial; the plan's by default.")
    parser.add_argument(
        "--minutes", type=float, help="Begin no pass after so many; the same command goes on."
    )
    parser.add_argument("--data-root")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("results/gates"))
    arguments = parser.parse_args()
    until = math.inf if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    names = [arguments.report] if arguments.report else arguments.part
    try:
        parts = [options_of(part, arguments) for part in names]
        if arguments.report:
            for options in parts:
                print(report(options.part, options.out, options.sets, options.settings))
        elif arguments.count:
            for options in parts:
                count(options)
        elif arguments.time:
            print(f"all: about {sum(map(trial, parts)):.0f} s")
        else:
            for options in parts:
                left_of(options)  # what would be refused is, before anything is trained
            failed = sum(run_part(options, until) for options in parts)
            for options in parts:
                count(options)
            parser.exit(1 if failed else 0)
    except InputError as error:
        parser.exit(2, f"{error}\n")


def options_of(part: str, arguments: argparse.Namespace) -> Options:
    """Return the options of a part; splits of a recipe are those of the recipe."""
    splits, seeds = PARTS[part]
    known = sets_of(part)
    unknown = sorted(set(arguments.sets or ()) - {n for p in PARTS for n in sets_of(p)})
    if unknown:
        raise InputError(f"Expected sets of the plan ({', '.join(known)}); found {unknown[0]!r}.")
    for name in ("splits", "seeds", "epochs"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise InputError(f"Expected --{name} from 1 on; found {getattr(arguments, name)}.")
    if arguments.minutes is not None and not arguments.minutes > 0:
        raise InputError(f"Expected --minutes above zero; found {arguments.minutes}.")
    if part not in RECIPES:
        splits = arguments.splits or splits
    return Options(
        part=part,
        sets=tuple(name for name in known if not arguments.sets or name in arguments.sets),
        splits=splits,
        seeds=arguments.seeds or seeds,
        epochs=arguments.epochs,
        device=arguments.device,
        root=data_root(arguments.data_root),
        out=arguments.out,
    )


if __name__ == "__main__":
    main()
