"""``fit``: train many seeds in one pass, on whole graphs or on samples of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn.errors import DrgcnError, InputError
from drgcn.training.stack import ModelStack
from drgcn.training.stopping import BestValidation, StoppingRule
from drgcn.training.task import Inductive, Prepare, Task
from drgcn.training.trainer import CURVES, EpochLoop, Progress, StepwiseDecay, Trainer

# Seeds that are trained together on CPU, see :func:`seed_blocks`.
CPU_LANES: Final = 4
# A recorded epoch keeps a memory pool of its own beside that of the epochs before it, and
# allocators round up.
_PEAKS_PER_PASS: Final = 2.0
_SHARE_OF_FREE_MEMORY: Final = 0.9
# Version of the layout of checkpoints; one of another layout cannot be resumed.
_STATE: Final = 2
# Fields of a result that have one entry a seed, curves aside.
_PER_SEED: Final = ("best_epoch", "epochs_run", "val_accuracy", "test_accuracy", "models")


def fit(
    make_model: Callable[[], torch.nn.Module],
    data: Data,
    seeds: Iterable[int],
    *,
    epochs: int = 800,
    rule: StoppingRule | None = None,
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    schedule: StepwiseDecay | None = None,
    prepare: Prepare | None = None,
    graphs_per_step: int | None = None,
    inductive: Inductive | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
    seeds_at_once: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: float = 10.0,
) -> FitResult:
    """Train one model per seed, many at once, and test each at its best epoch.

    Works for any full-batch module, ours or PyG's, and for models that sample (FastGCN, ASGCN,
    GraphSAGE) with a ``batch_size``. A seed's numbers do not depend on the seeds asked for beside
    it: initialisation, dropout, batches and samples have streams of their own.

    Args:
        make_model: Builds one model. A model may offer ``prepare(data)``, which returns the
            arguments of its ``forward``, ``regularized_parameters()``, or, as a regulariser of
            its own, ``penalty(weight_decay)``. One that samples offers
            ``prepare_training(data)`` and ``sampled(batch, *inputs)``, which returns scores and
            what is added to the loss.
        data: A graph with ``y`` and the three masks; or several, with ``graph`` [nodes] as
            :func:`drgcn.data.unite` joins them, for inductive training. ``y`` [nodes] holds
            classes, ``y`` [nodes, labels] zeros and ones.
        seeds: The seeds, from 0.
        epochs: Budget of epochs.
        rule: Chooses the epoch to test and when to stop. (default: :class:`BestValidation`)
        optimizer: Class of an elementwise optimiser.
        lr: Learning rate.
        weight_decay: L2 coefficient, on ``regularized_parameters()`` or else on everything.
        schedule: Changes the learning rate. (default: it is constant)
        prepare: Makes the arguments of ``forward`` from a graph. (default: the model's own, or
            else ``(data.x, data.edge_index)``)
        graphs_per_step: Training graphs in each step of an epoch, if ``data`` holds several.
            (default: all)
        inductive: ``"train"``: train on the training nodes and the edges between them, and
            evaluate on the whole graph; ``"apart"``: evaluate on the training nodes and those
            looked at. (default: the whole graph is seen in training)
        batch_size: Training nodes in each step, for models that sample. (default: all)
        device: Device to train on. On CUDA an epoch is replayed as one graph.
        seeds_at_once: Most seeds in one pass on CUDA. (default: as many as free
            memory holds, found by trying)
        progress: Called a few times a second with a :class:`Progress`.
        checkpoint: Path at which the state is saved, one file per block of seeds, so that the
            same call resumes after a kill. Store the results, then call
            :func:`clear_checkpoint`.
        checkpoint_every: Seconds between checkpoints.
    """
    _check_arguments(make_model, data, epochs, lr, weight_decay, seeds_at_once)
    seeds = _checked_seeds(seeds)
    device = torch.device(device)
    chosen_rule = rule or BestValidation()
    own, own_training = _preparations(make_model, batch_size)
    task = Task.from_data(
        data,
        prepare or own,
        device,
        graphs_per_step=graphs_per_step,
        prepare_training=own_training,
        inductive=inductive,
        batch_size=batch_size,
    )

    def make_trainer(block: tuple[int, ...]) -> Trainer:
        return Trainer(
            ModelStack(make_model, block, task.val.inputs, device),
            task,
            chosen_rule,
            epochs=epochs,
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
            schedule=schedule,
        )

    if device.type == "cuda" and seeds_at_once is None:
        seeds_at_once = seeds_that_fit(make_trainer, seeds, device)
    blocks = seed_blocks(seeds, device, seeds_at_once)
    training = (epochs, chosen_rule, optimizer.__name__, lr, weight_decay, schedule)
    settings = (*training, graphs_per_step, inductive, batch_size)
    fingerprint = "" if checkpoint is None else fingerprint_of(settings, data, make_model)
    loop = EpochLoop(
        epochs,
        len(blocks),
        len(seeds),
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        fingerprint=fingerprint,
    )
    results = []
    for block in blocks:
        trainer = make_trainer(block)
        seconds = loop.run(trainer)
        results.append(_test(trainer, seconds, seeds))
    return FitResult.concatenate(results).select(seeds)


@dataclass(frozen=True)
class FitResult:
    """Results of :func:`fit` per seed, in the order of ``seeds``.

    Attributes:
        seeds: The seeds.
        best_epoch: The epoch whose weights were kept, from 1.
        epochs_run: Epochs trained before the rule stopped the seed.
        val_accuracy: Validation accuracy at the kept epoch.
        test_accuracy: Test accuracy of the kept weights, computed once.
        curves: ``train_loss``, ``val_loss`` and ``val_accuracy`` after each epoch.
        models: Ordinary modules with the kept weights, in evaluation mode.
        seconds: Wall time of the training.
        metric: Meaning of "accuracy": share of right predictions, or micro-F1 for many labels.
    """

    seeds: tuple[int, ...]
    best_epoch: list[int]
    epochs_run: list[int]
    val_accuracy: list[float]
    test_accuracy: list[float]
    curves: dict[str, list[Tensor]] = field(repr=False)
    models: list[torch.nn.Module] = field(repr=False)
    seconds: float
    metric: str = "accuracy"

    def select(self, seeds: Sequence[int]) -> FitResult:
        """Return the results of some of the seeds."""
        places = [self.seeds.index(seed) for seed in seeds]
        chosen = {name: [getattr(self, name)[i] for i in places] for name in _PER_SEED}
        curves = {name: [curve[i] for i in places] for name, curve in self.curves.items()}
        return replace(self, seeds=tuple(seeds), curves=curves, **chosen)  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, parts: Sequence[FitResult]) -> FitResult:
        """Join the results of several passes."""
        joined = {name: [v for part in parts for v in getattr(part, name)] for name in _PER_SEED}
        curves = {
            name: [curve for part in parts for curve in part.curves[name]]
            for name in parts[0].curves
        }
        return cls(
            seeds=tuple(seed for part in parts for seed in part.seeds),
            curves=curves,
            seconds=sum(part.seconds for part in parts),
            metric=parts[0].metric,
            **joined,
        )


def _check_arguments(
    make_model: Any,
    data: Any,
    epochs: int,
    lr: float,
    weight_decay: float,
    seeds_at_once: int | None,
) -> None:
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        raise InputError(
            f"Expected a function that builds a model, such as lambda: GCN(...); found "
            f"{type(make_model).__name__}."
        )
    if not isinstance(data, Data):
        raise InputError(
            f"Expected one PyG Data; found {type(data).__name__}. Join lists of graphs with "
            f"drgcn.data.unite."
        )
    if not isinstance(epochs, int) or epochs < 1:
        raise InputError(f"Expected at least one epoch; found {epochs}.")
    if not (math.isfinite(lr) and math.isfinite(weight_decay)):
        raise InputError(f"Expected finite lr and weight_decay; found {lr} and {weight_decay}.")
    if seeds_at_once is not None and seeds_at_once < 1:
        raise InputError(f"Expected seeds_at_once to be at least one; found {seeds_at_once}.")


def _checked_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    if isinstance(seeds, int):
        raise InputError(f"Expected several seeds, such as range({seeds}); found one number.")
    found = tuple(seeds)
    whole = all(isinstance(seed, int) for seed in found)
    if not found or not whole or len(set(found)) != len(found) or min(found) < 0:
        raise InputError(f"Expected distinct seeds from 0 upwards; found {list(found)}.")
    return found


def _preparations(
    make_model: Callable[[], torch.nn.Module], batch_size: int | None
) -> tuple[Prepare, Prepare | None]:
    """Return the functions that prepare the arguments of ``forward`` and of training steps."""
    with torch.random.fork_rng(devices=[]):
        model = make_model()
    if not isinstance(model, torch.nn.Module):
        found = type(model).__name__
        raise InputError(f"Expected make_model to return a module; it returned {found}.")
    prepare = getattr(model, "prepare", None) or (lambda data: (data.x, data.edge_index))
    if batch_size is None:
        return prepare, None
    if not (hasattr(model, "sampled") and hasattr(model, "prepare_training")):
        raise InputError(
            f"Expected a model that samples, such as FastGCN, with batch_size; found "
            f"{type(model).__name__}, which takes whole graphs. Leave batch_size out."
        )
    return prepare, model.prepare_training  # type: ignore[return-value]


def seeds_that_fit(
    make_trainer: Callable[[tuple[int, ...]], Trainer],
    seeds: tuple[int, ...],
    device: torch.device,
) -> int:
    """Number of seeds that can be trained at once in the free memory of a CUDA device.

    One epoch of one seed and one epoch of two are run and thrown away; their difference is the
    memory that each further seed needs.
    """
    if len(seeds) < 3:
        return len(seeds)
    torch.cuda.empty_cache()
    one, two = (_peak(make_trainer, seeds[:count], device) for count in (1, 2))
    free, _ = torch.cuda.mem_get_info(device)
    each = max(two - one, 1)
    shared = max(one - each, 0)
    room = int((_SHARE_OF_FREE_MEMORY * free / _PEAKS_PER_PASS - shared) // each)
    if room < 1:
        raise InputError(
            f"Expected room for one seed, about {one * _PEAKS_PER_PASS / 2**30:.1f} GiB; found "
            f"{free / 2**30:.1f} GiB free on {device}. Free memory, or use a smaller model."
        )
    return min(room, len(seeds))


def _peak(
    make_trainer: Callable[[tuple[int, ...]], Trainer],
    seeds: tuple[int, ...],
    device: torch.device,
) -> int:
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    trainer = make_trainer(seeds)
    trainer.run_epoch()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    del trainer
    torch.cuda.empty_cache()
    return peak


def seed_blocks(
    seeds: tuple[int, ...], device: torch.device, at_once: int | None = None
) -> list[tuple[int, ...]]:
    """Group the seeds into blocks that are trained together.

    On CPU a seed always trains in the same lane of the same block of four, whether its
    neighbours were asked for or not. Vectorised kernels round the last elements of an array
    differently from the others, so only this makes a seed's numbers the same to the bit. More
    lanes would be faster for many seeds, fewer for one: docs/decisions.md has the figures.
    Elsewhere all seeds form one block, or several of nearly equal size.
    """
    if device.type == "cpu":
        starts = sorted({seed - seed % CPU_LANES for seed in seeds})
        return [tuple(range(start, start + CPU_LANES)) for start in starts]
    passes = -(-len(seeds) // min(at_once or len(seeds), len(seeds)))
    ends = [len(seeds) * number // passes for number in range(passes + 1)]
    return [seeds[start:end] for start, end in pairwise(ends)]


def fingerprint_of(
    settings: tuple[Any, ...], data: Data, make_model: Callable[[], torch.nn.Module]
) -> str:
    """Hash settings, data and model, so that only checkpoints of the same run are resumed."""
    digest = hashlib.sha256(repr((_STATE, *settings)).encode())
    for name in ("y", "train_mask", "val_mask", "edge_index", "x", "graph"):
        if isinstance(value := data.get(name), Tensor):
            dense = value if value.layout == torch.strided else value.to_dense()
            digest.update(dense.cpu().numpy().tobytes())
    with torch.random.fork_rng(devices=[]):
        model = make_model()
    digest.update(repr(model).encode())
    for module in model.modules():  # dropout rates and the like are seldom printed
        facts = {k: v for k, v in vars(module).items() if _is_plain(v)}
        digest.update(repr(sorted(facts.items())).encode())
    return digest.hexdigest()


def _is_plain(value: Any) -> bool:
    """True for values that print the same in every process: numbers, text, tuples of them."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str)


