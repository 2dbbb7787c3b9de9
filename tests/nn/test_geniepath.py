from itertools import pairwise

import pytest
import torch
from torch_geometric.data import Batch, Data

from drgcn.data import unite
from drgcn.nn import AdaptivePath, GeniePath, SparseMatrix
from drgcn.nn.graph import neighborhoods
from drgcn.training import fit

from ..reference import geniepath, layouts
from .matrices import random_matrix
from .models import GATES, every_second_kept, gradients, lanes, losses, randomized

NODES, D, HIDDEN, CLASSES = 8, 6, 5, 3
ONE_WAY = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 2], [1, 2, 3, 4, 5, 6, 0, 3, 6]])
EDGES = torch.cat([ONE_WAY, ONE_WAY.flip(0)], dim=1)  # node 7 is isolated
REWEIGHT = pytest.mark.parametrize("reweight", GATES)
LAYOUT = pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
LAZY = pytest.mark.parametrize("lazy", [False, True])
EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def x():
    return random_matrix(NODES, D)


def random_model(num_layers=2, dropout=0.0, **options):
    return randomized(
        GeniePath(D, HIDDEN, CLASSES, num_layers=num_layers, dropout=dropout, **options)
    )


def neighbor_lists(edges=EDGES, nodes=NODES):
    found = [{node} for node in range(nodes)]
    for source, target in edges.t().tolist():
        found[target].add(source)
    return [sorted(each) for each in found]


def gates_of(model):
    def one(gate):
        return (lambda _: 1.0) if gate is None else (lambda h: gate.from_mean(h.mean(0)))

    return [one(enter.gate) for enter in model.inputs]


# The formula


@pytest.mark.parametrize("num_layers", [1, 3])
@LAZY
@REWEIGHT
def test_model_and_gradients_equal_the_formula(x, num_layers, lazy, reweight):
    model = random_model(num_layers, lazy=lazy, reweight=reweight)
    expected = geniepath.forward(x, neighbor_lists(), model, gates_of(model))
    wanted = gradients(expected, model)
    for layout in (layouts.dense, SparseMatrix.from_tensor):
        found = model(layout(x), EDGES)
        torch.testing.assert_close(found, expected, **EXACT)
        torch.testing.assert_close(gradients(found, model), wanted, **EXACT)


def test_a_tied_layer_is_torchs_lstm_without_its_past(x):
    """Given what was gathered, depth is an LSTM cell whose weights of the last output are zero."""
    layer = randomized(AdaptivePath(D, HIDDEN))
    cell = torch.nn.LSTMCell(HIDDEN, HIDDEN, bias=False).double()
    order = [0, 1, 3, 2]  # torch has input, forget, new, output
    state = (torch.randn(NODES, HIDDEN).double(), torch.randn(NODES, HIDDEN).double())
    breadth, (hidden, memory) = layer(x, neighborhoods(EDGES, NODES), state)
    with torch.no_grad():
        cell.weight_ih.copy_(layer.gates[:, order].flatten(1).t())
        cell.weight_hh.zero_()
    expected = cell(breadth, state)
    torch.testing.assert_close((hidden, memory), expected)


def test_large_scores_do_not_overflow(x):
    layer = randomized(AdaptivePath(D, HIDDEN))
    with torch.no_grad():
        layer.att.mul_(1e4)
    state = (torch.zeros(NODES, HIDDEN).double(),) * 2
    breadth, _ = layer(x, neighborhoods(EDGES, NODES), state)
    assert breadth.isfinite().all()
    assert (breadth != 0).any()


@pytest.mark.parametrize("norm", [None, "batch", "layer"])
@LAZY
def test_sparse_and_dense_features_have_the_same_gradients(x, norm, lazy):
    model = random_model(norm=norm, lazy=lazy, reweight="dr")
    expected = gradients(model(x, EDGES), model)
    found = gradients(model(SparseMatrix.from_tensor(x), EDGES), model)
    torch.testing.assert_close(found, expected)


@REWEIGHT
@LAZY
@LAYOUT
def test_vmap_over_parameters_equals_a_loop(x, layout, lazy, reweight):
    pattern = neighborhoods(EDGES, NODES)
    models = [
        randomized(GeniePath(D, HIDDEN, CLASSES, lazy=lazy, reweight=reweight), i).eval()
        for i in range(3)
    ]
    expected = torch.stack([model(x, pattern) for model in models])
    torch.testing.assert_close(lanes(models, layout(x), pattern), expected)


@LAZY
def test_gradients_of_many_seeds_equal_a_loop(x, lazy):
    pattern = neighborhoods(EDGES, NODES)
    models = [
        randomized(GeniePath(D, HIDDEN, CLASSES, lazy=lazy, dropout=0.0, reweight="dr"), i)
        for i in range(3)
    ]
    parameters, buffers = torch.func.stack_module_state(models)
    parameters = {name: value.detach().requires_grad_() for name, value in parameters.items()}

    def call(one):
        return torch.func.functional_call(models[0], (one, buffers), (x, pattern))

    factors = torch.randn(NODES, CLASSES, dtype=torch.float64)
    (torch.vmap(call)(parameters) * factors).sum().backward()
    for lane, model in enumerate(models):
        (model(x, pattern) * factors).sum().backward()
        for name, value in model.named_parameters():
            torch.testing.assert_close(parameters[name].grad[lane], value.grad)


