import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import ChebConv

from drgcn.nn import ChebNet, ChebyshevConvolution, SparseMatrix, scaled_laplacian, spmm
from drgcn.nn import chebyshev as convolution_module

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

    monkeypatch.setattr(convolution_module, "spmm", counted)
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
