"""Tasks: parts of a dataset, mini-batches, loss and metric."""

import copy

import numpy as np
import pytest
import torch
from scipy import stats
from torch_geometric.data import Data

from drgcn.errors import InputError
from drgcn.nn import GCN
from drgcn.streams import stream_key
from drgcn.training.task import MiniBatches, Task, l2_penalty, visible

from .graphs import LABELS, several

CPU = torch.device("cpu")
SIZES = ((6, 4, 5), (3, 7), (8,))  # training, validation and test graphs


def whole(batch):
    """Hands the part on as it is, to be looked at."""
    return (batch,)


@pytest.fixture
def data():
    """Each node's first feature is its number in the union."""
    made = several(SIZES)
    made.x[:, 0] = torch.arange(made.num_nodes)
    return made


def parts(task):
    return {
        **{f"train {i}": part for i, part in enumerate(task.train)},
        **{"val": task.val, "test": task.test},
    }


def nodes_seen(part):
    return part.inputs[0].x[:, 0].long()


# One graph


def test_with_masks_on_one_graph_all_parts_see_it_whole(tiny):
    calls = []

    def prepare(given):
        calls.append(given)
        return GCN.prepare(given)

    task = Task.from_data(tiny, prepare, CPU)
    assert len(calls) == 1  # prepared once for all parts
    assert torch.equal(calls[0].x, tiny.x)
    assert len(task.train) == 1
    for name, part in (("train", task.train[0]), ("val", task.val), ("test", task.test)):
        mask = tiny[f"{name}_mask"]
        assert part.inputs is task.val.inputs
        assert part.nodes.tolist() == [v for v in range(tiny.num_nodes) if mask[v]]
        assert part.labels.tolist() == [int(tiny.y[v]) for v in part.nodes]
    assert task.objective.kind == "classes"


def test_things_that_cannot_move_are_handed_on(tiny):
    task = Task.from_data(tiny, lambda data: (data.x, None, "word"), CPU)
    assert task.test.inputs[1:] == (None, "word")


# Several graphs


def test_every_part_sees_the_graphs_of_its_own_nodes(data):
    task = Task.from_data(data, whole, CPU)
    expected = {"train 0": (0, 15), "val": (15, 25), "test": (25, 33)}
    for name, part in parts(task).items():
        assert nodes_seen(part).tolist() == list(range(*expected[name]))


@pytest.mark.parametrize("graphs_per_step", [None, 1, 2, 3, 10])
def test_no_part_sees_a_node_of_another(data, graphs_per_step):
    found = parts(Task.from_data(data, whole, CPU, graphs_per_step=graphs_per_step))
    seen = torch.cat([nodes_seen(part) for part in found.values()])
    assert sorted(seen.tolist()) == list(range(data.num_nodes))  # all, and each once


@pytest.mark.parametrize(
    ("graphs_per_step", "steps"),
    [
        (None, [(0, 15)]),
        (1, [(0, 6), (6, 10), (10, 15)]),
        (2, [(0, 10), (10, 15)]),
        (3, [(0, 15)]),
    ],
)
def test_training_graphs_are_split_into_steps_in_order(data, graphs_per_step, steps):
    task = Task.from_data(data, whole, CPU, graphs_per_step=graphs_per_step)
    assert [nodes_seen(part).tolist() for part in task.train] == [list(range(*s)) for s in steps]


@pytest.mark.parametrize("graphs_per_step", [None, 1, 2])
def test_a_part_is_its_graphs_cut_out_by_hand(data, graphs_per_step):
    task = Task.from_data(data, whole, CPU, graphs_per_step=graphs_per_step)
    for part in parts(task).values():
        batch, nodes = part.inputs[0], nodes_seen(part)
        graphs = sorted({int(data.graph[v]) for v in nodes})
        assert batch.batch.tolist() == [graphs.index(int(data.graph[v])) for v in nodes]
        assert torch.equal(batch.x, data.x[nodes])
        edges = {(int(nodes[a]), int(nodes[b])) for a, b in batch.edge_index.T}
        inside = set(nodes.tolist())
        expected = {(a, b) for a, b in data.edge_index.T.tolist() if a in inside}
        assert edges == expected
        assert batch.num_edges == len(expected)
        assert torch.equal(nodes[part.nodes], nodes)
        assert torch.equal(part.labels, data.y[nodes])


def test_nodes_outside_the_mask_are_seen_but_not_asked(data):
    data.y[[1, 16]] = -1
    data.train_mask[1] = data.val_mask[16] = False
    task = Task.from_data(data, whole, CPU)
    train = task.train[0]
    assert 1 in nodes_seen(train)
    assert 1 not in nodes_seen(train)[train.nodes]
    assert int(train.labels.min()) == 0
    assert nodes_seen(task.val)[task.val.nodes].tolist() == [15, *range(17, 25)]


def test_sparse_features_are_cut_as_dense_ones(data):
    dense = Task.from_data(data, whole, CPU)
    data.x = data.x.to_sparse_csr()
    for a, b in zip(
        parts(dense).values(), parts(Task.from_data(data, whole, CPU)).values(), strict=True
    ):
        assert torch.equal(a.inputs[0].x, b.inputs[0].x)


