"""What every model of drgcn.nn keeps to; what one of them alone does is tested in its own file."""

import subprocess
import sys
import warnings

import pytest
import torch
from torch_geometric.data import Batch, Data

import drgcn.nn
from drgcn.nn import SparseMatrix
from drgcn.studies.experiment import MODELS

from ..reference import layouts
from .matrices import random_matrix
from .models import (
    CLASSES,
    EDGES,
    FORMS,
    GATES,
    HIDDEN,
    NODES,
    D,
    gradients,
    lanes,
    losses,
    randomized,
)


def forms_where(condition):
    """Every form that a test is about."""
    chosen = {name: form for name, form in FORMS.items() if condition(form)}
    return pytest.mark.parametrize("form", chosen.values(), ids=chosen)


FORM = forms_where(lambda form: True)


def forms_with(*settings):
    """Every form with each of the settings that it takes."""
    return pytest.mark.parametrize(
        ("form", "setting"),
        [
            pytest.param(form, setting, id=f"{name}-{'-'.join(setting.values()) or 'plain'}")
            for name, form in FORMS.items()
            for setting in settings
            if form.has_norm or "norm" not in setting
        ],
    )


@pytest.fixture
def x():
    return random_matrix(NODES, D)


# The registry


def test_every_model_of_the_experiments_is_held_to_the_contract():
    assert {form.name for form in FORMS.values()} == set(MODELS)
    assert {form.model for form in FORMS.values()} <= {
        getattr(drgcn.nn, name) for name in drgcn.nn.__all__
    }


def test_the_package_loads_no_model_before_it_is_asked_for():
    code = "import sys, drgcn.nn; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not [name for name in loaded if name.startswith(("drgcn.nn.", "torch"))]


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match=r"'drgcn\.nn' has no attribute 'Transformer'"):
        drgcn.nn.Transformer  # noqa: B018
    assert set(drgcn.nn.__all__) <= set(dir(drgcn.nn))


# Arguments


IMPOSSIBLE = [
    ("in_channels", 0, "expects in_channels >= 1; found 0"),
    ("in_channels", True, "expects in_channels >= 1; found True"),
    ("out_channels", 2.0, r"expects out_channels >= 1; found 2\.0"),
    ("num_layers", 0, "expects num_layers >= 1; found 0"),
    ("dropout", 1.0, r"expects a dropout rate in \[0, 1\); found 1\.0"),
    ("dropout", -0.1, r"expects a dropout rate in \[0, 1\); found -0\.1"),
    ("reweight", True, "reweight to be one of .* found True"),
]


@FORM
def test_impossible_arguments_are_refused_with_a_sentence(form):
    for argument, value, words in IMPOSSIBLE:
        owner = f"{form.model.__name__} " if words.startswith("expects") else ""
        with pytest.raises(ValueError, match=owner + words):
            form.build(**{argument: value})


@forms_where(lambda form: form.has_norm)
def test_unknown_norms_are_refused(form):
    with pytest.raises(ValueError, match=r"norm to be one of .* found 'group'"):
        form.build(norm="group")


@forms_where(lambda form: form.name != "mlp")
def test_edges_to_nowhere_are_refused(x, form):
    for edges in ([[-1, 1], [1, 2]], [[0, NODES], [1, 2]]):
        with pytest.raises(ValueError, match="between nodes 0 to 7; found node"):
            form.build().double()(x, torch.tensor(edges))


@forms_where(lambda form: form.graph_by_graph or not form.sampled)
def test_a_batch_that_is_none_is_refused(x, form):
    for batch in (torch.rand(NODES), torch.zeros(3, dtype=torch.int64)):
        with pytest.raises(ValueError, match="graph of each of the 8 nodes"):
            form.build().double()(x, EDGES, batch)


# Features, edges and their forms


@forms_with(
    {},
    {"reweight": "dr"},
    {"norm": "batch", "reweight": "static"},
    {"norm": "layer", "reweight": "dr"},
    {"norm": "graph", "reweight": "constant"},
    {"norm": "pair"},
)
def test_sparse_and_dense_features_have_the_same_output_and_gradients(x, form, setting):
    model = randomized(form.build(**setting))
    expected = model(x, EDGES)
    found = model(SparseMatrix.from_tensor(x), EDGES)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, model), gradients(expected, model))


@FORM
def test_features_of_every_layout_give_the_same_output(x, form):
    model = randomized(form.build(reweight="dr"))
    for layout in layouts.ALL:
        torch.testing.assert_close(model(layout(x), EDGES), model(x, EDGES))


