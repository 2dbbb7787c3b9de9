"""Draws of training, each a function of seed and step: neighbour trees, positives, negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import triton_available
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.distributed.group import Exchange
from drgcn.sampling.graph import CSRGraph
from drgcn.streams import below, call_key, high_bits, mix, step_key, stream_key

if triton_available():
    from drgcn.recommend.model.kernels import drawn_on_cuda
else:
    drawn_on_cuda = None  # type: ignore[assignment]

Side = Literal["user", "item"]
Draw = Literal["clicks", "users"]
_HALF = 32
_POSITIVE = (1 << 63) - 1
_ROUNDS = 4  # of the Feistel network
_TRIES = 4  # draws of an unclicked item before all are looked at


def draw_systematic(
    graph: CSRGraph, rows: Tensor, count: int, key: Tensor, first: int = 0
) -> Tensor:
    r"""Systematic sampling: place :math:`k` takes entry :math:`\lfloor (k + u) D / K \rfloor`.

    With one uniform :math:`u` per row, each of the :math:`D` entries is drawn :math:`K / D` times
    on average, so the mean over the draws is an unbiased estimate of the mean over the row. A row
    with :math:`D \ge K` gives distinct entries; one with fewer gives each of them
    :math:`\lfloor K/D \rfloor` or :math:`\lceil K/D \rceil` times. That is nearly as good as
    drawing without replacement, and needs neither a search for repeats nor a random number per
    place. Integers only: the same draws on CPU and CUDA.

    Args:
        graph: Whose rows to draw from.
        rows: Rows of any shape; ``graph.num_rows`` is padding.
        count: Draws :math:`K` per row.
        key: 64-bit key of this draw, a tensor without axes.
        first: The number of the first row of ``rows`` among those of all ranks.

    Returns:
        Entries ``[*rows.shape, count]`` as int64; ``graph.num_cols`` for padding.
    """
    if count < 1:
        raise InputError(f"Expected at least one neighbour to draw; found {count}.")
    if drawn_on_cuda is not None and rows.is_cuda:
        return drawn_on_cuda(graph, rows, count, key, first)
    known = rows < graph.num_rows
    row = torch.where(known, rows, 0)
    begin = graph.rowptr[row].long()
    degree = torch.where(known, graph.rowptr[row + 1].long() - begin, 0)
    counter = torch.arange(first, first + rows.numel(), device=rows.device).view(rows.shape)
    chance = high_bits(mix(key + counter), _HALF)
    step = torch.arange(count, device=rows.device) << _HALF
    place = (((step + chance.unsqueeze(-1)) * degree.unsqueeze(-1)) >> _HALF) // count
    real = degree.unsqueeze(-1) > 0
    if graph.num_entries == 0:
        return torch.full_like(place, graph.num_cols)
    entry = torch.where(real, begin.unsqueeze(-1) + place, 0)
    return torch.where(real, graph.col[entry].long(), graph.num_cols)


def check_drawable(graph: CSRGraph, count: int) -> None:
    """Refuse rows so long that a draw would not fit 63 bits; done once, for it reads them all."""
    if count * graph.longest_row >= 1 << 30:
        raise InputError(
            f"Expected fan-out times the longest row below 2**30; found {count} times "
            f"{graph.longest_row}. Use a smaller fan-out, or CSRGraph.trimmed."
        )


def other(side: Side) -> Side:
    """The side that a side's neighbours are on."""
    return "item" if side == "user" else "user"


def rows_of(graph: ClickGraph, side: Side) -> CSRGraph:
    """The neighbours of a side's nodes, row by row."""
    return graph.by_user if side == "user" else graph.by_item


