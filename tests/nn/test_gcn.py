import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GraphNorm, PairNorm

from drgcn.data import load
from drgcn.nn import GCN, SparseMatrix, normalized_adjacency
from drgcn.nn.graph import NodeGroups

from ..reference import adjacency, dr_block, gcn, layouts
from .matrices import random_matrix
from .models import lanes, randomized

NODES, D, HIDDEN, CLASSES = 8, 6, 5, 3
ONE_WAY = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 2], [1, 2, 3, 4, 5, 6, 0, 3, 6]])
EDGES = torch.cat([ONE_WAY, ONE_WAY.flip(0)], dim=1)  # node 7 is isolated
REWEIGHT = pytest.mark.parametrize("reweight", [None, "dr", "static", "constant"])
NORM = pytest.mark.parametrize("norm", [None, "batch", "layer"])
PRE_ACTIVATION = pytest.mark.parametrize("pre_activation", [False, True])


@pytest.fixture
def x():
    return random_matrix(NODES, D)


@pytest.fixture
def adj():
    return normalized_adjacency(EDGES, NODES, dtype=torch.float64)


def random_model(num_layers=2, dropout=0.0, **options):
    """A model in float64 in which no parameter and no running statistic is trivial."""
    generator = torch.Generator().manual_seed(1)
    model = GCN(D, HIDDEN, CLASSES, num_layers=num_layers, dropout=dropout, **options).double()
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            draw = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            value.copy_(draw.abs() + 0.5 if name.endswith("running_var") else draw)
    return model


def gradients(out, model):
    factors = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.autograd.grad((out * factors).sum(), parameters)


# The formula


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@PRE_ACTIVATION
@NORM
@REWEIGHT
def test_model_equals_the_paper(x, num_layers, pre_activation, norm, reweight):
    options = {"norm": norm, "reweight": reweight, "pre_activation": pre_activation}
    model = random_model(num_layers, dropout=0.5, **options).eval()
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


@PRE_ACTIVATION
@NORM
@REWEIGHT
def test_sparse_and_dense_features_have_the_same_gradients(x, pre_activation, norm, reweight):
    model = random_model(norm=norm, reweight=reweight, pre_activation=pre_activation)
    expected = gradients(model(x, EDGES), model)
    found = gradients(model(SparseMatrix.from_tensor(x), EDGES), model)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("layout", layouts.SPARSE)
def test_sparse_features_of_any_layout_give_the_same_output(x, layout):
    model = random_model(reweight="dr")
    torch.testing.assert_close(model(layout(x), EDGES), model(x, EDGES))


def test_edges_and_prepared_adjacency_give_the_same_output(x, adj):
    model = random_model(reweight="dr")
    assert torch.equal(model(x, EDGES), model(x, adj))


def test_output_follows_the_order_of_nodes(x):
    model = random_model(reweight="dr", norm="layer")
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(2))
    place = torch.argsort(order)
    torch.testing.assert_close(model(x[order], place[EDGES]), model(x, EDGES)[order])


