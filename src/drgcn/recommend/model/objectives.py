"""Settings of training as plain values, and the loss of one step of each model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model.encoder import ClickAttributes
from drgcn.recommend.model.lightgcn import AttributedLightGCN, LightGCN
from drgcn.recommend.model.losses import LogQ, bpr_loss, softmax_loss
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.sampling import (
    ClickTree,
    Draw,
    Side,
    chances,
    check_drawable,
    item_shares,
    unclicked_items,
    uniform_items,
)
from drgcn.streams import call_key

Loss = Literal["softmax", "bpr"]


@dataclass(frozen=True)
class TrainSettings:
    """All that decides a run beside model and data.

    Attributes:
        seed: Of every draw of the run.
        epochs: How often each click is shown; parts of one are allowed.
        steps: Number of steps, in place of epochs.
        batch_size: Clicks in a step, over all ranks.
        lr: Learning rate of Adam.
        weight_decay: L2 coefficient: of all weights (SAGE), or of the embeddings of a batch, as
            LightGCN's authors have it.
        loss: Softmax over sampled items, or BPR.
        negatives: Items drawn uniformly as further columns of the softmax, over all ranks; BPR
            with SAGE takes its negatives from them.
        logq: See :func:`~drgcn.recommend.model.losses.softmax_loss`.
        mask_hits: Leave out columns that hold the user's item by accident.
        mask_target: Take the click that is to be predicted out of both trees.
        draw: See :class:`~drgcn.recommend.model.sampling.Positives`.
        bfloat16: Take products in bfloat16; weights and sums stay in single precision.
        half_life: Days after which a click is drawn half as often. (default: all as often)
    """

    seed: int = 0
    epochs: float = 1.0
    steps: int | None = None
    batch_size: int = 8192
    lr: float = 1e-3
    weight_decay: float = 0.0
    loss: Loss = "softmax"
    negatives: int = 1024
    logq: LogQ = "standard"
    mask_hits: bool = True
    mask_target: bool = True
    draw: Draw = "clicks"
    bfloat16: bool = False
    half_life: float | None = None

    def __post_init__(self) -> None:
        if self.half_life is not None and not 0 < self.half_life < math.inf:
            raise InputError(
                f"Expected a half-life of some days above zero; found {self.half_life}."
            )
        if self.half_life is not None and self.draw != "clicks":
            raise InputError(
                f"Expected batches of clicks (--draw clicks) with a half-life; found {self.draw}, "
                f"which draws each user as often."
            )
        if self.loss not in ("softmax", "bpr"):
            raise InputError(f"Expected loss to be softmax or bpr; found {self.loss!r}.")
        if not self.epochs > 0 or (self.steps is not None and self.steps < 1):
            raise InputError(
                f"Expected some training; found {self.epochs} epochs and {self.steps} steps."
            )
        if not self.lr > 0 or self.weight_decay < 0 or self.negatives < 0:
            raise InputError(
                f"Expected lr above zero, weight_decay and negatives not below; found "
                f"{self.lr}, {self.weight_decay} and {self.negatives}."
            )


class _SampledObjective:
    """Loss of users against the items of a batch and others, those of all ranks.

    Args:
        targets: The clicks to learn; their share per item is the chance of a column.
        settings: Loss, negatives, masks.
        exchange: The other ranks.
        weights: How often each target is drawn, see :class:`Positives`.
    """

    def __init__(
        self,
        targets: ClickGraph,
        settings: TrainSettings,
        exchange: Exchange,
        weights: Tensor | None,
    ) -> None:
        self.settings, self.exchange = settings, exchange
        self.log_q = item_shares(targets, weights).clamp(min=1e-300).log().float()

    def _softmax(
        self,
        rows: Tensor,
        items: Tensor,
        negatives: Tensor,
        columns: Callable[[Tensor], Tensor],
        first: int,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """The softmax of users ``rows``; ``columns`` gives the vectors of items of all ranks."""
        own, others = (self.exchange.gather_ids(part) for part in (items, negatives))
        uniform = self.log_q.new_full((), 1 / self.log_q.numel()).log()
        ids = torch.cat([own, others])
        return softmax_loss(
            rows,
            columns(ids),
            items,
            ids,
            torch.cat([self.log_q[own], uniform.expand(others.numel())]),
            first=first,
            logq=self.settings.logq,
            mask_hits=self.settings.mask_hits,
            dtype=dtype,
        )


class SAGEObjective(_SampledObjective):
    """Draws both trees and the negatives of a batch, embeds all, and compares.

    Args:
        model: The model.
        attributes: What it prepared.
        graph: Whose clicks make neighbours.
        targets: The clicks to learn; their share per item is the chance of a column.
        settings: Loss, negatives, masks.
        exchange: The other ranks.
        weights: How often each target is drawn, see :class:`Positives`.
    """

    def __init__(
        self,
        model: ClickSAGE,
        attributes: ClickAttributes,
        graph: ClickGraph,
        targets: ClickGraph,
        settings: TrainSettings,
        exchange: Exchange,
        weights: Tensor | None = None,
    ) -> None:
        if settings.negatives % exchange.size:
            raise InputError(
                f"Expected a number of negatives divisible by {exchange.size} ranks; found "
                f"{settings.negatives}."
            )
        if settings.loss == "bpr" and not settings.negatives:
            raise InputError("Expected negatives for the loss bpr; found none.")
        for rows in (graph.by_user, graph.by_item):
            check_drawable(rows, max(model.fan_outs))
        super().__init__(targets, settings, exchange, weights)
        self.model, self.attributes, self.graph = model, attributes, graph
        self.dtype = torch.bfloat16 if settings.bfloat16 else None

    def __call__(self, users: Tensor, items: Tensor, key: Tensor) -> Tensor:
        """The loss of a batch of clicks of this rank.

        Args:
            users: Users ``[B]``.
            items: Their items ``[B]``.
            key: 64-bit key of this step.
        """
        rank, size = self.exchange.rank, self.exchange.size
        own, extra = users.numel(), self.settings.negatives // size
        negatives = uniform_items(call_key(key, 100), extra, self.graph.num_items, rank * extra)
        masked = self.settings.mask_target
        fan_outs, first = self.model.fan_outs, rank * own

        def tree(side: Side, roots: Tensor, call: int, start: int, to: Tensor | None) -> ClickTree:
            partners = to if masked else None
            return ClickTree.draw(
                self.graph,
                side,
                roots,
                fan_outs,
                call_key(key, call),
                partners=partners,
                first=start,
            )

        of_items = tree("item", items, 300, first, users)
        if extra:  # in one go with the items of the batch: fewer and larger kernels
            of_items = of_items.followed_by(tree("item", negatives, 400, rank * extra, None))
        found = self.model(
            [tree("user", users, 200, first, items), of_items],
            self.attributes,
            counted=(own, own),
            exchange=self.exchange,
            dtype=self.dtype,
        )
        columns = found[1].split([own, extra])
        rows = found[0] / self.model.temperature
        if self.settings.loss == "bpr":
            place = torch.arange(first, first + own, device=users.device)
            opposed = self.exchange.gather(columns[1])
            return bpr_loss(
                rows, columns[0], opposed.index_select(0, place % self.settings.negatives)
            )

        def gathered(_: Tensor) -> Tensor:
            return torch.cat([self.exchange.gather(part) for part in columns])

        return self._softmax(rows, items, negatives, gathered, first, self.dtype)


class LightGCNObjective(_SampledObjective):
    r"""Propagates over the whole graph, then compares the users and items of a batch.

    To the loss comes :math:`\frac{\lambda}{2B} \sum (\lVert \mathbf{e}_u \rVert^2 + \lVert
    \mathbf{e}_i \rVert^2 + \lVert \mathbf{e}_j \rVert^2)` over the batch's users, items and
    negatives, with embeddings as they are before propagation, as the authors have it.

    Args:
        model: The model.
        graph: The clicks it propagates over.
        targets: The clicks to learn; negatives of BPR are none of them.
        settings: Loss, negatives, decay.
        exchange: The other ranks.
        attributes: What a model with attributes prepared; a share of its users is then embedded
            by attributes alone, so that it learns what to do with users without clicks.
        weights: How often each target is drawn, see :class:`Positives`.
    """

    def __init__(
        self,
        model: LightGCN,
        graph: ClickGraph,
        targets: ClickGraph,
        settings: TrainSettings,
        exchange: Exchange,
        attributes: ClickAttributes | None = None,
        weights: Tensor | None = None,
    ) -> None:
        super().__init__(targets, settings, exchange, weights)
        self.model = model
        if isinstance(model, AttributedLightGCN):
            assert attributes is not None
            self.inputs = model.inputs(graph, attributes)
        else:
            self.adjacency = model.prepare(graph)
        self.clicks = targets.by_user
        self.pairs = targets.pairs()

    def __call__(self, users: Tensor, items: Tensor, key: Tensor) -> Tensor:
        """The loss of a batch of clicks of this rank.

        Args:
            users: Users ``[B]``.
            items: Their items ``[B]``.
            key: 64-bit key of this step.
        """
        first = self.exchange.rank * users.numel()
        more: Tensor | float
        # The gradient of `index_select` is one kernel of sums; those of other ways sort first.
        if isinstance(self.model, AttributedLightGCN):
            found = self.model.vectors(self.inputs)
            all_items, more = found.items, self.model.shrinkage * found.spread
            as_cold = chances(call_key(key, 500), users.numel(), first) < self.model.cold_share
            rows = torch.where(
                as_cold[:, None],
                found.cold.index_select(0, users),
                found.users.index_select(0, users),
            )
        else:
            all_users, all_items = self.model(self.adjacency)
            rows, more = all_users.index_select(0, users), 0.0
        if self.settings.loss == "bpr":
            negatives = unclicked_items(call_key(key, 100), users, self.clicks, self.pairs, first)
            columns = all_items.index_select(0, torch.cat([items, negatives]))
            of_items, of_negatives = columns.split(items.numel())
            loss = bpr_loss(rows, of_items, of_negatives)
        else:
            count = self.settings.negatives // self.exchange.size
            start = self.exchange.rank * count
            negatives = uniform_items(call_key(key, 100), count, self.model.num_items, start)

            def of(ids: Tensor) -> Tensor:
                return all_items.index_select(0, ids)

            loss = self._softmax(rows / self.model.temperature, items, negatives, of, first)
        return loss + self._penalty(users, items, negatives) + more

    def _penalty(self, users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
        nodes = torch.cat([users, self.model.num_users + torch.cat([items, negatives])])
        own = self.model.embeddings.index_select(0, nodes)
        return self.settings.weight_decay / 2 * own.square().sum() / users.numel()
