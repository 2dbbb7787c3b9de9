"""``fit`` as users of PyG open it: their masks, labels, models, optimisers and mistakes."""

import json
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam, lr_scheduler
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    GAT,
    GCN,
    MLP,
    GCNConv,
    GraphSAGE,
    SAGEConv,
    SGConv,
    SuperGATConv,
    global_mean_pool,
)
from torch_geometric.nn import Sequential as PyGSequential
from torch_geometric.utils import dropout_edge

from drgcn import fit
from drgcn import nn as own
from drgcn.data import unite
from drgcn.errors import DrgcnWarning, InputError
from drgcn.streams import stream_key
from drgcn.training import BestValidation, Patience, RisingLoss, StepwiseDecay, load_fit
from drgcn.training.calling import try_model
from drgcn.training.inputs import checked_numbers, expect_elementwise

NODES, FEATURES, CLASSES = 60, 7, 3


@pytest.fixture(scope="module")
def graph():
    """A graph as a loader of Planetoid gives it."""
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (NODES,), generator=draw)
    y[:CLASSES] = torch.arange(CLASSES)
    centres = torch.randn(CLASSES, FEATURES, generator=draw)
    x = centres[y] + 0.7 * torch.randn(NODES, FEATURES, generator=draw)
    parts = torch.rand(NODES, generator=draw).argsort().argsort()
    return Data(
        x=x,
        edge_index=torch.randint(NODES, (2, 4 * NODES), generator=draw),
        y=y,
        train_mask=parts < 25,
        val_mask=(parts >= 25) & (parts < 40),
        test_mask=parts >= 40,
    )


def gcn():
    return GCN(FEATURES, 8, num_layers=2, out_channels=CLASSES)


def changed(graph, **values):
    made = graph.clone()
    for name, value in values.items():
        made[name] = value
    return made


