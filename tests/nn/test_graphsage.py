import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from drgcn.data import load
from drgcn.errors import InputError
from drgcn.nn import GraphSAGE
from drgcn.sampling import NeighborTree

from ..reference import graphsage, layouts
from ..reference.gates import gate
from ..reference.norms import norm as reference_norm
from ..sampling.matrices import assert_mean, many
from .matrices import random_matrix
from .models import (
    CLASSES,
    EDGES,
    HIDDEN,
    NODES,
    D,
    every_second_kept,
    gradients,
    lanes,
    one_at_a_time,
    randomized,
)

BATCH = torch.tensor([6, 0, 7])
FORM = pytest.mark.parametrize("form", ["concat", "simple"])
SETTING = one_at_a_time(
    {"num_layers": 2, "norm": None, "reweight": "dr"},
    {"num_layers": 3, "norm": "batch"},
    {"num_layers": 3, "norm": "layer", "reweight": "static"},
    {"num_layers": 1, "norm": "batch", "reweight": "constant"},
    num_layers=[1, 3],
    norm=["batch", "layer"],
    reweight=[None],
)
NORM_AND_GATE = pytest.mark.parametrize(
    ("norm", "reweight"), [(None, "dr"), ("batch", "dr"), ("layer", "static")]
)


@pytest.fixture
def x():
    return random_matrix(NODES, D)


@pytest.fixture
def data(x):
    return Data(x=x, edge_index=EDGES, num_nodes=NODES)


def sage(form, num_layers=2, fan_out=3, **options):
    fan_outs = [fan_out] * num_layers
    return GraphSAGE(
        D, HIDDEN, CLASSES, form=form, num_layers=num_layers, fan_outs=fan_outs, **options
    )


def random_model(form, **options):
    return randomized(sage(form, **options))


def parts(model):
    return (
        [weight.detach().numpy() for weight in model.weights],
        [reference_norm(layer.norm) for layer in model.inputs],
        [gate(layer.gate) for layer in model.inputs],
        model.classifier.detach().numpy(),
        None if model.bias is None else model.bias.detach().numpy(),
    )


def reference(model, x, edges=EDGES):
    senders = graphsage.neighbours(edges.t().tolist(), len(x))
    return torch.from_numpy(graphsage.forward(x.numpy(), senders, *parts(model)))


def assert_same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


# By all neighbours


@FORM
@SETTING
def test_the_exact_pass_equals_the_formula(x, data, form, setting):
    model = random_model(form, dropout=0.5, **setting).eval()
    expected = reference(model, x)
    for out in (model(x, EDGES), model(layouts.csr(x), EDGES), model(*model.prepare(data))):
        assert_same(out, expected)


