import math

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GraphNorm, PairNorm

from drgcn.nn import GCN, GraphConvolution, SparseMatrix, normalized_adjacency
from drgcn.nn.graph import NodeGroups

from ..reference import adjacency, dr_block, gcn, layouts
from .matrices import random_matrix
from .models import CLASSES, EDGES, NODES, D, gradients, lanes, one_at_a_time, randomized

HIDDEN = 5
NORM = pytest.mark.parametrize("norm", [None, "batch", "layer"])
PRE_ACTIVATION = pytest.mark.parametrize("pre_activation", [False, True])


@pytest.fixture
def x():
    return random_matrix(NODES, D)


@pytest.fixture
def adj():
    return normalized_adjacency(EDGES, NODES, dtype=torch.float64)


def random_model(num_layers=2, dropout=0.0, **options):
    return randomized(GCN(D, HIDDEN, CLASSES, num_layers=num_layers, dropout=dropout, **options))


# The formula


@one_at_a_time(
    {"num_layers": 2, "pre_activation": False, "norm": None, "reweight": "dr"},
    {"num_layers": 3, "pre_activation": True, "norm": "batch"},
    {"num_layers": 3, "pre_activation": True, "norm": "layer", "reweight": "static"},
    {"num_layers": 1, "pre_activation": True, "norm": "layer", "reweight": "constant"},
    num_layers=[1, 3],
    pre_activation=[True],
    norm=["batch", "layer"],
    reweight=[None, "static", "constant"],
)
def test_model_equals_the_paper(x, setting):
    model = random_model(dropout=0.5, **setting).eval()
    expected = torch.from_numpy(reference(model, x))
    torch.testing.assert_close(model(x, EDGES), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model(layouts.csr(x), EDGES), expected, rtol=1e-12, atol=1e-12)


def reference(model, x):
    a = adjacency.symmetric(adjacency.adjacency(EDGES.t().tolist(), NODES))
    weights = [conv.weight.detach().numpy() for conv in model.convs]
    norms = [reference_norm(layer.norm) for layer in model.inputs]
    gates = [reference_gate(layer.gate) for layer in model.inputs]
    return gcn.forward(x.numpy(), a, weights, norms, gates, model.pre_activation)


def reference_norm(norm):
    if norm is None:
        return lambda h: h
    state = {n: v.numpy() for n, v in norm.state_dict().items()}
    gamma, beta, eps = state["weight"], state["bias"], norm.eps
    if isinstance(norm, torch.nn.LayerNorm):
        return lambda h: gcn.layer_norm(h, gamma, beta, eps)
    mean, var = state["running_mean"], state["running_var"]
    return lambda h: gcn.batch_norm(h, mean, var, gamma, beta, eps)


def reference_gate(gate):
    if gate is None:
        return lambda r: r * 0 + 1
    state = {n: v.numpy() for n, v in gate.state_dict().items()}
    if not state:
        return lambda r: r * 0 + 0.5
    if list(state) == ["logits"]:
        return lambda r: [dr_block.sigmoid(a) for a in state["logits"]]
    names = ("squeeze_weight", "squeeze_bias", "excite_weight", "excite_bias")
    return lambda r: dr_block.vector_of_mean(r, *(state[name] for name in names))


@pytest.fixture
def pyg_pair():
    """A plain model, and two layers of PyG with its weights."""
    model = random_model()
    first, second = (GCNConv(a, b, bias=False) for a, b in ((D, HIDDEN), (HIDDEN, CLASSES)))
    for ours, theirs in zip(model.convs, (first, second), strict=True):
        theirs.lin.weight = torch.nn.Parameter(ours.weight.detach().t().clone())
    return model, torch.nn.ModuleList([first, second])


def test_plain_model_equals_two_layers_of_pyg(x, pyg_pair):
    model, (first, second) = pyg_pair
    expected = second(first(x, EDGES).relu(), EDGES)
    torch.testing.assert_close(model(x, EDGES), expected)


def test_plain_model_has_the_gradients_of_two_layers_of_pyg(x, pyg_pair):
    model, theirs = pyg_pair
    first, second = theirs
    expected = gradients(second(first(x, EDGES).relu(), EDGES), theirs)
    found = gradients(model(x, EDGES), model)
    torch.testing.assert_close([g.t() for g in found], list(expected))


# Dropout


def dropped_inputs(model, x, edges):
    """What the convolutions see."""
    seen = []
    for conv in model.convs:
        conv.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(x, edges)
    return seen


def assert_dropped(before, after, p):
    kept = after != 0
    torch.testing.assert_close(after[kept], before[kept] / (1 - p))
    dropped = 1 - kept.double().mean().item()
    assert abs(dropped - p) < 5 * (p * (1 - p) / before.numel()) ** 0.5


