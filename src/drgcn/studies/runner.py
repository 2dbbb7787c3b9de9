"""Runs an experiment: trains the seeds that no record has yet, and records them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn.errors import UndefinedStability
from drgcn.nn import GCN
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.stability import stability_k
from drgcn.studies.environment import environment
from drgcn.studies.experiment import Experiment
from drgcn.studies.run_record import RunRecord, SeedResult, load_records
from drgcn.training import (
    BestValidation,
    FitResult,
    Patience,
    Progress,
    RisingLoss,
    clear_checkpoint,
    fit,
)

_RULES = {"best-validation": BestValidation, "rising-loss": RisingLoss, "patience": Patience}
_DATA_FACTS = (
    *("name", "split", "split_seed", "nodes", "edges", "features", "classes"),
    *("train", "val", "test", "feature_source", "normalize", "options", "content_hash"),
)
_CURVE_EPOCHS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 600, 800)


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
    records = [record for record in load_records(out) if record.identity == identity]
    known = {seed: result for record in records for seed, result in record.seeds.items()}
    missing = tuple(seed for seed in seeds if seed not in known)
    if missing:
        record = _train(
            experiment, data, missing, out, torch.device(device), progress, checkpoint_every
        )
        path = out / record.file_name
        if path.exists():  # another process was faster at the same work
            record = RunRecord.loads(path.read_text(encoding="utf-8"), str(path))
        else:
            record.save(out)
        clear_checkpoint(_checkpoint(experiment, data, out))
        records.append(record)
        known |= record.seeds
    wanted = {seed: known[seed] for seed in seeds}
    used = [record for record in records if not wanted.keys().isdisjoint(record.seeds)]
    paths = tuple(out / record.file_name for record in used)
    return Outcome(experiment, wanted, paths, missing)


def build(experiment: Experiment, data: Data) -> GCN:
    """The model of an experiment, for the widths of ``data``."""
    return GCN(
        data.num_features,
        experiment.hidden_channels,
        data.dataset.classes,
        experiment.num_layers,
        dropout=experiment.dropout,
        norm=experiment.norm,  # type: ignore[arg-type]
        reweight=experiment.reweight,  # type: ignore[arg-type]
        pre_activation=experiment.pre_activation,
    )


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
    inputs = tuple(
        value if value is None else value.to(device) for value in GCN.prepare(data)
    )
    result = fit(
        lambda: build(experiment, data),
        data,
        seeds,
        epochs=experiment.epochs,
        rule=_RULES[experiment.rule](),
        lr=experiment.lr,
        weight_decay=experiment.weight_decay,
        inputs=inputs,
        device=device,
        progress=progress,
        checkpoint=_checkpoint(experiment, data, out),
        checkpoint_every=checkpoint_every,
    )
    epochs = sorted({e for e in _CURVE_EPOCHS if e < experiment.epochs} | {experiment.epochs})
    return RunRecord(
        experiment=experiment,
        data={key: data.dataset.to_dict()[key] for key in _DATA_FACTS},
        environment=environment(device),
        started=started,
        seconds=result.seconds,
        curve_epochs=epochs,
        seeds={
            seed: _seed_result(result, place, epochs, inputs) for place, seed in enumerate(seeds)
        },
    )


def _checkpoint(experiment: Experiment, data: Data, out: Path) -> Path:
    identity = experiment.identity(data.dataset.content_hash)
    return out / ".checkpoints" / f"{identity}.safetensors"


def _seed_result(
    result: FitResult, place: int, epochs: list[int], inputs: tuple[Tensor | SparseMatrix, ...]
) -> SeedResult:
    run_for = result.epochs_run[place]

    def points(name: str) -> list[float]:
        curve = result.curves[name][place]
        return [round(float(curve[epoch - 1]), 4) for epoch in epochs if epoch <= run_for]

    return SeedResult(
        test_accuracy=round(result.test_accuracy[place], 6),
        val_accuracy=round(result.val_accuracy[place], 6),
        best_epoch=result.best_epoch[place],
        epochs=run_for,
        k=layer_stability(result.models[place], inputs),
        curve_val_accuracy=points("val_accuracy"),
        curve_train_loss=points("train_loss"),
    )


@torch.no_grad()
def layer_stability(
    model: torch.nn.Module, inputs: tuple[Tensor | SparseMatrix, ...]
) -> list[float | None]:
    """K of each layer of a trained model, over all nodes, in evaluation mode.

    ``None`` where K is undefined, as for a layer all of whose inputs have died.
    """
    found: list[float | None] = []
    for layer_input, s, _ in model.layers(*inputs):  # type: ignore[operator]
        if s is None:
            continue
        x = layer_input.to_csr() if isinstance(layer_input, SparseMatrix) else layer_input
        try:
            found.append(round(stability_k(x, s), 4))
        except UndefinedStability:
            found.append(None)
    return found
