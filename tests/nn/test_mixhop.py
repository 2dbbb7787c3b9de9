from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data

from drgcn.errors import DrgcnWarning
from drgcn.nn import MixHop, MixHopConvolution, SparseMatrix, normalized_adjacency, spmm
from drgcn.nn import mixhop as module
from drgcn.nn.mixhop import MixHopReadout, unit_rows

from ..reference import adjacency, layouts, mixhop
from ..reference.gates import gate
from .matrices import MATRICES, random_matrix
from .models import (
    CLASSES,
    EDGES,
    GATES,
    NODES,
    D,
    every_second_kept,
    gradients,
    one_at_a_time,
    randomized,
)

LAYOUT = pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
WIDTHS = [  # of hidden layers and of the readout
    ((4, 3, 2), (0, 3, 3)),
    ((0, 5, 0), (3, 6, 3)),
    ((3, 0, 2, 1), (2, 4, 0, 3)),  # segments across powers, a power left out
    ((5,), (3,)),
    ((2, 2), (6, 0)),
]
EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def x():
    features = random_matrix(NODES, D)
    features[3] = 0  # a row without a length
    return features


@pytest.fixture
def adj():
    return normalized_adjacency(EDGES, NODES, dtype=torch.float64)


def random_model(widths=((4, 3, 2), None), num_layers=2, dropout=0.0, **options):
    hidden, readout = widths
    rates = {"dropout": dropout, "hidden_dropout": dropout}
    model = MixHop(
        D, hidden, CLASSES, num_layers=num_layers, readout_channels=readout, **rates, **options
    )
    return randomized(model)


def kernels(model):
    """The weights of every power of every layer."""
    convs = (*model.convs, model.readout)
    return [[w.detach().numpy() for w in c.weight.split(c.out_channels, 1)] for c in convs]


def reference(model, x, masks=None):
    a = adjacency.symmetric(adjacency.adjacency(EDGES.t().tolist(), NODES))
    features = mixhop.binary(x.numpy()) if model.binarize else x.numpy()
    gates = [gate(layer.gate) for layer in model.inputs]
    shifts = [norm.bias.detach().numpy() for norm in model.norms]
    q = model.readout.segment_logits.detach().numpy()
    out = mixhop.forward(features, a, kernels(model), gates, shifts, q, CLASSES, masks)
    return torch.from_numpy(out)


# The formula


@one_at_a_time(
    {"widths": ((4, 3, 2), (3, 3, 3)), "num_layers": 2, "binarize": True, "reweight": "dr"},
    {"widths": WIDTHS[2], "num_layers": 3, "binarize": False},
    {"widths": WIDTHS[0], "num_layers": 3, "binarize": False, "reweight": "static"},
    {"widths": WIDTHS[3], "num_layers": 1, "binarize": False, "reweight": None},
    widths=WIDTHS,
    num_layers=[1, 3],
    binarize=[False],
    reweight=[None, "static", "constant"],
)
def test_model_equals_the_formula(x, setting):
    model = random_model(dropout=0.5, **setting).eval()
    expected = reference(model, x)
    for layout in (layouts.dense, layouts.csr):
        torch.testing.assert_close(model(layout(x), EDGES), expected, **EXACT)


def dense_model(model, x, adj):
    """The same function of the same parameters, in dense torch and in the order of the paper."""
    features = (x != 0).double() if model.binarize else x
    h = features / features.square().sum(1, keepdim=True).clamp(min=1e-12).sqrt()
    for enter, conv in zip(model.inputs, (*model.convs, model.readout), strict=True):
        s = 1 if enter.gate is None else enter.gate.from_mean(h.mean(0))
        parts, reached = [], h * s
        for kernel in conv.weight.split(conv.out_channels, 1):
            parts.append(reached @ kernel)
            reached = adj.to_dense() @ reached
        h = torch.cat(parts, 1)
        if conv is not model.readout:
            centred = h - h.mean(0)
            norm = model.norms[list(model.convs).index(conv)]
            h = (centred / (centred.square().mean(0) + 1e-3).sqrt() + norm.bias).relu()
    share = model.readout.segment_logits.softmax(0)
    return sum(w * part for w, part in zip(share, h.split(CLASSES, 1), strict=True))


@one_at_a_time(
    {"widths": ((4, 3, 2), (3, 3, 3)), "reweight": "dr"},
    widths=WIDTHS,
    reweight=[None, "static", "constant"],
)
@LAYOUT
def test_gradients_equal_those_of_dense_torch(x, adj, setting, layout):
    model = random_model(num_layers=3, binarize=False, **setting)
    expected = dense_model(model, x, adj)
    found = model(layout(x), adj)
    torch.testing.assert_close(found, expected, **EXACT)
    torch.testing.assert_close(gradients(found, model), gradients(expected, model), **EXACT)


def test_convolution_is_powers_side_by_side(x, adj):
    conv = randomized(MixHopConvolution(D, (2, 0, 3)))
    a, w = adj.to_dense(), conv.weight
    expected = torch.cat([x @ w[:, :2], a @ a @ x @ w[:, 2:]], 1)
    torch.testing.assert_close(conv(x, adj), expected)


