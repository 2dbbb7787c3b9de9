"""The loss of one step of LightGCN."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.losses import bpr_loss, softmax_loss
from drgcn.recommend.model.train_settings import TrainSettings
from drgcn.recommend.model.uniform_items import unclicked_items, uniform_items
from drgcn.streams import call_key


class LightGCNObjective:
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
    """

    def __init__(
        self,
        model: LightGCN,
        graph: ClickGraph,
        targets: ClickGraph,
        settings: TrainSettings,
        exchange: Exchange,
    ) -> None:
        self.model, self.settings, self.exchange = model, settings, exchange
        self.adjacency = model.prepare(graph)
        self.clicks = targets.by_user
        rows = torch.arange(targets.num_users, device=targets.device)
        user = rows.repeat_interleave(self.clicks.degree, output_size=targets.num_clicks)
        self.pairs = user * targets.num_items + self.clicks.col
        share = targets.by_item.degree.double() / max(targets.num_clicks, 1)
        self.log_q = share.clamp(min=1e-300).log().float()

    def __call__(self, users: Tensor, items: Tensor, key: Tensor) -> Tensor:
        """The loss of a batch of clicks of this rank.

        Args:
            users: Users ``[B]``.
            items: Their items ``[B]``.
            key: 64-bit key of this step.
        """
        all_users, all_items = self.model(self.adjacency)
        first = self.exchange.rank * users.numel()
        # The gradient of `index_select` is one kernel of sums; those of other ways sort first.
        rows = all_users.index_select(0, users)
        if self.settings.loss == "bpr":
            negatives = unclicked_items(call_key(key, 100), users, self.clicks, self.pairs, first)
            columns = all_items.index_select(0, torch.cat([items, negatives]))
            of_items, of_negatives = columns.split(items.numel())
            loss = bpr_loss(rows, of_items, of_negatives)
        else:
            count = self.settings.negatives // self.exchange.size
            start = self.exchange.rank * count
            negatives = uniform_items(call_key(key, 100), count, self.model.num_items, start)
            loss = self._softmax(rows / self.model.temperature, all_items, items, negatives, first)
        return loss + self._penalty(users, items, negatives)

    def _softmax(
        self, rows: Tensor, vectors: Tensor, items: Tensor, negatives: Tensor, first: int
    ) -> Tensor:
        ids = [self.exchange.gather_ids(part) for part in (items, negatives)]
        uniform = self.log_q.new_full((), 1 / self.model.num_items).log()
        both = torch.cat(ids)
        return softmax_loss(
            rows,
            vectors.index_select(0, both),
            items,
            both,
            torch.cat([self.log_q[ids[0]], uniform.expand(ids[1].numel())]),
            first=first,
            logq=self.settings.logq,
            mask_hits=self.settings.mask_hits,
        )

    def _penalty(self, users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
        nodes = torch.cat([users, self.model.num_users + torch.cat([items, negatives])])
        own = self.model.embeddings.index_select(0, nodes)
        return self.settings.weight_decay / 2 * own.square().sum() / users.numel()
