"""New models for a set of clicks, their weights drawn from a seed."""

from __future__ import annotations

from typing import Any

import torch

from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.attribute_summary import AttributeSummary
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.streams import stream_key


def build_sage(
    data: ClickData, graph: ClickGraph | None = None, seed: int = 0, **options: Any
) -> ClickSAGE:
    """The model with statistics of the attributes of nodes that occur in the training clicks.

    Args:
        data: Attributes, and clicks if no graph is given.
        graph: The training clicks.
        seed: Of the weights; torch's own generator is left as it was.
        options: Arguments of :class:`ClickSAGE`.
    """
    graph = data.graph if graph is None else graph
    users = AttributeSummary.of(data.users, graph.num_users, graph.by_user.degree > 0)
    items = AttributeSummary.of(data.items, graph.num_items, graph.by_item.degree > 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "initialisation"))
        return ClickSAGE(users, items, **options)


def build_lightgcn(graph: ClickGraph, seed: int = 0, **options: Any) -> LightGCN:
    """The model for the users and items of a graph.

    Args:
        graph: The training clicks.
        seed: Of the embeddings.
        options: Arguments of :class:`LightGCN`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "initialisation"))
        return LightGCN(graph.num_users, graph.num_items, **options)
