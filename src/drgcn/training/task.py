"""Tasks on nodes, links and graphs: training, validation and test parts, loss and metric."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import is_undirected, subgraph

from drgcn._format import plural
from drgcn.errors import InputError, warn
from drgcn.gates import training_view
from drgcn.streams import random_uniform, step_key
from drgcn.training.calling import Prepare
from drgcn.training.inputs import (
    PARTS,
    check_features,
    check_labels,
    checked_count,
    checked_data,
    labels_as,
    labels_of,
    warn_of_one_hot,
)
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
# One graph with masks; or three, one a part, with pairs of nodes; or three lists of graphs.
TaskData: TypeAlias = Data | Sequence[Data] | Sequence[Sequence[Data]]


def l2_penalty(parameters: list[Tensor], weight_decay: float | Tensor) -> Tensor | float:
    """Return ``weight_decay / 2`` times the squared norm, per seed, of stacked parameters."""
    return 0.5 * weight_decay * sum(p.flatten(1).square().sum(1) for p in parameters)


@dataclass(frozen=True)
class Part:
    """One forward pass: its arguments, the nodes that are scored, their labels, and the number of
    all nodes that the model sees. In other tasks nodes are pairs of nodes, or graphs. Where every
    lane has a split of its own, nodes and labels have a first axis for lanes."""

    inputs: tuple[Any, ...]
    nodes: Tensor
    labels: Tensor
    size: int

    def scored(self, scores: Tensor) -> Tensor:
        """Return the scores ``[lanes, nodes, outputs]`` of the nodes, out of those of all."""
        if self.nodes.dim() == 1:
            return scores[:, self.nodes]
        return scores.gather(1, self.nodes[:, :, None].expand(-1, -1, scores.size(-1)))

    def of_lanes(self, lanes: Tensor) -> Part:
        """Return the part as some of the lanes see it."""
        if self.nodes.dim() == 1:
            return self
        return replace(self, nodes=self.nodes[lanes], labels=self.labels[lanes])


@dataclass(frozen=True)
class Task:
    """Training, validation and test parts of a dataset.

    With masks on one graph, all parts see that graph (transductive), unless training is to see
    the training nodes alone (inductive). If ``data.graph`` says which of several graphs each node
    belongs to, a part sees the graphs of its own nodes and no other, each with its number in
    ``batch``. Three graphs with ``edge_label_index`` are a task on pairs of nodes, and three lists
    of graphs one on whole graphs, each list a batch.

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
        data: TaskData,
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
            data: A graph with ``y`` and three masks, ``graph`` [nodes] if it is several; or three
                parts, see :func:`drgcn.fit`.
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
        if not isinstance(data, Data) and (is_links(data) or is_graphs(data)):
            if any(option is not None for option in (split, inductive, batch_size)):
                raise InputError(
                    "Expected neither split, inductive nor batch_size with three parts of data, "
                    "each of which sees its own; leave them out."
                )
            return cls._from_parts(data, prepare, device, graphs_per_step, loss, metric)
        data, objective = labelled_data(data, split, loss, metric, device)
        if data.get("graph") is not None:
            if inductive is not None or batch_size is not None:
                raise InputError(
                    "Expected neither inductive nor batch_size with data of several graphs, of "
                    "which each part sees its own; leave them out."
                )
            return cls._from_graphs(data, objective, prepare, device, graphs_per_step)
        if graphs_per_step is not None:
            raise InputError(
                "Expected data.graph, the graph of each node, to train on some graphs at a "
                "time; found none. Leave out graphs_per_step, or use drgcn.data.unite."
            )
        prepared = (prepare_training or prepare, prepare, prepare)
        return cls._from_graph(data, objective, prepared, device, inductive, batch_size)

    def on_split(
        self, data: Data, split: int | None, loss: LossChoice, metric: MetricChoice
    ) -> Task:
        """Return the task on another split of the one graph that all of its parts see."""
        device = self.val.nodes.device
        data, objective = labelled_data(data, split, loss, metric, device, known=True)
        (train,) = self.train
        parts = [
            _part_of(data, name, part.inputs, device)
            for name, part in zip(PARTS, (train, self.val, self.test), strict=True)
        ]
        return replace(self, train=(parts[0],), val=parts[1], test=parts[2], objective=objective)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of nodes in each part; tasks with the same can be :meth:`joined`."""
        return tuple(part.nodes.size(-1) for part in (*self.train, self.val, self.test))

    @staticmethod
    def joined(tasks: Sequence[Task]) -> Task:
        """Return the task in which each lane has the split of one of these."""
        first = tasks[0]
        if all(task is first for task in tasks):
            return first

        def join(parts: list[Part]) -> Part:
            nodes, labels = ([getattr(p, n) for p in parts] for n in ("nodes", "labels"))
            return replace(parts[0], nodes=torch.stack(nodes), labels=torch.stack(labels))

        return replace(
            first,
            train=(join([task.train[0] for task in tasks]),),
            val=join([task.val for task in tasks]),
            test=join([task.test for task in tasks]),
        )

    def of_lanes(self, lanes: Tensor) -> Task:
        """Return the task as some of the lanes see it."""
        return replace(
            self,
            train=tuple(part.of_lanes(lanes) for part in self.train),
            val=self.val.of_lanes(lanes),
            test=self.test.of_lanes(lanes),
        )

    @classmethod
    def _from_parts(
        cls,
        data: Any,
        prepare: Prepare,
        device: torch.device,
        graphs_per_step: int | None,
        loss: LossChoice,
        metric: MetricChoice,
    ) -> Task:
        # Read once, as what makes graphs when asked may make others the next time.
        parts: list[Any] = [part if isinstance(part, Data) else list(part) for part in data]
        labels, objective = part_labels(parts, loss, metric, device)
        if is_graphs(data):
            _warn_of_shared_graphs(parts)
        if is_links(data) and graphs_per_step is not None:
            raise InputError("Expected no graphs_per_step with pairs of nodes; leave it out.")
        size = len(parts[0]) if graphs_per_step is None else graphs_per_step
        if size < 1:
            raise InputError(f"Expected at least one graph per step; found {size}.")

        def part(graphs: Any, of_part: Tensor) -> Part:
            graph = graphs if isinstance(graphs, Data) else Batch.from_data_list(graphs)
            index = torch.arange(len(of_part), device=device)
            inputs = _prepared(prepare, graph, device)
            return Part(inputs, index, of_part.to(device), len(of_part))

        steps = [(parts[0], labels[0])]
        if is_graphs(data):
            starts = range(0, len(parts[0]), size)
            steps = [(parts[0][i : i + size], labels[0][i : i + size]) for i in starts]
        return cls(
            tuple(part(graphs, of_step) for graphs, of_step in steps),
            part(parts[1], labels[1]),
            part(parts[2], labels[2]),
            objective,
        )

    @classmethod
    def _from_graph(
        cls,
        data: Data,
        objective: Objective,
        prepare: tuple[Prepare, Prepare, Prepare],
        device: torch.device,
        inductive: Inductive | None,
        batch_size: int | None,
    ) -> Task:
        if inductive is not None and inductive not in get_args(Inductive):
            raise InputError(f"Expected inductive 'train' or 'apart'; found {inductive!r}.")
        batches = None
        if batch_size is not None:
            batch_size = checked_count(batch_size, "batch_size")
            batches = MiniBatches(int(data.train_mask.sum()), batch_size)
        inputs: dict[tuple[int, Prepare], tuple[Any, ...]] = {}
        graphs = [data if inductive is None else visible(data, name, inductive) for name in PARTS]
        parts = []
        for name, graph, make in zip(PARTS, graphs, prepare, strict=True):
            key = (id(graph), make)
            if key not in inputs:
                inputs[key] = _prepared(make, graph, device)
            parts.append(_part_of(graph, name, inputs[key], device))
        return cls((parts[0],), parts[1], parts[2], objective, batches)

    @classmethod
    def _from_graphs(
        cls,
        data: Data,
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

        graphs = {name: data.graph[data[f"{name}_mask"]].unique() for name in PARTS}
        steps = graphs["train"].split(graphs_per_step or len(graphs["train"]))
        return cls(
            tuple(part("train", step) for step in steps),
            part("val", graphs["val"]),
            part("test", graphs["test"]),
            objective,
        )


def _part_of(graph: Data, name: str, inputs: tuple[Any, ...], device: torch.device) -> Part:
    index = graph[f"{name}_mask"].nonzero().flatten()
    return Part(inputs, index.to(device), graph.y[index].to(device), int(graph.num_nodes))


def is_links(data: Any) -> bool:
    """Return whether data is three graphs with pairs of nodes, as of PyG's ``RandomLinkSplit``."""
    return _is_triple(data) and all(isinstance(part, Data) for part in data)


