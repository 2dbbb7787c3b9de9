"""FastGCN and AS-GCN: exact and sampled passes, gates and norms, parameters."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

from drgcn.data import load
from drgcn.errors import InputError
from drgcn.nn import ASGCN, FastGCN, SparseMatrix, normalized_adjacency
from drgcn.nn.layer_sampled import Propagated
from drgcn.sampling import ImportanceSampler, LayerDependentSampler, LayerSample

from ..reference import adaptive_sampling, adjacency, layer_sampled, layouts
from ..reference.gates import gate
from ..reference.norms import norm as reference_norm
from ..sampling.matrices import assert_mean, many
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
KINDS = {
    "fastgcn": lambda **o: FastGCN(D, HIDDEN, CLASSES, **o),
    "adapt": lambda **o: ASGCN(D, HIDDEN, CLASSES, **o),
    "mix": lambda **o: ASGCN(D, HIDDEN, CLASSES, form="mix", **o),
}
KIND = pytest.mark.parametrize("kind", KINDS)
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
BATCH = torch.tensor([6, 0, 7])


@pytest.fixture
def x():
    return random_matrix(NODES, D)


@pytest.fixture
def data(x):
    return Data(x=x, edge_index=EDGES, num_nodes=NODES)


def random_model(kind, **options):
    return randomized(KINDS[kind](**options))


def propagation(model):
    a = adjacency.symmetric(adjacency.adjacency(EDGES.t().tolist(), NODES))
    return a + np.eye(NODES) if getattr(model, "extra_identity", False) else a


def parts(model):
    """Weights, norms and gates of all layers, for the transcriptions."""
    return (
        [weight.detach().numpy() for weight in model.weights],
        [reference_norm(layer.norm) for layer in model.inputs],
        [gate(layer.gate) for layer in model.inputs],
    )


def scores_of(model):
    return model.scores.detach().numpy() if isinstance(model, ASGCN) else None


def reference(model, x):
    divide = getattr(model, "divide_by_nodes", False)
    arguments = (x.numpy(), propagation(model), *parts(model), model.dense_first)
    return torch.from_numpy(layer_sampled.forward(*arguments, scores_of(model), divide))


# The exact pass


@KIND
@SETTING
def test_the_exact_pass_equals_the_formula(x, data, kind, setting):
    model = random_model(kind, dropout=0.5, **setting).eval()
    expected = reference(model, x)
    for out in (model(x, EDGES), model(layouts.csr(x), EDGES), model(*model.prepare(data))):
        torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("quirk", ["extra_identity", "divide_by_nodes"])
@pytest.mark.parametrize("kind", ["adapt", "mix"])
def test_quirks_of_the_original_equal_the_formula(x, kind, quirk):
    model = random_model(kind, reweight="dr", **{quirk: True})
    found = model(x, EDGES)
    torch.testing.assert_close(found, reference(model, x), rtol=1e-10, atol=1e-10)
    assert not torch.allclose(found, random_model(kind, reweight="dr")(x, EDGES))


def test_dividing_by_nodes_changes_no_prediction_without_gates(x):
    plain, divided = (random_model("adapt", divide_by_nodes=q) for q in (False, True))
    torch.testing.assert_close(plain(x, EDGES), divided(x, EDGES) * NODES**2)


@KIND
def test_edges_the_matrix_and_propagated_features_give_the_same_output(x, kind):
    model = random_model(kind, reweight="dr")
    adj = normalized_adjacency(EDGES, NODES, dtype=torch.float64)
    torch.testing.assert_close(model(x, adj), model(x, EDGES))
    if model.dense_first:
        ready = Propagated(adj.to_dense() @ x)
        torch.testing.assert_close(model(ready, adj), model(x, EDGES))


@KIND
def test_preparation_propagates_once_or_keeps_sparse_features_sparse(kind):
    data = Data(x=torch.eye(NODES, D), edge_index=EDGES)
    first, matrix = KINDS[kind]().prepare(data)
    assert isinstance(first, SparseMatrix if kind == "adapt" else Propagated)
    assert isinstance(matrix, SparseMatrix)
    sparse = Data(x=data.x.to_sparse_csr(), edge_index=EDGES, num_nodes=NODES)
    for given in (data, sparse):
        table, _ = KINDS[kind]().prepare_training(given)
        expected = data.x if kind == "adapt" else matrix.to_dense() @ data.x
        torch.testing.assert_close(table, expected)


@KIND
def test_layers_hold_what_enters_and_what_comes_out(x, kind):
    model = random_model(kind, num_layers=3, reweight="dr").eval()
    layers = list(model.layers(x, EDGES))
    assert torch.equal(layers[-1][2], model(x, EDGES))
    assert layers[1][0] is layers[0][2]
    first = propagation(model) @ x.numpy() if model.dense_first else x.numpy()
    torch.testing.assert_close(layers[0][0], torch.from_numpy(first))
    for (h, s, _), enter in zip(layers, model.inputs, strict=True):
        torch.testing.assert_close(s, enter.gate.vector(h))  # the mean of all nodes


# The pass on samples


def fixed_samples(model, batch=BATCH, all_drawn=True):
    """Nodes with repetitions and any weights, the same at every call."""
    draw = torch.Generator().manual_seed(3)
    layers, rows = [], batch
    for _ in range(len(model.weights) - model.dense_first):
        nodes = torch.randint(NODES, (5,), generator=draw)
        matrix = torch.randn(len(rows), 5, generator=draw, dtype=torch.float64)
        real = None
        if not all_drawn:
            real = torch.tensor([True, True, False, True, False])
            matrix = matrix * real
        layers.append(LayerSample(nodes, matrix, real))
        rows = nodes
    return layers


def on_fixed_samples(model, data, **options):
    """Scores and extra loss by the model, and by the transcription."""
    table, sampler = model.prepare_training(data)
    layers = fixed_samples(model, **options)
    model.sample_layers = lambda *_: layers
    found = model.sampled(BATCH, table, sampler)
    sets = [BATCH.tolist(), *(layer.nodes.tolist() for layer in layers)]
    matrices = [layer.matrix.numpy() for layer in layers]
    if isinstance(model, ASGCN):
        own, sent = (table.numpy() @ scores_of(model)).T
        for place, matrix in enumerate(matrices):
            for i, v in enumerate(sets[place]):
                for j, u in enumerate(sets[place + 1]):
                    matrix[i, j] *= max(own[v] + sent[u], 0.0) + 1
    drawn = [np.ones(5) if layer.real is None else layer.real.numpy() for layer in layers]
    arguments = (table.numpy(), sets[0], sets[1:], matrices, drawn)
    expected, top = layer_sampled.sampled(*arguments, *parts(model), model.dense_first)
    extra = 0.0
    if isinstance(model, ASGCN) and layers:
        divide = model.divide_variance
        # Samples of five here, whatever the model would draw.
        extra = model.variance * adaptive_sampling.variance(matrices[0], top, divide)
    return found, (torch.from_numpy(expected), extra)


@KIND
@SETTING
def test_a_given_sample_is_passed_through_as_the_formula_says(data, kind, setting):
    """Gates and batch norms in training look at the rows that enter the layer."""
    model = random_model(kind, count=5, **setting)
    (out, extra), (expected, expected_extra) = on_fixed_samples(model, data)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    assert extra.item() == pytest.approx(expected_extra, rel=1e-10)


@KIND
@pytest.mark.parametrize("norm", [None, "batch", "layer"])
def test_places_without_a_draw_are_not_pooled(data, kind, norm):
    model = random_model(kind, reweight="dr", norm=norm, count=5)
    (out, _), (expected, _) = on_fixed_samples(model, data, all_drawn=False)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


def test_more_draws_than_nodes_change_no_mean(data):
    """FastGCN on a batch with few neighbours: the gates see the neighbours and nobody else."""
    batch = torch.tensor([0])
    model = random_model("fastgcn", reweight="dr", count=NODES)
    table, sampler = model.prepare_training(data)
    senders = torch.tensor(sorted({0, *EDGES[0, EDGES[1] == 0].tolist()}))
    adj = normalized_adjacency(EDGES, NODES, dtype=torch.float64).to_dense()
    exact = LayerSample(senders, adj[batch][:, senders])
    found, _ = model.sampled(batch, table, sampler)
    model.sample_layers = lambda *_: [exact]
    torch.testing.assert_close(found, model.sampled(batch, table, sampler)[0])


@KIND
@pytest.mark.parametrize("reweight", [None, "dr"])
def test_gradients_of_a_given_sample_are_those_of_finite_differences(data, kind, reweight):
    model = random_model(kind, reweight=reweight, count=5)
    table, sampler = model.prepare_training(data)
    layers = fixed_samples(model)
    model.sample_layers = lambda *_: layers
    names = [name for name, _ in model.named_parameters()]
    model.forward = model.sampled

    def call(*values):
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(model, state, (BATCH, table, sampler))

    assert torch.autograd.gradcheck(call, tuple(model.parameters()))


LINEAR_TOP = {
    "fastgcn": {"num_layers": 2, "count": 3},
    "adapt": {"num_layers": 1, "count": 3},
    "mix": {"num_layers": 2, "count": 3},
}


@KIND
def test_sampled_scores_and_gradients_are_those_of_the_whole_graph_on_average(x, data, kind):
    """Where the one sampled layer is linear, in what enters it and in its weights, the mean over
    samples is exact; its gradients by all parameters likewise."""
    model = random_model(kind, **LINEAR_TOP[kind])
    table, sampler = model.prepare_training(data)
    factors = torch.randn(len(BATCH), CLASSES, dtype=torch.float64)
    state = {name: value.detach() for name, value in model.named_parameters()}

    def work(parameters):
        model.forward = model.sampled
        out, _ = torch.func.functional_call(model, parameters, (BATCH, table, sampler))
        return (out * factors).sum(), out

    found, scores = many(lambda: torch.func.grad(work, has_aux=True)(state), 20_000)
    del model.forward
    exact = model(x, EDGES)[BATCH]
    assert_mean(scores, exact.detach())
    expected = torch.autograd.grad((exact * factors).sum(), list(model.parameters()))
    for gradient, name in zip(expected, state, strict=True):
        assert_mean(found[name], gradient)


@KIND
def test_samples_of_everything_give_the_exact_scores(x, data, kind):
    """FastGCN takes all candidates for certain; two layers of AS-GCN come close with many draws
    of each."""
    model = random_model(kind, num_layers=2, count=NODES if kind == "fastgcn" else 200)
    inputs, exact = model.prepare_training(data), model(x, EDGES)[BATCH]
    mean = many(lambda: model.sampled(BATCH, *inputs)[0], 60).mean(0)
    share = 1e-12 if kind == "fastgcn" else 0.08
    assert (mean - exact).norm() < share * exact.norm()


@KIND
def test_lower_layers_are_told_that_their_rows_may_repeat(data, kind):
    model = random_model(kind, num_layers=3, count=4)
    table, sampler = model.prepare_training(data)
    seen, sample = [], type(sampler).sample

    def noted(self, *arguments, distinct=True):
        seen.append((arguments[0], distinct))
        return sample(self, *arguments, distinct=distinct)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(sampler), "sample", noted)
        layers = model.sample_layers(BATCH, model.node_scores(table), sampler)
    assert [distinct for _, distinct in seen] == [True, False, False][: len(layers)]
    assert len(layers) == (2 if model.dense_first else 3)
    assert torch.equal(seen[0][0], BATCH)
    assert torch.equal(seen[1][0], layers[0].nodes)


@KIND
@NORM_AND_GATE
def test_a_step_on_samples_of_many_seeds_equals_a_loop(data, kind, norm, reweight):
    models = [randomized(KINDS[kind](norm=norm, reweight=reweight, count=5), s) for s in range(3)]
    table, sampler = models[0].prepare_training(data)
    batches = torch.tensor([[0, 1, 2], [7, 3, 4], [5, 6, 0]])
    layers = [fixed_samples(models[0], batch) for batch in batches]
    for model, own in zip(models, layers, strict=True):
        model.sample_layers = lambda *_, own=own: own
    expected = [m.sampled(b, table, sampler) for m, b in zip(models, batches, strict=True)]
    model = randomized(KINDS[kind](norm=norm, reweight=reweight, count=5))
    model.forward = model.sampled
    states = torch.func.stack_module_state(models)
    stacked = [
        (torch.stack([a.nodes for a in same]), torch.stack([a.matrix for a in same]))
        for same in zip(*layers, strict=True)
    ]

    def call(parameters, buffers, batch, *given):
        model.sample_layers = lambda *_: [LayerSample(*one) for one in given]
        state = (parameters, buffers)
        return torch.func.functional_call(model, state, (batch, table, sampler))

    out, extra = torch.vmap(call)(*states, batches, *stacked)
    torch.testing.assert_close(out, torch.stack([scores for scores, _ in expected]))
    torch.testing.assert_close(extra, torch.stack([more for _, more in expected]))


@KIND
def test_isolated_nodes_and_no_edges_at_all_stay_finite(x, kind):
    model = random_model(kind, reweight="dr", norm="layer", count=4)
    for edges in (EDGES, EDGES[:, :0]):
        data = Data(x=x, edge_index=edges, num_nodes=NODES)
        out = model(x, edges)
        sampled, extra = model.sampled(torch.tensor([7]), *model.prepare_training(data))
        for found in (out, sampled, extra, *gradients(out, model)):
            assert found.isfinite().all()


# Dropout


@KIND
def test_dropout_acts_on_the_clean_input_of_every_layer(x, data, kind, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(kind, dropout=0.5, reweight="dr", count=5)
    table, sampler = model.prepare_training(data)
    layers = fixed_samples(model)
    model.sample_layers = lambda *_: layers
    dropped, _ = model.sampled(BATCH, table, sampler)
    assert [values.shape for values in seen] == [(5, D), (5, HIDDEN)]
    assert torch.equal(seen[0], table[layers[-1].nodes])
    model.eval()
    assert not torch.allclose(dropped, model.sampled(BATCH, table, sampler)[0])
    assert len(seen) == 2


# Batch norm


@KIND
def test_batch_norm_remembers_the_rows_that_entered(data, kind):
    model = random_model(kind, norm="batch", count=5)
    table, sampler = model.prepare_training(data)
    layers = fixed_samples(model)
    model.sample_layers = lambda *_: layers
    before = model.inputs[0].norm.running_mean.clone()
    model.sampled(BATCH, table, sampler)
    mean = table[layers[-1].nodes].mean(0)
    torch.testing.assert_close(model.inputs[0].norm.running_mean, 0.9 * before + 0.1 * mean)


# Parameters


@KIND
def test_weights_start_as_glorot_says_and_no_layer_has_a_bias(kind):
    torch.manual_seed(0)
    make = {"fastgcn": FastGCN}.get(kind, ASGCN)
    model = make(400, 300, 200)
    assert not any("bias" in name for name, _ in model.named_parameters())
    for weight in (weight.detach() for weight in model.weights):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.98 * bound < float(weight.abs().max()) <= bound
        assert abs(float(weight.std()) - bound / 3**0.5) < 0.01 * bound


@KIND
def test_loss_falls_in_a_plain_loop_over_batches(kind):
    data = load("planted", nodes=200, features=16, labels_per_class=20, val_per_class=20)
    torch.manual_seed(0)
    make = {"fastgcn": FastGCN}.get(kind, ASGCN)
    options = {"form": kind} if make is ASGCN else {}
    model = make(16, 16, 4, reweight="dr", count=60, **options)
    table, sampler = model.prepare_training(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    nodes = data.train_mask.nonzero().flatten()

    def exact_loss():
        return F.cross_entropy(model(data.x, data.edge_index)[nodes], data.y[nodes]).item()

    before = exact_loss()
    for _ in range(60):
        batch = nodes[torch.randperm(len(nodes))[:40]]
        out, extra = model.sampled(batch, table, sampler)
        optimizer.zero_grad()
        (F.cross_entropy(out, data.y[batch]) + extra).backward()
        optimizer.step()
    assert exact_loss() < 0.7 * before


# Errors


@KIND
def test_no_draws_are_refused(kind):
    with pytest.raises(ValueError, match="count >= 1; found 0"):
        KINDS[kind](count=0)


# FastGCN alone


FEW_EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 4]])
FEW_EDGES = torch.cat([FEW_EDGES, FEW_EDGES.flip(0)], dim=1)
SMALL = Data(x=random_matrix(6, 4), edge_index=FEW_EDGES, num_nodes=6)


def sampler(**options):
    _, found = FastGCN(4, 3, 2, **options).prepare_training(SMALL)
    return found


def test_the_matrix_is_that_of_the_training_graph():
    graph = sampler().graph
    expected = normalized_adjacency(FEW_EDGES, 6, dtype=torch.float64).to_dense()
    found = torch.zeros(6, 6, dtype=torch.float64)
    found[torch.arange(6).repeat_interleave(graph.degree), graph.col.long()] = graph.value
    assert torch.equal(found, expected)


def test_settings_reach_the_sampler():
    usual = sampler()
    assert isinstance(usual, ImportanceSampler)
    assert (usual.count, usual.candidates, usual.replace, usual.renormalize) == (
        *(400, "rows", False, True),
    )
    other = sampler(count=7, candidates="all", power=2, replace=True, renormalize=False)
    assert (other.count, other.candidates, other.replace, other.renormalize) == (
        *(7, "all", True, False),
    )
    # At power 2 weights are squares; both are shares of one.
    torch.testing.assert_close(other.weight, usual.weight**2 / (usual.weight**2).sum())
    ladies = sampler(sampler="layer-dependent", count=5, replace=True)
    assert isinstance(ladies, LayerDependentSampler)
    assert (ladies.count, ladies.replace) == (5, True)


def test_one_layer_samples_nothing():
    """The first layer is dense, so that alone it is exact."""
    model = FastGCN(4, 3, 2, num_layers=1, reweight="static").double()
    batch = torch.tensor([4, 0])
    out, extra = model.sampled(batch, *model.prepare_training(SMALL))
    torch.testing.assert_close(out, model(SMALL.x, FEW_EDGES)[batch])
    assert extra.item() == 0


@pytest.mark.parametrize("kind", ["importance", "layer-dependent"])
def test_samples_differ_and_nothing_is_added_to_the_loss(kind):
    model = FastGCN(4, 3, 2, count=1, sampler=kind).double()
    inputs = model.prepare_training(SMALL)
    found = [model.sampled(torch.arange(6), *inputs) for _ in range(8)]
    assert len({tuple(out.flatten().tolist()) for out, _ in found}) > 1
    assert all(extra.item() == 0 for _, extra in found)


def test_unknown_ways_to_sample_are_refused():
    with pytest.raises(ValueError, match="'importance' or 'layer-dependent'; found 'adaptive'"):
        FastGCN(4, 3, 2, sampler="adaptive")
    for options, words in (({"power": 3}, "power 1"), ({"candidates": "no"}, "'rows' or 'all'")):
        with pytest.raises(InputError, match=words):
            sampler(**options)
