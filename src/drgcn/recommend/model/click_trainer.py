"""The state of a run, and one step of it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.positives import Positives
from drgcn.streams import step_key, stream_key
from drgcn.training.cuda_graph import Recorded

_WINDOW = 1 << 22  # clicks whose users and items are looked up at once
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]


class ClickTrainer:
    """Adam on the loss of one batch after the other; all state in tensors changed in place.

    A step reads its batch from a window that was looked up for many steps, and takes every random
    number from a key of seed and step. Nothing in it waits for the device, and shapes never
    change: on CUDA the whole step, optimiser included, is recorded once as a graph and replayed.

    Args:
        model: What is trained.
        objective: The loss from users, items and key of a step.
        positives: Where batches come from.
        steps: Length of the run.
        lr: Learning rate.
        weight_decay: L2 coefficient for all parameters.
        exchange: The other ranks.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        objective: Objective,
        positives: Positives,
        steps: int,
        *,
        lr: float,
        weight_decay: float = 0.0,
        exchange: Exchange,
    ) -> None:
        self.model, self.objective, self.positives = model, objective, positives
        self.steps, self.exchange = steps, exchange
        device = positives.clicks.device
        cuda = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=lr,
            weight_decay=weight_decay,
            capturable=cuda,
            fused=cuda,
        )
        self.key = torch.tensor(stream_key(positives.seed, "dropout"), device=device)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.zeros(steps, dtype=torch.float32, device=device)
        self.done = 0  # as `step`, but known without asking the device
        self.length = max(min(_WINDOW // positives.own_size, steps), 1)
        self.window_start = torch.full_like(self.step, -1)
        self.window = 0
        shape = (self.length, positives.own_size)
        self.users, self.items = (
            torch.zeros(shape, dtype=torch.int64, device=device) for _ in "ui"
        )
        self.filled = False
        record = cuda and exchange.size == 1
        self._run = Recorded(self._one_step) if record else self._one_step

    def run(self, steps: int) -> None:
        """So many steps more, without waiting for them."""
        for _ in range(steps):
            if not self.filled or self.done >= self.window + self.length:
                self._look_up(self.done)
            self._run()
            self.done += 1

    def state(self) -> dict[str, Tensor]:
        """All that a run needs to go on, by name."""
        found = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for part, value in self.optimizer.state.get(parameter, {}).items():
                found[f"adam.{part}.{name}"] = value
        return {**found, "step": self.step, "losses": self.losses[: self.done]}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Goes on from a :meth:`state`."""
        device = self.step.device
        prefix = "model."
        self.model.load_state_dict(
            {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        )
        for name, parameter in self.model.named_parameters():
            parts = ("step", "exp_avg", "exp_avg_sq")
            saved = {part: state.get(f"adam.{part}.{name}") for part in parts}
            if saved["step"] is not None:
                # On CPU, Adam wants its counter there; on CUDA it is recorded with the rest.
                self.optimizer.state[parameter] = {
                    part: value.to(device) for part, value in saved.items() if value is not None
                }
        self.step.copy_(state["step"])
        self.done = int(state["step"])
        self.losses[: self.done] = state["losses"].to(device)
        self.filled = False

    def _look_up(self, step: int) -> None:
        users, items = self.positives.window(step, self.length)
        self.users.copy_(users)
        self.items.copy_(items)
        self.window_start.fill_(step)
        self.window, self.filled = step, True

    def _one_step(self) -> None:
        turn = self.step - self.window_start
        users = self.users.index_select(0, turn)[0]
        items = self.items.index_select(0, turn)[0]
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.objective(users, items, step_key(self.key, self.step)[0])
        loss.backward()
        self.exchange.average_gradients(self.model.parameters())
        self.optimizer.step()
        seen = self.exchange.mean(loss.detach())
        self.losses.index_copy_(0, self.step, seen.float()[None])
        self.step += 1