def product_widths(monkeypatch):
    widths = []

    def counted(matrix, y):
        widths.append(y.size(1))
        return spmm(matrix, y)

    monkeypatch.setattr(module, "spmm", counted)
    return widths


@pytest.mark.parametrize(
    ("widths", "expected"),
    [((4, 3, 2), [2, 5]), ((4, 3, 0), [3]), ((4, 0, 0), []), ((0, 0, 2), [2, 2])],
)
def test_powers_share_their_products(x, adj, widths, expected, monkeypatch):
    found = product_widths(monkeypatch)
    MixHopConvolution(D, widths).double()(x, adj)
    assert found == expected


@pytest.mark.parametrize(
    ("widths", "count"), [((0, 3, 3), 2), ((3, 6, 3), 2), ((3, 9, 0), 1), ((6, 0, 0), 0)]
)
def test_products_of_the_readout_are_as_wide_as_the_classes(x, adj, widths, count, monkeypatch):
    found = product_widths(monkeypatch)
    MixHopReadout(D, widths, CLASSES).double()(x, adj)
    assert found == [CLASSES] * count


def test_binary_features_know_no_values(x):
    model = random_model(reweight="dr")
    assert torch.equal(model(x * 3.7, EDGES), model(x, EDGES))
    real = random_model(reweight="dr", binarize=False)
    assert not torch.allclose(real(x, EDGES), model(x, EDGES))


# Batches


@pytest.mark.parametrize("reweight", GATES)
@LAYOUT
def test_batch_equals_graph_by_graph_without_batch_norm(layout, reweight):
    x = [random_matrix(NODES, D, seed=seed) for seed in range(3)]
    batch = Batch.from_data_list([Data(x=features, edge_index=EDGES) for features in x])
    model = random_model(num_layers=1, reweight=reweight)
    expected = torch.cat([model(features, EDGES) for features in x])
    found = model(layout(batch.x), batch.edge_index, batch.batch)
    torch.testing.assert_close(found, expected)


@LAYOUT
def test_batch_norm_sees_the_whole_batch_and_blocks_one_graph(layout):
    x = [random_matrix(NODES, D, seed=seed) for seed in range(3)]
    batch = Batch.from_data_list([Data(x=features, edge_index=EDGES) for features in x])
    model = random_model(reweight="dr")
    layers = list(model.layers(layout(batch.x), batch.edge_index, batch.batch))
    alone = [list(model.layers(features, EDGES)) for features in x]
    torch.testing.assert_close(layers[0][1], torch.stack([graph[0][1] for graph in alone]))
    adj = normalized_adjacency(EDGES, NODES, dtype=torch.float64)
    convolved = [model.convs[0](graph[0][0], adj, graph[0][1]) for graph in alone]
    hidden = model.norms[0](torch.cat(convolved)).relu()
    torch.testing.assert_close(layers[0][2], hidden)
    s = torch.stack([model.inputs[1].gate.vector(h) for h in hidden.split(NODES)])
    torch.testing.assert_close(layers[1][1], s)
    expected = [model.readout(h, adj, s[g]) for g, h in enumerate(hidden.split(NODES))]
    torch.testing.assert_close(layers[1][2], torch.cat(expected))


# Dropout and batch norm


