"""Which clicks every step of training looks at: a function of seed, step and rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.keyed_permutation import KeyedPermutation
from drgcn.streams import call_key, mix, stream_key

Draw = Literal["clicks", "users"]
_HALF = 32
_LOW = (1 << _HALF) - 1


@dataclass(frozen=True, eq=False)
class Positives:
    """An endless row of clicks, cut into batches.

    With ``draw="clicks"`` every epoch is a new permutation of all clicks; a batch may reach from
    one epoch into the next, so that no click is left out. With ``draw="users"`` each place holds a
    user, all with the same chance, and one of the user's items, which is how LightGCN is trained.
    What stands at a place is computed from the place alone.

    Attributes:
        clicks: The clicks to learn.
        batch_size: Clicks in a step, over all ranks.
        seed: The run's seed.
        draw: How places are filled.
        exchange: Who else trains; this rank takes its part of every batch.
    """

    clicks: ClickGraph
    batch_size: int
    seed: int = 0
    draw: Draw = "clicks"
    exchange: Exchange = field(default_factory=Exchange)

    def __post_init__(self) -> None:
        if not self.clicks.num_clicks:
            raise InputError("Expected clicks to learn; found none.")
        if self.batch_size < 1 or self.batch_size % self.exchange.size:
            raise InputError(
                f"Expected a batch size of at least one, divisible by the number of ranks "
                f"{self.exchange.size}; found {self.batch_size}."
            )
        if self.draw not in ("clicks", "users"):
            raise InputError(f"Expected draw to be clicks or users; found {self.draw!r}.")

    @property
    def own_size(self) -> int:
        """Clicks of this rank in a step."""
        return self.batch_size // self.exchange.size

    @property
    def first(self) -> int:
        """Where this rank's part of a batch begins."""
        return self.exchange.rank * self.own_size

    def steps(self, epochs: float) -> int:
        """Steps that show all clicks so many times."""
        return max(-int(-epochs * self.clicks.num_clicks // self.batch_size), 1)

    def window(self, step: int, steps: int) -> tuple[Tensor, Tensor]:
        """Users and items ``[steps, own_size]`` of the steps from ``step`` on."""
        device = self.clicks.device
        number = torch.arange(step, step + steps, device=device)[:, None]
        own = torch.arange(self.first, self.first + self.own_size, device=device)
        place = number * self.batch_size + own
        if self.draw == "users":
            return self._of_users(place)
        size = self.clicks.num_clicks
        click = KeyedPermutation(size)(place % size, self._key, place // size)
        ends = self.clicks.by_user.rowptr[1:]
        user = torch.searchsorted(ends, click, right=True)
        return user, self.clicks.by_user.col[click].long()

    @cached_property
    def _key(self) -> Tensor:
        return torch.tensor(stream_key(self.seed, "batches"), device=self.clicks.device)

    @cached_property
    def _active(self) -> Tensor:
        return (self.clicks.by_user.degree > 0).nonzero().flatten()

    def _of_users(self, place: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.clicks.by_user
        chance = mix(call_key(self._key, 1) + place)
        user = self._active[((chance >> _HALF) & _LOW) * self._active.numel() >> _HALF]
        begin = rows.rowptr[user]
        degree = rows.rowptr[user + 1] - begin
        chance = mix(call_key(self._key, 2) + place)
        return user, rows.col[begin + (((chance >> _HALF) & _LOW) * degree >> _HALF)].long()