@FORM
def test_gradients_are_those_of_finite_differences(x, form):
    model = randomized(form.build(reweight="dr"))
    names = [name for name, _ in model.named_parameters()]
    prepared = model.prepare(Data(x=x, edge_index=EDGES))

    def call(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), prepared)

    assert torch.autograd.gradcheck(call, tuple(model.parameters()), fast_mode=True)


@FORM
def test_output_follows_the_order_of_nodes(x, form):
    model = randomized(form.build(reweight="dr"))
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(2))
    place = torch.argsort(order)
    torch.testing.assert_close(model(x[order], place[EDGES]), model(x, EDGES)[order])


@FORM
def test_preparation_gives_what_the_model_takes(x, form):
    model = randomized(form.build(reweight="dr"))
    for features in (x, random_matrix(NODES, D, density=0.1)):  # dense, and stored sparse
        prepared = model.prepare(Data(x=features, edge_index=EDGES))
        torch.testing.assert_close(model(*prepared), model(features, EDGES))


@FORM
def test_edge_weights_are_used_or_said_not_to_be(x, form):
    model = randomized(form.build(reweight="dr"))
    plain = Data(x=x, edge_index=EDGES)
    weighted = Data(x=x, edge_index=EDGES, edge_weight=1.0 + EDGES.sum(0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        same = torch.equal(model(*model.prepare(weighted)), model(*model.prepare(plain)))
    said = [str(one.message) for one in caught if "edge weights" in str(one.message)]
    if form.name != "mlp":  # which has no use for edges
        assert bool(said) == same
    assert bool(said) or form.name in ("gcn", "mixhop", "lgcn", "chebyshev", "mlp")


@FORM
def test_edges_may_be_named_as_in_pyg(x, form):
    model = form.build().double()
    assert torch.equal(model(x, edge_index=EDGES), model(x, EDGES))


@FORM
def test_float32_is_the_default_and_follows_float64(x, form):
    model = form.build(reweight="dr")
    found = model(x.float(), EDGES)
    assert found.dtype == torch.float32
    assert found.shape == (NODES, CLASSES)
    torch.testing.assert_close(found.double(), model.double()(x, EDGES), rtol=1e-3, atol=1e-4)


# Seeds and graphs at once


@forms_with(
    {},
    {"reweight": "dr"},
    {"norm": "batch", "reweight": "dr"},
    {"norm": "layer", "reweight": "static"},
)
def test_vmap_over_parameters_equals_a_loop(x, form, setting):
    models = [randomized(form.build(**setting), seed).eval() for seed in range(3)]
    for layout in (layouts.dense, SparseMatrix.from_tensor):
        matrix = models[0].prepare(Data(x=x, edge_index=EDGES))[1]
        expected = torch.stack([model(layout(x), matrix) for model in models])
        torch.testing.assert_close(lanes(models, layout(x), matrix), expected)


@FORM
def test_gradients_of_many_seeds_equal_a_loop(x, form):
    models = [randomized(form.build(reweight="dr"), seed) for seed in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    parameters = {name: value.detach().requires_grad_() for name, value in parameters.items()}
    inputs = models[0].prepare(Data(x=x, edge_index=EDGES))

    def call(one):
        return torch.func.functional_call(models[0], (one, buffers), inputs)

    factors = torch.randn(NODES, CLASSES, dtype=torch.float64)
    (torch.vmap(call)(parameters) * factors).sum().backward()
    for lane, model in enumerate(models):
        (model(*inputs) * factors).sum().backward()
        for name, value in model.named_parameters():
            torch.testing.assert_close(parameters[name].grad[lane], value.grad)


@forms_where(lambda form: form.graph_by_graph)
@pytest.mark.parametrize("reweight", GATES)
def test_a_batch_equals_its_graphs_one_by_one(x, form, reweight):
    model = randomized(form.build(reweight=reweight))
    graphs = [
        Data(x=x, edge_index=EDGES),
        Data(x=random_matrix(5, D, seed=4), edge_index=EDGES[:, (EDGES < 5).all(0)]),
        Data(x=random_matrix(1, D, seed=5), edge_index=torch.empty(2, 0, dtype=torch.int64)),
    ]
    batch = Batch.from_data_list(graphs)
    for layout in (layouts.dense, SparseMatrix.from_tensor):
        found = model(layout(batch.x), batch.edge_index, batch.batch)
        expected = torch.cat([model(layout(graph.x), graph.edge_index) for graph in graphs])
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(gradients(found, model), gradients(expected, model))
    torch.testing.assert_close(model(*model.prepare(batch)), expected)


# Gates and layers


@FORM
def test_every_layer_has_a_gate_of_its_width(x, form):
    model = form.build(reweight="dr").double()
    widths = [enter.gate.in_channels for enter in model.inputs]
    layers = list(model.layers(x, EDGES))
    assert widths[0] == D
    assert [layer_input.shape[1] for layer_input, _, _ in layers] == widths
    for (layer_input, s, _), enter in zip(layers, model.inputs, strict=True):
        torch.testing.assert_close(s, enter.gate.vector(layer_input))


@FORM
def test_controls_start_at_one_half_and_plain_models_have_no_gates(x, form):
    plain, static, constant = (
        form.build(reweight=reweight).double() for reweight in (None, "static", "constant")
    )
    assert all(s is None for _, s, _ in plain.layers(x, EDGES))
    for model in (static, constant):
        for layer_input, s, _ in model.layers(x, EDGES):
            assert torch.equal(s, torch.full((layer_input.shape[1],), 0.5).double())
    assert constant.state_dict().keys() == plain.state_dict().keys()
    new = static.state_dict().keys() - plain.state_dict().keys()
    assert new == {f"inputs.{i}.gate.logits" for i in range(len(static.inputs))}


@FORM
@pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
def test_dropout_acts_in_training_only_and_behind_the_gate(x, form, layout):
    model, without = (randomized(form.build(dropout=p, reweight="dr")) for p in (0.5, 0.0))
    exact = without(layout(x), EDGES)
    assert not torch.allclose(model(layout(x), EDGES), exact)
    (_, training, _), *_ = model.layers(layout(x), EDGES)
    assert torch.equal(model.eval()(layout(x), EDGES), exact)
    (_, evaluation, _), *_ = model.layers(layout(x), EDGES)
    assert torch.equal(training, evaluation)  # pooled before anything is dropped


# Parameters


@forms_with({}, {"norm": "batch", "reweight": "dr"})
def test_gates_are_regularised_and_norms_in_front_of_layers_are_not(form, setting):
    model = form.build(**setting)
    names = {id(p): name for name, p in model.named_parameters()}
    found = [names[id(p)] for p in model.regularized_parameters()]
    gates = [name for name in names.values() if ".gate." in name]
    assert len(gates) == (4 * len(model.inputs) if "reweight" in setting else 0)
    decayed = [name for name in names.values() if name.startswith(form.decayed)]
    assert sorted(found) == sorted([*decayed, *gates])
    assert sorted(map(id, model.gate_parameters())) == sorted(
        key for key, name in names.items() if name in gates
    )


@forms_with({"reweight": "static"}, {"norm": "batch", "reweight": "dr"})
def test_same_seed_resets_to_the_same_parameters(x, form, setting):
    def drawn(reset):
        torch.manual_seed(3)
        reset()
        return {name: value.clone() for name, value in model.state_dict().items()}

    torch.manual_seed(3)
    model = form.build(**setting)
    new = {name: value.clone() for name, value in model.state_dict().items()}
    before = drawn(model.reset_parameters)
    model(x.float(), EDGES)  # moves the statistics of batch norms
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    after = drawn(model.reset_parameters)
    for name, value in after.items():
        assert torch.equal(before[name], value), name
        # Models that are sampled draw once for their gates and once more for everything.
        assert form.sampled or torch.equal(new[name], value), name


@FORM
def test_state_and_repr_tell_a_model(x, form):
    setting = {"reweight": "dr"} | ({"norm": "batch"} if form.has_norm else {})
    model = randomized(form.build(**setting))
    other = randomized(form.build(**setting), seed=2)
    assert repr(model) == repr(other)
    assert repr(model).startswith(form.model.__name__)
    assert f"(gate): DimensionalReweighting({D}, hidden_channels=2)" in repr(model)
    assert not torch.allclose(model.eval()(x, EDGES), other.eval()(x, EDGES))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(x, EDGES), other(x, EDGES))


LEARNING = {"mixhop": {"optimizer": torch.optim.SGD, "lr": 0.5}}


@FORM
def test_loss_falls_in_a_plain_loop(form):
    def make(d, classes):
        widths = {"in_channels": d, "out_channels": classes}
        if form.name != "mixhop":
            widths["hidden_channels"] = 4 * HIDDEN
        return form.build(**widths, dropout=0.2, reweight="dr")

    found = losses(make, **LEARNING.get(form.name, {}))
    assert sum(found[-5:]) < 0.6 * sum(found[:5])
