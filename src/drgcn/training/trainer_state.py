"""Everything a pass needs to go on from where it stands."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.training.trainer import Trainer


def state_tensors(trainer: Trainer) -> dict[str, Tensor]:
    """The state between two epochs, by name."""
    found = {
        "epoch": trainer.epoch,
        "step": trainer.step,
        "active": trainer.active,
        "best_epoch": trainer.best_epoch,
        "last_epoch": trainer.last_epoch,
        "curves": trainer.curves,
    }
    for prefix, group in (
        ("now", trainer.stack.state()),
        ("best", trainer.best),
        ("rule", trainer.rule_state),
    ):
        found |= {f"{prefix}/{name}": value for name, value in group.items()}
    for name, parameter in trainer.stack.parameters.items():
        for key, value in trainer.optimizer.state.get(parameter, {}).items():
            found[f"optimizer/{key}/{name}"] = value
    return {name: value.detach() for name, value in found.items()}


@torch.no_grad()
def restore(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
    """Goes back to the state that :func:`state_tensors` gave."""
    for name, value in tensors.items():
        if name.startswith("optimizer/"):
            _, key, parameter = name.split("/", 2)
            state = trainer.optimizer.state[trainer.stack.parameters[parameter]]
            state[key] = value.clone()
    own = state_tensors(trainer)
    for name, value in tensors.items():
        own[name].copy_(value)
