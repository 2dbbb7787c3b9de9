import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackNoConvergence
from torch_geometric.data import Batch, Data
from torch_geometric.nn import ChebConv
from torch_geometric.utils import get_laplacian, to_dense_adj, to_undirected

from drgcn.errors import DrgcnWarning
from drgcn.nn import ChebNet, ChebyshevConvolution, SparseMatrix, scaled_laplacian, spmm
from drgcn.nn import chebyshev as module

from ..reference import chebyshev, layouts
from ..reference.gates import gate
from .matrices import random_matrix
from .models import (
    CLASSES,
    EDGES,
    NODES,
    D,
    every_second_kept,
    gradients,
    one_at_a_time,
    randomized,
)

HIDDEN = 5
LAYOUT = pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
ORDER = pytest.mark.parametrize("K", [0, 1, 2, 3, 5])


@pytest.fixture
def x():
    return random_matrix(NODES, D)


@pytest.fixture
def laplacian():
    return scaled_laplacian(EDGES, NODES, dtype=torch.float64)


def random_model(num_layers=2, dropout=0.0, **options):
    return randomized(
        ChebNet(D, HIDDEN, CLASSES, num_layers=num_layers, dropout=dropout, **options)
    )


# The formula


@one_at_a_time(
    {"K": 3, "num_layers": 2, "reweight": "dr"},
    {"K": 5, "num_layers": 3, "reweight": "static"},
    {"K": 0, "num_layers": 1, "reweight": None},
    K=[0, 1, 2, 5],
    num_layers=[1, 3],
    reweight=[None, "static", "constant"],
)
def test_model_equals_the_formula(x, setting):
    model = random_model(dropout=0.5, **setting).eval()
    scaled = chebyshev.scaled(chebyshev.laplacian(EDGES.t().tolist(), NODES))
    weights = [conv.weight.detach().transpose(0, 1).numpy() for conv in model.convs]
    gates = [gate(layer.gate) for layer in model.inputs]
    expected = torch.from_numpy(chebyshev.forward(x.numpy(), scaled, weights, gates))
    for layout in layouts.ALL:
        torch.testing.assert_close(model(layout(x), EDGES), expected, rtol=1e-10, atol=1e-10)


@one_at_a_time({"K": 3, "reweight": "dr"}, K=[0, 1, 2, 5], reweight=[None, "static", "constant"])
@LAYOUT
def test_gradients_equal_those_of_dense_polynomials(x, laplacian, setting, layout):
    model, K = random_model(**setting), setting["K"]
    dense = laplacian.to_dense()
    polynomials = [torch.eye(NODES).double(), dense]
    for _ in range(2, K + 1):
        polynomials.append(2 * dense @ polynomials[-1] - polynomials[-2])
    h = x
    for enter, conv in zip(model.inputs, model.convs, strict=True):
        s = 1 if enter.gate is None else enter.gate.from_mean(h.mean(0))
        h = sum(polynomials[k] @ (h * s) @ conv.weight[:, k] for k in range(K + 1))
        h = h.relu() if conv is model.convs[0] else h
    found = gradients(model(layout(x), laplacian), model)
    torch.testing.assert_close(found, gradients(h, model), rtol=1e-10, atol=1e-10)


@ORDER
def test_convolution_equals_that_of_pyg(x, K):
    ours = randomized(ChebyshevConvolution(D, CLASSES, K))
    theirs = ChebConv(D, CLASSES, K + 1, bias=False).double()
    for k, linear in enumerate(theirs.lins):
        linear.weight = torch.nn.Parameter(ours.weight[:, k].detach().t().clone())
    for lambda_max in (1.7, 2.0):
        expected = theirs(x, EDGES, lambda_max=torch.tensor(lambda_max, dtype=torch.float64))
        matrix = scaled_laplacian(EDGES, NODES, lambda_max=lambda_max, dtype=torch.float64)
        torch.testing.assert_close(ours(x, matrix), expected)


@ORDER
def test_a_layer_takes_as_many_products_as_its_order_each_as_wide_as_its_output(
    x, laplacian, K, monkeypatch
):
    widths = []

    def counted(matrix, y):
        widths.append(y.size(1))
        return spmm(matrix, y)

    monkeypatch.setattr(module, "spmm", counted)
    random_model(K=K, reweight="dr")(x, laplacian)
    assert widths == [HIDDEN] * K + [CLASSES] * K


@pytest.mark.parametrize("reweight", [None, "dr"])
@LAYOUT
def test_batch_equals_graph_by_graph_under_one_eigenvalue(layout, reweight):
    x = [random_matrix(NODES, D, seed=seed) for seed in range(3)]
    batch = Batch.from_data_list([Data(x=features, edge_index=EDGES) for features in x])
    model = random_model(reweight=reweight)
    expected = torch.cat([model(features, EDGES) for features in x])
    found = model(layout(batch.x), batch.edge_index, batch.batch)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model(*ChebNet.prepare(batch)), expected)


# Dropout


