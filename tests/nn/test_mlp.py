import pytest
import torch
from torch_geometric.data import Batch, Data

from drgcn.nn import MLP, SparseMatrix

from ..reference import layouts, mlp
from ..reference.gates import gate
from .matrices import random_matrix
from .models import GATES, every_second_kept, gradients, lanes, losses, randomized

NODES, D, HIDDEN, CLASSES = 8, 6, 5, 3
REWEIGHT = pytest.mark.parametrize("reweight", GATES)
EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


@pytest.fixture
def x():
    return random_matrix(NODES, D)


def random_model(num_layers=2, dropout=0.0, **options):
    return randomized(MLP(D, HIDDEN, CLASSES, num_layers=num_layers, dropout=dropout, **options))


# The formula


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@REWEIGHT
def test_model_equals_the_formula(x, num_layers, reweight):
    model = random_model(num_layers, dropout=0.5, reweight=reweight).eval()
    weights = [weight.detach().numpy() for weight in model.weights]
    gates = [gate(layer.gate) for layer in model.inputs]
    expected = torch.from_numpy(mlp.forward(x.numpy(), weights, gates))
    for layout in layouts.ALL:
        torch.testing.assert_close(model(layout(x)), expected, rtol=1e-10, atol=1e-10)


def test_plain_model_equals_layers_of_torch(x):
    model = random_model()
    first, second = (
        torch.nn.Linear(a, b, bias=False) for a, b in ((D, HIDDEN), (HIDDEN, CLASSES))
    )
    theirs = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    for linear, weight in zip((first, second), model.weights, strict=True):
        linear.weight = torch.nn.Parameter(weight.detach().t().clone())
    torch.testing.assert_close(model(x), theirs(x))
    expected = gradients(theirs(x), theirs)
    torch.testing.assert_close([g.t() for g in gradients(model(x), model)], list(expected))


@pytest.mark.parametrize("norm", [None, "batch", "layer"])
@REWEIGHT
def test_sparse_and_dense_features_have_the_same_gradients(x, norm, reweight):
    model = random_model(norm=norm, reweight=reweight)
    expected = gradients(model(x), model)
    torch.testing.assert_close(gradients(model(SparseMatrix.from_tensor(x)), model), expected)


@REWEIGHT
def test_gradients_are_those_of_finite_differences(x, reweight):
    model = random_model(reweight=reweight)
    names = [name for name, _ in model.named_parameters()]

    def call(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, tuple(model.parameters()))


def test_edges_are_not_looked_at(x):
    model = random_model(reweight="dr")
    assert torch.equal(model(x, EDGES), model(x))


@REWEIGHT
@pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
def test_vmap_over_parameters_equals_a_loop(x, layout, reweight):
    models = [randomized(MLP(D, HIDDEN, CLASSES, reweight=reweight), i).eval() for i in range(3)]
    expected = torch.stack([model(x) for model in models])
    torch.testing.assert_close(lanes(models, layout(x)), expected)


@REWEIGHT
@pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
def test_batch_equals_graph_by_graph(layout, reweight):
    graphs = [random_matrix(nodes, D, seed=nodes) for nodes in (4, 7, 1)]
    batch = torch.tensor([0] * 4 + [1] * 7 + [2])
    model = random_model(reweight=reweight)
    expected = torch.cat([model(graph) for graph in graphs])
    found = model(layout(torch.cat(graphs)), None, batch)
    torch.testing.assert_close(found, expected)


# Dropout


@pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
def test_dropout_acts_on_the_input_of_every_layer(x, layout, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(dropout=0.5, reweight="dr")
    layers = list(model.layers(layout(x), None))
    assert len(seen) == 2
    assert torch.equal(seen[0], x if layout is layouts.dense else layout(x).values)
    assert seen[1] is layers[0][2]
    (_, clean, _), _ = random_model(reweight="dr").layers(layout(x), None)
    assert torch.equal(layers[0][1], clean)  # pooled before dropout


def test_no_dropout_in_evaluation(x):
    assert torch.equal(random_model(dropout=0.5).eval()(x), random_model()(x))


# Parameters


@pytest.mark.parametrize("norm", [None, "batch"])
@REWEIGHT
def test_regularised_are_the_first_weights_and_the_gates(norm, reweight):
    model = MLP(D, HIDDEN, CLASSES, norm=norm, reweight=reweight)
    names = {id(p): name for name, p in model.named_parameters()}
    found = sorted(names[id(p)] for p in model.regularized_parameters())
    assert found == sorted(["weights.0", *(n for n in names.values() if ".gate." in n)])


def test_layers_have_no_biases():
    names = [name for name, _ in MLP(D, HIDDEN, CLASSES, num_layers=3).named_parameters()]
    assert names == ["weights.0", "weights.1", "weights.2"]


@REWEIGHT
def test_same_seed_resets_to_the_same_parameters(reweight):
    torch.manual_seed(3)
    model = MLP(D, HIDDEN, CLASSES, norm="batch", reweight=reweight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    randomized(model).float()
    torch.manual_seed(3)
    model.reset_parameters()
    for name, value in model.state_dict().items():
        assert torch.equal(before[name], value), name


# Preparation, training, errors


def test_preparation_gives_what_the_model_takes(x):
    model = random_model(reweight="dr")
    data = Data(x=x, edge_index=EDGES)
    torch.testing.assert_close(model(*MLP.prepare(data)), model(x))
    batch = Batch.from_data_list([data, Data(x=2 * x, edge_index=EDGES)])
    expected = torch.cat([model(x), model(2 * x)])
    torch.testing.assert_close(model(*MLP.prepare(batch)), expected)


@REWEIGHT
def test_loss_falls(reweight):
    found = losses(lambda d, classes: MLP(d, 16, classes, reweight=reweight))
    assert sum(found[-5:]) < 0.7 * sum(found[:5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "MLP expects num_layers >= 1; found 0"),
        ({"dropout": 1.0}, r"MLP expects a dropout rate in \[0, 1\); found 1.0"),
        ({"norm": "group"}, "norm to be one of .* found 'group'"),
        ({"reweight": True}, "reweight to be one of .* found True"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MLP(D, HIDDEN, CLASSES, **options)
