"""Items drawn uniformly, each a function of a key and its place."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.sampling.graph import CSRGraph
from drgcn.streams import call_key, mix

_HALF = 32
_LOW = (1 << _HALF) - 1
_TRIES = 4


def uniform_items(key: Tensor, count: int, num_items: int, first: int = 0) -> Tensor:
    """``count`` items with the same chance each, from place ``first`` on ``[count]``."""
    place = torch.arange(first, first + count, device=key.device)
    return ((mix(key + place) >> _HALF) & _LOW) * num_items >> _HALF


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
