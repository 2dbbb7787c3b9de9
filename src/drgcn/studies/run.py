"""Runs experiments: trains the seeds without a record, and records them."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn._io import sweep
from drgcn.data.assemble import RECORDED_FACTS
from drgcn.errors import DrgcnError, NoResultError, came_of, was_interrupted
from drgcn.nn import model_class
from drgcn.nn.graph import NodeGroups
from drgcn.nn.sparse import SparseMatrix
from drgcn.records import device_name, environment, source_hash
from drgcn.stability import gate_saturation, graph_stability
from drgcn.studies.build import (
    OPTIMIZERS,
    InUnits,
    learnt_by_fit,
    stopping_rule,
    usual_loss,
    without,
)
from drgcn.studies.experiment import MEASURED_GATES, Experiment, Precision
from drgcn.studies.records import RunRecord, SeedResult
from drgcn.training import FitResult, Progress, StepwiseDecay, clear_checkpoint, fit
from drgcn.training.checkpoint import Lanes
from drgcn.training.task import tested_inputs, tested_labels

_CHECKPOINTS = ".checkpoints"
_CURVE_EPOCHS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 600, 800, 1200, 2000, 3000, 5000)


@dataclass(frozen=True)
class Outcome:
    """Results of all seeds asked for.

    Attributes:
        experiment: The experiment.
        seeds: The results; none if it could not be trained.
        paths: Their records.
        trained: The seeds trained now.
        builds: What trained them all, see :attr:`RunRecord.build`.
        reason: Why an experiment of :func:`run_grid` could not be trained.
    """

    experiment: Experiment
    seeds: dict[int, SeedResult]
    paths: tuple[Path, ...]
    trained: tuple[int, ...]
    builds: frozenset[tuple[str, ...]] = frozenset()
    reason: str = ""


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
    """Train the seeds without a record in ``out``, record them, and return the results of all.

    Args:
        experiment: The model and its training.
        data: A graph from :func:`drgcn.load`.
        seeds: The seeds wanted.
        out: Folder of the records. A pass that is cut off goes on from its checkpoint there.
        device: Where to train.
        progress: See :func:`drgcn.fit`.
        checkpoint_every: Seconds between checkpoints.
    """
    known = _Records(out, data, torch.device(device))
    missing = known.missing(experiment, seeds)
    checkpoint = checkpoint_path(experiment, data, out)
    if missing:
        options = _PassOptions(torch.device(device), progress, checkpoint, checkpoint_every)
        started = _now()
        try:
            result = _fit(experiment, data, missing, options)
        except NoResultError:
            known.clear(checkpoint, experiment, ended=missing)
            raise
        inputs = _tested(experiment, data, result, options.device)
        known.add(_record(experiment, data, result, started, inputs, options.device))
    known.clear(checkpoint, experiment)
    return known.outcome(experiment, seeds, missing)


def run_grid(
    experiments: Sequence[Experiment],
    data: Data,
    seeds: Sequence[int],
    out: Path,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[Progress], None] | None = None,
    checkpoint_every: float = 10.0,
) -> list[Outcome]:
    """Run several experiments, those whose networks have the same shapes in one pass.

    Every experiment has the record that :func:`run` would leave, but for its seconds, which are
    its share of the pass by epochs. One that cannot be trained does not keep the others from it.

    Args:
        experiments: The experiments, see :func:`pass_of` for what may differ in one pass.
        data: See :func:`run`, as for the others.
        seeds: The seeds wanted of each.
        out: Folder of the records.
        device: Where to train.
        progress: Called a few times a second, with the epochs of all networks together.
        checkpoint_every: Seconds between checkpoints.
    """
    known, content_hash = _Records(out, data, torch.device(device)), data.dataset.content_hash
    passes: dict[tuple[str, tuple[int, ...]], dict[str, Experiment]] = {}
    trained: dict[str, tuple[int, ...]] = {}
    shapes: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        identity = experiment.identity(content_hash)
        trained[identity] = missing = known.missing(experiment, seeds)
        shape = pass_of(experiment).identity(content_hash)
        shapes.setdefault(shape, []).append(experiment)
        if missing:
            passes.setdefault((shape, missing), {})[identity] = experiment
    in_all = sum(len(seeds) * _epochs(alike) for (_, seeds), alike in passes.items())
    done, reasons = 0, dict[str, str]()
    for (shape, missing), alike in passes.items():
        size = len(missing) * _epochs(alike)
        options = _PassOptions(
            torch.device(device),
            _shown_share(progress, done, size, in_all),
            _grid_checkpoint(out, shape),
            checkpoint_every,
        )
        found = _run_pass(list(alike.values()), data, missing, options)
        for identity, record in zip(alike, found, strict=True):
            if isinstance(record, str):
                reasons[identity] = record
            else:
                known.add(record)
        known.clear(options.checkpoint, *alike.values(), ended=missing)
        done += size
    for shape, same in shapes.items():
        known.clear(_grid_checkpoint(out, shape), *same)
    outcomes = []
    for experiment in experiments:
        identity = experiment.identity(content_hash)
        if identity in reasons:
            outcomes.append(Outcome(experiment, {}, (), (), reason=reasons[identity]))
        else:
            outcomes.append(known.outcome(experiment, seeds, trained[identity]))
    return outcomes


def pass_of(experiment: Experiment) -> Experiment:
    """Return what all experiments have in common that can be trained in one pass with this one.

    Learning rate, L2 and the exponent of a measured gate belong to a network. So does dropout, if
    the model has one rate and it is not zero, for which models compute otherwise. Models that
    sample have passes of their own.
    """
    if experiment.batch_size is not None:
        return experiment
    usual = Experiment("", "")
    common = replace(experiment, lr=usual.lr, weight_decay=usual.weight_decay)
    if _has_own_dropout(experiment):
        common = replace(common, dropout=usual.dropout)
    if experiment.reweight in MEASURED_GATES:
        common = replace(common, options=without(common.options, ("exponent",)))
    return common


def _has_own_dropout(experiment: Experiment) -> bool:
    """Return whether a network of a pass can have the experiment's rate of dropout."""
    if experiment.batch_size is not None or experiment.dropout == 0:
        return False
    arguments = inspect.signature(model_class(experiment.model)).parameters
    return [name for name in arguments if name.endswith("dropout")] == ["dropout"]