def test_dropout_of_sparse_features_acts_on_the_non_zeros():
    x = SparseMatrix.from_tensor(random_matrix(200, 50, density=0.3))
    model = GCN(50, HIDDEN, CLASSES, dropout=0.3).double()
    seen = dropped_inputs(model, x, EDGES)[0]
    assert seen.pattern is x.pattern
    assert_dropped(x.values, seen.values, 0.3)


def test_dropout_of_dense_features_acts_on_all_entries():
    x = random_matrix(200, 50, density=1.1)
    seen = dropped_inputs(GCN(50, HIDDEN, CLASSES, dropout=0.3).double(), x, EDGES)[0]
    assert_dropped(x.flatten(), seen.flatten(), 0.3)


def test_dropout_acts_on_the_hidden_layer():
    x = random_matrix(200, 50)
    model = GCN(50, 100, CLASSES, dropout=0.3, pre_activation=True).double()
    seen = dropped_inputs(model, x, EDGES)[1]
    assert (seen == 0).double().mean() > 0.55  # half by the ReLU, and 30 % of the other half


# Parameters


def test_convolutions_have_no_biases():
    names = [name for name, _ in GCN(D, HIDDEN, CLASSES, num_layers=3).named_parameters()]
    assert names == ["convs.0.weight", "convs.1.weight", "convs.2.weight"]


# Layers


@PRE_ACTIVATION
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_layers_end_with_the_output_of_the_model(x, num_layers, pre_activation):
    model = random_model(num_layers, reweight="dr", pre_activation=pre_activation)
    layers = list(model.layers(x, EDGES))
    assert len(layers) == num_layers
    assert torch.equal(layers[-1][2], model(x, EDGES))


def test_layers_hold_what_the_next_layer_takes(x):
    layers = list(random_model(3, reweight="dr").layers(x, EDGES))
    assert layers[0][0] is x
    assert layers[1][0] is layers[0][2]
    assert layers[2][0] is layers[1][2]


@PRE_ACTIVATION
@NORM
def test_layers_are_enough_to_compute_the_output(x, adj, norm, pre_activation):
    model = random_model(norm=norm, reweight="dr", pre_activation=pre_activation).eval()
    layer_input, s, out = list(model.layers(x, EDGES))[-1]
    entering = layer_input * s
    if pre_activation:
        entering = entering.relu()
    expected = adj.to_dense() @ entering @ model.convs[-1].weight
    torch.testing.assert_close(out, expected)


# Preparation and training


def test_preparation_makes_mostly_empty_features_sparse():
    data = Data(x=torch.eye(NODES), edge_index=EDGES)
    features, *_ = GCN.prepare(data)
    assert isinstance(features, SparseMatrix)


@pytest.mark.parametrize("layout", [layouts.dense, layouts.csr])
def test_autocast_agrees_with_float32(x, layout):
    model = random_model(reweight="dr").float()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(layout(x.float()), EDGES)
    torch.testing.assert_close(out.float(), model(x.float(), EDGES), rtol=0.1, atol=0.1)


# Errors


# Batches of graphs


SIZES = (8, 3, 5)
LAYOUT = pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])


@pytest.fixture
def graphs():
    """Three graphs of different sizes; the last has an isolated node."""
    generator = torch.Generator().manual_seed(4)
    made = [Data(x=random_matrix(SIZES[0], D), edge_index=EDGES)]
    for seed, nodes in enumerate(SIZES[1:], 1):
        one_way = torch.randint(nodes - 1, (2, 4), generator=generator)
        edges = torch.cat([one_way, one_way.flip(0)], dim=1)
        made.append(Data(x=(1 + seed) * random_matrix(nodes, D, seed=seed), edge_index=edges))
    return made


@PRE_ACTIVATION
@pytest.mark.parametrize("norm", ["layer", "graph", "pair"])
@LAYOUT
def test_a_normalised_batch_equals_graph_by_graph(graphs, layout, norm, pre_activation):
    model = random_model(norm=norm, reweight="dr", pre_activation=pre_activation)
    batch = Batch.from_data_list(graphs)
    expected = torch.cat([model(layout(graph.x), graph.edge_index) for graph in graphs])
    found = model(layout(batch.x), batch.edge_index, batch.batch)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model(*GCN.prepare(batch)), expected)
    torch.testing.assert_close(gradients(found, model), gradients(expected, model))


@LAYOUT
def test_every_graph_has_its_own_vector(graphs, layout):
    model = random_model(reweight="dr")
    batch = Batch.from_data_list(graphs)
    together = list(model.layers(layout(batch.x), batch.edge_index, batch.batch))
    for number, graph in enumerate(graphs):
        alone = model.layers(layout(graph.x), graph.edge_index)
        for (_, s, _), (_, own, _) in zip(together, alone, strict=True):
            assert s.shape[0] == len(graphs)
            torch.testing.assert_close(s[number], own)
    assert not torch.allclose(together[0][1][0], together[0][1][1])


