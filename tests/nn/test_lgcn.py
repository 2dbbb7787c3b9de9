import random
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data

from drgcn.nn import LGCN, LearnableGraphConvolution, SparseMatrix
from drgcn.nn.lgcn import LargestNeighbors, _sorting_network

from ..reference import adjacency, layouts, lgcn
from .matrices import random_matrix
from .models import GATES, every_second_kept, gradients, one_at_a_time, randomized

NODES, D, HIDDEN, CLASSES, GROWTH = 20, 6, 5, 3, 2
RING = torch.arange(13)
# A ring, a hub with more neighbours than any k here, and isolated nodes: every node has at least
# eight that are no neighbours, whose zeros compete in the authors' code.
ONE_WAY = torch.cat(
    [torch.stack([RING, (RING + 1) % 13]), torch.stack([torch.zeros(9).long(), RING[2:11]])], 1
)
EDGES = torch.cat([ONE_WAY, ONE_WAY.flip(0)], dim=1)
LAYOUT = pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
COUNT = pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8])
EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def x():
    return random_matrix(NODES, D)


@pytest.fixture
def graph():
    return LGCN.matrix(EDGES, NODES, torch.float64)


def random_model(num_layers=2, k=3, dropout=0.0, **options):
    shape = {"num_layers": num_layers, "k": k, "growth": GROWTH, "dropout": dropout}
    return randomized(LGCN(D, HIDDEN, CLASSES, **shape, **options))


def dense():
    return torch.from_numpy(adjacency.symmetric(adjacency.adjacency(EDGES.t().tolist(), NODES)))


def gates_of(model):
    def one(gate):
        return (lambda _: 1.0) if gate is None else (lambda h: gate.from_mean(h.mean(0)))

    return [one(enter.gate) for enter in model.inputs]


# Ranking


@COUNT
def test_largest_values_are_those_of_a_sort_over_all_nodes(graph, k):
    x = torch.randn(NODES, 7, dtype=torch.float64)
    expected = lgcn.ranked(x, dense(), k)
    torch.testing.assert_close(graph.select(x, k), expected[:, 1:])


@COUNT
def test_gradients_of_largest_values_equal_numerical_ones(graph, k):
    x = torch.randn(NODES, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: graph.select(v, k), x)
    # Squares, because the second gradients of the values themselves are zero.
    assert torch.autograd.gradgradcheck(lambda v: graph.select(v, k) ** 2, x)
    lanes = torch.randn(2, NODES, 3, dtype=torch.float64, requires_grad=True)
    squares = torch.vmap(lambda v: graph.select(v, k) ** 2)
    assert torch.autograd.gradgradcheck(squares, lanes, fast_mode=True)


@pytest.mark.parametrize("nodes", [NODES, 150])
def test_in_single_precision_values_and_gradients_are_those_of_a_sort_to_the_bit(nodes):
    """With equal values, of which the first goes first, and rows for every kind of table."""
    hub = torch.stack([torch.zeros(nodes - 1).long(), torch.arange(1, nodes)])
    matrix = LGCN.matrix(torch.cat([EDGES, hub, hub.flip(0)], dim=1), nodes, torch.float32)
    A = matrix.matrix.to_dense()
    x = torch.randn(nodes, 3).requires_grad_()
    with torch.no_grad():
        x[5:9] = x[4]
    expected = lgcn.ranked(x, A, 4)[:, 1:]
    found = matrix.select(x, 4)
    assert torch.equal(found, expected.clamp(min=0))
    factors = torch.randn_like(found) * (found > 0)
    wanted, gradient = (torch.autograd.grad((v * factors).sum(), x)[0] for v in (expected, found))
    torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("width", [2, 3, 7, 8, 13, 64])
def test_sorting_network_puts_the_largest_first(width):
    """Zeros and ones are enough to try: a network that sorts them sorts everything."""
    for kept in {1, min(width, 8), width}:
        for ones in range(width + 1):
            rows = [1] * ones + [0] * (width - ones)
            random.Random(ones).shuffle(rows)
            for high, low in _sorting_network(width, kept):
                rows[high], rows[low] = max(rows[high], rows[low]), min(rows[high], rows[low])
            assert rows[:kept] == sorted(rows, reverse=True)[:kept]


def test_gradients_of_many_lanes_equal_a_loop(graph):
    x = torch.randn(3, NODES, 4, dtype=torch.float64)
    factors = torch.randn(3, NODES, 5, 4, dtype=torch.float64)

    def loss(v, f):
        return (graph.select(v, 5) * f).sum()

    expected = torch.stack([torch.func.grad(loss)(v, f) for v, f in zip(x, factors, strict=True)])
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(x, factors), expected)
    turned = torch.vmap(torch.func.grad(loss), (2, 0))(x.movedim(0, 2), factors)
    torch.testing.assert_close(turned, expected)


def test_nodes_without_any_entry_have_zeros():
    matrix = SparseMatrix.from_tensor(torch.tensor([[0.0, 2.0], [0.0, 0.0]]))
    found = LargestNeighbors.of(matrix).select(torch.tensor([[1.0], [3.0]]), 2)
    assert found.tolist() == [[[6.0], [0.0]], [[0.0], [0.0]]]
    nothing = LargestNeighbors.of(SparseMatrix.from_tensor(torch.zeros(2, 2)))
    assert torch.equal(nothing.select(torch.ones(2, 3), 2), torch.zeros(2, 2, 3))