class _Records:
    """Run records of a folder on some data, for a device."""

    def __init__(self, out: Path, data: Data, device: torch.device) -> None:
        sweep(out, out / _CHECKPOINTS)
        self.out, self.content_hash = out, data.dataset.content_hash
        self.build = {"source": source_hash(), "device": device_name(device)}
        self.found: dict[str, dict[Path, RunRecord]] = {}
        for path, record in RunRecord.read_folder(out).items():
            self.found.setdefault(record.identity, {})[path] = record

    def of(self, experiment: Experiment) -> dict[Path, RunRecord]:
        """Return the records of an experiment."""
        return self.found.setdefault(experiment.identity(self.content_hash), {})

    def missing(self, experiment: Experiment, seeds: Sequence[int]) -> tuple[int, ...]:
        """Return the seeds that have no record."""
        known = {seed for record in self.of(experiment).values() for seed in record.seeds}
        return tuple(seed for seed in seeds if seed not in known)

    def add(self, record: RunRecord) -> None:
        """Save a record, and take it up."""
        path, record = record.save_or_find(self.out)
        self.of(record.experiment)[path] = record

    def clear(self, checkpoint: Path, *experiments: Experiment, ended: Sequence[int] = ()) -> None:
        """Remove the checkpoints of seeds that are on record, or have ended without a record; a
        process that was killed after writing its records may have left them.

        Those of other seeds are of another process.
        """
        found = {
            (seed, *lane)
            for experiment in experiments
            for lane in (_lane_values(experiment), _lane_values(experiment, alone=True))
            for seed in (*ended, *(s for r in self.of(experiment).values() for s in r.seeds))
        }

        def done(lanes: Lanes) -> bool:
            return all((seed, *map(own.get, _OF_A_LANE)) in found for seed, own in lanes)

        clear_checkpoint(checkpoint, done)

    def outcome(
        self, experiment: Experiment, seeds: Sequence[int], trained: tuple[int, ...]
    ) -> Outcome:
        """Return the results of seeds that all have a record by now."""
        records = self.of(experiment)
        # A seed that several builds have trained is taken from this one, if it is among them.
        own = self.build.items()
        ordered = sorted(records, key=lambda path: own <= records[path].environment.items())
        known = {seed: path for path in ordered for seed in records[path].seeds}
        wanted = {seed: records[known[seed]].seeds[seed] for seed in seeds}
        used = tuple(dict.fromkeys(known[seed] for seed in seeds))
        builds = frozenset(records[path].build for path in used)
        return Outcome(experiment, wanted, used, trained, builds)


_OF_A_LANE = ("lr", "weight_decay", "dropout", "exponent")