def plain_loop(
    make_model, data, seed, nodes, *, epochs=12, optimizer=Adam, call=None, loss_of=None
):
    """PyG's own way: one model, one optimiser, the best of all epochs by validation."""
    torch.manual_seed(stream_key(seed, "initialisation"))
    model = make_model()
    call = call or (lambda model: model(data.x, data.edge_index))
    loss_of = loss_of or F.cross_entropy
    steps = optimizer(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, test, losses = -1.0, 0.0, []
    for _ in range(epochs):
        model.train()
        steps.zero_grad()
        loss = loss_of(call(model)[nodes["train"]], data.y[nodes["train"]])
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
        model.eval()
        right = call(model).argmax(-1) == data.y if data.y.dim() == 1 else None
        if right is not None:
            found = {part: float(right[nodes[part]].float().mean()) for part in ("val", "test")}
            if found["val"] > best:
                best, test = found["val"], found["test"]
    return losses, best, test


def check(result, loop, place=0):
    losses, best, test = loop
    assert result.curves["train_loss"][place].tolist() == pytest.approx(losses, rel=2e-3, abs=1e-4)
    assert result.val_accuracy[place] == pytest.approx(best)
    assert result.test_accuracy[place] == pytest.approx(test)


def sets_of(graph):
    return {part: graph[f"{part}_mask"].nonzero().flatten() for part in ("train", "val", "test")}


# Masks


def as_booleans(graph):
    return graph, {}, sets_of(graph)


def as_columns(graph):
    """WebKB, Actor, HeterophilousGraphDataset: one column a split."""
    masks = {
        f"{part}_mask": torch.stack([graph[f"{part}_mask"].roll(shift) for shift in range(4)], 1)
        for part in ("train", "val", "test")
    }
    rolled = {
        p: m[:, 2].nonzero().flatten() for p, m in zip(sets_of(graph), masks.values(), strict=True)
    }
    return changed(graph, **masks), {"split": 2}, rolled


def as_some_columns(graph):
    """WikiCS: many splits to train and validate, one to test."""
    made, _, rolled = as_columns(graph)
    rest = ~(made.train_mask[:, 2] | made.val_mask[:, 2])
    rolled["test"] = rest.nonzero().flatten()
    return changed(made, test_mask=rest), {"split": 2}, rolled


def as_one_column(graph):
    masks = {f"{part}_mask": graph[f"{part}_mask"][:, None] for part in sets_of(graph)}
    return changed(graph, **masks), {}, sets_of(graph)


def as_indices(graph):
    """OGB's node sets, in any order."""
    sets = {part: index.flip(0) for part, index in sets_of(graph).items()}
    return changed(graph, **{f"{p}_mask": i for p, i in sets.items()}), {}, sets


def as_bytes(graph):
    masks = {f"{p}_mask": graph[f"{p}_mask"].to(torch.uint8) for p in sets_of(graph)}
    return changed(graph, **masks), {}, sets_of(graph)


@pytest.mark.parametrize(
    "form", [as_booleans, as_columns, as_some_columns, as_one_column, as_indices, as_bytes]
)
def test_masks_mean_what_they_mean_in_a_loop_of_pyg(graph, form):
    data, options, nodes = form(graph)
    result = fit(gcn, data, [1], epochs=12, **options)
    check(result, plain_loop(gcn, graph, 1, nodes))


@pytest.mark.parametrize(
    ("masks", "options", "words"),
    [
        ({"val_mask": torch.zeros(NODES, dtype=torch.bool)}, {}, "val_mask to mark at least one"),
        ({"test_mask": None}, {}, "no such mask"),
        (
            {"train_mask": torch.ones(NODES, 10, dtype=torch.bool)},
            {},
            "found 10 in data.train_mask",
        ),
        ({"train_mask": torch.ones(NODES, 10, dtype=torch.bool)}, {"split": 10}, "from 0 to 9"),
        ({"train_mask": torch.tensor([0, 1, NODES])}, {}, "numbers outside"),
        ({"train_mask": torch.tensor([-1, 1])}, {}, "numbers outside"),
        ({"train_mask": torch.tensor([1, 1])}, {}, "some twice"),
        ({"train_mask": torch.ones(NODES - 1, dtype=torch.bool)}, {}, "one entry per node"),
        ({"train_mask": torch.rand(NODES)}, {}, "boolean"),
        ({"train_mask": torch.ones(2, 3, 4, dtype=torch.bool)}, {}, "splits"),
    ],
)
def test_masks_that_mean_nothing_are_refused(graph, masks, options, words):
    with pytest.raises(InputError, match=words):
        fit(gcn, changed(graph, **masks), [0], epochs=1, **options)


def test_parts_that_share_nodes_are_told(graph):
    with pytest.warns(DrgcnWarning, match="in both data.train_mask and data.test_mask"):
        fit(gcn, changed(graph, test_mask=graph.train_mask), [0], epochs=1)


# Labels


@pytest.mark.parametrize(
    "form",
    [lambda y: y.to(torch.int32), lambda y: y[:, None], lambda y: y.to(torch.uint8)],
    ids=["int32", "column", "uint8"],
)
def test_classes_of_any_type_and_shape_are_classes(graph, form):
    result = fit(gcn, changed(graph, y=form(graph.y)), [1], epochs=12)
    assert result.metric == "accuracy"
    check(result, plain_loop(gcn, graph, 1, sets_of(graph)))


def test_true_and_false_are_two_classes(graph):
    result = fit(gcn, changed(graph, y=graph.y == 1), [1], epochs=12)
    check(result, plain_loop(gcn, changed(graph, y=(graph.y == 1).long()), 1, sets_of(graph)))


def test_classes_outside_the_parts_do_not_matter(graph):
    y = graph.y.clone()
    y[graph.test_mask.nonzero()[-1]] = -1
    test = graph.test_mask.clone()
    test[graph.test_mask.nonzero()[-1]] = False
    data = changed(graph, y=y, test_mask=test)
    check(fit(gcn, data, [1], epochs=12), plain_loop(gcn, data, 1, sets_of(data)))


def test_masks_of_unequal_numbers_of_splits_are_refused(graph):
    data = graph.clone()
    for part, splits in (("train", 3), ("val", 2), ("test", 1)):
        data[f"{part}_mask"] = graph[f"{part}_mask"][:, None].expand(-1, splits)
    with pytest.raises(InputError, match="found 2 and 3"):
        fit(lambda: GCN(4, 8, 3), data, [0], epochs=1, split=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_tables_of_zeros_and_ones_are_several_labels(graph, dtype):
    table = F.one_hot(graph.y, CLASSES)
    table[:, 0] |= table[:, 1]
    result = fit(gcn, changed(graph, y=table.to(dtype)), [1], epochs=4)
    loop = plain_loop(
        gcn,
        changed(graph, y=table.float()),
        1,
        sets_of(graph),
        epochs=4,
        loss_of=F.binary_cross_entropy_with_logits,
    )
    assert result.metric == "micro-F1"
    assert result.curves["train_loss"][0].tolist() == pytest.approx(loop[0], rel=1e-4)


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_real_numbers_are_a_regression(graph, columns):
    target = graph.x[:, : columns or 1] * 2 + 1
    target = target[:, 0] if columns is None else target
    make = partial(GCN, FEATURES, 8, num_layers=2, out_channels=columns or 1)
    result = fit(make, changed(graph, y=target), [1], epochs=6)
    table = changed(graph, y=target.view(NODES, -1))
    losses, _, _ = plain_loop(make, table, 1, sets_of(graph), epochs=6, loss_of=F.mse_loss)
    assert result.metric == "R2"
    assert result.curves["train_loss"][0].tolist() == pytest.approx(losses, rel=1e-4)
    assert result.val_accuracy[0] <= 1


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (lambda y: y.float(), "classes or measurements"),
        (lambda y: y.float()[:, None] * 3, "classes or measurements"),
        (lambda y: torch.stack([y, y + 4], 1), "zeros and ones"),
        (lambda y: torch.where(y == 0, torch.nan, y + 0.5), "NaN"),
        (lambda y: y - 1, "y < 0"),
        (lambda y: y[:10], "one row per node"),
        (lambda y: None, "labels in data.y"),
        (lambda y: y.numpy(), "found ndarray. Use torch.as_tensor"),
        (lambda y: y[:, None, None], "nodes, labels"),
        (lambda y: y + 1, "at least 4 outputs"),
    ],
)
def test_labels_that_could_mean_two_things_or_nothing_are_refused(graph, y, words):
    with pytest.raises(InputError, match=words):
        fit(gcn, changed(graph, y=y(graph.y)), [0], epochs=1)


