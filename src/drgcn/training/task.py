"""What is trained on, validated on and tested on: one graph, or several."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from drgcn.errors import InputError
from drgcn.training.mini_batches import MiniBatches
from drgcn.training.objective import Objective, objective_for

Prepare = Callable[[Data], tuple[Any, ...]]
Inductive = Literal["train", "apart"]


@dataclass(frozen=True)
class Part:
    """One forward pass: what goes in, and which of the nodes that come out are looked at."""

    inputs: tuple[Any, ...]
    nodes: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Task:
    """The parts of a dataset.

    With masks on one graph, all parts see that graph (transductive), unless training is to see
    the training nodes alone (inductive). If ``data.graph`` says which of several graphs each node
    belongs to, a part sees the graphs of its own nodes and no other, each with its number in
    ``batch``.

    Attributes:
        train: One part for every step of an epoch, in order.
        val: Decides which epoch is kept.
        test: Looked at once.
        objective: Loss and metric.
        batches: How the nodes of the one training part are shared out over steps; ``None`` if
            every step takes a whole part.
    """

    train: tuple[Part, ...]
    val: Part
    test: Part
    objective: Objective
    batches: MiniBatches | None = None

    @classmethod
    def from_data(
        cls,
        data: Data,
        prepare: Prepare,
        device: torch.device,
        *,
        graphs_per_step: int | None = None,
        prepare_training: Prepare | None = None,
        inductive: Inductive | None = None,
        batch_size: int | None = None,
    ) -> Task:
        """Cuts ``data`` into parts, each prepared once.

        Args:
            data: A graph with ``y`` and three masks; ``graph`` [nodes] if it is several.
            prepare: Makes the arguments of the model's ``forward``.
            device: Where the parts are put.
            graphs_per_step: Training graphs in each step. (default: all)
            prepare_training: Makes what the training steps take, if that is something else.
            inductive: ``"train"``: training sees the training nodes and the edges between them,
                evaluation the whole graph; ``"apart"``: evaluation sees the training nodes and
                those it looks at. (default: every part sees the whole graph)
            batch_size: Training nodes in each step. (default: all)
        """
        nodes = {part: _nodes(data, part) for part in ("train", "val", "test")}
        prepare_training = prepare_training or prepare
        if data.get("graph") is not None:
            if inductive is not None or batch_size is not None:
                raise InputError(
                    "Expected neither inductive nor batch_size with data of several graphs, of "
                    "which each part sees its own; leave them out."
                )
            return cls._from_graphs(data, nodes, prepare, device, graphs_per_step)
        if graphs_per_step is not None:
            raise InputError(
                "Expected data.graph, the graph of each node, to train on some graphs at a "
                "time; found none. Leave out graphs_per_step, or use drgcn.data.unite."
            )
        if inductive is not None and inductive not in get_args(Inductive):
            raise InputError(f"Expected inductive 'train' or 'apart'; found {inductive!r}.")
        whole_number = isinstance(batch_size, int) and not isinstance(batch_size, bool)
        if batch_size is not None and not (whole_number and batch_size >= 1):
            raise InputError(
                f"Expected batch_size to be a whole number from 1 on; found {batch_size!r}."
            )
        batches = None if batch_size is None else MiniBatches(len(nodes["train"]), batch_size)
        if inductive is None:
            seen = dict.fromkeys(nodes, data)
        else:
            seen = {part: visible(data, part, inductive) for part in nodes}
        whole: dict[str, Part] = {}
        inputs: dict[tuple[int, Prepare], tuple[Any, ...]] = {}
        for part in nodes:
            make = prepare_training if part == "train" else prepare
            key = (id(seen[part]), make)
            if key not in inputs:
                inputs[key] = _prepared(make, seen[part], device)
            index = seen[part][f"{part}_mask"].nonzero().flatten()
            whole[part] = Part(inputs[key], index.to(device), seen[part].y[index].to(device))
        objective = objective_for(data.y)
        return cls((whole["train"],), whole["val"], whole["test"], objective, batches)

    @classmethod
    def _from_graphs(
        cls,
        data: Data,
        nodes: dict[str, Tensor],
        prepare: Prepare,
        device: torch.device,
        graphs_per_step: int | None,
    ) -> Task:
        if graphs_per_step is not None and graphs_per_step < 1:
            raise InputError(f"Expected at least one graph per step; found {graphs_per_step}.")

        def part(name: str, graphs: Tensor) -> Part:
            batch, kept = _select(data, graphs)
            index = data[f"{name}_mask"][kept].nonzero().flatten()
            inputs = _prepared(prepare, batch, device)
            return Part(inputs, index.to(device), batch.y[index].to(device))

        graphs = {name: data.graph[index].unique() for name, index in nodes.items()}
        steps = graphs["train"].split(graphs_per_step or len(graphs["train"]))
        return cls(
            tuple(part("train", step) for step in steps),
            part("val", graphs["val"]),
            part("test", graphs["test"]),
            objective_for(data.y),
        )


def visible(data: Data, part: str, inductive: Inductive) -> Data:
    """The graph that one part of an inductive task sees, with its own masks."""
    if part != "train" and inductive == "train":
        return data
    kept = (data.train_mask | data[f"{part}_mask"]).nonzero().flatten()
    masks = {f"{name}_mask": data[f"{name}_mask"][kept] for name in ("train", "val", "test")}
    return Data(**_induced(data, kept), **masks)


def tested_inputs(
    data: Data,
    prepare: Prepare,
    device: torch.device,
    inductive: Inductive | None = None,  # noqa: PT028 - no test, but by its name
) -> tuple[Any, ...]:
    """What a model is tested on: the one graph, or the graphs of the test nodes."""
    graph = data.get("graph")
    if graph is not None:
        data, _ = _select(data, graph[data.test_mask].unique())
    elif inductive is not None:
        data = visible(data, "test", inductive)
    return _prepared(prepare, data, device)


def _select(data: Data, graphs: Tensor) -> tuple[Data, Tensor]:
    """Some of the graphs of a union as a batch of their own, and the nodes that were kept."""
    kept = torch.isin(data.graph, graphs).nonzero().flatten()
    batch = torch.searchsorted(graphs, data.graph[kept])
    return Data(**_induced(data, kept), batch=batch), kept


def _induced(data: Data, kept: Tensor) -> dict[str, Tensor]:
    """Features, labels and inner edges of some nodes."""
    edge_index, _ = subgraph(kept, data.edge_index, relabel_nodes=True, num_nodes=data.num_nodes)
    x = data.x.to_dense()[kept] if data.x.layout != torch.strided else data.x[kept]
    return {"x": x, "edge_index": edge_index, "y": data.y[kept]}


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


def _prepared(prepare: Prepare, data: Data, device: torch.device) -> tuple[Any, ...]:
    """What a model takes, made where it will be used: a GPU sorts edges in no time."""
    there = copy.copy(data).to(device)  # PyG moves in place
    return tuple(v.to(device) if hasattr(v, "to") else v for v in prepare(there))