def _lane_values(experiment: Experiment, alone: bool = False) -> tuple[float | None, ...]:
    """Return what the networks of an experiment are trained with that others of a pass need not
    have; in a pass of its own, rates and exponents are the model's."""
    dropout = exponent = None
    if not alone and _has_own_dropout(experiment):
        dropout = experiment.dropout
    if not alone and experiment.reweight in MEASURED_GATES:
        exponent = experiment.options.get("exponent")
    return experiment.lr, experiment.weight_decay, dropout, exponent


class _PassOptions(NamedTuple):
    """Device, reports and checkpoints of a pass."""

    device: torch.device
    progress: Callable[[Progress], None] | None
    checkpoint: Path
    checkpoint_every: float


def _epochs(alike: Mapping[str, Experiment]) -> int:
    return sum(experiment.epochs for experiment in alike.values())


def _shown_share(
    progress: Callable[[Progress], None] | None, done: int, size: int, in_all: int
) -> Callable[[Progress], None] | None:
    """Return a function that reports the progress of one pass of several."""
    if progress is None:
        return None

    def show(now: Progress) -> None:
        epochs = done + size * now.epochs_done // now.epochs_in_all
        progress(replace(now, epochs_done=epochs, epochs_in_all=in_all))

    return show


def _run_pass(
    experiments: Sequence[Experiment], data: Data, seeds: tuple[int, ...], options: _PassOptions
) -> list[RunRecord | str]:
    """Train experiments in one pass; return the record of each, or why there is none."""
    names = ["lr", "weight_decay"] + ["dropout"] * _has_own_dropout(experiments[0])
    names += ["exponent"] * (experiments[0].reweight in MEASURED_GATES)
    lanes = [dict(zip(_OF_A_LANE, _lane_values(e), strict=True)) for e in experiments]
    grid = [{name: lane[name] for name in names} for lane in lanes]
    started = _now()
    try:
        result = _fit(pass_of(experiments[0]), data, seeds, options, grid)
    except (DrgcnError, torch.OutOfMemoryError) as error:
        # What the system refused once is no answer about the settings.
        if was_interrupted(error) or came_of(error, OSError):
            raise
        # Some settings do not go together, and some do not fit: that is an answer too.
        return [str(error).strip().partition("\n")[0]] * len(experiments)
    inputs = _tested(experiments[0], data, result, options.device)
    found: list[RunRecord | str] = []
    for place, experiment in enumerate(experiments):
        own = result.take(range(place * len(seeds), (place + 1) * len(seeds)))
        lost = [s for s, value in zip(seeds, own.val_accuracy, strict=True) if math.isnan(value)]
        if lost:
            found.append(f"Training diverged for seeds {lost}. Lower the learning rate.")
            continue
        share = sum(own.epochs_run) / sum(result.epochs_run)
        own = replace(own, seconds=share * result.seconds)
        found.append(_record(experiment, data, own, started, inputs, options.device))
    return found


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _fit(
    experiment: Experiment,
    data: Data,
    seeds: tuple[int, ...],
    options: _PassOptions,
    grid: list[dict[str, Any]] | None = None,
) -> FitResult:
    make, loss, metric = learnt_by_fit(experiment, data)
    cuts = experiment.lr_cut_every
    with _products_in(experiment.precision):
        return fit(
            make,
            data,
            seeds,
            grid=grid,
            loss=loss,
            metric=metric,
            epochs=experiment.epochs,
            rule=stopping_rule(experiment),
            optimizer=OPTIMIZERS[experiment.optimizer],
            lr=experiment.lr,
            weight_decay=experiment.weight_decay,
            schedule=None if cuts is None else StepwiseDecay(cuts),
            graphs_per_step=experiment.graphs_per_step,
            inductive=experiment.inductive,
            batch_size=experiment.batch_size,
            device=options.device,
            progress=options.progress,
            checkpoint=options.checkpoint,
            checkpoint_every=options.checkpoint_every,
            test_curve=experiment.test_curve,
        )


@contextlib.contextmanager
def _products_in(precision: Precision) -> Iterator[None]:
    """Multiply dense matrices on CUDA in a precision, and afterwards as before."""
    # Not ``allow_tf32``, which raises where a user has set the newer switch.
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        products.fp32_precision = before


def _tested(
    experiment: Experiment, data: Data, result: FitResult, device: torch.device
) -> tuple[Any, ...]:
    # K is taken where the model is tested: on the whole graph, or on graphs it has not seen.
    return tested_inputs(data, result.models[0].prepare, device, experiment.inductive)  # type: ignore[arg-type]


