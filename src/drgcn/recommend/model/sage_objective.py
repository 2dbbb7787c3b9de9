"""The loss of one step of ClickSAGE."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.click_tree import ClickTree, Side
from drgcn.recommend.model.encoded_attributes import ClickAttributes
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.losses import bpr_loss, softmax_loss
from drgcn.recommend.model.systematic_draw import check_drawable
from drgcn.recommend.model.train_settings import TrainSettings
from drgcn.recommend.model.uniform_items import uniform_items
from drgcn.streams import call_key


class SAGEObjective:
    """Draws both trees and the negatives of a batch, embeds all, and compares.

    Args:
        model: The model.
        attributes: What it prepared.
        graph: Whose clicks make neighbours.
        targets: The clicks to learn; their share per item is the chance of a column.
        settings: Loss, negatives, masks.
        exchange: The other ranks.
    """

    def __init__(
        self,
        model: ClickSAGE,
        attributes: ClickAttributes,
        graph: ClickGraph,
        targets: ClickGraph,
        settings: TrainSettings,
        exchange: Exchange,
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
        self.model, self.attributes, self.graph = model, attributes, graph
        self.settings, self.exchange = settings, exchange
        share = targets.by_item.degree.double() / max(targets.num_clicks, 1)
        self.log_q = share.clamp(min=1e-300).log().float()
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
                *(self.graph, side, roots, fan_outs, call_key(key, call)),
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
        return self._softmax(rows, columns, items, negatives, first)

    def _softmax(
        self, rows: Tensor, columns: Sequence[Tensor], items: Tensor, negatives: Tensor, first: int
    ) -> Tensor:
        ids = [self.exchange.gather_ids(part) for part in (items, negatives)]
        vectors = [self.exchange.gather(part) for part in columns]
        uniform = self.log_q.new_full((), 1 / self.graph.num_items).log()
        return softmax_loss(
            rows,
            torch.cat(vectors),
            items,
            torch.cat(ids),
            torch.cat([self.log_q[ids[0]], uniform.expand(ids[1].numel())]),
            first=first,
            logq=self.settings.logq,
            mask_hits=self.settings.mask_hits,
            dtype=self.dtype,
        )