@torch.no_grad()
def _test(trainer: Trainer, seconds: float, asked: tuple[int, ...]) -> FitResult:
    """Score every seed on the test nodes, once, with the weights that its rule kept."""
    stack, test, objective = trainer.stack, trainer.task.test, trainer.task.objective
    lanes = torch.arange(len(stack.seeds), device=test.nodes.device)
    kept_loss = trainer.curve("val_loss")[trainer.best_epoch - 1, lanes]
    lost = (trainer.best_epoch == 0) | ~kept_loss.isfinite()
    diverged = {stack.seeds[i] for i in lost.nonzero().flatten().tolist()}
    if diverged & set(asked):  # lanes that only fill a block do not count
        raise DrgcnError(
            f"Training diverged for seeds {sorted(diverged & set(asked))}: "
            f"the kept epoch has no finite validation loss. Lower the learning rate, or scale "
            f"the features (normalize='standard')."
        )
    for name, value in stack.state().items():
        value.copy_(trainer.best[name])
    test_accuracy = objective.score(stack(test.inputs)[:, test.nodes], test.labels)
    return FitResult(
        seeds=stack.seeds,
        best_epoch=trainer.best_epoch.tolist(),
        epochs_run=trainer.last_epoch.tolist(),
        val_accuracy=trainer.curve("val_accuracy")[trainer.best_epoch - 1, lanes].tolist(),
        test_accuracy=test_accuracy.tolist(),
        curves={name: list(trainer.curve(name).T.cpu()) for name in CURVES},
        models=[stack.model(lane) for lane in lanes.tolist()],
        seconds=seconds,
        metric=objective.metric,
    )