def _record(
    experiment: Experiment,
    data: Data,
    result: FitResult,
    started: str,
    inputs: tuple[Any, ...],
    device: torch.device,
) -> RunRecord:
    epochs = sorted({e for e in _CURVE_EPOCHS if e < experiment.epochs} | {experiment.epochs})
    labels, objective = tested_labels(data, None, usual_loss(data), experiment.metric)
    return RunRecord(
        experiment=experiment,
        data={key: data.dataset.to_dict()[key] for key in RECORDED_FACTS}
        | {
            "metric": result.metric,
            "guess": round(objective.guess(labels), 6),
            "guess_nodes": objective.sample_size(labels),
        },
        environment=environment(device),
        started=started,
        seconds=result.seconds,
        curve_epochs=epochs,
        seeds={
            seed: _seed_result(result, place, epochs, inputs)
            for place, seed in enumerate(result.seeds)
        },
    )


def _seed_result(
    result: FitResult, place: int, epochs: list[int], inputs: tuple[Any, ...]
) -> SeedResult:
    run_for = result.epochs_run[place]
    model = result.models[place]
    layers = layer_states(model.model if isinstance(model, InUnits) else model, inputs)

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
        **_best_tests(result, place),
    )


def _best_tests(result: FitResult, place: int) -> dict[str, float]:
    """Return the results of rules that look at test labels, if there is a test curve."""
    if "test_accuracy" not in result.curves:
        return {}
    run_for = result.epochs_run[place]
    val, test = (result.curves[f"{part}_accuracy"][place][:run_for] for part in ("val", "test"))
    better = 1 if result.higher_is_better else -1
    renewed = (better * val >= (better * val).cummax(0).values) & ~test.isnan()
    return {
        "best_renewed_test": round(better * float((better * test)[renewed].max()), 6),
        "best_test": round(better * float((better * test)[~test.isnan()].max()), 6),
    }


def checkpoint_path(experiment: Experiment, data: Data, out: Path) -> Path:
    """Return the path of a pass's checkpoint; see :func:`drgcn.training.clear_checkpoint`."""
    identity = experiment.identity(data.dataset.content_hash)
    return out / _CHECKPOINTS / f"{identity}.safetensors"


def _grid_checkpoint(out: Path, shape: str) -> Path:
    return out / _CHECKPOINTS / f"{shape}-grid.safetensors"


def clear_recorded(out: Path) -> None:
    """Remove what processes left that were killed after they had written their records: begun
    files, and the checkpoints of single experiments. Those of seeds that are not on record stay.
    """
    sweep(out, out / _CHECKPOINTS)
    left = {path.name.partition(".")[0] for path in (out / _CHECKPOINTS).glob("*.safetensors.*")}
    if not left:
        return
    known = RunRecord.read_folder(out).values()
    for identity in left:
        seeds = {seed for record in known if record.identity == identity for seed in record.seeds}
        clear_checkpoint(
            out / _CHECKPOINTS / f"{identity}.safetensors",
            lambda lanes, seeds=seeds: {seed for seed, _ in lanes} <= seeds,  # type: ignore[misc]
        )


@dataclass(frozen=True)
class LayerState:
    """Gate of one layer.

    Attributes:
        k: Stability measure over all nodes, the mean over graphs where there are several;
            ``None`` where it is undefined.
        saturation: Share of gate entries at either end, over all graphs.
        s: The vector ``[d]``; with several graphs the mean of theirs.
    """

    k: float | None
    saturation: float
    s: Tensor

    @property
    def deciles(self) -> list[float]:
        """Least entry of the vector, its deciles, and its greatest."""
        steps = torch.linspace(0, 1, 11, dtype=torch.float64, device=self.s.device)
        return [round(value, 4) for value in self.s.double().quantile(steps).tolist()]


@torch.no_grad()
def layer_states(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[LayerState]:
    """Return the gate of every layer that has one, in evaluation mode.

    Args:
        model: One of :mod:`drgcn.nn`, which has ``layers``.
        inputs: Arguments that it is called with.
    """
    groups = next((value for value in inputs if isinstance(value, NodeGroups)), None)
    graph = None if groups is None else groups.graph
    found = []
    for layer_input, s, _ in model.layers(*inputs):  # type: ignore[operator]
        if s is not None:
            sparse = isinstance(layer_input, SparseMatrix)
            x = layer_input.to_csr() if sparse else layer_input
            k = graph_stability(x, s, graph)
            found.append(
                LayerState(
                    k=None if k is None else round(k, 4),
                    saturation=round(gate_saturation(s), 4),
                    s=s.reshape(-1, s.shape[-1]).mean(0),
                )
            )
    return found