# Features, models, seeds, devices


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (lambda x: None, "features in data.x"),
        (lambda x: x.numpy(), "found ndarray. Use torch.as_tensor"),
        (lambda x: torch.where(x == x[0, 0], torch.nan, x), "found 1 NaN"),
        (lambda x: torch.where(x == x[0, 0], torch.inf, x), "found 1 NaN or infinite"),
        (lambda x: x.double(), r"torch.float32, as the weights of GCN are; found torch.float64"),
        (lambda x: x[:, :5], "60x5"),
    ],
)
def test_features_that_cannot_be_used_are_refused_in_their_own_shape(graph, x, words):
    with pytest.raises(InputError, match=words):
        fit(gcn, changed(graph, x=x(graph.x)), range(3), epochs=1)
    assert fit(gcn, graph, [0], epochs=1).epochs_run == [1]  # the process is as good as before


def test_double_models_train_on_double_features(graph):
    result = fit(lambda: gcn().double(), changed(graph, x=graph.x.double()), [0], epochs=2)
    assert result.models[0].convs[0].lin.weight.dtype == torch.float64


class Tuple(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index), x


class Pooled(Tuple):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index).mean(0, keepdim=True)


class Raising(Tuple):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index, nonsense=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Tuple, "returned tuple"),
        (Pooled, r"scores \[nodes, classes\] of 60 nodes"),
        (Raising, "Raising raised TypeError"),
        (nn.Identity, "parameters to train"),
        (lambda: None, "return a module"),
        (lambda: GCN(FEATURES, 8, 2, out_channels=2), "at least 3 outputs"),
    ],
)
def test_models_that_score_no_nodes_are_refused(graph, make, words):
    with pytest.raises(InputError, match=words):
        fit(make, graph, range(3), epochs=1)


@pytest.mark.parametrize(
    ("data", "words"),
    [(HeteroData(), "to_homogeneous"), ([Data()], "unite"), ("cora", "found str")],
)
def test_what_is_no_graph_is_refused(data, words):
    with pytest.raises(InputError, match=words):
        fit(gcn, data, [0])


def test_seeds_of_numpy_are_seeds(graph):
    found = fit(gcn, graph, np.arange(2), epochs=2)
    assert found.seeds == (0, 1)
    assert all(type(seed) is int for seed in found.seeds)
    for seeds in ([0.5], ["a"], [], [1, 1], 3, np.int64(3)):
        with pytest.raises(InputError, match="seeds"):
            fit(gcn, graph, seeds)


@pytest.mark.parametrize("device", ["cuda:99", "nonsense"])
def test_devices_that_are_not_there_are_refused(graph, device):
    with pytest.raises(InputError, match="device"):
        fit(gcn, graph, [0], device=device)


# What the model's arguments are


def test_edge_weights_reach_models_that_take_them(graph):
    weights = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1))
    data = changed(graph, edge_weight=weights)
    loop = plain_loop(
        gcn, graph, 1, sets_of(graph), call=lambda m: m(graph.x, graph.edge_index, weights)
    )
    check(fit(gcn, data, [1], epochs=12), loop)


@pytest.mark.parametrize("make", [gcn, lambda: own.GCN(FEATURES, 8, CLASSES)])
def test_edge_weights_may_be_a_column_and_nothing_else(graph, make):
    weights = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1))
    row, column = (changed(graph, edge_weight=w) for w in (weights, weights[:, None]))
    found = [fit(make, data, [1], epochs=3).curves["train_loss"][0] for data in (row, column)]
    assert torch.equal(*found)
    for wrong in (weights[1:], torch.stack([weights, weights], 1)):
        with pytest.raises(InputError, match="one number for each of 240 edges"):
            fit(make, changed(graph, edge_weight=wrong), [0], epochs=1)


@pytest.mark.parametrize("columns", [(), (1,), (2,)])
def test_numbers_of_edges_that_may_be_weights_are_told(graph, columns, recwarn):
    data = changed(graph, edge_attr=torch.rand(graph.num_edges, *columns))
    takes_them = partial(GAT, FEATURES, 8, 1, CLASSES, edge_dim=sum(columns) or 1)
    for make in (gcn, takes_them):
        fit(make, data, [0], epochs=1)
    named = changed(data, edge_weight=torch.rand(graph.num_edges))
    fit(gcn, named, [0], epochs=1)
    told = [str(w.message) for w in recwarn if "data.edge_weight" in str(w.message)]
    wanted = ["data.edge_attr has one number an edge, which GCN does not take"]
    assert [words.split(":")[0] for words in told] == (wanted if columns != (2,) else [])


def test_edge_features_do_not_reach_models_made_without(graph):
    data = changed(graph, edge_attr=torch.rand(graph.num_edges, 2))
    without = partial(GAT, FEATURES, 8, num_layers=1, out_channels=CLASSES)
    check(fit(without, data, [1], epochs=12), plain_loop(without, graph, 1, sets_of(graph)))
    made_for = partial(GAT, FEATURES, 8, num_layers=1, out_channels=CLASSES, edge_dim=2)
    call = lambda m: m(data.x, data.edge_index, edge_attr=data.edge_attr)  # noqa: E731
    check(
        fit(made_for, data, [1], epochs=12),
        plain_loop(made_for, graph, 1, sets_of(graph), call=call),
    )


