"""One epoch of all seeds: step, evaluation and verdict, without waiting for the host."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drgcn.training.model_stack import ModelStack
from drgcn.training.objective import accuracy, cross_entropy, l2_penalty
from drgcn.training.stopping import StoppingRule
from drgcn.training.streams import step_key, stream_key

CURVES = ("train_loss", "val_loss", "val_accuracy")


@dataclass(frozen=True)
class Target:
    """Labels of all nodes, and the nodes to train and to validate on."""

    labels: Tensor
    train: Tensor
    val: Tensor


class Trainer:
    """The state of one pass over several seeds, all of it in tensors that are changed in place.

    That makes an epoch one CUDA graph, and a checkpoint one dictionary of tensors.

    Args:
        stack: The models.
        target: What they learn.
        rule: When to keep weights and when to stop.
        epochs: The budget.
        optimizer: An optimiser class that works elementwise, as torch's own do.
        lr: Learning rate.
        weight_decay: L2 coefficient of the regularised parameters.
    """

    def __init__(
        self,
        stack: ModelStack,
        target: Target,
        rule: StoppingRule,
        *,
        epochs: int,
        optimizer: type[torch.optim.Optimizer],
        lr: float,
        weight_decay: float,
    ) -> None:
        self.stack, self.target, self.rule = stack, target, rule
        self.weight_decay = weight_decay
        seeds, device = len(stack.seeds), target.labels.device
        regularized = stack.regularized_names()
        self.regularized = [p for name, p in stack.parameters.items() if name in regularized]
        others = [p for name, p in stack.parameters.items() if name not in regularized]
        groups = [
            {"params": self.regularized, "weight_decay": weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        # On CUDA: state on the device, so that a step can be recorded, and few kernels.
        known = inspect.signature(optimizer).parameters if device.type == "cuda" else {}
        options: dict[str, Any] = {name: True for name in ("capturable", "fused") if name in known}
        self.optimizer = optimizer([g for g in groups if g["params"]], lr=lr, **options)  # type: ignore[call-arg]

        keys = [stream_key(seed, "dropout") for seed in stack.seeds]
        self.dropout_keys = torch.tensor(keys, device=device)
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)
        self.active = torch.ones(seeds, dtype=torch.bool, device=device)
        self.best_epoch = torch.zeros(seeds, dtype=torch.int64, device=device)
        self.last_epoch = torch.zeros(seeds, dtype=torch.int64, device=device)
        self.best = {name: value.detach().clone() for name, value in stack.state().items()}
        self.curves = torch.zeros(epochs, len(CURVES), seeds, device=device)
        self.rule_state = rule.start(seeds, device)

    def run_epoch(self) -> None:
        """Trains every seed for one epoch and takes in what the validation nodes say."""
        self.epoch += 1
        train_loss = self._step()
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

    def tensors(self) -> dict[str, Tensor]:
        """Everything a pass needs to go on from here, by name."""
        found = {
            "epoch": self.epoch,
            "active": self.active,
            "best_epoch": self.best_epoch,
            "last_epoch": self.last_epoch,
            "curves": self.curves,
        }
        for prefix, group in (
            ("now", self.stack.state()),
            ("best", self.best),
            ("rule", self.rule_state),
        ):
            found |= {f"{prefix}/{name}": value for name, value in group.items()}
        for name, parameter in self.stack.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                found[f"optimizer/{key}/{name}"] = value
        return {name: value.detach() for name, value in found.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Goes back to the state that :meth:`tensors` gave."""
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                _, key, parameter = name.split("/", 2)
                state = self.optimizer.state[self.stack.parameters[parameter]]
                state[key] = value.clone()
        own = self.tensors()
        for name, value in tensors.items():
            own[name].copy_(value)

    def _keep_weights(self, keep: Tensor) -> None:
        if not keep.is_cuda and not bool(keep.any()):
            return  # the host knows at no cost; a device would have to be waited for
        for name, value in self.stack.state().items():
            mask = keep.view(-1, *[1] * (value.dim() - 1))
            torch.where(mask, value.detach(), self.best[name], out=self.best[name])

    def _step(self) -> Tensor:
        scores = self.stack(step_key(self.dropout_keys, self.epoch))[:, self.target.train]
        loss = cross_entropy(scores, self.target.labels[self.target.train])
        parameters = [p for p in self.stack.parameters.values() if p.requires_grad]
        # Seeds share no parameter, so the gradient of the sum is the gradient of each.
        gradients = torch.autograd.grad(loss.sum(), parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            # Fused optimisers want gradients laid out as the parameters are.
            parameter.grad = None if gradient is None else gradient.contiguous()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def _validate(self) -> tuple[Tensor, Tensor]:
        scores = self.stack()[:, self.target.val]
        labels = self.target.labels[self.target.val]
        loss = cross_entropy(scores, labels)
        if self.rule.penalized_loss:
            loss = loss + l2_penalty(self.regularized, self.weight_decay)
        return loss, accuracy(scores, labels)