def test_batch_norm_is_over_the_whole_batch(graphs):
    model = random_model(num_layers=1, norm="batch")  # in training mode
    batch = Batch.from_data_list(graphs)
    norm = torch.nn.BatchNorm1d(D).double()
    norm.load_state_dict(model.inputs[0].norm.state_dict())
    a = normalized_adjacency(batch.edge_index, sum(SIZES), dtype=torch.float64).to_dense()
    expected = a @ norm(batch.x) @ model.convs[0].weight
    torch.testing.assert_close(model(batch.x, batch.edge_index, batch.batch), expected)


@pytest.mark.parametrize("reweight", [None, "dr"])
@pytest.mark.parametrize("norm", ["graph", "pair"])
def test_graph_and_pair_norm_are_those_of_pyg_by_hand(graphs, norm, reweight):
    model = random_model(norm=norm, reweight=reweight)
    batch = Batch.from_data_list(graphs)
    a = normalized_adjacency(batch.edge_index, sum(SIZES), dtype=torch.float64).to_dense()
    h = batch.x
    for number, (enter, conv) in enumerate(zip(model.inputs, model.convs, strict=True)):
        theirs = (GraphNorm(h.size(1)) if norm == "graph" else PairNorm()).double()
        theirs.load_state_dict(enter.norm.state_dict())
        h = theirs(h, batch.batch)
        if enter.gate is not None:
            own = [h[batch.batch == g].mean(0) for g in range(len(SIZES))]
            h = h * torch.stack([enter.gate.from_mean(mean) for mean in own])[batch.batch]
        h = a @ h @ conv.weight
        h = h.relu() if number == 0 else h
    torch.testing.assert_close(model(batch.x, batch.edge_index, batch.batch), h)


@pytest.mark.parametrize("norm", ["graph", "pair"])
def test_graph_and_pair_norm_take_one_graph_as_a_batch_of_one(x, norm):
    model = random_model(norm=norm, reweight="dr")
    batch = torch.zeros(NODES, dtype=torch.int64)
    torch.testing.assert_close(model(x, EDGES), model(x, EDGES, batch))


@one_at_a_time(
    {"norm": None, "reweight": "dr"},
    {"norm": "graph", "reweight": "static"},
    norm=["batch", "layer", "graph", "pair"],
    reweight=[None, "static", "constant"],
)
@LAYOUT
@pytest.mark.parametrize("several", [False, True])
def test_many_seeds_at_once_equal_a_loop(graphs, layout, setting, several):
    models = [randomized(GCN(D, HIDDEN, CLASSES, **setting), seed) for seed in range(3)]
    batch = Batch.from_data_list(graphs)
    groups = NodeGroups.of(batch.batch, batch.num_nodes) if several else None
    adj = normalized_adjacency(batch.edge_index, sum(SIZES), dtype=torch.float64)
    inputs = (layout(batch.x), adj, groups)
    for model in models:
        model.eval()
    expected = torch.stack([model(*inputs) for model in models])
    torch.testing.assert_close(lanes(models, *inputs), expected)


# The layer


ADJ = normalized_adjacency(
    torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 1]]), 5, dtype=torch.float64
)
X = random_matrix(5, 4)
S = torch.tensor([0.2, 0.9, 0.5, 0.7], dtype=torch.float64)


@pytest.fixture
def conv():
    return GraphConvolution(4, 3).double()


@pytest.mark.parametrize("x", [X, SparseMatrix.from_tensor(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("s", [None, S])
def test_layer_equals_the_dense_product(conv, x, s):
    reweighted = X if s is None else X @ torch.diag(s)
    expected = ADJ.to_dense() @ reweighted @ conv.weight
    torch.testing.assert_close(conv(x, ADJ, s), expected)


def test_gradients_are_the_same_for_dense_and_sparse_features(conv):
    s = S.clone().requires_grad_()
    found = [
        torch.autograd.grad(conv(x, ADJ, s).square().sum(), (conv.weight, s))
        for x in (X, SparseMatrix.from_tensor(X))
    ]
    torch.testing.assert_close(*found)


def test_layer_has_weights_and_no_bias(conv):
    assert {name: tuple(p.shape) for name, p in conv.named_parameters()} == {"weight": (4, 3)}


def test_weights_start_uniform_within_the_glorot_bound():
    weight = GraphConvolution(60, 40).weight
    bound = math.sqrt(6 / 100)
    assert weight.abs().max() <= bound
    torch.testing.assert_close(weight.std().item(), bound / math.sqrt(3), rtol=0.05, atol=0)


def test_same_seed_resets_to_the_same_weights(conv):
    torch.manual_seed(5)
    conv.reset_parameters()
    before = conv.weight.clone()
    torch.manual_seed(5)
    conv.reset_parameters()
    assert torch.equal(conv.weight, before)


def test_repr_shows_the_widths(conv):
    assert repr(conv) == "GraphConvolution(4, 3)"