def test_concat_equals_layers_of_pyg(x):
    """Their two halves are added, ours stand side by side: they are the two halves of a zero."""
    model = random_model("concat", num_layers=1)
    own, sent = model.weights[0].detach().chunk(2, 1)
    zero = torch.zeros(HIDDEN // 2, D, dtype=torch.float64)
    theirs = SAGEConv(D, HIDDEN, bias=False).double()
    theirs.lin_l.weight = torch.nn.Parameter(torch.cat([zero, sent.T]))
    theirs.lin_r.weight = torch.nn.Parameter(torch.cat([own.T, zero]))
    h = F.normalize(theirs(x, EDGES), dim=1)
    assert_same(model(x, EDGES), h @ model.classifier + model.bias)


@FORM
def test_repeated_edges_count_again_and_loops_do_not_count(x, form):
    edges = torch.cat([EDGES, EDGES[:, :3], torch.tensor([[2, 7], [2, 7]])], dim=1)
    model = random_model(form, reweight="static", fan_out=20)
    assert_same(model(x, edges), reference(model, x, edges))
    data = Data(x=x, edge_index=edges, num_nodes=NODES)
    found, _ = model.sampled(torch.arange(NODES), *model.prepare_training(data))
    assert_same(found, model(x, edges))  # in training as in evaluation


# What a node says of itself


def test_own_features_count_in_concat_and_not_in_simple(x):
    other = x.clone()
    other[3] += 5
    heard = sorted({3, *EDGES[1, EDGES[0] == 3].tolist()})  # itself, and who listens to it
    for form, moved in (("concat", heard), ("simple", [v for v in heard if v != 3])):
        model = random_model(form, num_layers=1)
        change = (model(x, EDGES) - model(other, EDGES)).abs().sum(1)
        assert set(change.nonzero().flatten().tolist()) <= set(moved)
        assert (change[3] > 0) == (form == "concat")
        data = [Data(x=v, edge_index=EDGES, num_nodes=NODES) for v in (x, other)]
        node = torch.tensor([3])
        out = [model.sampled(node, *model.prepare_training(d))[0] for d in data]
        assert torch.equal(*out) == (form == "simple")


def test_a_node_without_neighbours_has_a_mean_of_zero(x, data):
    simple = random_model("simple", reweight="dr")
    assert not simple(x, EDGES)[7].any()
    assert not simple.sampled(torch.tensor([7]), *simple.prepare_training(data))[0].any()
    concat = random_model("concat", num_layers=1)
    own = x[7] @ concat.weights[0].chunk(2, 1)[0]
    half = F.normalize(torch.cat([own, torch.zeros_like(own)]), dim=0)
    expected = half @ concat.classifier + concat.bias
    assert_same(concat(x, EDGES)[7], expected)
    found, _ = concat.sampled(torch.tensor([7]), *concat.prepare_training(data))
    assert_same(found[0], expected)


@FORM
def test_no_edges_at_all_stay_finite(x, form):
    data = Data(x=x, edge_index=EDGES[:, :0], num_nodes=NODES)
    model = random_model(form, reweight="dr", norm="layer")
    out, _ = model.sampled(BATCH, *model.prepare_training(data))
    for found in (out, model(x, EDGES[:, :0]), *gradients(out, model)):
        assert found.isfinite().all()


# By some neighbours


def fixed_tree(model, monkeypatch):
    """A tree with gaps at every level, the same at every call."""
    draw = torch.Generator().manual_seed(4)
    shapes = [(3,), (3, 2), (3, 2, 3), (3, 2, 3, 2)][: len(model.weights) + 1]
    nodes = [torch.randint(NODES, shape, generator=draw) for shape in shapes]
    masks = [torch.ones(3, dtype=torch.bool)]
    for shape in shapes[1:]:
        masks.append((torch.rand(shape, generator=draw) < 0.6) & masks[-1].unsqueeze(-1))
    nodes = [torch.where(mask, node, 0) for node, mask in zip(nodes, masks, strict=True)]
    tree = NeighborTree(tuple(nodes), tuple(masks))
    monkeypatch.setattr(NeighborTree, "sample", lambda *_: tree)
    return tree


def on_fixed_tree(model, data, monkeypatch):
    """Scores by the model, and by the transcription."""
    tree = fixed_tree(model, monkeypatch)
    found, extra = model.sampled(BATCH, *model.prepare_training(data))
    assert extra.item() == 0
    nodes, masks = ([level.numpy() for level in part] for part in (tree.nodes, tree.masks))
    return found, torch.from_numpy(graphsage.sampled(data.x.numpy(), nodes, masks, *parts(model)))


@FORM
@SETTING
def test_a_given_tree_is_passed_through_as_the_formula_says(data, form, setting, monkeypatch):
    """Gates and batch norms look at the places of the tree that are real, with repetitions."""
    model = random_model(form, **setting)
    assert_same(*on_fixed_tree(model, data, monkeypatch))


@FORM
@pytest.mark.parametrize("reweight", [None, "dr"])
def test_gradients_of_a_given_tree_are_those_of_finite_differences(
    data, form, reweight, monkeypatch
):
    model = random_model(form, reweight=reweight)
    fixed_tree(model, monkeypatch)
    names = [name for name, _ in model.named_parameters()]
    inputs = (BATCH, *model.prepare_training(data))
    model.forward = lambda *given: model.sampled(*given)[0]

    def call(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), inputs)

    assert torch.autograd.gradcheck(call, tuple(model.parameters()))


@FORM
@one_at_a_time(
    {"num_layers": 2, "norm": None, "reweight": "static"},
    {"num_layers": 3, "norm": "layer"},
    num_layers=[1, 3],
    norm=["layer"],
    reweight=[None, "constant"],
)
def test_trees_of_all_neighbours_give_the_exact_scores(data, form, setting):
    model = random_model(form, fan_out=NODES, **setting)
    found, _ = model.sampled(torch.arange(NODES), *model.prepare_training(data))
    assert_same(found, model(data.x, EDGES))


@FORM
@pytest.mark.parametrize("replace", [False, True])
def test_sampled_means_are_those_of_all_neighbours_on_average(data, form, replace):
    """One layer without what makes it curved: the mean over samples is exact."""
    model = random_model(form, num_layers=1, fan_out=2, replace=replace)
    model._activate = lambda out, _: out
    model._classify = lambda h: h
    inputs = model.prepare_training(data)
    found = many(lambda: model.sampled(BATCH, *inputs)[0].detach(), 20_000)
    assert found.std(0).max() > 0.1
    assert_mean(found, model(data.x, EDGES)[BATCH].detach())


def test_fan_outs_are_nearest_first(data, monkeypatch):
    seen = []

    def noted(graph, nodes, fan_outs, replace=False):
        seen.append((tuple(fan_outs), replace))
        raise InterruptedError

    monkeypatch.setattr(NeighborTree, "sample", noted)
    for options in ({}, {"fan_outs": (2, 5), "replace": True}):
        model = GraphSAGE(D, HIDDEN, CLASSES, **options).double()
        with pytest.raises(InterruptedError):
            model.sampled(BATCH, *model.prepare_training(data))
    # Published as 25 and 10, and applied from the last on: 10 neighbours, 25 of each of those.
    assert seen == [((10, 25), False), ((2, 5), True)]


