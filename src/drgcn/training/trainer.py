"""One epoch of all seeds: step, evaluation and verdict, without waiting for the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from drgcn.streams import step_key, stream_key
from drgcn.training.model_stack import ModelStack
from drgcn.training.objective import l2_penalty
from drgcn.training.schedule import StepwiseDecay
from drgcn.training.stopping import StoppingRule
from drgcn.training.task import Task

CURVES = ("train_loss", "val_loss", "val_accuracy")


class Trainer:
    """The state of one pass over several seeds, all of it in tensors that are changed in place.

    That makes each phase of an epoch one CUDA graph, and a checkpoint one dictionary of tensors.

    Args:
        stack: The models.
        task: What they learn.
        rule: When to keep weights and when to stop.
        epochs: The budget.
        optimizer: An optimiser class that works elementwise, as torch's own do.
        lr: Learning rate.
        weight_decay: L2 coefficient of the regularised parameters, or the coefficient of the
            models' own penalty.
        schedule: How the learning rate changes; constant if not given.
    """

    def __init__(
        self,
        stack: ModelStack,
        task: Task,
        rule: StoppingRule,
        *,
        epochs: int,
        optimizer: type[torch.optim.Optimizer],
        lr: float,
        weight_decay: float,
        schedule: StepwiseDecay | None = None,
    ) -> None:
        self.stack, self.task, self.rule = stack, task, rule
        self.weight_decay = weight_decay
        self.schedule, self.initial_lr = schedule, lr
        seeds, device = len(stack.seeds), task.val.labels.device
        regularized = stack.regularized_names()
        self.regularized = [p for name, p in stack.parameters.items() if name in regularized]
        others = [p for name, p in stack.parameters.items() if name not in regularized]
        self.own_penalty = hasattr(stack.template, "penalty")
        groups = [
            {
                "params": self.regularized,
                "weight_decay": 0.0 if self.own_penalty else weight_decay,
            },
            {"params": others, "weight_decay": 0.0},
        ]
        # On CUDA: state on the device, so that a step can be recorded, and few kernels.
        known = inspect.signature(optimizer).parameters if device.type == "cuda" else {}
        options: dict[str, Any] = {name: True for name in ("capturable", "fused") if name in known}
        # A learning rate that changes is a tensor too, so that recorded epochs see it change.
        rate = lr if schedule is None else torch.tensor(lr, device=device)
        self.optimizer = optimizer([g for g in groups if g["params"]], lr=rate, **options)  # type: ignore[call-arg]

        def keys(stream: str) -> Tensor:
            return torch.tensor([stream_key(seed, stream) for seed in stack.seeds], device=device)

        self.draw_keys, self.batch_keys = keys("dropout"), keys("batches")
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.loss_sum = torch.zeros(seeds, device=device)
        batches = task.batches
        shape = (0,) if batches is None else (batches.steps, seeds, batches.used_per_step)
        self.order = torch.zeros(shape, dtype=torch.int64, device=device)
        self.active = torch.ones(seeds, dtype=torch.bool, device=device)
        self.best_epoch = torch.zeros(seeds, dtype=torch.int64, device=device)
        self.last_epoch = torch.zeros(seeds, dtype=torch.int64, device=device)
        self.best = {name: value.detach().clone() for name, value in stack.state().items()}
        self.curves = torch.zeros(epochs, len(CURVES), seeds, device=device)
        self.rule_state = rule.start(seeds, device)

    def run_epoch(self) -> None:
        """Trains every seed for one epoch and takes in what the validation nodes say."""
        for phase, times in self.phases:
            for _ in range(times):
                phase()

    @property
    def phases(self) -> tuple[tuple[Callable[[], None], int], ...]:
        """What an epoch consists of, in order, and how often each; no two are the same."""
        if self.task.batches is not None:
            steps = (self.train_on_batch, self.task.batches.steps)
        else:
            steps = (self.train_on_parts, 1)
        return (self.begin_epoch, 1), steps, (self.end_epoch, 1)

    def begin_epoch(self) -> None:
        """Counts the epoch, sets its learning rate, and shuffles its batches."""
        self.epoch += 1
        self.loss_sum.zero_()
        if self.schedule is not None:
            for group in self.optimizer.param_groups:
                group["lr"].copy_(self.initial_lr * self.schedule.factor(self.epoch))
        if self.task.batches is not None:
            self.order.copy_(self.task.batches.order(self.batch_keys, self.epoch))

    def train_on_parts(self) -> None:
        """One step for every training part."""
        for part in self.task.train:
            scores = self.stack(part.inputs, self._next_keys())
            loss = self.task.objective.loss(scores[:, part.nodes], part.labels)
            self._descend(loss, self.stack.penalty(self.weight_decay))

    def train_on_batch(self) -> None:
        """One step on the next batch."""
        (part,) = self.task.train
        turn = self.step % len(self.order)
        places = self.order.index_select(0, turn[None])[0]
        scores, extra = self.stack.sampled(part.nodes[places], part.inputs, self._next_keys())
        loss = self.task.objective.loss(scores, part.labels[places])
        penalty = self.stack.penalty(self.weight_decay)
        self._descend(loss, extra if penalty is None else extra + penalty)

    def end_epoch(self) -> None:
        """Looks at the validation nodes, and keeps or stops what the rule says."""
        batches = self.task.batches
        train_loss = self.loss_sum / (len(self.task.train) if batches is None else batches.steps)
        val_loss, val_accuracy = self._validate()
        keep, stop = self.rule.update(self.rule_state, self.epoch, val_loss, val_accuracy)
        keep = keep & self.active
        self._keep_weights(keep)
        self.best_epoch.copy_(torch.where(keep, self.epoch, self.best_epoch))
        self.last_epoch.copy_(torch.where(self.active, self.epoch, self.last_epoch))
        self.active.logical_and_(~stop)
        point = torch.stack([train_loss, val_loss, val_accuracy]).float()
        self.curves.index_copy_(0, self.epoch[None] - 1, point[None])

    def curve(self, name: str) -> Tensor:
        """One of :data:`CURVES` ``[epochs, seeds]``; zero from the present epoch on."""
        return self.curves[:, CURVES.index(name)]

    def _keep_weights(self, keep: Tensor) -> None:
        if not keep.is_cuda and not bool(keep.any()):
            return  # the host knows at no cost; a device would have to be waited for
        for name, value in self.stack.state().items():
            mask = keep.view(-1, *[1] * (value.dim() - 1))
            torch.where(mask, value.detach(), self.best[name], out=self.best[name])

    def _next_keys(self) -> Tensor:
        """The keys of the next step's random numbers."""
        self.step += 1
        return step_key(self.draw_keys, self.step)

    def _descend(self, loss: Tensor, penalty: Tensor | None) -> None:
        # Seeds share no parameter, so the gradient of the sum is the gradient of each.
        total = loss.sum() if penalty is None else (loss + penalty).sum()
        parameters = [p for p in self.stack.parameters.values() if p.requires_grad]
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            # Fused optimisers want gradients laid out as the parameters are.
            parameter.grad = None if gradient is None else gradient.contiguous()
        self.optimizer.step()
        self.loss_sum += loss.detach()

    @torch.no_grad()
    def _validate(self) -> tuple[Tensor, Tensor]:
        part, objective = self.task.val, self.task.objective
        scores = self.stack(part.inputs)[:, part.nodes]
        loss = objective.loss(scores, part.labels)
        if self.rule.penalized_loss:
            penalty = self.stack.penalty(self.weight_decay)
            if penalty is None:
                loss = loss + l2_penalty(self.regularized, self.weight_decay)
            else:
                loss = loss + penalty
        return loss, objective.score(scores, part.labels)