class OfData(Tuple):
    def forward(self, data):
        return self.conv(data.x, data.edge_index)


class OtherNames(Tuple):
    def forward(self, features, adj):
        return self.conv(features, adj)


def test_models_of_one_argument_get_the_graph_and_others_features_and_edges(graph):
    loop = plain_loop(OtherNames, graph, 1, sets_of(graph))
    for make in (OfData, OtherNames):
        check(fit(make, graph, [1], epochs=12), loop)


def mlp():
    return MLP([FEATURES, 8, CLASSES], norm=None)


def test_a_network_without_edges_does_not_get_them_as_its_batch(graph):
    loop = plain_loop(mlp, graph, 1, sets_of(graph), call=lambda m: m(graph.x))
    check(fit(mlp, graph, [1], epochs=12), loop)


def sequential():
    steps = [(SAGEConv(FEATURES, 8), "x, edge_index -> x"), nn.ReLU(), nn.Linear(8, CLASSES)]
    return PyGSequential("x, edge_index", steps)


def test_a_sequential_of_pyg_is_trained(graph):
    check(fit(sequential, graph, [1], epochs=12), plain_loop(sequential, graph, 1, sets_of(graph)))


# What cannot be followed


class EdgeDropping(Tuple):
    def forward(self, x, edge_index):
        return self.conv(x, dropout_edge(edge_index, 0.2, training=self.training)[0])