@FORM
@NORM_AND_GATE
def test_a_step_on_samples_of_many_seeds_equals_a_loop(data, form, norm, reweight, monkeypatch):
    models = [randomized(sage(form, norm=norm, reweight=reweight), s) for s in range(3)]
    inputs = models[0].prepare_training(data)
    fixed_tree(models[0], monkeypatch)
    expected = torch.stack([model.sampled(BATCH, *inputs)[0] for model in models])
    models = [randomized(sage(form, norm=norm, reweight=reweight), s) for s in range(3)]
    models[0].forward = lambda *given: models[0].sampled(*given)[0]
    torch.testing.assert_close(lanes(models, BATCH, *inputs), expected)


# Norms


@FORM
def test_batch_norm_looks_at_real_neighbours_only(data, form, monkeypatch):
    """Those places all hold the features of node 0; with fan-outs of 10 they are most of all."""
    model = random_model(form, norm="batch")
    tree = fixed_tree(model, monkeypatch)
    x, graph = model.prepare_training(data)
    levels = (0, 1, 2) if form == "concat" else (2,)
    rows = torch.cat([x[tree.nodes[level]][tree.masks[level]] for level in levels])
    before = model.inputs[0].norm.running_mean.clone()
    model.sampled(BATCH, x, graph)
    expected = 0.9 * before + 0.1 * rows.mean(0)
    torch.testing.assert_close(model.inputs[0].norm.running_mean, expected)


# Dropout


@FORM
def test_dropout_acts_on_the_clean_input_of_every_layer(data, form, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(form, dropout=0.5, reweight="dr")
    tree = fixed_tree(model, monkeypatch)
    inputs = model.prepare_training(data)
    dropped, _ = model.sampled(BATCH, *inputs)
    places = [level.numel() for level in tree.nodes]
    rows = [sum(places), sum(places[:2])] if form == "concat" else [places[2], places[1]]
    assert [tuple(v.shape) for v in seen] == [(rows[0], D), (rows[1], HIDDEN)]
    assert not torch.allclose(dropped, model.eval().sampled(BATCH, *inputs)[0])
    assert len(seen) == 2


# Parameters


def test_only_the_classifier_of_concat_has_a_bias():
    assert [n for n, _ in sage("concat").named_parameters() if "bias" in n] == ["bias"]
    assert not [n for n, _ in sage("simple").named_parameters() if "bias" in n]


def test_each_half_of_concat_starts_as_a_matrix_of_its_own():
    model = GraphSAGE(300, 400, 50)
    half, whole = (6 / (300 + 200)) ** 0.5, (6 / (300 + 400)) ** 0.5
    for part in model.weights[0].detach().chunk(2, 1):
        assert whole < 0.98 * half < float(part.abs().max()) <= half
    simple = GraphSAGE(300, 400, 50, form="simple").weights[0].detach()
    assert 0.98 * whole < float(simple.abs().max()) <= whole
    assert not model.bias.any()


@FORM
def test_loss_falls_in_a_plain_loop_over_batches(form):
    data = load("planted", nodes=200, features=16, labels_per_class=20, val_per_class=20)
    torch.manual_seed(0)
    options = {"form": form, "fan_outs": (4, 3), "reweight": "dr"}
    model = GraphSAGE(16, 16, 4, **options)
    inputs = model.prepare_training(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    nodes = data.train_mask.nonzero().flatten()

    def exact_loss():
        return F.cross_entropy(model(data.x, data.edge_index)[nodes], data.y[nodes]).item()

    before = exact_loss()
    for _ in range(60):
        batch = nodes[torch.randperm(len(nodes))[:40]]
        loss = F.cross_entropy(model.sampled(batch, *inputs)[0], data.y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert exact_loss() < 0.8 * before


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "sum"}, "the form 'concat' or 'simple'; found 'sum'"),
        ({"fan_outs": (5,)}, r"one fan-out per layer, 2; found \[5\]"),
        ({"num_layers": 3}, "one fan-out per layer, 3"),
        ({"hidden_channels": 5}, "an even width for two halves; found 5"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    arguments = {"in_channels": D, "hidden_channels": HIDDEN, "out_channels": CLASSES} | options
    with pytest.raises(ValueError, match=message):
        GraphSAGE(**arguments)


def test_odd_widths_are_fine_where_there_are_no_halves(x):
    assert GraphSAGE(D, 5, CLASSES, form="simple").double()(x, EDGES).shape == (NODES, CLASSES)


def test_no_neighbours_to_draw_is_refused(data):
    model = random_model("simple", fan_out=0)
    with pytest.raises(InputError, match="at least one neighbour"):
        model.sampled(BATCH, *model.prepare_training(data))
