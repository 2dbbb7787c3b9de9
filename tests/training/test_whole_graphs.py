"""Classification and regression of whole graphs, whose answers are known."""

import copy
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool, global_mean_pool
from torch_geometric.utils import degree, to_undirected

from drgcn import compare, fit, insert_reweighting
from drgcn.errors import DrgcnError, DrgcnWarning, InputError
from drgcn.streams import stream_key
from drgcn.training import load_fit
from drgcn.training.task import Task


def graph(number, form=torch.tensor):
    """A ring with one chord, whose label says whether that closes a triangle.

    Degrees are the same either way, and nodes are numbered at random, so that no place tells.
    """
    draw = torch.Generator().manual_seed(number)
    size, label = int(torch.randint(6, 10, (1,), generator=draw)), number % 2
    order = torch.randperm(size, generator=draw)
    ring = torch.stack([torch.arange(size), torch.arange(size).roll(-1)])
    chord = torch.tensor([[0], [2 if label else 3]])
    pairs = order[torch.cat([ring, chord], 1)]
    edges = to_undirected(pairs)
    x = F.one_hot(degree(edges[0], size).long() - 2, 2).float()
    return Data(x=x, edge_index=edges, y=form([label]))


def parts(*counts, form=torch.tensor):
    ends = torch.tensor([0, *counts]).cumsum(0).tolist()
    return tuple(
        [graph(number, form) for number in range(start, end)]
        for start, end in itertools.pairwise(ends)
    )


class Pooled(nn.Module):
    def __init__(self, outputs=2):
        super().__init__()
        self.first, self.second = (
            GINConv(nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 16)))
            for width in (2, 16)
        )
        self.lin = nn.Linear(16, outputs)

    def forward(self, x, edge_index, batch, batch_size=None):
        h = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return self.lin(global_add_pool(h, batch, batch_size))


def test_triangles_are_recognised():
    lists = parts(40, 20, 40)
    result = fit(Pooled, lists, range(2), epochs=80, weight_decay=0.0)
    assert result.metric == "accuracy"
    assert min(result.test_accuracy) >= 0.97
    batch = Batch.from_data_list(lists[2])
    for model, found in zip(result.models, result.test_accuracy, strict=True):
        right = model(batch.x, batch.edge_index, batch.batch).argmax(-1) == batch.y
        assert float(right.float().mean()) == pytest.approx(found)
    assert result.predict(batch).votes.shape == (40, 2)


@pytest.mark.parametrize("graphs_per_step", [None, 4, 5])
def test_steps_are_those_of_a_loop_of_pyg(graphs_per_step):
    lists = parts(10, 4, 4)
    result = fit(Pooled, lists, [1], epochs=3, graphs_per_step=graphs_per_step)
    torch.manual_seed(stream_key(1, "initialisation"))
    model = Pooled()
    steps = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    size = graphs_per_step or 10
    losses = []
    for _ in range(3):
        found = []
        for start in range(0, 10, size):
            batch = Batch.from_data_list(lists[0][start : start + size])
            steps.zero_grad()
            loss = F.cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y)
            loss.backward()
            steps.step()
            found.append(loss.item())
        losses.append(sum(found) / len(found))
    assert result.curves["train_loss"][0].tolist() == pytest.approx(losses, rel=1e-4)


@pytest.mark.slow
def test_values_of_graphs_are_learnt(tmp_path):
    """Sums over nodes, which one linear layer and a sum hold."""
    draw = torch.Generator().manual_seed(0)
    lists = parts(40, 20, 20)
    for graph in (g for graphs in lists for g in graphs):
        graph.x = torch.randn(graph.num_nodes, 2, generator=draw)
        graph.y = torch.stack([graph.x.sum(), graph.x[:, 0].sum()])[None]
    result = fit(lambda: Pooled(2), lists, [0], epochs=150, metric="MAE")
    spread = torch.cat([g.y for g in lists[2]]).std()
    assert result.test_accuracy[0] < 0.4 * float(spread)
    again = load_fit(result.save(tmp_path / "fit"), lambda: Pooled(2))
    batch = Batch.from_data_list(lists[2])
    assert torch.equal(again.predict(batch).mean, result.predict(batch).mean)


@pytest.mark.parametrize(
    ("form", "outputs", "metric"),
    [
        (lambda y: torch.tensor(y[0]), 2, "accuracy"),
        (lambda y: torch.tensor([y]), 2, "accuracy"),
        (lambda y: torch.tensor([[y[0], 1]]), 2, "micro-F1"),
        (lambda y: torch.tensor([y[0] + 0.5]), 1, "R2"),
    ],
)
def test_labels_of_graphs_come_in_the_forms_of_pyg(form, outputs, metric):
    result = fit(lambda: Pooled(outputs), parts(6, 4, 4, form=form), [0], epochs=1)
    assert result.metric == metric