@pytest.mark.parametrize("binarize", [True, False])
@LAYOUT
def test_rows_are_scaled_after_dropout(x, layout, binarize, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(dropout=0.5, reweight="dr", binarize=binarize)
    layers = list(model.layers(layout(x), EDGES))
    assert len(seen) == 2
    assert seen[1] is layers[0][2]
    positions = torch.arange(x.numel()).view(x.shape)
    if layout is not layouts.dense:  # sparse features drop among their non-zeros
        positions = (x != 0).flatten().cumsum(0).view(x.shape) - 1
    hidden = torch.arange(seen[1].numel()).view(seen[1].shape)
    masks = [2.0 * (p % 2 == 0).double().numpy() for p in (positions, hidden)]
    torch.testing.assert_close(layers[-1][2], reference(model, x, masks), **EXACT)


def test_entering_rows_have_length_one_in_training(x):
    model = random_model(dropout=0.5, binarize=False)
    seen = []
    model.convs[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    torch.manual_seed(0)
    model(x, EDGES)
    lengths = seen[0].norm(dim=1)
    assert ((lengths - 1).abs() < 1e-9).sum() >= 4
    assert ((lengths - 1).abs() * lengths < 1e-9).all()  # one, or nothing left


def test_the_two_rates_act_where_they_should(x, monkeypatch):
    rates = []
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda v, p, _: rates.append(p) or v)
    MixHop(D, (4, 3), CLASSES, num_layers=3, dropout=0.2, hidden_dropout=0.7).double()(x, EDGES)
    assert rates == [0.2, 0.7, 0.7]


def test_evaluation_uses_the_statistics_of_the_nodes_at_hand(x):
    model = random_model()
    training = model(x, EDGES)
    assert torch.equal(model.eval()(x, EDGES), training)
    assert not list(model.buffers())
    hidden = model.convs[0](
        torch.randn(50, D).double() * 9,
        normalized_adjacency(torch.empty(2, 0, dtype=torch.long), 50, dtype=torch.float64),
    )
    out = model.norms[0](hidden) - model.norms[0].bias
    torch.testing.assert_close(out.mean(0), torch.zeros(9).double())
    variance = hidden.var(0, correction=0)
    torch.testing.assert_close(out.var(0, correction=0), variance / (variance + 1e-3))


# Parameters


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("reweight", [None, "dr"])
def test_penalty_equals_the_literal_sum(widths, reweight):
    model = random_model(widths, 3, reweight=reweight)
    q = model.readout.segment_logits.detach().numpy()
    blocks = [p.detach().numpy() for layer in model.inputs for p in layer.parameters()]
    expected = mixhop.penalty(kernels(model), q, blocks, 0.05)
    torch.testing.assert_close(model.penalty(0.05), torch.tensor(expected).double())


def test_penalty_has_finite_gradients_at_zero():
    model = random_model(reweight="dr")
    with torch.no_grad():
        model.convs[0].weight.zero_()
        model.readout.weight[:, 0] = 0
    model.penalty(0.1).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert torch.equal(model.convs[0].weight.grad, torch.zeros_like(model.convs[0].weight))


def test_penalty_of_many_seeds_equals_a_loop():
    models = [randomized(MixHop(D, (4, 3), CLASSES, reweight="dr"), i) for i in range(3)]
    parameters, _ = torch.func.stack_module_state(models)

    class Penalty(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = models[0]

        def forward(self):
            return self.model.penalty(0.1)

    renamed = {f"model.{name}": value for name, value in parameters.items()}
    found = torch.vmap(lambda p: torch.func.functional_call(Penalty(), p, ()))(renamed)
    torch.testing.assert_close(found, torch.stack([model.penalty(0.1) for model in models]))


def test_parameters_start_as_the_authors_have_them():
    model = MixHop(50, (40, 0, 10), CLASSES, reweight="dr")
    first, none, third = model.convs[0].weight.split((40, 0, 10), 1)
    for kernel, limit in ((first, (6 / 90) ** 0.5), (third, (6 / 60) ** 0.5)):
        assert 0.97 * limit < kernel.abs().max() <= limit
    assert none.numel() == 0
    assert torch.equal(model.readout.segment_logits, torch.zeros(3))
    assert torch.equal(model.norms[0].bias, torch.zeros(50))


# Layers, preparation, training, errors


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_layers_hold_what_the_next_layer_takes(x, num_layers):
    model = random_model(num_layers=num_layers, reweight="dr")
    layers = list(model.layers(x, EDGES))
    assert len(layers) == num_layers
    assert torch.equal(layers[-1][2], model(x, EDGES))
    binary = (x != 0).double()
    lengths = binary.norm(dim=1, keepdim=True).clamp(min=1e-6)
    torch.testing.assert_close(layers[0][0], binary / lengths)
    for this, following in pairwise(layers):
        assert this[2] is following[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_dropout": -0.1}, r"MixHop expects a .*dropout rate in \[0, 1\); found -0.1"),
        ({"hidden_channels": 60}, "one width per power, such as .* found 60"),
        ({"hidden_channels": (5, -1)}, r"none negative and not all zero; found \(5, -1\)"),
        ({"hidden_channels": (0, 0)}, r"MixHopConvolution expects .* found \(0, 0\)"),
        ({"readout_channels": ()}, r"MixHopReadout expects one width per power.* found \(\)"),
        ({"readout_channels": (3, 4)}, r"multiple of .* found \(3, 4\) for 3 classes"),
    ],
)
def test_impossible_widths_and_rates_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MixHop(
            **({"in_channels": D, "hidden_channels": (4, 3), "out_channels": CLASSES} | options)
        )


def test_binarizing_features_without_zeros_is_warned_of():
    data = Data(x=torch.rand(NODES, D) + 1, edge_index=EDGES)
    with pytest.warns(DrgcnWarning, match="binarize=False"):
        MixHop(D, (4, 3), CLASSES).prepare(data)


# Rows of length one


@pytest.mark.parametrize("name", MATRICES)
def test_rows_are_divided_by_their_lengths(name):
    x = MATRICES[name]
    expected = F.normalize(x, eps=1e-6)
    torch.testing.assert_close(unit_rows(x), expected)
    torch.testing.assert_close(unit_rows(SparseMatrix.from_tensor(x)).to_dense(), expected)


def test_very_short_rows_stay_short():
    x = torch.tensor([[3e-9, 4e-9]], dtype=torch.float64)
    torch.testing.assert_close(unit_rows(x), torch.tensor([[3e-3, 4e-3]], dtype=torch.float64))


def test_lanes_with_values_of_their_own_equal_a_loop():
    x = SparseMatrix.from_tensor(random_matrix(7, 5))
    values = torch.randn(3, x.values.numel(), dtype=torch.float64)
    found = torch.vmap(lambda v: unit_rows(x.with_values(v)).values)(values)
    expected = torch.stack([unit_rows(x.with_values(v)).values for v in values])
    torch.testing.assert_close(found, expected)
