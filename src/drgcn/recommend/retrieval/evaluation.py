"""A model's lists for all users that have something to find, measured over all items."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_split import ClickSplit
from drgcn.recommend.retrieval.exact_top import exact_top
from drgcn.recommend.retrieval.item_blocks import ItemBlocks
from drgcn.recommend.retrieval.popular_items import popular_items
from drgcn.recommend.retrieval.random_lists import random_values
from drgcn.recommend.retrieval.ranking_report import RankingReport
from drgcn.recommend.retrieval.seen_items import is_seen
from drgcn.recommend.retrieval.tiling import Tiling
from drgcn.recommend.retrieval.user_values import UserValues
from drgcn.sampling import CSRGraph

_PLACES = 2**26  # of all lists held at a time


def evaluate(
    user_vectors: Tensor,
    item_vectors: Tensor,
    split: ClickSplit,
    n: int = 50,
    *,
    exclude_seen: bool = False,
    metric: str = "ip",
    users: Tensor | None = None,
    chunk: int = 2**18,
    confidence: float = 0.95,
    baselines: bool = True,
    tiling: Tiling | None = None,
) -> RankingReport:
    """Ranks all items for every user with a target, and measures the lists of length ``n``.

    The work is done where the item vectors are. Users are brought there a chunk at a time, so
    their vectors may stay on the CPU.

    Args:
        user_vectors: ``[users, d]``.
        item_vectors: ``[items, d]``.
        split: What the model could see, and what it is to find.
        n: Length of a list; all items if there are fewer.
        exclude_seen: Leaves out what a user has clicked in training.
        metric: ``"ip"`` or ``"l2"``.
        users: Evaluates these users alone; those without a target are passed over.
        chunk: Users at a time; fewer if lists are very long.
        confidence: Of the intervals.
        baselines: Also measures popular and random lists; they are the same for every model.
        tiling: Layout of the search's first stage.
    """
    train, targets = split.train.by_user, split.targets.by_user
    _check(user_vectors, item_vectors, split)
    device = item_vectors.device
    train, targets = train.to(device), targets.to(device)
    users = torch.arange(targets.num_rows) if users is None else users.cpu()
    users = users[(targets.degree > 0).cpu()[users]]
    if not users.numel():
        raise InputError("Expected users with something to find; found none in this split.")
    blocks = ItemBlocks.of(item_vectors, metric, tiling)
    n = min(n, blocks.num_items)
    chunk = min(chunk, max(1, _PLACES // max(n, 1)))
    model: list[UserValues] = []
    popular: list[UserValues] = []
    chance: list[UserValues] = []
    widened = scanned = seen_targets = 0
    for some in users.split(chunk):
        vectors, some = user_vectors[some.to(user_vectors.device)].to(device), some.to(device)
        seen = train if exclude_seen else None
        top = exact_top(vectors, blocks, n, exclude=seen, exclude_rows=some)
        widened, scanned = widened + top.widened, scanned + top.scanned
        model.append(UserValues.of(some, top.items, targets, train))
        wanted, repeated = _targets(some, targets, train)
        seen_targets += int(repeated.sum())
        if not baselines:
            continue
        lists = popular_items(train, some, n, exclude_seen=exclude_seen)
        popular.append(UserValues.of(some, lists, targets, train))
        left_out = train.degree.long()[some] if exclude_seen else torch.zeros_like(wanted)
        findable = wanted - repeated if exclude_seen else wanted
        facts = (part.cpu() for part in (blocks.num_items - left_out, wanted, findable))
        chance.append(random_values(model[-1], n, *facts))
    values = UserValues.joined(model)
    popularity = UserValues.joined(popular) if popular else None
    return RankingReport(
        n=n,
        metric=metric,
        exclude_seen=exclude_seen,
        num_items=blocks.num_items,
        seen_targets=seen_targets,
        model=values.estimates(confidence),
        popularity=popularity.estimates(confidence) if popularity else {},
        chance=UserValues.joined(chance).estimates(confidence) if chance else {},
        widened=widened,
        scanned=scanned,
        values=values,
        popularity_values=popularity,
    )


def _targets(users: Tensor, targets: CSRGraph, train: CSRGraph) -> tuple[Tensor, Tensor]:
    """How many targets each user has, and how many of them are training clicks too."""
    start = targets.rowptr[users].long()
    wanted = targets.rowptr[users + 1].long() - start
    place = torch.arange(users.numel(), device=users.device)
    owner = place.repeat_interleave(wanted)
    before = wanted.cumsum(0) - wanted
    entry = torch.arange(owner.numel(), device=users.device) - before[owner] + start[owner]
    again = is_seen(train, users[owner], targets.col[entry].long()[:, None])[:, 0]
    return wanted, torch.bincount(owner[again], minlength=users.numel())


def _check(user_vectors: Tensor, item_vectors: Tensor, split: ClickSplit) -> None:
    found = (user_vectors.size(0), item_vectors.size(0))
    expected = (split.train.num_users, split.train.num_items)
    if found != expected or user_vectors.size(-1) != item_vectors.size(-1):
        raise InputError(
            f"Expected vectors of {expected[0]} users and {expected[1]} items with as many "
            f"columns; found shapes {list(user_vectors.shape)} and {list(item_vectors.shape)}."
        )
