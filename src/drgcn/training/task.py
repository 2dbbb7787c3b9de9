"""Tasks: training, validation and test parts of a dataset, with loss and metric."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from drgcn.errors import InputError
from drgcn.streams import random_uniform, step_key
from drgcn.training.inputs import PARTS, Prepare, checked_data
from drgcn.training.objectives import (
    LossChoice,
    MetricChoice,
    Objective,
    kind_meant,
    objective_for,
)

# Graphs that the parts of an inductive task see, see :func:`drgcn.fit`.
Inductive = Literal["train", "apart"]
_OF_EDGES = ("edge_weight", "edge_attr", "edge_type")


def l2_penalty(parameters: list[Tensor], weight_decay: float) -> Tensor | float:
    """Return ``weight_decay / 2`` times the squared norm, per seed, of stacked parameters."""
    return 0.5 * weight_decay * sum(p.flatten(1).square().sum(1) for p in parameters)


@dataclass(frozen=True)
class Part:
    """One forward pass: its arguments, the nodes that are scored, their labels, and the number of
    all nodes that the model sees."""

    inputs: tuple[Any, ...]
    nodes: Tensor
    labels: Tensor
    size: int


@dataclass(frozen=True)
class Task:
    """Training, validation and test parts of a dataset.

    With masks on one graph, all parts see that graph (transductive), unless training is to see
    the training nodes alone (inductive). If ``data.graph`` says which of several graphs each node
    belongs to, a part sees the graphs of its own nodes and no other, each with its number in
    ``batch``.

    Attributes:
        train: One part for every step of an epoch, in order.
        val: Decides which epoch is kept.
        test: Scored once, at the end.
        objective: Loss and metric.
        batches: Batches of the nodes of the one training part; ``None`` if every step takes a
            whole part.
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
        split: int | None = None,
        graphs_per_step: int | None = None,
        prepare_training: Prepare | None = None,
        inductive: Inductive | None = None,
        batch_size: int | None = None,
        loss: LossChoice = None,
        metric: MetricChoice = None,
    ) -> Task:
        """Cut ``data`` into parts, each prepared once.

        Args:
            data: A graph with ``y`` and three masks; ``graph`` [nodes] if it is several.
            prepare: Makes the arguments of the model's ``forward``.
            device: Device of the parts.
            split: Column of masks of several splits.
            graphs_per_step: Training graphs in each step. (default: all)
            prepare_training: Makes the arguments of training steps, if they are others.
            inductive: ``"train"``: training sees the training nodes and the edges between them,
                evaluation the whole graph; ``"apart"``: evaluation sees the training nodes and
                those it looks at. (default: every part sees the whole graph)
            batch_size: Training nodes in each step. (default: all)
            loss: Name of a loss, or a function.
            metric: Name of a metric, or a function.
        """
        data, objective = labelled_data(data, split, loss, metric, device)
        nodes = {part: data[f"{part}_mask"].nonzero().flatten() for part in PARTS}
        prepare_training = prepare_training or prepare
        if data.get("graph") is not None:
            if inductive is not None or batch_size is not None:
                raise InputError(
                    "Expected neither inductive nor batch_size with data of several graphs, of "
                    "which each part sees its own; leave them out."
                )
            return cls._from_graphs(data, nodes, objective, prepare, device, graphs_per_step)
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
            labels = seen[part].y[index].to(device)
            whole[part] = Part(inputs[key], index.to(device), labels, int(seen[part].num_nodes))
        return cls((whole["train"],), whole["val"], whole["test"], objective, batches)

    @classmethod
    def _from_graphs(
        cls,
        data: Data,
        nodes: dict[str, Tensor],
        objective: Objective,
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
            return Part(inputs, index.to(device), batch.y[index].to(device), len(kept))

        graphs = {name: data.graph[index].unique() for name, index in nodes.items()}
        steps = graphs["train"].split(graphs_per_step or len(graphs["train"]))
        return cls(
            tuple(part("train", step) for step in steps),
            part("val", graphs["val"]),
            part("test", graphs["test"]),
            objective,
        )


def labelled_data(
    data: Data,
    split: int | None = None,
    loss: LossChoice = None,
    metric: MetricChoice = None,
    device: torch.device | str = "cpu",
) -> tuple[Data, Objective]:
    """Return a checked graph, and the objective of the labels of its parts."""
    kind = kind_meant(loss, metric, data.get("y") if isinstance(data, Data) else None)
    data = checked_data(data, split, kind)
    parts = torch.cat([data.y[data[f"{part}_mask"]] for part in PARTS])
    return data, objective_for(parts, loss, metric, kind=kind, device=device)


def visible(data: Data, part: str, inductive: Inductive) -> Data:
    """Return the graph that one part of an inductive task sees, with its own masks."""
    if part != "train" and inductive == "train":
        return data
    kept = (data.train_mask | data[f"{part}_mask"]).nonzero().flatten()
    masks = {f"{name}_mask": data[f"{name}_mask"][kept] for name in PARTS}
    return Data(**_induced(data, kept), **masks)


def tested_inputs(
    data: Data,
    prepare: Prepare,
    device: torch.device,
    inductive: Inductive | None = None,  # noqa: PT028 - no test, but by its name
) -> tuple[Any, ...]:
    """Return the arguments of the test pass: the one graph, or the graphs of the test nodes."""
    graph = data.get("graph")
    if graph is not None:
        data, _ = _select(data, graph[data.test_mask].unique())
    elif inductive is not None:
        data = visible(data, "test", inductive)
    return _prepared(prepare, data, device)


def _select(data: Data, graphs: Tensor) -> tuple[Data, Tensor]:
    """Return some graphs of a union as a batch of their own, and the nodes that were kept."""
    kept = torch.isin(data.graph, graphs).nonzero().flatten()
    batch = torch.searchsorted(graphs, data.graph[kept])
    return Data(**_induced(data, kept), batch=batch), kept


def _induced(data: Data, kept: Tensor) -> dict[str, Tensor]:
    """Return features, labels and inner edges of some nodes, with what belongs to these edges."""
    edge_index, _, inside = subgraph(
        kept,
        data.edge_index,
        relabel_nodes=True,
        num_nodes=data.num_nodes,
        return_edge_mask=True,
    )
    x = data.x.to_dense()[kept] if data.x.layout != torch.strided else data.x[kept]
    carried = [name for name in _OF_EDGES if data.get(name) is not None]
    of_edges = {name: data[name][inside] for name in carried}
    return {"x": x, "edge_index": edge_index, "y": data.y[kept], **of_edges}


def _prepared(prepare: Prepare, data: Data, device: torch.device) -> tuple[Any, ...]:
    """Prepare a model's arguments on the device that will use them, as a GPU sorts edges fast."""
    moved = copy.copy(data).to(device)  # PyG moves in place
    return tuple(v.to(device) if hasattr(v, "to") else v for v in prepare(moved))


@dataclass(frozen=True)
class MiniBatches:
    """Batches of equal size, shuffled anew for every seed and epoch.

    Nodes left over after the last whole batch are not used in that epoch, as in the code bases
    of FastGCN and AS-GCN; fewer nodes than one batch are one batch.

    Attributes:
        nodes: Number of nodes to train on.
        batch_size: Nodes in each step, if there are that many.
    """

    nodes: int
    batch_size: int

    @property
    def steps(self) -> int:
        """Number of steps of an epoch."""
        return max(self.nodes // self.batch_size, 1)

    @property
    def used_per_step(self) -> int:
        """Number of nodes in each step."""
        return min(self.batch_size, self.nodes)

    def order(self, keys: Tensor, epoch: Tensor) -> Tensor:
        """Draw the places of the nodes in each step ``[steps, seeds, batch]``, from one key per
        seed."""
        numbers = random_uniform(step_key(keys, epoch), self.nodes, torch.float64)
        used = min(self.steps * self.batch_size, self.nodes)
        return numbers.argsort(1)[:, :used].unflatten(1, (self.steps, -1)).transpose(0, 1)
