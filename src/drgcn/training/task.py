"""What is trained on, validated on and tested on: one graph, or several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from drgcn.errors import InputError
from drgcn.training.objective import Objective, objective_for

Prepare = Callable[[Data], tuple[Any, ...]]


@dataclass(frozen=True)
class Part:
    """One forward pass: what goes in, and which of the nodes that come out are looked at."""

    inputs: tuple[Any, ...]
    nodes: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Task:
    """The parts of a dataset.

    With masks on one graph, all parts see that graph (transductive). If ``data.graph`` says
    which of several graphs each node belongs to, a part sees the graphs of its own nodes and no
    other (inductive), each with its number in ``batch``.

    Attributes:
        train: One part for every step of an epoch, in order.
        val: Decides which epoch is kept.
        test: Looked at once.
        objective: Loss and metric.
    """

    train: tuple[Part, ...]
    val: Part
    test: Part
    objective: Objective

    @classmethod
    def from_data(
        cls,
        data: Data,
        prepare: Prepare,
        device: torch.device,
        graphs_per_step: int | None = None,
    ) -> Task:
        """Cuts ``data`` into parts, each prepared once.

        Args:
            data: A graph with ``y`` and three masks; ``graph`` [nodes] if it is several.
            prepare: Makes the arguments of the model's ``forward``.
            device: Where the parts are put.
            graphs_per_step: Training graphs in each step. (default: all)
        """
        nodes = {part: _nodes(data, part) for part in ("train", "val", "test")}
        graph = data.get("graph")
        if graph is None:
            if graphs_per_step is not None:
                raise InputError(
                    "Expected data.graph, the graph of each node, to train on some graphs at a "
                    "time; found none. Leave out graphs_per_step, or use drgcn.data.unite."
                )
            inputs = _to(prepare(data), device)
            whole = {
                part: Part(inputs, index.to(device), data.y[index].to(device))
                for part, index in nodes.items()
            }
            return cls((whole["train"],), whole["val"], whole["test"], objective_for(data.y))
        if graphs_per_step is not None and graphs_per_step < 1:
            raise InputError(f"Expected at least one graph per step; found {graphs_per_step}.")

        def part(name: str, graphs: Tensor) -> Part:
            batch, kept = _select(data, graphs)
            index = data[f"{name}_mask"][kept].nonzero().flatten()
            inputs = _to(prepare(batch), device)
            return Part(inputs, index.to(device), batch.y[index].to(device))

        graphs = {name: graph[index].unique() for name, index in nodes.items()}
        steps = graphs["train"].split(graphs_per_step or len(graphs["train"]))
        return cls(
            tuple(part("train", step) for step in steps),
            part("val", graphs["val"]),
            part("test", graphs["test"]),
            objective_for(data.y),
        )


def tested_inputs(data: Data, prepare: Prepare, device: torch.device) -> tuple[Any, ...]:
    """What a model is tested on: the one graph, or the graphs of the test nodes."""
    graph = data.get("graph")
    if graph is not None:
        data, _ = _select(data, graph[data.test_mask].unique())
    return _to(prepare(data), device)


def _select(data: Data, graphs: Tensor) -> tuple[Data, Tensor]:
    """Some of the graphs of a union as a batch of their own, and the nodes that were kept."""
    kept = torch.isin(data.graph, graphs).nonzero().flatten()
    edge_index, _ = subgraph(kept, data.edge_index, relabel_nodes=True, num_nodes=data.num_nodes)
    x = data.x.to_dense()[kept] if data.x.layout != torch.strided else data.x[kept]
    batch = torch.searchsorted(graphs, data.graph[kept])
    return Data(x=x, edge_index=edge_index, y=data.y[kept], batch=batch), kept


def _nodes(data: Data, part: str) -> Tensor:
    mask = data.get(f"{part}_mask")
    if mask is None or not bool(mask.any()):
        raise InputError(
            f"Expected data.{part}_mask to mark at least one node; found "
            f"{'no such mask' if mask is None else 'an empty one'}. Give all three node sets."
        )
    nodes: Tensor = mask.nonzero().flatten()
    if bool((data.y[nodes] < 0).any()):
        raise InputError(f"Expected labels on all nodes of data.{part}_mask; some have y < 0.")
    return nodes


def _to(inputs: tuple[Any, ...], device: torch.device) -> tuple[Any, ...]:
    return tuple(value.to(device) if hasattr(value, "to") else value for value in inputs)