def is_graphs(data: Any) -> bool:
    """Return whether data is three lists or datasets of graphs."""
    return _is_triple(data) and not any(isinstance(part, Data | str) for part in data)


def _is_triple(data: Any) -> bool:
    return (
        isinstance(data, tuple | list)
        and len(data) == 3
        and all(hasattr(part, "__len__") for part in data)
    )


def graphs_in(data: Any) -> Iterator[Data]:
    """Yield the graphs of a task's data."""
    if isinstance(data, Data):
        yield data
    else:
        for part in data:
            yield from graphs_in(part)


def part_labels(
    data: Any, loss: LossChoice, metric: MetricChoice, device: torch.device | str = "cpu"
) -> tuple[list[Tensor], Objective]:
    """Return the labels of three parts with pairs of nodes or graphs, and their objective."""
    if is_links(data):
        labels = [_pair_labels(part, name) for part, name in zip(data, PARTS, strict=True)]
        _warn_of_seen_pairs(data)
        return labels, objective_for(labels[1], loss, metric, kind="links", device=device)
    found = [_graph_labels(graphs, name) for graphs, name in zip(data, PARTS, strict=True)]
    kind = kind_meant(loss, metric, found[0])
    for of_part, name in zip(found, PARTS, strict=True):
        check_labels(of_part, f"graphs of the {name} part", kind)
    labels = [labels_as(of_part, kind) for of_part in found]
    if len({of_part.shape[1:] for of_part in labels}) > 1:
        raise InputError("Expected as many labels of each graph in all three parts.")
    warn_of_one_hot(torch.cat(labels), kind)
    return labels, objective_for(torch.cat(labels), loss, metric, kind=kind, device=device)


