"""Loss and score of many seeds at once: one label per node, or many."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError


class Objective(Protocol):
    """What a model learns, and by what it is chosen and judged."""

    metric: str

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean loss ``[seeds]`` of scores ``[seeds, nodes, classes]``; labels are shared by all
        seeds, or each has its own along a first axis."""

    def score(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The metric ``[seeds]``, between 0 and 1."""


class SingleLabel:
    """Softmax cross-entropy and accuracy; labels ``[nodes]``."""

    metric = "accuracy"

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean softmax cross-entropy."""
        seeds, nodes, classes = scores.shape
        if not labels.is_cuda and int(labels.max()) >= classes:
            raise InputError(
                f"Expected a model with at least {int(labels.max()) + 1} outputs, one per class; "
                f"found {classes}."
            )
        loss = F.cross_entropy(
            scores.reshape(-1, classes), labels.expand(seeds, nodes).reshape(-1), reduction="none"
        )
        return loss.view(seeds, nodes).mean(1)

    def score(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Share of right predictions."""
        right = (scores.argmax(-1) == labels).sum(1)
        return right.to(torch.float32) / labels.numel()


class MultiLabel:
    """Sigmoid cross-entropy and micro-F1; labels ``[nodes, classes]`` of zeros and ones."""

    metric = "micro-F1"

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean sigmoid cross-entropy over nodes and classes."""
        if scores.shape[1:] != labels.shape[-2:]:
            raise InputError(
                f"Expected a model with {labels.size(-1)} outputs, one per label; "
                f"found {scores.size(-1)}."
            )
        targets = labels.to(scores.dtype).expand_as(scores)
        loss = F.binary_cross_entropy_with_logits(scores, targets, reduction="none")
        return loss.mean((1, 2))

    def score(self, scores: Tensor, labels: Tensor) -> Tensor:
        """F1 of all decisions pooled, at the threshold one half; 1 if there is none to make."""
        found, wanted = scores > 0, labels > 0.5
        right = (found & wanted).sum((1, 2))
        asked = found.sum((1, 2)) + wanted.sum()
        return torch.where(asked == 0, 1.0, 2 * right / asked.clamp(min=1)).to(torch.float32)


def objective_for(labels: Tensor) -> Objective:
    """Single-label for class numbers ``[nodes]``, multi-label for a table of zeros and ones."""
    return SingleLabel() if labels.dim() == 1 else MultiLabel()


def l2_penalty(parameters: list[Tensor], weight_decay: float) -> Tensor | float:
    """``weight_decay / 2`` times the squared norm, per seed, of stacked parameters."""
    return 0.5 * weight_decay * sum(p.flatten(1).square().sum(1) for p in parameters)
