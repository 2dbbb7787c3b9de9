"""``drgcn tune``: settings chosen on validation, then tested on fresh seeds."""

from __future__ import annotations

import importlib.util
import json as jsonlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Dataset,
    Device,
    FeatureFile,
    Json,
    ModelGate,
    Normalize,
    NormName,
    Offline,
    ProgressLine,
    Quiet,
    Split,
    Threads,
    use_device,
    use_folder,
    use_threads,
)
from drgcn.errors import InputError, how_to_install

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

    from drgcn.studies.experiment import Experiment
    from drgcn.studies.tuning.search import Search, SearchProgress
    from drgcn.studies.tuning.space import SettingRange


class Strategy(StrEnum):
    """Way in which the trials of a search are chosen."""

    random = "random"
    halving = "halving"
    tpe = "tpe"


def tune(
    dataset: Dataset,
    model: Annotated[str, typer.Option(help="The model, see `drgcn train --help`.")] = "gcn",
    reweight: Annotated[
        ModelGate,
        typer.Option(
            help="The gate in front of every layer; class-share and variance, which are measured "
            "on the features, in front of the first alone."
        ),
    ] = ModelGate.dr,
    compare: Annotated[
        bool, typer.Option("--compare", help="Tune the model without a gate too, as long.")
    ] = False,
    norm: Annotated[NormName, typer.Option(help="Norm in front of every layer.")] = NormName.none,
    split: Split = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="random: all trials drawn beforehand, those of one shape trained together; "
            "halving: a third goes on to three times the epochs, and so on; tpe: one after the "
            "other, from what those before have shown (needs optuna)."
        ),
    ] = Strategy.random,
    trials: Annotated[int, typer.Option(min=1, help="Trials, of each row.")] = 30,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every trial, from 0.")] = 4,
    fresh_seeds: Annotated[
        int, typer.Option(min=1, help="Seeds of the result; they follow those of the search.")
    ] = 20,
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="What to search: lr=1e-4:1e-1:log, dropout=0:0.8 or hidden_channels=16,32,64; "
            "may be given several times.",
            show_default="around the model's recipe",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Epochs of every run.", show_default="the model's own"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampler.")] = 0,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds after which no more trials are begun.", show_default="none"
        ),
    ] = None,
    normalize: Normalize = None,
    features: FeatureFile = None,
    device: Device = "auto",
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the search.", show_default="tuning/DATASET-SPLIT-MODEL"),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for settings on validation nodes, then test the best ones once, on fresh seeds.

    Labels of test nodes are hidden during the search. The same command goes on with a search that
    was cut off. A gain over a model that nobody tuned proves nothing: --compare spends as many
    trials on the model without a gate.

    Example: drgcn tune cora --split full --compare
    """
    options = TuneOptions(
        model=model,
        gates=(ModelGate.none, reweight) if compare else (reweight,),
        norm=norm,
        strategy=strategy,
        epochs=epochs,
        space=tuple(space or ()),
        trials=trials,
        seeds=seeds,
        fresh_seeds=fresh_seeds,
        seed=seed,
        timeout=timeout,
    )
    options.expect_possible()
    from drgcn.data import load
    from drgcn.studies.experiment import usual_scaling
    from drgcn.studies.tuning.report import tuning_words

    use_threads(threads)
    where = use_device(device)
    given: dict[str, Any] = {} if features is None else {"features": str(features)}
    normalize = normalize or usual_scaling(dataset, model)
    data = load(dataset, data_root, split=split, normalize=normalize, offline=offline, **given)
    rows = options.rows(data)
    ranges = options.ranges(rows, data)
    folder = use_folder(out or Path("tuning") / _slug(data.dataset, rows[-1].label, compare))
    report, path = _search_and_test(options, rows, ranges, data, folder, where, quiet)
    print(jsonlib.dumps(report) if json else f"{tuning_words(report)}\n\n{path}")


@dataclass(frozen=True)
class TuneOptions:
    """Options that decide what is searched, and for how long."""

    model: str
    gates: tuple[ModelGate, ...]
    norm: NormName
    strategy: Strategy
    epochs: int | None
    space: tuple[str, ...]
    trials: int
    seeds: int
    fresh_seeds: int
    seed: int
    timeout: float | None

    def expect_possible(self) -> None:
        """Refuse options that do not go together, or that lack a package."""
        if self.strategy is Strategy.tpe and importlib.util.find_spec("optuna") is None:
            raise InputError(
                f"Expected the package optuna for --strategy tpe; found none. Use --strategy "
                f"random. {how_to_install('tune')}"
            )
        if self.gates == (ModelGate.none, ModelGate.none):
            raise InputError(
                "Expected a gate to compare with none; found --reweight none --compare."
            )
        if self.strategy is Strategy.halving and self.timeout is not None:
            raise InputError(
                "Expected --timeout with random or tpe; found it with halving, whose budget is "
                "fixed before it begins. Choose fewer --trials or --epochs instead."
            )

    def rows(self, data: Data) -> list[Experiment]:
        """Return the untuned experiment of each gate."""
        from drgcn.studies.experiment import recipe

        given: dict[str, Any] = {} if self.epochs is None else {"epochs": self.epochs}
        given["norm"] = None if self.norm is NormName.none else self.norm.value
        usual = recipe(data.dataset.name, data.dataset.split, self.model, **given)
        return [
            replace(usual, reweight=None if gate is ModelGate.none else gate.value)
            for gate in self.gates
        ]

    def ranges(self, rows: Sequence[Experiment], data: Data) -> tuple[SettingRange, ...]:
        """Return the space, in which every row can be built and searched."""
        from drgcn.cli.comparing import try_a_step
        from drgcn.studies.build import build
        from drgcn.studies.tuning.search import corners, rungs_of, settings_inside
        from drgcn.studies.tuning.space import default_space, draw_settings, read_space

        make = type(build(rows[0], data))
        found = read_space(self.space, rows[0], make) if self.space else default_space(rows[0])
        for row in rows:
            for experiment in (row, *corners(row, found)):
                # What the model does not take is found before any work is done.
                try_a_step(build(experiment, data), data.num_features)
        drawn = draw_settings(found, self.trials, self.seed, settings_inside(rows[0], found))
        rungs_of(self.strategy.value, len(drawn), rows[0].epochs)  # refuses too few of either
        return found


def _search_and_test(
    options: TuneOptions,
    rows: Sequence[Experiment],
    ranges: Sequence[SettingRange],
    data: Data,
    folder: Path,
    device: torch.device,
    quiet: bool,
) -> tuple[dict[str, Any], Path]:
    """Search for every row, test what was found on fresh seeds, and write the report."""
    from drgcn.cli.comparing import run_rows
    from drgcn.studies.tuning.report import earlier_looks, tuning_report, write_report
    from drgcn.studies.tuning.search import Search, folder_lock

    seeds, fresh_seeds = options.seeds, options.fresh_seeds
    with folder_lock(folder):
        earlier_looks(folder)  # which refuses a damaged report before any work
        searches = [
            Search(
                row,
                data,
                ranges,
                folder,
                seeds=range(seeds),
                seed=options.seed,
                strategy=options.strategy.value,
                device=device,
            )
            for row in rows
        ]
        done = _run_searches(searches, options.trials, options.timeout, quiet)
        pairs = [(search.experiment, search.chosen(done)) for search in searches]
        fresh = range(seeds, seeds + fresh_seeds)
        outcomes = run_rows(
            [e for pair in pairs for e in pair], data, fresh, folder / "fresh", device, quiet
        )
        report = tuning_report(
            searches,
            list(zip(outcomes[::2], outcomes[1::2], strict=True)),
            data.dataset,
            trials=done,
            trials_asked=options.trials,
            timeout=options.timeout,
            device=device,
            out=folder,
        )
        return report, write_report(report, folder)


def _slug(info: Any, label: str, compare: bool) -> str:
    words = [info.name, info.split, label, *(["compare"] if compare else [])]
    return re.sub(r"[^\w.-]+", "-", "-".join(words))


def _run_searches(
    searches: Sequence[Search], trials: int, timeout: float | None, quiet: bool
) -> int:
    """Run searches with one line of progress for all."""
    from drgcn.studies.tuning.search import run_searches

    with ProgressLine("searching", quiet, resumes=True) as line:

        def show(now: SearchProgress) -> None:
            best = "" if now.best is None else f", best on validation {100 * now.best:.2f} %"
            share = (now.done + now.share) / now.in_all
            line.show(f"{now.row}: {now.done} of {now.in_all} runs{best}", share)

        return run_searches(searches, trials, timeout=timeout, progress=show)