def test_vmap_over_parameters_equals_a_loop(x, adj):
    models = [GCN(D, HIDDEN, CLASSES, dropout=0, reweight="dr").double() for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(models)
    call = lambda p: torch.func.functional_call(models[0], p, (x, adj))  # noqa: E731
    expected = torch.stack([model(x, adj) for model in models])
    torch.testing.assert_close(torch.vmap(call)(parameters), expected)


# Dropout


@pytest.mark.parametrize("layout", [layouts.dense, layouts.csr])
def test_dropout_acts_in_training_only(x, layout):
    model = random_model(dropout=0.5)
    without = random_model(dropout=0.0)
    assert not torch.allclose(model(layout(x), EDGES), without(layout(x), EDGES))
    assert torch.equal(model.eval()(layout(x), EDGES), without(layout(x), EDGES))


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


@pytest.mark.parametrize("layout", [layouts.dense, layouts.csr])
def test_the_block_pools_over_features_before_dropout(x, layout):
    model = random_model(dropout=0.5, reweight="dr")
    (_, training, _), _ = model.layers(layout(x), EDGES)
    (_, evaluation, _), _ = model.eval().layers(layout(x), EDGES)
    assert torch.equal(training, evaluation)


# Parameters


@NORM
@pytest.mark.parametrize("reweight", ["dr", "static", "constant", None])
def test_regularised_are_the_first_weights_and_the_gates(norm, reweight):
    model = GCN(D, HIDDEN, CLASSES, norm=norm, reweight=reweight)
    names = {id(p): name for name, p in model.named_parameters()}
    found = sorted(names[id(p)] for p in model.regularized_parameters())
    gates = [n for n in names.values() if n.startswith("inputs.") and ".gate." in n]
    assert found == sorted(["convs.0.weight", *gates])
    assert len(gates) == {"dr": 8, "static": 2, "constant": 0, None: 0}[reweight]


def test_convolutions_have_no_biases():
    names = [name for name, _ in GCN(D, HIDDEN, CLASSES, num_layers=3).named_parameters()]
    assert names == ["convs.0.weight", "convs.1.weight", "convs.2.weight"]


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_every_layer_has_a_block_of_its_width(num_layers):
    model = GCN(D, HIDDEN, CLASSES, num_layers=num_layers, reweight="dr")
    widths = [layer.gate.in_channels for layer in model.inputs]
    assert widths == [D, HIDDEN, HIDDEN][:num_layers]


def test_static_gates_start_at_one_half(x):
    model = GCN(D, HIDDEN, CLASSES, reweight="static").double()
    for _, s, _ in model.layers(x, EDGES):
        assert torch.equal(s, torch.full_like(s, 0.5))


def test_constant_gates_add_no_parameters():
    constant = GCN(D, HIDDEN, CLASSES, reweight="constant")
    assert constant.state_dict().keys() == GCN(D, HIDDEN, CLASSES).state_dict().keys()


@NORM
@REWEIGHT
def test_same_seed_resets_to_the_same_parameters(x, norm, reweight):
    torch.manual_seed(3)
    model = GCN(D, HIDDEN, CLASSES, norm=norm, reweight=reweight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model(x.float(), EDGES)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    torch.manual_seed(3)
    model.reset_parameters()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


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


def test_layers_without_gates_have_no_vector(x):
    assert [s for _, s, _ in random_model().layers(x, EDGES)] == [None, None]


# Preparation and training


def test_preparation_gives_what_the_model_takes(x):
    data = Data(x=x.float(), edge_index=EDGES)
    model = GCN(D, HIDDEN, CLASSES, reweight="dr").eval()
    torch.testing.assert_close(model(*GCN.prepare(data)), model(data.x, EDGES))


def test_preparation_makes_mostly_empty_features_sparse():
    data = Data(x=torch.eye(NODES), edge_index=EDGES)
    features, *_ = GCN.prepare(data)
    assert isinstance(features, SparseMatrix)


def test_preparation_keeps_float64(x):
    model = random_model()
    prepared = GCN.prepare(Data(x=x, edge_index=EDGES))
    torch.testing.assert_close(model(*prepared), model(x, EDGES))


@pytest.mark.parametrize("layout", [layouts.dense, layouts.csr])
def test_autocast_agrees_with_float32(x, layout):
    model = random_model(reweight="dr").float()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(layout(x.float()), EDGES)
    torch.testing.assert_close(out.float(), model(x.float(), EDGES), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("reweight", [None, "dr", "static"])
def test_loss_falls_in_a_plain_loop(reweight):
    data = load("planted", nodes=200, features=16, labels_per_class=10, val_per_class=20)
    model = GCN(data.num_features, 16, 4, reweight=reweight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers >= 1; found 0"),
        ({"dropout": 1.0}, r"dropout rate in \[0, 1\); found 1.0"),
        ({"dropout": -0.1}, r"dropout rate in \[0, 1\); found -0.1"),
        ({"norm": "group"}, "norm to be one of .* found 'group'"),
        ({"reweight": True}, "reweight to be one of .* found True"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GCN(D, HIDDEN, CLASSES, **options)


# Batches of graphs


SIZES = (8, 3, 5)
PER_GRAPH_NORM = pytest.mark.parametrize("norm", [None, "layer", "graph", "pair"])
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
@PER_GRAPH_NORM
@REWEIGHT
@LAYOUT
def test_a_batch_equals_graph_by_graph(graphs, layout, reweight, norm, pre_activation):
    model = random_model(norm=norm, reweight=reweight, pre_activation=pre_activation)
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


@REWEIGHT
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


@pytest.mark.parametrize("norm", [None, "batch", "layer", "graph", "pair"])
@REWEIGHT
@LAYOUT
@pytest.mark.parametrize("several", [False, True])
def test_many_seeds_at_once_equal_a_loop(graphs, layout, reweight, norm, several):
    options = {"dropout": 0.0, "norm": norm, "reweight": reweight}
    models = [randomized(GCN(D, HIDDEN, CLASSES, **options), seed) for seed in range(3)]
    batch = Batch.from_data_list(graphs)
    groups = NodeGroups.of(batch.batch, batch.num_nodes) if several else None
    adj = normalized_adjacency(batch.edge_index, sum(SIZES), dtype=torch.float64)
    inputs = (layout(batch.x), adj, groups)
    for model in models:
        model.eval()
    expected = torch.stack([model(*inputs) for model in models])
    torch.testing.assert_close(lanes(models, *inputs), expected)
