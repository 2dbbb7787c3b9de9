"""Loss and accuracy of many seeds at once, for one label per node."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean softmax cross-entropy ``[seeds]`` of class scores ``[seeds, nodes, classes]``."""
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


def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """Share of right predictions ``[seeds]``."""
    right = (scores.argmax(-1) == labels).sum(1)
    return right.to(torch.float32) / labels.numel()


def l2_penalty(parameters: list[Tensor], weight_decay: float) -> Tensor | float:
    """``weight_decay / 2`` times the squared norm, per seed, of stacked parameters."""
    return 0.5 * weight_decay * sum(p.flatten(1).square().sum(1) for p in parameters)