def tested_labels(
    data: TaskData,
    split: int | None,
    loss: LossChoice,
    metric: MetricChoice,
) -> tuple[Tensor, Objective]:
    """Return the labels of the test part, and the objective of a task."""
    if is_links(data) or is_graphs(data):
        labels, objective = part_labels(data, loss, metric)
        return labels[2], objective
    graph, objective = labelled_data(data, split, loss, metric)
    return graph.y[graph.test_mask], objective


def _graph_labels(graphs: Sequence[Data], name: str) -> Tensor:
    wrong = next((g for g in graphs if not isinstance(g, Data) or isinstance(g, Batch)), None)
    if wrong is not None or not len(graphs):
        found = "none in it" if wrong is None else type(wrong).__name__
        advice = " Of a loader, give the dataset." if isinstance(wrong, Batch) else ""
        raise InputError(
            f"Expected the {name} part to be a list of PyG Data; found {found}.{advice}"
        )
    for graph in graphs:
        check_features(graph)
    try:
        batch = Batch.from_data_list(list(graphs))
    except (RuntimeError, KeyError, TypeError) as error:
        raise InputError(
            f"Expected graphs with the same attributes and widths in the {name} part, which PyG "
            f"can batch; found others: {str(error).splitlines()[0]}"
        ) from None
    return labels_of(batch.get("y"), len(graphs), "graph")


def _warn_of_shared_graphs(parts: Sequence[Sequence[Data]]) -> None:
    """Warn of graphs in two parts, which are told by the memory of their tensors."""

    def memory(value: Any) -> int:
        dense = isinstance(value, Tensor) and value.layout == torch.strided and value.numel()
        return value.data_ptr() if dense else id(value)

    found = [{(memory(g.x), memory(g.edge_index)) for g in graphs} for graphs in parts]
    for (first, one), (second, other) in combinations(zip(PARTS, found, strict=True), 2):
        if one & other:
            warn(
                f"{plural(len(one & other), 'graph')} in both the {first} and the {second} part: "
                f"results on them say little about unseen graphs."
            )


def _pair_labels(part: Data, name: str) -> Tensor:
    """Return the labels of pairs ``[pairs, 1]``; of training, with those that are drawn."""
    check_features(part)
    pairs, labels = part.get("edge_label_index"), part.get("edge_label")
    if not isinstance(pairs, Tensor) or pairs.dim() != 2 or len(pairs) != 2:
        raise InputError(
            f"Expected edge_label_index [2, pairs] in the {name} part, as RandomLinkSplit makes "
            f"it without split_labels; found none. For tasks on graphs, give three lists of them."
        )
    last = int(part.num_nodes or 0) - 1
    if bool(((pairs < 0) | (pairs > last) | pairs.is_floating_point()).any()):
        raise InputError(
            f"Expected edge_label_index of the {name} part to hold nodes from 0 to {last:,}, the "
            f"rows of its x; found {pairs.dtype} from {pairs.min():,} to {pairs.max():,}. Number "
            f"the nodes alike in all parts."
        )
    labels = torch.ones(pairs.size(1)) if labels is None and name == "train" else labels
    if not isinstance(labels, Tensor) or labels.shape != pairs.shape[1:] or not len(labels):
        raise InputError(f"Expected edge_label [pairs] in the {name} part; found another shape.")
    if not bool(((labels == 0) | (labels == 1)).all()):
        raise InputError(
            f"Expected edge_label of the {name} part to hold 1 for edges and 0 for other pairs; "
            f"found {labels.unique().tolist()[:5]}. Take edge_label off before RandomLinkSplit."
        )
    if name == "train" and bool(labels.all()):
        labels = torch.cat([labels, torch.zeros_like(labels)])
    return labels.float()[:, None]