@LAYOUT
def test_all_orders_see_one_mask(x, laplacian, layout, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(dropout=0.5, reweight="dr")
    layers = list(model.layers(layout(x), laplacian))
    assert len(seen) == 2  # one a layer, whatever the order
    assert seen[1] is layers[0][2]
    positions = torch.arange(x.numel()).view(x.shape)
    if layout is not layouts.dense:  # sparse features drop among their non-zeros
        positions = (x != 0).flatten().cumsum(0).view(x.shape) - 1
    dropped = 2 * x * (positions % 2 == 0)
    s = model.inputs[0].gate.vector(x)
    scaled = chebyshev.polynomials(laplacian.to_dense().numpy(), 3)
    expected = sum(
        torch.from_numpy(T) @ (dropped * s) @ model.convs[0].weight[:, k]
        for k, T in enumerate(scaled)
    )
    torch.testing.assert_close(layers[0][2], expected.relu())


# Parameters


def test_weights_of_every_order_start_in_the_range_of_glorot():
    weight = ChebyshevConvolution(40, 20, 3).weight
    assert weight.shape == (40, 4, 20)
    largest = weight.abs().amax((0, 2))
    limit = (6 / 60) ** 0.5
    assert (largest <= limit).all()
    assert (largest > 0.98 * limit).all()


def test_an_impossible_order_is_refused():
    with pytest.raises(ValueError, match="ChebNet expects an order K >= 0; found -1"):
        ChebNet(D, HIDDEN, CLASSES, K=-1)


# The Laplacian


GRAPHS = {
    "path and an isolated node": (5, [(0, 1), (1, 2), (2, 3)]),
    "triangle": (3, [(0, 1), (1, 2), (2, 0)]),
    "square, regular and bipartite": (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "two components": (6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5)]),
    "no edges": (3, []),
    "one node": (1, []),
}


def both_ways(edges):
    return torch.tensor([*edges, *((v, u) for u, v in edges)], dtype=torch.long).view(-1, 2).t()


def random_graph(nodes, edges, seed=0):
    ends = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
    return to_undirected(ends[:, ends[0] != ends[1]])


@pytest.mark.parametrize("name", GRAPHS)
def test_laplacian_equals_the_formula(name):
    nodes, edges = GRAPHS[name]
    edge_index = both_ways(edges)
    expected = chebyshev.scaled(chebyshev.laplacian(edge_index.t().tolist(), nodes))
    found = scaled_laplacian(edge_index, nodes, dtype=torch.float64).to_dense()
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-12, atol=1e-12)


def test_unscaled_laplacian_is_that_of_pyg():
    edges = random_graph(20, 30)
    index, weight = get_laplacian(edges, normalization="sym", num_nodes=22, dtype=torch.float64)
    expected = to_dense_adj(index, edge_attr=weight, max_num_nodes=22)[0]
    found = scaled_laplacian(edges, 22, lambda_max=2.0, dtype=torch.float64).to_dense()
    torch.testing.assert_close(found + torch.eye(22), expected)


def test_self_loops_and_the_order_of_edges_do_not_matter():
    edges = random_graph(20, 30)
    loops = torch.arange(3).expand(2, -1)
    shuffled = torch.cat([loops, edges], 1)[:, torch.randperm(edges.size(1) + 3)]
    assert torch.equal(
        scaled_laplacian(shuffled, 20).to_dense(), scaled_laplacian(edges, 20).to_dense()
    )


@pytest.mark.parametrize("edges", [400, 2000])
def test_large_graphs_have_the_eigenvalue_of_dense_ones(edges):
    graph = random_graph(400, edges)
    dense = chebyshev.laplacian(graph.t().tolist(), 400)
    expected = 2 / np.linalg.eigvalsh(dense)[-1] - 1
    found = scaled_laplacian(graph, 400, dtype=torch.float64).to_dense().diagonal()
    torch.testing.assert_close(found, torch.full_like(found, expected), rtol=1e-10, atol=1e-10)


def test_large_regular_bipartite_graph_has_eigenvalue_two():
    ring = torch.stack([torch.arange(300), (torch.arange(300) + 1) % 300])
    found = scaled_laplacian(to_undirected(ring), 300, dtype=torch.float64)
    torch.testing.assert_close(found.to_dense().diagonal(), torch.zeros(300).double())


def test_the_same_numbers_at_every_call():
    graph = random_graph(500, 900)
    assert torch.equal(scaled_laplacian(graph, 500).values, scaled_laplacian(graph, 500).values)


def test_edges_of_one_direction_take_the_bound():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    assert torch.equal(scaled_laplacian(edges, 3).to_dense().diagonal(), torch.zeros(3))


def test_a_search_without_result_takes_the_bound_and_says_so(monkeypatch):
    def fails(*_, **__):
        raise ArpackNoConvergence("no", [], [])

    monkeypatch.setattr(module, "eigsh", fails)
    with pytest.warns(DrgcnWarning, match="Laplacian of 300 nodes was not found; the bound 2.0"):
        found = scaled_laplacian(random_graph(300, 900), 300)
    assert torch.equal(found.to_dense().diagonal(), torch.zeros(300))


def test_impossible_eigenvalues_are_refused():
    with pytest.raises(ValueError, match="lambda_max > 0; found 0"):
        scaled_laplacian(both_ways([(0, 1)]), 2, lambda_max=0)