@dataclass(frozen=True, eq=False)
class ClickTree:
    """Roots of one side, neighbours drawn for them, neighbours drawn for those, and so on.

    Attributes:
        side: The side of the roots; levels take turns.
        levels: Nodes of each level, ``[B]``, ``[B, k1]``, ``[B, k1, k2]``, ...; the number of
            nodes of their side for padding.
        sizes: Number of nodes of the roots' side and of the other.
    """

    side: Side
    levels: tuple[Tensor, ...]
    sizes: tuple[int, int]

    @classmethod
    def draw(
        cls,
        graph: ClickGraph,
        side: Side,
        roots: Tensor,
        fan_outs: Sequence[int],
        key: Tensor,
        *,
        partners: Tensor | None = None,
        first: int = 0,
    ) -> ClickTree:
        """Draw a tree for each root.

        Args:
            graph: Who clicked what.
            side: The side of the roots.
            roots: Where to begin ``[B]``.
            fan_outs: Neighbours of a node at each level.
            key: 64-bit key of this draw.
            partners: For each root the node its click leads to ``[B]``. That very edge is taken
                out of the tree wherever it was drawn: it is what the model is to predict.
            first: The number of the first root in the batch of all ranks.
        """
        levels, at = [roots], side
        for level, count in enumerate(fan_outs, 1):
            above = levels[-1]
            # Rows are numbered through the whole batch, so that ranks draw as one would alone.
            start = first * (above.numel() // max(roots.numel(), 1))
            rows = rows_of(graph, at)
            drawn = draw_systematic(rows, above, count, call_key(key, level), start)
            if partners is not None and level != 2:  # at two, partners are gone from above
                shape = [-1] + [1] * level
                mine, theirs = roots.view(shape), partners.view(shape)
                if at != side:
                    mine, theirs = theirs, mine
                is_target = (above.unsqueeze(-1) == mine) & (drawn == theirs)
                drawn = drawn.masked_fill(is_target, rows.num_cols)
            levels.append(drawn)
            at = other(at)
        own = rows_of(graph, side)
        return cls(side, tuple(levels), (own.num_rows, own.num_cols))

    def followed_by(self, tree: ClickTree) -> ClickTree:
        """The roots of both, one after the other, with what is below them."""
        levels = zip(self.levels, tree.levels, strict=True)
        return ClickTree(self.side, tuple(torch.cat(pair) for pair in levels), self.sizes)

    def side_of(self, level: int) -> Side:
        """The side of a level's nodes."""
        return self.side if level % 2 == 0 else other(self.side)

    def real(self, level: int) -> Tensor:
        """Mask of places that hold a node, in the shape of the level."""
        return self.levels[level] < self.sizes[level % 2]


@dataclass(frozen=True)
class KeyedPermutation:
    """A Feistel network over pairs of numbers, one permutation for each key and epoch.

    A place is written as ``left * b + right`` with ``a * b`` little more than ``size``. Each round
    adds a hash of one half to the other, modulo its range, which can be undone. Results that fall
    beyond ``size`` go through again (cycle walking), so that what is left is a permutation of
    exactly ``size`` places. No place needs any other: 130 million of them take no memory, and a
    run may go on anywhere.

    Attributes:
        size: How many places there are.
    """

    size: int

    def __post_init__(self) -> None:
        if not 0 < self.size < 1 << 62:
            raise InputError(f"Expected at least one thing to permute; found {self.size}.")

    def __call__(self, places: Tensor, key: Tensor, epoch: Tensor) -> Tensor:
        """Permute ``places`` by the permutation of its ``epoch`` (of equal shape)."""
        keys = step_key(key, epoch)
        walked = self._once(places, keys)
        # About one in the root of the size walks on; reading that waits for the device, which is
        # why batches are made for many steps at once.
        while bool((beyond := walked >= self.size).any()):
            walked = torch.where(beyond, self._once(walked, keys), walked)
        return walked

    def _once(self, places: Tensor, keys: Tensor) -> Tensor:
        b = math.isqrt(self.size - 1) + 1
        a = -(-self.size // b)
        left, right = places // b, places % b
        for number in range(_ROUNDS):
            left = (left + self._hash(right, keys, 2 * number) % a) % a
            right = (right + self._hash(left, keys, 2 * number + 1) % b) % b
        return left * b + right

    @staticmethod
    def _hash(half: Tensor, keys: Tensor, call: int) -> Tensor:
        return mix(mix(half + call_key(keys, call))) & _POSITIVE


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
        weights: How often each click is to be drawn, relative to the others ``[clicks]``. An epoch
            has as many draws as there are clicks, spread over them by systematic sampling.
            (default: each once)
    """

    clicks: ClickGraph
    batch_size: int
    seed: int = 0
    draw: Draw = "clicks"
    exchange: Exchange = field(default_factory=Exchange)
    weights: Tensor | None = None

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
        """First place of this rank's part of a batch."""
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
        if self.weights is not None:
            click = self._weighted(click, place // size)
        ends = self.clicks.by_user.rowptr[1:]
        user = torch.searchsorted(ends, click, right=True)
        return user, self.clicks.by_user.col[click].long()

    @cached_property
    def _key(self) -> Tensor:
        return torch.tensor(stream_key(self.seed, "batches"), device=self.clicks.device)

    def _weighted(self, place: Tensor, epoch: Tensor) -> Tensor:
        """The clicks at equal distances on a line on which each has its weight as length."""
        turn = high_bits(mix(step_key(call_key(self._key, 3), epoch)), _HALF).double()
        ends, size = self._ends, self.clicks.num_clicks
        found = torch.searchsorted(
            ends, (place + turn / (1 << _HALF)) / size * ends[-1], right=True
        )
        return found.clamp(max=size - 1)

    @cached_property
    def _ends(self) -> Tensor:
        assert self.weights is not None
        return self.weights.double().cumsum(0)

    @cached_property
    def _active(self) -> Tensor:
        return (self.clicks.by_user.degree > 0).nonzero().flatten()

    def _of_users(self, place: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.clicks.by_user
        chance = mix(call_key(self._key, 1) + place)
        user = self._active[below(chance, self._active.numel())]
        begin = rows.rowptr[user]
        degree = rows.rowptr[user + 1] - begin
        chance = mix(call_key(self._key, 2) + place)
        return user, rows.col[begin + below(chance, degree)].long()


def item_shares(clicks: ClickGraph, weights: Tensor | None = None) -> Tensor:
    """The share of draws that falls on each item ``[items]``, in double precision."""
    if weights is None:
        return clicks.by_item.degree.double() / max(clicks.num_clicks, 1)
    found = weights.new_zeros(clicks.num_items, dtype=torch.float64)
    return (
        found.index_add_(0, clicks.by_user.col.long(), weights.double()) / weights.double().sum()
    )


def uniform_items(key: Tensor, count: int, num_items: int, first: int = 0) -> Tensor:
    """``count`` items with the same chance each, from place ``first`` on ``[count]``."""
    place = torch.arange(first, first + count, device=key.device)
    return below(mix(key + place), num_items)


def chances(key: Tensor, count: int, first: int = 0) -> Tensor:
    """``count`` uniform numbers from 0 to 1, from place ``first`` on ``[count]``."""
    place = torch.arange(first, first + count, device=key.device)
    return high_bits(mix(key + place), _HALF).double() / (1 << _HALF)


def unclicked_items(
    key: Tensor, users: Tensor, clicks: CSRGraph, pairs: Tensor, first: int = 0
) -> Tensor:
    """For each user an item the user has not clicked, all of them with the same chance.

    Four are drawn and the first that fits is taken; a user for whom none fits (one in a billion
    draws if they have clicked half a percent of all items) gets a clicked one. Shapes are fixed.

    Args:
        key: 64-bit key of this draw.
        users: Users ``[B]``.
        clicks: The items of every user.
        pairs: ``user * num_items + item`` of every click, ascending.
        first: The number of the first user in the batch of all ranks.
    """
    chosen = users
    for attempt in range(_TRIES, 0, -1):
        drawn = uniform_items(call_key(key, attempt), users.numel(), clicks.num_cols, first)
        if attempt == _TRIES:
            chosen = drawn
            continue
        wanted = users * clicks.num_cols + drawn
        place = torch.searchsorted(pairs, wanted).clamp(max=pairs.numel() - 1)
        chosen = torch.where(pairs[place] == wanted, chosen, drawn)
    return chosen
