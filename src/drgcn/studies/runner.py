"""Runs an experiment: trains the seeds that no record has yet, and records them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from drgcn.errors import InputError
from drgcn.studies.building import build
from drgcn.studies.environment import environment
from drgcn.studies.experiment import Experiment
from drgcn.studies.layer_stability import layer_states
from drgcn.studies.run_record import RunRecord, SeedResult, records_in
from drgcn.training import (
    BestValidation,
    FitResult,
    Patience,
    Progress,
    RisingLoss,
    StepwiseDecay,
    StoppingRule,
    clear_checkpoint,
    fit,
)
from drgcn.training.task import tested_inputs

_OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
_DATA_FACTS = (
    *("name", "split", "split_seed", "nodes", "edges", "features", "classes"),
    *("train", "val", "test", "feature_source", "normalize", "options", "content_hash"),
)
_CURVE_EPOCHS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 600, 800, 1200, 2000, 3000, 5000)


@dataclass(frozen=True)
class Outcome:
    """The results of all seeds asked for, and where they are recorded."""

    experiment: Experiment
    seeds: dict[int, SeedResult]
    paths: tuple[Path, ...]
    trained: tuple[int, ...]


def run(
    experiment: Experiment,
    data: Data,
    seeds: Sequence[int],
    out: Path,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[Progress], None] | None = None,
    checkpoint_every: float = 10.0,
) -> Outcome:
    """Results for every seed, from the records in ``out`` where they exist already.

    Args:
        experiment: What to train.
        data: A graph from :func:`drgcn.load`.
        seeds: The seeds wanted.
        out: Folder of the records. A pass that is cut off goes on from its checkpoint there.
        device: Where to train.
        progress: See :func:`drgcn.fit`.
        checkpoint_every: Seconds between checkpoints.
    """
    identity = experiment.identity(data.dataset.content_hash)
    records = {p: record for p, record in records_in(out).items() if record.identity == identity}
    known = {seed: result for record in records.values() for seed, result in record.seeds.items()}
    missing = tuple(seed for seed in seeds if seed not in known)
    if missing:
        record = _train(
            experiment, data, missing, out, torch.device(device), progress, checkpoint_every
        )
        path, record = _stored(record, out)
        clear_checkpoint(checkpoint_path(experiment, data, out))
        records[path] = record
        known |= record.seeds
    wanted = {seed: known[seed] for seed in seeds}
    used = [p for p, record in records.items() if not wanted.keys().isdisjoint(record.seeds)]
    return Outcome(experiment, wanted, tuple(used), missing)


def stopping_rule(experiment: Experiment) -> StoppingRule:
    """The rule of an experiment."""
    match experiment.rule:
        case "best-validation":
            return BestValidation(experiment.patience)
        case "rising-loss":
            return RisingLoss()
        case "patience":
            return Patience(experiment.patience or 100, experiment.watch)


def _train(
    experiment: Experiment,
    data: Data,
    seeds: tuple[int, ...],
    out: Path,
    device: torch.device,
    progress: Callable[[Progress], None] | None,
    checkpoint_every: float,
) -> RunRecord:
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    cuts = experiment.lr_cut_every
    result = fit(
        lambda: build(experiment, data),
        data,
        seeds,
        epochs=experiment.epochs,
        rule=stopping_rule(experiment),
        optimizer=_OPTIMIZERS[experiment.optimizer],
        lr=experiment.lr,
        weight_decay=experiment.weight_decay,
        schedule=None if cuts is None else StepwiseDecay(cuts),
        graphs_per_step=experiment.graphs_per_step,
        inductive=experiment.inductive,
        batch_size=experiment.batch_size,
        device=device,
        progress=progress,
        checkpoint=checkpoint_path(experiment, data, out),
        checkpoint_every=checkpoint_every,
    )
    # K is taken where the model is tested: on the whole graph, or on graphs it has not seen.
    inputs = tested_inputs(data, result.models[0].prepare, device, experiment.inductive)  # type: ignore[arg-type]
    epochs = sorted({e for e in _CURVE_EPOCHS if e < experiment.epochs} | {experiment.epochs})
    return RunRecord(
        experiment=experiment,
        data={key: data.dataset.to_dict()[key] for key in _DATA_FACTS} | {"metric": result.metric},
        environment=environment(device),
        started=started,
        seconds=result.seconds,
        curve_epochs=epochs,
        seeds={
            seed: _seed_result(result, place, epochs, inputs) for place, seed in enumerate(seeds)
        },
    )


def _stored(record: RunRecord, out: Path) -> tuple[Path, RunRecord]:
    """Where a record is kept now, and the record that is kept there."""
    path, number = out / record.file_name, 1
    while path.exists():
        try:
            found = RunRecord.read(path)
            if record.seeds.keys() <= found.seeds.keys():
                return path, found  # another process was faster at the same work
        except InputError:  # a damaged file has the name, and is not ours to delete
            pass
        number += 1
        path = out / f"{Path(record.file_name).stem}-{number}.json"
    return record.save(out, path.name), record


def checkpoint_path(experiment: Experiment, data: Data, out: Path) -> Path:
    """Where the state of a pass is saved; see :func:`drgcn.training.clear_checkpoint`."""
    identity = experiment.identity(data.dataset.content_hash)
    return out / ".checkpoints" / f"{identity}.safetensors"


def _seed_result(
    result: FitResult, place: int, epochs: list[int], inputs: tuple[Any, ...]
) -> SeedResult:
    run_for = result.epochs_run[place]
    layers = layer_states(result.models[place], inputs)

    def points(name: str) -> list[float]:
        curve = result.curves[name][place]
        return [round(float(curve[epoch - 1]), 4) for epoch in epochs if epoch <= run_for]

    return SeedResult(
        test_accuracy=round(result.test_accuracy[place], 6),
        val_accuracy=round(result.val_accuracy[place], 6),
        best_epoch=result.best_epoch[place],
        epochs=run_for,
        k=[layer.k for layer in layers],
        curve_val_accuracy=points("val_accuracy"),
        curve_train_loss=points("train_loss"),
        saturation=[layer.saturation for layer in layers],
        s_deciles=[layer.deciles for layer in layers],
    )