def test_every_block_sees_its_graphs_apart():
    """A gate pools each graph by itself: two in one batch are two alone."""
    made = []

    def gated():
        made.append(insert_reweighting(Pooled(), gate="dr"))
        return made[-1]

    lists = parts(10, 4, 4)
    for graph in (g for graphs in lists for g in graphs):
        graph.x = torch.randn(graph.num_nodes, 2)
    result = fit(gated, lists, range(2), epochs=3)
    batch = Batch.from_data_list(lists[2])
    for model in result.models:
        together = model(batch.x, batch.edge_index, batch.batch, 4)
        alone = [
            model(g.x, g.edge_index, torch.zeros(g.num_nodes, dtype=torch.long), 1)
            for g in lists[2]
        ]
        torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.slow
def test_gates_are_compared_on_graphs():
    found = compare(Pooled, parts(10, 6, 6), range(2), epochs=2)
    assert list(found.rows) == [None, "dr", "static", "constant"]
    assert found.guess.score == 0.5


class OfNodes(Pooled):
    def forward(self, x, edge_index):
        return self.lin(self.second(self.first(x, edge_index), edge_index))


class MeanPooled(Pooled):
    def forward(self, data):
        h = self.first(data.x, data.edge_index)
        return self.lin(global_mean_pool(h, data.batch))


def test_a_model_may_take_the_whole_batch():
    assert fit(MeanPooled, parts(6, 4, 4), [0], epochs=1).epochs_run == [1]


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda lists: (lists[0], [], lists[2]), {}, "val part to be a list"),
        (lambda lists: (lists[0], [HeteroData()], lists[2]), {}, "found HeteroData"),
        (lambda lists: [DataLoader(part) for part in lists], {}, "found DataBatch. Of a loader"),
        (lambda lists: lists, {"graphs_per_step": 0}, "at least one graph per step"),
        (lambda lists: lists, {"batch_size": 2}, "leave them out"),
        (lambda lists: lists[0], {}, "three lists of graphs"),
        (lambda lists: tuple(lists[0][:3]), {}, "three lists"),
        (lambda lists: (lists[0], lists[1], [Data(x=torch.ones(2, 2))]), {}, "labels in data.y"),
        (
            lambda lists: (lists[0], lists[1], [Data(x=torch.ones(3, 2), y=torch.ones(3))]),
            {},
            "one row per graph",
        ),
        (lambda lists: (lists[0], lists[1], [Data(y=torch.ones(1))]), {}, "features"),
        (
            lambda lists: (
                lists[0],
                lists[1],
                [*lists[2], Data(x=torch.ones(3, 5), y=torch.tensor([1]))],
            ),
            {},
            "the same attributes and widths",
        ),
    ],
)
def test_what_is_no_list_of_graphs_is_refused(change, options, words):
    if "batch_size" in options:
        from drgcn.nn import FastGCN as Model  # which samples

        def make():
            return Model(2, 4, 2)
    else:
        make = Pooled
    with pytest.raises(InputError, match=words):
        fit(make, change(parts(6, 4, 4)), [0], epochs=1, **options)


class Shuffled(list):
    """Graphs that come in another order whenever they are read."""

    def __iter__(self):
        return (self[place] for place in torch.randperm(len(self)).tolist())


def test_labels_are_those_of_the_graphs_read_with_them():
    shuffled = tuple(Shuffled(part) for part in parts(30, 30, 30))
    task = Task.from_data(shuffled, lambda batch: (batch,), torch.device("cpu"), graphs_per_step=7)
    for part in (*task.train, task.val, task.test):
        assert torch.equal(part.labels, part.inputs[0].y)


def test_graphs_in_two_parts_are_told():
    train, val, test = parts(8, 4, 4)
    with pytest.warns(DrgcnWarning, match="2 graphs in both the train and the test part"):
        fit(Pooled, (train, val, [*test[:2], copy.copy(train[0]), train[1]]), [0], epochs=1)


def test_scores_of_test_graphs_that_are_no_numbers_are_an_error():
    class OfSmall(Pooled):
        def forward(self, x, edge_index, batch):
            size = torch.bincount(batch)[:, None]
            return super().forward(x, edge_index, batch) * (20 - size).sqrt()

    lists = parts(8, 4, 4)
    large = Data(x=torch.rand(21, 2), edge_index=lists[0][0].edge_index, y=torch.tensor([1]))
    lists[2].append(large)
    with pytest.raises(DrgcnError, match=r"test part.* NaN .*seeds \[2\]"):
        fit(OfSmall, lists, [2], epochs=2)
    found = fit(OfSmall, lists, [0], grid={"lr": [0.01]}, epochs=2)
    assert math.isnan(found.test_accuracy[0])
    assert not math.isnan(found.val_accuracy[0])


def test_a_model_of_nodes_is_refused():
    with pytest.raises(InputError, match=r"scores \[graphs, classes\] of 4 graphs"):
        fit(OfNodes, parts(6, 4, 4), [0], epochs=1)