@REWEIGHT
@LAZY
@LAYOUT
def test_batch_equals_graph_by_graph(layout, lazy, reweight):
    features = [random_matrix(NODES, D, seed=seed) for seed in range(3)]
    batch = Batch.from_data_list([Data(x=x, edge_index=EDGES) for x in features])
    model = random_model(lazy=lazy, reweight=reweight)
    expected = torch.cat([model(x, EDGES) for x in features])
    found = model(layout(batch.x), batch.edge_index, batch.batch)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model(*GeniePath.prepare(batch)), expected)


# Dropout and parameters


@LAZY
def test_dropout_stands_in_front_of_every_layer(x, lazy, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(dropout=0.5, lazy=lazy, reweight="dr")
    found = model(x, EDGES)
    assert [values.shape for values in seen] == [(NODES, D), *[(NODES, HIDDEN)] * 2]
    masks = [2.0 * (torch.arange(v.numel()).view(v.shape) % 2 == 0) for v in seen]
    expected = geniepath.forward(x, neighbor_lists(), model, gates_of(model), masks)
    torch.testing.assert_close(found, expected, **EXACT)


def test_no_dropout_in_evaluation(x):
    assert torch.equal(random_model(dropout=0.5).eval()(x, EDGES), random_model()(x, EDGES))


@REWEIGHT
def test_everything_but_norms_is_regularised(reweight):
    model = GeniePath(D, HIDDEN, CLASSES, norm="batch", reweight=reweight)
    names = {id(p): name for name, p in model.named_parameters()}
    found = sorted(names[id(p)] for p in model.regularized_parameters())
    assert found == sorted(name for name in names.values() if ".norm." not in name)


@REWEIGHT
@LAZY
def test_same_seed_resets_to_the_same_parameters(reweight, lazy):
    torch.manual_seed(3)
    model = GeniePath(D, HIDDEN, CLASSES, norm="batch", lazy=lazy, reweight=reweight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    randomized(model).float()
    torch.manual_seed(3)
    model.reset_parameters()
    for name, value in model.state_dict().items():
        assert torch.equal(before[name], value), name


# Layers, preparation, training, errors


@LAZY
def test_layers_hold_what_the_next_layer_takes(x, lazy):
    model = random_model(num_layers=3, lazy=lazy, reweight="dr")
    layers = list(model.layers(x, EDGES))
    assert len(layers) == 4
    assert torch.equal(layers[-1][2], model(x, EDGES))
    for this, following in pairwise(layers):
        assert this[2] is following[0]


@REWEIGHT
@LAZY
def test_loss_falls(reweight, lazy):
    def make(d, classes):
        return GeniePath(d, 16, classes, lazy=lazy, dropout=0.2, reweight=reweight)

    found = losses(make)
    assert sum(found[-5:]) < 0.5 * sum(found[:5])


def made_graph(seed):
    """Two labels a node: whether one of two features is high on average over the neighbours."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 5, generator=generator)
    edges = torch.randint(60, (2, 120), generator=generator)
    edges = torch.cat([edges, edges.flip(0), torch.arange(60).expand(2, -1)], dim=1)
    total = torch.zeros(60, 5).index_add(0, edges[1], x[edges[0]])
    y = (total[:, :2] / edges[1].bincount(minlength=60)[:, None] > 0.1).float()
    return Data(x=x, edge_index=edges, y=y)


@pytest.mark.parametrize("lazy", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_form_for_ppi_learns_graphs_with_several_labels(lazy):
    train, val, test = ([made_graph(10 * part + i) for i in range(3)] for part in range(3))
    data = unite(train, val, test)

    def scores(epochs):
        def make():
            return GeniePath(5, 16, 2, num_layers=2, lazy=lazy, dropout=0.0, reweight="dr")

        options = {"epochs": epochs, "graphs_per_step": 1, "lr": 0.01, "weight_decay": 0.0}
        return fit(make, data, [0, 1], **options).test_accuracy

    assert min(scores(60)) > max(scores(1)) + 0.1
    assert min(scores(60)) > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "GeniePath expects num_layers >= 1; found 0"),
        ({"hidden_channels": 0}, "GeniePath expects hidden_channels >= 1; found 0"),
        ({"dropout": 1.0}, r"GeniePath expects a dropout rate in \[0, 1\); found 1.0"),
        ({"norm": "group"}, "norm to be one of .* found 'group'"),
        ({"reweight": True}, "reweight to be one of .* found True"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    sizes = {"in_channels": D, "hidden_channels": HIDDEN, "out_channels": CLASSES}
    with pytest.raises(ValueError, match=message):
        GeniePath(**(sizes | options))