def test_graphs_need_not_stand_together(data):
    order = torch.randperm(data.num_nodes)
    place = torch.argsort(order)
    mixed = Data(x=data.x[order], y=data.y[order], edge_index=place[data.edge_index])
    for name in ("graph", "train_mask", "val_mask", "test_mask"):
        mixed[name] = data[name][order]
    model = GCN(data.num_features, 4, 3, reweight="dr").eval()
    plain = Task.from_data(data, GCN.prepare, CPU, graphs_per_step=2)
    other = Task.from_data(mixed, GCN.prepare, CPU, graphs_per_step=2)
    for a, b in zip(parts(plain).values(), parts(other).values(), strict=True):
        expected, found = (model(*part.inputs)[part.nodes].sum(0) for part in (a, b))
        torch.testing.assert_close(found, expected)
        assert sorted(a.labels.tolist()) == sorted(b.labels.tolist())


def test_a_table_of_labels_makes_a_multi_label_task():
    data = several(SIZES, many_labels=True)
    task = Task.from_data(data, whole, CPU, graphs_per_step=2)
    assert task.objective.kind == "labels"
    assert task.train[1].labels.shape == (5, LABELS)
    assert torch.equal(task.test.labels, data.y[25:])


# Mistakes


def test_steps_of_graphs_need_several_graphs(tiny):
    with pytest.raises(InputError, match=r"Leave out graphs_per_step, or use drgcn\.data\.unite"):
        Task.from_data(tiny, whole, CPU, graphs_per_step=1)


def test_a_step_has_at_least_one_graph(data):
    with pytest.raises(InputError, match="at least one graph per step; found 0"):
        Task.from_data(data, whole, CPU, graphs_per_step=0)


@pytest.mark.parametrize("name", ["train", "val", "test"])
def test_every_part_needs_labelled_nodes(data, name):
    for change, words in (
        ({f"{name}_mask": None}, "no such mask"),
        ({f"{name}_mask": torch.zeros(data.num_nodes, dtype=torch.bool)}, "an empty one"),
        ({"y": torch.full_like(data.y, -1)}, "some have y < 0"),
    ):
        broken = data.clone()
        for key, value in change.items():
            broken[key] = value
        with pytest.raises(InputError, match=words):
            Task.from_data(broken, whole, CPU)


# Mini-batches


def keys(*seeds):
    return torch.tensor([stream_key(seed, "batches") for seed in seeds])


def order(batches, seeds=(0, 1, 2), epoch=1):
    return batches.order(keys(*seeds), torch.tensor(epoch))


@pytest.mark.parametrize(
    ("nodes", "size", "steps", "used"),
    [(20, 5, 4, 5), (23, 5, 4, 5), (4, 5, 1, 4), (5, 5, 1, 5)],
)
def test_steps_and_sizes(nodes, size, steps, used):
    """What is left over has no turn; fewer nodes than a batch are one."""
    batches = MiniBatches(nodes, size)
    assert batches.steps == steps
    found = order(batches)
    assert found.shape == (steps, 3, used)
    for lane in range(3):
        places = found[:, lane].flatten().tolist()
        assert len(set(places)) == len(places)  # no node twice in an epoch
        assert set(places) <= set(range(nodes))


def test_an_epoch_without_leftovers_is_a_permutation():
    found = order(MiniBatches(24, 6))
    for lane in range(3):
        assert sorted(found[:, lane].flatten().tolist()) == list(range(24))


def test_seeds_and_epochs_differ():
    batches = MiniBatches(40, 10)
    orders = [order(batches, (seed,), epoch) for seed in range(4) for epoch in (1, 2, 3)]
    assert len({tuple(o.flatten().tolist()) for o in orders}) == 12


def test_an_order_depends_on_seed_and_epoch_alone():
    batches = MiniBatches(40, 10)
    among = order(batches, (5, 3, 9), 7)
    torch.manual_seed(4)
    assert torch.equal(among[:, 1:2], order(batches, (3,), 7))


def test_every_node_comes_as_often_at_every_place():
    """Ten nodes in batches of three: all have the same chance of each place, and of none."""
    batches, epochs = MiniBatches(10, 3), 3000
    counts = np.zeros((10, 9))
    for epoch in range(1, epochs + 1):
        places = order(batches, (0,), epoch).flatten().numpy()
        counts[places, np.arange(9)] += 1
    for place in range(9):
        assert stats.chisquare(counts[:, place]).pvalue > 1e-5
    left_out = epochs - counts.sum(1)
    assert stats.chisquare(left_out).pvalue > 1e-5


def test_orders_of_neighbouring_epochs_are_unrelated():
    batches = MiniBatches(500, 500)
    first, second = (order(batches, (0,), epoch).flatten().argsort() for epoch in (1, 2))
    correlation = np.corrcoef(first.numpy(), second.numpy())[0, 1]
    assert abs(correlation) < 0.2


def test_l2_is_half_the_squares_of_each_seed():
    parameters = [torch.randn(4, 3, 2), torch.randn(4, 4)]
    found = l2_penalty(parameters, 0.1)
    for seed in range(4):
        squares = sum(float((p[seed] ** 2).sum()) for p in parameters)
        assert float(found[seed]) == pytest.approx(0.05 * squares)
    assert l2_penalty([], 0.1) == 0


@pytest.mark.parametrize("inductive", ["train", "apart"])
def test_parts_of_a_graph_carry_the_weights_of_their_edges(tiny, inductive):
    given = copy.copy(tiny)
    given.edge_weight = 1.0 + (tiny.edge_index.sum(0) % 5)
    seen = visible(given, "train", inductive)
    kept = given.train_mask.nonzero().flatten()
    assert seen.edge_weight.equal(1.0 + (kept[seen.edge_index].sum(0) % 5))