class Super(Tuple):
    def __init__(self):
        super().__init__()
        self.conv = SuperGATConv(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class NoisyInEvaluation(Tuple):
    def forward(self, x, edge_index):
        return self.conv(x + 0.01 * torch.randn_like(x), edge_index)


def jumping():
    return GCN(FEATURES, 8, num_layers=2, out_channels=CLASSES, jk="lstm")


def test_models_that_vmap_cannot_follow_train_one_after_the_other(graph, caplog):
    for make in (EdgeDropping, Super):
        alone = fit(make, graph, [1], epochs=20)
        among = fit(make, graph, range(2), epochs=20)
        assert "not trained in the fastest way" in caplog.text
        for name, curves in alone.curves.items():
            assert torch.equal(curves[0], among.curves[name][1])
        caplog.clear()


def test_lstm_jumping_knowledge_equals_a_loop(graph):
    check(
        fit(jumping, graph, [1], epochs=6), plain_loop(jumping, graph, 1, sets_of(graph), epochs=6)
    )


def test_random_numbers_in_evaluation_are_refused_by_reason(graph):
    with pytest.raises(InputError, match="draw random numbers"):
        fit(NoisyInEvaluation, graph, [0], epochs=2)
    assert fit(gcn, graph, [0], epochs=1).epochs_run == [1]


def test_a_cache_of_hidden_features_is_refused(graph):
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(FEATURES, 8), SGConv(8, CLASSES, cached=True)

        def forward(self, x, edge_index):
            return self.second(self.first(x), edge_index)

    with pytest.raises(InputError, match="cached=True"):
        fit(Cached, graph, [0, 1], epochs=2)


def test_a_cache_of_the_graph_is_refused_where_parts_see_different_graphs(graph):
    make = partial(GCN, FEATURES, 8, num_layers=2, out_channels=CLASSES, cached=True)
    assert fit(make, graph, [0], epochs=2).epochs_run == [2]
    with pytest.raises(InputError, match=r"found it in convs\.0"):
        fit(make, graph, [0], epochs=2, inductive="train")


# Optimisers and schedules


class Normed(SGD):
    """Scales by the norm of a whole tensor, and so would mix the seeds of a pass."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad /= parameter.grad.norm()
        return super().step(closure)


def test_options_of_an_optimiser_are_used(graph):
    momentum = partial(SGD, momentum=0.9, nesterov=True)
    result = fit(gcn, graph, [1], epochs=12, optimizer=momentum)
    check(result, plain_loop(gcn, graph, 1, sets_of(graph), optimizer=momentum))


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (torch.optim.LBFGS, "LBFGS"),
        (torch.optim.Adafactor, "Adafactor looks at whole tensors"),
        (torch.optim.SparseAdam, "SparseAdam"),
        (Normed, "Normed looks at whole tensors"),
        (partial(SGD, momentum=-1), r"SGD\(momentum=-1\)"),
    ],
)
def test_optimisers_that_would_mix_seeds_are_refused(graph, optimizer, words):
    with pytest.raises(InputError, match=words):
        fit(gcn, graph, [0], epochs=1, optimizer=optimizer)


@pytest.mark.parametrize(
    "schedule",
    [
        partial(lr_scheduler.CosineAnnealingLR, T_max=8),
        partial(lr_scheduler.StepLR, step_size=3, gamma=0.5),
        lambda steps: lr_scheduler.LambdaLR(steps, lambda epoch: 1 / (1 + epoch)),
    ],
    ids=["cosine", "step", "lambda"],
)
def test_schedules_of_torch_are_those_of_a_loop(graph, schedule):
    result = fit(gcn, graph, [1], epochs=8, schedule=schedule)

    torch.manual_seed(stream_key(1, "initialisation"))
    model = gcn()
    steps = Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    scheduler = schedule(steps)
    losses = []
    for _ in range(8):
        steps.zero_grad()
        loss = F.cross_entropy(
            model(graph.x, graph.edge_index)[graph.train_mask], graph.y[graph.train_mask]
        )
        loss.backward()
        steps.step()
        scheduler.step()
        losses.append(float(loss.detach()))
    assert result.curves["train_loss"][0].tolist() == pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (lr_scheduler.ReduceLROnPlateau, "looks at results"),
        (partial(lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=9), "momentum"),
    ],
)
def test_schedules_of_more_than_the_epoch_are_refused(graph, schedule, words):
    with pytest.raises(InputError, match=words):
        fit(gcn, graph, [0], epochs=8, schedule=schedule)


# Graphs of other collections


def test_graphs_of_a_collection_are_joined_and_reach_models_by_their_batch(graph):
    """Lists of graphs, as TUDataset and PPI give them, with labels on nodes."""

    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = SAGEConv(FEATURES, CLASSES)

        def forward(self, x, edge_index, batch):
            return self.conv(x - global_mean_pool(x, batch, 1)[batch], edge_index)

    def piece(start):
        nodes = torch.arange(start, start + 20)
        return graph.subgraph(nodes)

    pieces = [[piece(0)], [piece(20)], [piece(40)]]
    for part in pieces:
        for data in part:
            for name in ("train_mask", "val_mask", "test_mask"):
                del data[name]
    result = fit(Centred, unite(*pieces), [1], epochs=3)
    assert result.epochs_run == [3]


# Results


def test_summary_best_and_predictions(graph):
    result = fit(gcn, graph, range(3), epochs=5)
    text = result.summary()
    mean = 100 * np.mean(result.test_accuracy)
    assert f"{mean:.2f}" in text
    assert "3 seeds" in text
    best = result.best()
    assert best.val_accuracy == [max(result.val_accuracy)]
    unlabelled = Data(x=graph.x, edge_index=graph.edge_index)
    found = result.predict(unlabelled)
    chances = torch.stack([m(graph.x, graph.edge_index).softmax(-1) for m in result.models])
    torch.testing.assert_close(found.mean, chances.mean(0))
    torch.testing.assert_close(found.spread, chances.std(0, correction=0))
    assert found.votes.sum(1).tolist() == [3] * NODES
    assert torch.equal(found.classes, chances.mean(0).argmax(-1))
    one = best.predict(unlabelled)
    assert float(one.spread.abs().max()) == 0


def test_predictions_are_of_the_graph_given_whatever_models_were_used_for(graph):
    make = partial(GCN, FEATURES, 8, num_layers=2, out_channels=CLASSES, dropout=0.5)
    plain = fit(make, graph, [0, 1], epochs=3)
    cached = fit(partial(make, cached=True), graph, [0, 1], epochs=3)
    other = Data(x=graph.x, edge_index=graph.edge_index.flip(0).roll(7))
    fewer = Data(x=graph.x[:9], edge_index=graph.edge_index % 9)
    for model in cached.models:
        model.train()(graph.x, graph.edge_index)  # a step of one's own, and no eval() after it
    for asked in (other, fewer, graph):
        assert torch.equal(cached.predict(asked).mean, plain.predict(asked).mean)
    assert cached.models[0].training


def test_results_are_saved_and_loaded(graph, tmp_path):
    result = fit(gcn, graph, [3, 1], epochs=4)
    again = load_fit(result.save(tmp_path / "fit"), gcn)
    for name in ("seeds", "best_epoch", "epochs_run", "val_accuracy", "test_accuracy", "metric"):
        assert getattr(again, name) == getattr(result, name)
    for name, curves in result.curves.items():
        assert all(torch.equal(a, b) for a, b in zip(again.curves[name], curves, strict=True))
    torch.testing.assert_close(again.predict(graph).mean, result.predict(graph).mean)
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == [
        "result.json",
        "tensors.safetensors",
    ]
    with pytest.raises(InputError, match="does not exist yet"):
        result.save(tmp_path / "fit")
    with pytest.raises(InputError, match=r"found GraphSAGE"):
        load_fit(tmp_path / "fit", lambda: GraphSAGE(FEATURES, 8, 2, out_channels=CLASSES))
    with pytest.raises(InputError, match=r"FitResult\.save"):
        load_fit(tmp_path / "nowhere", gcn)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", 3),
        ("seeds", [True, False, True]),
        ("val_accuracy", ["a", "b", "c"]),
        ("best_epoch", None),
        ("settings", [[], [], []]),
        ("metric", None),
        ("seconds", "1"),
        ("kind", "words"),
        ("higher_is_better", 2),
        ("shb256", "0"),
    ],
)
def test_a_saved_result_without_its_digest_has_to_be_of_the_right_form(
    graph, tmp_path, name, value
):
    folder = fit(gcn, graph, [0, 1, 2], epochs=1).save(tmp_path / "fit")
    facts = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(facts | {"sha256": None}))
    with pytest.raises(InputError, match="it was changed since"):
        load_fit(folder, gcn)
    del facts["sha256"]
    (folder / "result.json").write_text(json.dumps(facts))
    assert load_fit(folder, gcn).seeds == (0, 1, 2)  # as the first versions wrote it
    (folder / "result.json").write_text(json.dumps(facts | {name: value}))
    with pytest.raises(InputError, match=rf"found '{name}'"):
        load_fit(folder, gcn)


# Mistakes of strangers


@pytest.mark.parametrize("form", [torch.Tensor.numpy, torch.Tensor.tolist])
@pytest.mark.parametrize("numbers", [True, False])
def test_masks_may_be_arrays_or_lists(graph, form, numbers):
    masks = {
        f"{part}_mask": form(nodes if numbers else graph[f"{part}_mask"])
        for part, nodes in sets_of(graph).items()
    }
    found = fit(gcn, changed(graph, **masks), [0], epochs=2)
    expected = fit(gcn, graph, [0], epochs=2)
    assert torch.equal(found.curves["val_loss"][0], expected.curves["val_loss"][0])
    assert found.test_accuracy == expected.test_accuracy


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: e.t(), r"\[2, edges\]; found torch.int64 of shape .* Turn it"),
        (lambda e: e.t().contiguous(), "Turn it"),
        (lambda e: e.float(), "found torch.float32"),
        (lambda e: e[0], r"\[2, edges\]"),
        (lambda e: e.tolist(), "found list"),
        (lambda e: e + NODES, "found node"),
        (lambda e: e - 1, "found node -1"),
        (lambda e: None, "found none"),
    ],
)
@pytest.mark.parametrize("make", [gcn, lambda: own.GCN(FEATURES, 8, CLASSES)])
def test_edges_of_another_form_are_refused(graph, make, change, words):
    data = Data(x=graph.x, y=graph.y, edge_index=change(graph.edge_index))
    for part in ("train", "val", "test"):
        data[f"{part}_mask"] = graph[f"{part}_mask"]
    with pytest.raises(InputError, match=words):
        fit(make, data, [0], epochs=1)


def test_whole_numbers_as_features_are_told(graph):
    with pytest.raises(InputError, match=r"found torch.int64.*data\.x\.float\(\)"):
        fit(gcn, changed(graph, x=graph.x.long()), [0], epochs=1)


def test_edges_that_go_one_way_are_told(graph):
    source, target = graph.edge_index
    one_way = changed(graph, edge_index=graph.edge_index[:, source < target])
    with pytest.warns(DrgcnWarning, match="goes one way alone"):
        fit(gcn, one_way, [0], epochs=1)


def test_a_mask_of_words_is_refused(graph):
    with pytest.raises(InputError, match="val_mask"):
        fit(gcn, changed(graph, val_mask=["yes"] * NODES), [0], epochs=1)


def test_validation_on_test_nodes_is_told(graph):
    with pytest.warns(DrgcnWarning, match="in both data.val_mask and data.test_mask"):
        fit(gcn, changed(graph, test_mask=graph.val_mask), [0], epochs=1)


class Ended(nn.Module):
    """A network that ends with a function."""

    def __init__(self, end):
        super().__init__()
        self.conv, self.end = GCNConv(FEATURES, CLASSES), end

    def forward(self, x, edge_index):
        return self.end(self.conv(x, edge_index))


@pytest.mark.parametrize(
    ("end", "form", "last"),
    [
        (nn.Softmax(-1), lambda y: y, "softmax"),
        (nn.Sigmoid(), lambda y: F.one_hot(y).cumsum(1), "sigmoid"),
    ],
)
def test_probabilities_in_place_of_scores_are_told(graph, end, form, last):
    data = changed(graph, y=form(graph.y))
    with pytest.warns(DrgcnWarning, match=f"Ended returns probabilities, .* before the {last}"):
        fit(partial(Ended, end), data, [0], epochs=1)


@pytest.mark.parametrize(
    ("end", "form"),
    [
        (nn.LogSoftmax(-1), lambda y: y),
        (nn.Sigmoid(), lambda y: y),  # rows that are no shares of one
        (nn.Sigmoid(), lambda y: F.one_hot(y) + 0.5),  # values, which may well be shares
        (lambda x: x / 1000 + 0.5, lambda y: F.one_hot(y).cumsum(1)),  # small by chance
        (lambda x: 0 * x, lambda y: F.one_hot(y).cumsum(1)),
    ],
)
def test_scores_between_zero_and_one_are_no_probabilities(graph, end, form, recwarn):
    fit(partial(Ended, end), changed(graph, y=form(graph.y)), [0], epochs=1)
    assert not [found for found in recwarn if "probabilities" in str(found.message)]


def test_one_hot_classes_are_told(graph):
    data = changed(graph, y=F.one_hot(graph.y, CLASSES))
    with pytest.warns(DrgcnWarning, match=r"argmax\(1\)"):
        assert fit(gcn, data, [0], epochs=1).metric == "micro-F1"
    fit(gcn, data, [0], epochs=1, loss="bce")  # which says that it is meant so


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_edges_without_a_number_are_refused(graph, name, value):
    weights = torch.ones(graph.num_edges)
    weights[3] = value
    with pytest.raises(InputError, match=f"found 1 NaN or infinite entries in data.{name}"):
        fit(gcn, changed(graph, **{name: weights}), [0], epochs=1)


class Divided(Tuple):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index) / 0


class Complex(Tuple):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index) * 1j


class InPlace(Tuple):
    def forward(self, x, edge_index):
        return self.conv(x.mul_(2), edge_index)


class InPlaceInTraining(Tuple):
    def forward(self, x, edge_index):
        return self.conv(F.dropout(x, 0.5, self.training, inplace=True), edge_index)


class Overwriting(Tuple):
    def forward(self, data):
        data.x = self.conv(data.x, data.edge_index)
        return data.x


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Divided, "finite scores"),
        (Complex, "real scores"),
        (InPlace, "changes them in place"),
        (InPlaceInTraining, "changes them in place"),
        (Overwriting, "changes them in place"),
        (GCN, "GCN raised TypeError"),
        (lambda: GCN(FEATURES, 8, 2, act="nonsense"), "raised ValueError"),
    ],
)
def test_models_that_cannot_be_trained_are_refused_and_leave_the_data(graph, make, words):
    data = graph.clone()
    with pytest.raises(InputError, match=words):
        fit(make, data, [0], epochs=1)
    assert torch.equal(data.x, graph.x)


def test_a_trial_moves_no_generator(graph):
    class Dropping(Tuple):
        def forward(self, x, edge_index):
            return self.conv(F.dropout(x, 0.5, self.training), edge_index)

    before = torch.get_rng_state()
    model, inputs = Dropping(), (graph.x, graph.edge_index)
    torch.set_rng_state(before)
    assert try_model(model, inputs, NODES, torch.device("cpu")) == CLASSES
    assert torch.equal(torch.get_rng_state(), before)


class EdgesFirst(Tuple):
    def forward(self, edge_index, x):
        return self.conv(x, edge_index)


class EdgesBeforeFeatures(Tuple):
    def forward(self, edge_index, features):
        return self.conv(features, edge_index)


class WithOption(Tuple):
    def forward(self, data, twice=False):
        assert twice is False
        return self.conv(data.x, data.edge_index)


class Annotated(Tuple):
    def forward(self, g: Data):
        return self.conv(g.x, g.edge_index)


class AnnotatedInWords(Tuple):
    def forward(self, g: "Data"):
        return self.conv(g.x, g.edge_index)


class OptionBehindFeatures(Tuple):
    def forward(self, x, edge_index, twice=False):
        assert twice is False
        return self.conv(x, edge_index)


@pytest.mark.parametrize(
    "make",
    [
        EdgesFirst,
        EdgesBeforeFeatures,
        WithOption,
        Annotated,
        AnnotatedInWords,
        OptionBehindFeatures,
    ],
)
def test_arguments_are_told_by_name_wherever_they_stand(graph, make):
    found, expected = (fit(m, graph, [0], epochs=2) for m in (make, OtherNames))
    assert torch.equal(found.curves["train_loss"][0], expected.curves["train_loss"][0])


def test_an_option_of_a_network_without_edges_does_not_get_them(graph):
    class Alone(nn.Linear):
        def __init__(self):
            super().__init__(FEATURES, CLASSES)

        def forward(self, x, twice=False):
            assert twice is False
            return super().forward(x)

    assert fit(Alone, graph, [0], epochs=1).epochs_run == [1]


class Keyword(Tuple):
    def forward(self, x, edge_index, *, edge_weight=None):
        return self.conv(x, edge_index, edge_weight)


def test_keyword_arguments_that_would_be_lost_are_refused(graph):
    assert fit(Keyword, graph, [0], epochs=1).epochs_run == [1]
    with pytest.raises(InputError, match="edge_weight behind a"):
        fit(Keyword, changed(graph, edge_weight=torch.rand(graph.num_edges)), [0], epochs=1)


def test_inductive_parts_need_an_edge_index(graph):
    data = changed(graph, edge_index=None)
    adjacency = torch.sparse_coo_tensor(
        graph.edge_index.flip(0),
        torch.ones(graph.num_edges),
        (NODES, NODES),
        check_invariants=True,
    )
    data.adj_t = adjacency.coalesce().to_sparse_csr()
    with pytest.raises(InputError, match=r"Expected data\.edge_index"):
        fit(gcn, data, [0], epochs=1, inductive="train")


@pytest.mark.parametrize("seeds", [[2**53], [2**63], "01"])
def test_seeds_beyond_their_keys_are_refused(graph, seeds):
    with pytest.raises(InputError, match="seeds"):
        fit(gcn, graph, seeds, epochs=1)


@pytest.mark.parametrize("device", [None, "mps", 2.5])
def test_devices_are_refused_in_a_sentence(graph, device):
    with pytest.raises(InputError, match="device") as found:
        fit(gcn, graph, [0], device=device)
    assert len(str(found.value)) < 240


@pytest.mark.parametrize(
    ("optimizer", "decay", "words"),
    [
        (partial(SGD, lr=0.5), 0.0, "without lr of its own"),
        (partial(Adam, weight_decay=0.1), 0.0, "without weight_decay of its own"),
        (torch.optim.Rprop, 5e-4, "weight_decay=0"),
    ],
)
def test_options_of_an_optimiser_that_would_be_lost_are_refused(optimizer, decay, words):
    with pytest.raises(InputError, match=words):
        expect_elementwise(optimizer, 0.01, decay)


def test_optimisers_are_tried_with_steps_that_show():
    expect_elementwise(torch.optim.Rprop, 0.01, 0.0)
    for optimizer in (Adam, torch.optim.AdamW, lambda params, lr: SGD(params, lr=lr)):
        expect_elementwise(optimizer, 1e-9, 5e-4)
    with pytest.raises(InputError, match="whole tensors"):
        expect_elementwise(Normed, 1e-9)


PLAIN = {"epochs": 3, "lr": 0.01, "weight_decay": 0.0}


def test_numbers_of_numpy_are_numbers():
    found = checked_numbers(
        epochs=np.int64(3), lr=np.float32(0.5), weight_decay=0, split=np.int32(0)
    )
    assert found == (3, 0.5, 0, 0, None)
    assert [type(value) for value in found[:4]] == [int, float, int, int]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("epochs", [0, True, 2.0, "3", None]),
        ("lr", [-1, torch.nan, torch.inf, "0.1", None, True]),
        ("weight_decay", [-1e-9, 1j]),
        ("split", [-1, 0.0, "0", False]),
        ("seeds_at_once", [0, 1.5]),
        ("progress", ["yes", True]),
        ("checkpoint", [3, True]),
        ("rule", [BestValidation, "best", 10]),
    ],
)
def test_numbers_that_mean_nothing_are_refused(name, values):
    for value in values:
        with pytest.raises(InputError, match=f"Expected .*{name.split('_')[0]}"):
            checked_numbers(**PLAIN | {name: value})


@pytest.mark.parametrize(
    "schedule",
    [
        "cosine",
        lr_scheduler.CosineAnnealingLR,
        lr_scheduler.StepLR(SGD([torch.zeros(1)], lr=0.1), 3),
        StepwiseDecay,
        partial(lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=2, cycle_momentum=False),
        lambda steps: lr_scheduler.LambdaLR(steps, lambda epoch: -1.0),
        lambda steps: None,
    ],
)
def test_schedules_that_are_none_are_refused(graph, schedule):
    with pytest.raises(InputError, match="Expected"):
        fit(gcn, graph, [0], epochs=5, schedule=schedule)


def test_one_cycle_may_last_as_long_as_the_training(graph):
    cycle = partial(lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=5, cycle_momentum=False)
    assert fit(gcn, graph, [0], epochs=5, schedule=cycle).epochs_run == [5]


@pytest.mark.parametrize(
    "make",
    [
        *(partial(rule, value) for rule in (BestValidation, Patience) for value in (0, "3", True)),
        partial(RisingLoss, 0),
        partial(Patience, 3, "nonsense"),
        partial(StepwiseDecay, 0),
        partial(StepwiseDecay, 1.5),
        partial(StepwiseDecay, 1, 2.0),
    ],
)
def test_rules_and_schedules_of_no_epochs_are_refused(make):
    with pytest.raises(InputError, match="Expected"):
        make()


@pytest.fixture(scope="module")
def result(graph):
    return fit(gcn, graph, [3, 1], epochs=2)


@pytest.mark.parametrize("seeds", [1, "1", [], [2], [3, 2]])
def test_selections_of_what_is_not_there_are_refused(result, seeds):
    with pytest.raises(InputError, match="seeds"):
        result.select(seeds)
    with pytest.raises(InputError, match="place"):
        result.take([])


def test_selections_of_numpy_hold_numbers_of_python(result):
    assert [type(seed) for seed in result.select(np.array([1, 3])).seeds] == [int, int]
    assert result.take(np.array([1])).seeds == (1,)


def test_results_are_equal_to_themselves(graph, result):
    assert result in [result]
    assert result != result.select([3, 1])
    assert result.predict(graph) != result.predict(graph)


@pytest.mark.parametrize(
    "data",
    [
        lambda graph: changed(graph, x=graph.x[:, :5]),
        lambda graph: changed(graph, x=graph.x.double()),
        lambda graph: changed(graph, x=None),
        lambda graph: changed(graph, edge_index=None),
        lambda graph: [graph],
        lambda graph: graph.x,
        lambda graph: "cora",
    ],
)
def test_predictions_of_other_data_are_refused(graph, result, data):
    with pytest.raises(InputError, match="Expected"):
        result.predict(data(graph))


@pytest.mark.parametrize(
    ("y", "outputs"), [(lambda g: g.x[:, 0] * 2, 1), (lambda g: (g.x[:, :3] > 0).long(), 3)]
)
def test_values_and_labels_have_no_class(graph, y, outputs):
    make = partial(GCN, FEATURES, 8, num_layers=1, out_channels=outputs)
    found = fit(make, changed(graph, y=y(graph)), [0], epochs=1).predict(graph)
    with pytest.raises(InputError, match="predictions of classes"):
        _ = found.classes


def test_weights_of_another_model_that_fit_are_told(graph, tmp_path):
    saved = fit(sequential, graph, [0], epochs=1).save(tmp_path / "fit")
    load_fit(saved, sequential)

    def other():
        steps = [(SAGEConv(FEATURES, 8), "x, edge_index -> x"), nn.Tanh(), nn.Linear(8, CLASSES)]
        return PyGSequential("x, edge_index", steps)

    with pytest.warns(DrgcnWarning, match=r"ReLU.*Tanh"):
        load_fit(saved, other)