def test_tables_hold_every_entry_once(graph):
    entries = torch.cat([entry.flatten() for _, entry in graph.tables])
    found = entries[entries < graph.matrix.pattern.nnz].sort().values
    assert torch.equal(found, torch.arange(graph.matrix.pattern.nnz))
    nodes = torch.cat([nodes for nodes, _ in graph.tables]).sort().values
    assert torch.equal(nodes, torch.arange(NODES))
    assert entries.numel() <= 2 * graph.matrix.pattern.nnz


# The formula


@one_at_a_time(
    {"k": 3, "num_layers": 2, "reweight": "dr"},
    {"k": 8, "num_layers": 1, "reweight": "static"},
    k=[1, 2, 4, 7, 8],
    num_layers=[1],
    reweight=[None, "static", "constant"],
)
def test_model_and_gradients_equal_the_formula(x, setting):
    model = random_model(**setting)
    expected = lgcn.forward(x, dense(), model, gates_of(model))
    wanted = gradients(expected, model)
    for layout in (layouts.dense, SparseMatrix.from_tensor):
        found = model(layout(x), EDGES)
        torch.testing.assert_close(found, expected, **EXACT)
        torch.testing.assert_close(gradients(found, model), wanted, **EXACT)


@COUNT
def test_convolution_equals_torchs_own(graph, k):
    conv = randomized(LearnableGraphConvolution(D, GROWTH, k))
    x = torch.randn(NODES, D, dtype=torch.float64)
    rows = torch.cat([x[:, None], graph.select(x, k)], dim=1).transpose(1, 2)
    first = F.conv1d(rows, conv.weight1.permute(2, 1, 0), conv.bias1)
    second = F.conv1d(first, conv.weight2.permute(2, 1, 0))
    assert second.shape == (NODES, GROWTH, 1)
    expected = F.batch_norm(
        second.squeeze(2), None, None, conv.norm.weight, conv.norm.bias, training=True, eps=1e-3
    )
    torch.testing.assert_close(conv(x, graph), expected, **EXACT)


@pytest.mark.parametrize("reweight", GATES)
@LAYOUT
def test_batch_has_a_gate_for_every_graph_and_one_batch_norm(layout, reweight):
    features = [random_matrix(NODES, D, seed=seed) for seed in range(3)]
    batch = Batch.from_data_list([Data(x=x, edge_index=EDGES) for x in features])
    model = random_model(num_layers=1, reweight=reweight)
    found = list(model.layers(layout(batch.x), batch.edge_index, batch.batch))
    alone = [list(model.layers(x, EDGES)) for x in features]
    hidden = torch.cat([layers[0][2] for layers in alone])
    torch.testing.assert_close(found[0][2], hidden)
    if reweight is None:
        return
    s = torch.stack([model.inputs[1].gate.from_mean(h.mean(0)) for h in hidden.split(NODES)])
    torch.testing.assert_close(found[1][1].expand_as(s), s)
    scaled = hidden * s.repeat_interleave(NODES, 0)
    added = model.convs[0](scaled, LGCN.matrix(batch.edge_index, 3 * NODES, torch.float64))
    torch.testing.assert_close(found[1][2], torch.cat([hidden, added], dim=1))


# Dropout and parameters


def test_dropout_stands_in_front_of_every_product(x, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(dropout=0.5, reweight="dr")
    found = model(x, EDGES)
    assert [values.shape for values in seen] == [
        *((NODES, D), (NODES, 4, HIDDEN), (NODES, 6), (NODES, 4, 7), (NODES, 8), (NODES, 9))
    ]
    masks = [2.0 * (torch.arange(v.numel()).view(v.shape) % 2 == 0) for v in seen]
    masks[2], masks[4] = masks[2].view(NODES, 2, 3), masks[4].view(NODES, 2, 4)
    masks = [masks[0], (masks[1], masks[2]), (masks[3], masks[4]), masks[5]]
    expected = lgcn.forward(x, dense(), model, gates_of(model), masks)
    torch.testing.assert_close(found, expected, **EXACT)


def test_evaluation_drops_nothing_and_uses_the_nodes_at_hand(x):
    model = random_model(dropout=0.5)
    assert torch.equal(model.eval()(x, EDGES), random_model()(x, EDGES))
    assert not list(model.buffers())


def test_parameters_start_in_the_ranges_of_tensorflow():
    model = LGCN(300, 200, 100, k=4, growth=40)
    conv = model.convs[0]
    assert (conv.weight1.shape, conv.weight2.shape) == ((3, 200, 120), (3, 120, 40))
    for value, limit in (
        (model.first.weight, (6 / 500) ** 0.5),
        (model.first.bias, (6 / 400) ** 0.5),
        (conv.weight1, (6 / (3 * 320)) ** 0.5),
        (conv.weight2, (6 / (3 * 160)) ** 0.5),
    ):
        assert 0.95 * limit < value.abs().max() <= limit
    assert not conv.bias1.any()


# Layers and errors


@pytest.mark.parametrize("num_layers", [1, 3])
def test_every_layer_keeps_what_it_was_given(x, num_layers):
    model = random_model(num_layers=num_layers, reweight="dr")
    layers = list(model.layers(x, EDGES))
    assert len(layers) == num_layers + 2
    assert torch.equal(layers[-1][2], model(x, EDGES))
    for before, after in pairwise(layers[:-1]):
        assert torch.equal(after[2][:, : before[2].size(1)], before[2])
        assert after[2].size(1) == before[2].size(1) + GROWTH


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "LGCN expects k >= 1; found 0"),
        ({"growth": -1}, "LGCN expects growth >= 1; found -1"),
    ],
)
def test_impossible_counts_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LGCN(D, HIDDEN, CLASSES, **options)