def _warn_of_seen_pairs(parts: Sequence[Data]) -> None:
    """Warn of edges to predict that were seen before, and of negatives that are edges.

    Of an undirected graph either direction is the edge, also where a split took each for one.
    """
    edges = [_edges_known(part) for part in parts]
    nodes = max(int(part.num_nodes or 0) for part in parts)
    one_graph = all(_same(part.x, parts[0].x) for part in parts)  # else numbers are other nodes
    every = torch.cat([known for pair in edges for known in pair], 1).unique(dim=1)
    undirected = is_undirected(edges[0][0], num_nodes=nodes) or (
        one_graph and is_undirected(every, num_nodes=nodes)
    )

    def keys(pairs: Tensor) -> Tensor:
        source, target = pairs.sort(0).values if undirected else pairs
        return source * nodes + target

    advice = " Split an undirected graph by RandomLinkSplit(is_undirected=True)."
    advice = advice if undirected else ""
    for place, name in enumerate(PARTS[1:], start=1):
        part, (seen, asked) = parts[place], edges[place]
        earlier = [known for pair in edges[:place] for known in pair] if one_graph else []
        known = torch.cat([seen, *earlier], 1)
        shared = int(torch.isin(keys(asked), keys(known)).sum())
        if shared:
            warn(
                f"{shared:,} edges to predict in the {name} part are in its edge_index, which the "
                f"model sees, or among the edges of an earlier part: results on them say little "
                f"about unseen edges.{advice}"
            )
        others = part.edge_label_index[:, part.edge_label == 0].long()
        real = torch.cat([known, asked], 1)
        wrong = int(torch.isin(keys(others), keys(real)).sum())
        if wrong:
            warn(
                f"{wrong:,} pairs of the {name} part that are labelled as no edges are edges: a "
                f"model that finds them is scored as wrong. Draw them anew."
            )


def _same(x: Tensor, other: Tensor) -> bool:
    """Return whether two parts have the same features; sparse ones only by identity."""
    dense = x.layout == other.layout == torch.strided and x.device == other.device
    return x is other or (dense and torch.equal(x, other))


def _edges_known(part: Data) -> tuple[Tensor, Tensor]:
    """Return the edges that a model sees in a part, and those among its pairs."""
    labels = part.get("edge_label")
    pairs = part.edge_label_index
    pairs = pairs if labels is None else pairs[:, labels == 1]
    return part.edge_index.long(), pairs.long()


def labelled_data(
    data: Data,
    split: int | None = None,
    loss: LossChoice = None,
    metric: MetricChoice = None,
    device: torch.device | str = "cpu",
    *,
    known: bool = False,
) -> tuple[Data, Objective]:
    """Return a checked graph, and the objective of the labels of its parts; features and edges
    that are ``known`` from another split are not checked again."""
    kind = kind_meant(loss, metric, data.get("y") if isinstance(data, Data) else None)
    data = checked_data(data, split, kind, known=known)
    parts = torch.cat([data.y[data[f"{part}_mask"]] for part in PARTS])
    return data, objective_for(parts, loss, metric, kind=kind, device=device)


def visible(data: Data, part: str, inductive: Inductive) -> Data:
    """Return the graph that one part of an inductive task sees, with its own masks."""
    if part != "train" and inductive == "train":
        return data
    kept = (data.train_mask | data[f"{part}_mask"]).nonzero().flatten()
    masks = {f"{name}_mask": data[f"{name}_mask"][kept] for name in PARTS}
    return Data(**_induced(data, kept), **masks)


def seen_in_training(
    data: TaskData,
    split: int | None,
    inductive: Inductive | None,
    choices: tuple[LossChoice, MetricChoice],
    device: torch.device,
    other: Data | None = None,
) -> Data:
    """Return the graphs that training sees, without labels but those of training nodes.

    ``other`` is what it returned of another split: features and edges that both have are neither
    checked nor moved again.
    """
    if not isinstance(data, Data):
        raise InputError(
            "Expected one graph with a training mask for a gate that is measured on training "
            "data; found pairs of nodes or graphs. Use another gate, such as 'dr'."
        )
    data, _ = labelled_data(data, split, *choices, known=other is not None)
    if data.get("graph") is not None:
        selected, kept = _select(data, data.graph[data.train_mask].unique())
        data = selected.update({"train_mask": data.train_mask[kept]})
    elif inductive is not None:
        data = visible(data, "train", inductive)
    elif other is not None:
        shared = ("x", "edge_index", "edge_weight")
        data.update({name: other[name] for name in shared if other.get(name) is not None})
    return training_view(data).to(device)


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
    if data.edge_index is None:
        raise InputError(
            "Expected data.edge_index, of which a part sees the edges between its nodes; found "
            "none. Make it of data.adj_t: row, col, _ = data.adj_t.t().coo(); data.edge_index = "
            "torch.stack([row, col])."
        )
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
