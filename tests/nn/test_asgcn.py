"""AS-GCN alone; see test_layer_sampled.py for what it shares with FastGCN."""

import pytest
import torch
from torch_geometric.data import Data

from drgcn.nn import ASGCN, normalized_adjacency
from drgcn.nn import layer_sampled as module
from drgcn.nn.layer_sampled import NodeScores, shared_product
from drgcn.sampling import AdaptiveSampler, LayerSample
from drgcn.sampling.layers import lookup

from ..reference import adaptive_sampling
from ..sampling.graphs import Given
from ..sampling.matrices import assert_mean, many
from .matrices import random_matrix
from .models import randomized

NODES, D, HIDDEN, CLASSES = 9, 4, 3, 2
_HUB = torch.stack([torch.arange(1, 8), torch.zeros(7, dtype=torch.long)])
EDGES = torch.cat([_HUB, torch.tensor([[1, 2, 3], [2, 3, 4]])], dim=1)
EDGES = torch.cat([EDGES, EDGES.flip(0)], dim=1)
BATCH = torch.tensor([1, 0, 8, 5])


@pytest.fixture
def data():
    return Data(x=random_matrix(NODES, D, density=1.1), edge_index=EDGES, num_nodes=NODES)


def asgcn(**options):
    return randomized(ASGCN(D, HIDDEN, CLASSES, **options))


def dense(graph):
    return lookup(graph, torch.arange(NODES), torch.arange(NODES))


def test_settings_reach_the_sampler(data):
    _, usual = asgcn().prepare_training(data)
    assert isinstance(usual, AdaptiveSampler)
    assert (usual.count, usual.drop_duplicates) == (128, False)
    _, other = asgcn(count=7, drop_duplicates=True).prepare_training(data)
    assert (other.count, other.drop_duplicates) == (7, True)


def test_long_rows_are_trimmed_once_and_in_training_only(data):
    model = asgcn(max_degree=3)
    whole = normalized_adjacency(EDGES, NODES, dtype=torch.float64).to_dense()
    _, sampler = model.prepare_training(data)
    trimmed = dense(sampler.graph)
    assert (trimmed != 0).sum(1).tolist() == (whole != 0).sum(1).clamp(max=3).tolist()
    assert torch.equal(trimmed[trimmed != 0], whole[trimmed != 0])  # values are kept
    assert torch.equal(dense(model.prepare_training(data)[1].graph), trimmed)  # every time alike
    assert torch.equal(model(data.x, EDGES), asgcn(max_degree=32)(data.x, EDGES))


def test_the_dense_first_layer_is_not_trimmed(data):
    table, _ = asgcn(form="mix", max_degree=1).prepare_training(data)
    whole = normalized_adjacency(EDGES, NODES, dtype=torch.float64).to_dense()
    torch.testing.assert_close(table, whole @ data.x)


@pytest.mark.parametrize("form", ["adapt", "mix"])
def test_the_extra_identity_is_in_training_and_inference(data, form):
    model = asgcn(form=form, extra_identity=True)
    whole = normalized_adjacency(EDGES, NODES, dtype=torch.float64).to_dense()
    expected = whole + torch.eye(NODES, dtype=torch.float64)
    first, matrix = model.prepare(data)
    table, sampler = model.prepare_training(data)
    torch.testing.assert_close(matrix.to_dense(), expected)
    torch.testing.assert_close(dense(sampler.graph), expected)
    if form == "mix":
        torch.testing.assert_close(table, expected @ data.x)
        torch.testing.assert_close(first.x, expected @ data.x)


# Who is drawn


@pytest.mark.parametrize("swap_scores", [False, True])
@pytest.mark.parametrize("form", ["adapt", "mix"])
def test_nodes_are_drawn_by_the_models_scores(data, form, swap_scores):
    """All layers by the scores of the features that the model takes, never of hidden ones."""
    model = asgcn(form=form, count=2, swap_scores=swap_scores, num_layers=3)
    table, sampler = model.prepare_training(data)
    matrix = dense(sampler.graph).numpy()
    own, sent = (table @ model.scores).detach().T.tolist()
    if swap_scores:
        own, sent = sent, own

    def drawn():
        found = model.sample_layers(BATCH, model.node_scores(table), sampler)
        return tuple(layer.nodes for layer in found)

    first, second, *_ = many(drawn, 20_000)
    q = adaptive_sampling.probabilities(matrix, BATCH.tolist(), own, sent, 2)
    found = torch.nn.functional.one_hot(first[:, 0], NODES).double()
    assert_mean(found, torch.from_numpy(q))
    pair = first.mode(0).values  # a pair of rows for the lower layer that comes often
    same = (first == pair).all(1)
    assert same.sum() > 300
    q = adaptive_sampling.probabilities(matrix, pair.tolist(), own, sent, 2)
    found = torch.nn.functional.one_hot(second[same][:, 1], NODES).double()
    assert_mean(found, torch.from_numpy(q))


@pytest.mark.parametrize("drop_duplicates", [False, True])
def test_a_sampled_layer_has_the_weights_of_the_code(data, drop_duplicates):
    """From the draw to the matrix that meets the features, on the model's own sample."""
    model = asgcn(num_layers=1, count=12, drop_duplicates=drop_duplicates)
    table, sampler = model.prepare_training(data)
    scores = model.node_scores(table)
    (layer,) = model.sample_layers(BATCH, scores, sampler)
    found = model.sampled_matrix(layer, BATCH, scores)
    matrix = dense(sampler.graph).numpy()
    own, sent = (table @ model.scores).detach().T.tolist()
    q = adaptive_sampling.probabilities(matrix, BATCH.tolist(), own, sent, 12)
    nodes = layer.nodes.tolist()
    assert len(set(nodes)) < 12
    expected = adaptive_sampling.layer_weights(
        matrix, BATCH.tolist(), nodes, q, own, sent, drop_duplicates
    )
    torch.testing.assert_close(found, torch.from_numpy(expected))


# The variance in the loss


@pytest.mark.parametrize("divide_variance", [False, True])
def test_the_extra_loss_equals_the_formula(divide_variance):
    model = asgcn(count=5, variance=0.7, divide_variance=divide_variance)
    matrix, sent = torch.randn(4, 5).double(), torch.randn(5, CLASSES).double()
    expected = 0.7 * adaptive_sampling.variance(matrix.numpy(), sent.numpy(), divide_variance)
    assert model.extra_loss(matrix, sent, matrix @ sent).item() == pytest.approx(expected)


def test_the_extra_loss_is_the_variance_of_a_draw(data):
    """On average it is what theory says of one draw's estimate of the batch's mean, less what
    the mean of n draws takes away: (1 - 1/n) of the variance."""
    count = 4
    model = asgcn(num_layers=1, count=count, variance=1.0)
    table, sampler = model.prepare_training(data)
    found = many(lambda: model.sampled(BATCH, table, sampler)[1].detach(), 20_000)
    matrix = dense(sampler.graph)
    own, sent = (table @ model.scores).detach().T
    q = adaptive_sampling.probabilities(
        matrix.numpy(), BATCH.tolist(), own.tolist(), sent.tolist(), count
    )
    weight = matrix[BATCH] * (torch.relu(own[BATCH][:, None] + sent) + 1)
    each = weight.mean(0)[:, None] * (table @ model.weights[0]).detach()  # [node, class]
    q = torch.from_numpy(q)
    square = torch.where(q[:, None] > 0, each**2 / q[:, None], 0).sum(0)
    assert_mean(found, (1 - 1 / count) * (square - each.sum(0) ** 2).mean())


def test_without_a_coefficient_nothing_is_added(data):
    model = asgcn(variance=0.0, count=5)
    assert model.sampled(BATCH, *model.prepare_training(data))[1].item() == 0


def test_scores_learn_through_the_weights_and_through_the_variance(data):
    for variance in (0.0, 0.5):
        model = asgcn(count=6, variance=variance)
        out, extra = model.sampled(BATCH, *model.prepare_training(data))
        by_weights = torch.autograd.grad(out.sum(), model.scores, retain_graph=True)[0]
        assert by_weights.abs().sum() > 0
        if variance:
            by_variance = torch.autograd.grad(extra, model.scores)[0]
            assert by_variance.abs().sum() > 0


def test_quirks_of_the_sampler_change_the_sample(data):
    chances = torch.rand(2, 40, dtype=torch.float64)
    found = {}
    for name, options in {
        "usual": {},
        "swapped": {"swap_scores": True},
        "dropped": {"drop_duplicates": True},
    }.items():
        model = asgcn(count=40, **options)
        inputs = model.prepare_training(data)
        with Given(*chances):
            found[name] = model.sampled(BATCH, *inputs)[0]
    assert not torch.allclose(found["usual"], found["swapped"])
    assert not torch.allclose(found["usual"], found["dropped"])


def test_scores_are_not_decayed():
    model = asgcn(reweight="dr")
    assert all(p is not model.scores for p in model.regularized_parameters())


def test_a_sample_of_nodes_drawn_twice_counts_them_twice_in_the_mean(data):
    """The mean of a gate is that of the rows, with repetitions."""
    model = asgcn(reweight="dr", num_layers=1)
    table, sampler = model.prepare_training(data)
    nodes = torch.tensor([3, 3, 3, 1])
    seen = []
    model.inputs[0].gate.from_mean = lambda mean: seen.append(mean) or torch.ones_like(mean)
    model.sample_layers = lambda *_: [LayerSample(nodes, torch.ones(4, 4).double())]
    model.sampled(BATCH, table, sampler)
    torch.testing.assert_close(seen[0], (3 * table[3] + table[1]) / 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"form": "mixed"}, "the form 'adapt' or 'mix'; found 'mixed'"),
        ({"max_degree": 0}, "max_degree >= 1; found 0"),
    ],
)
def test_impossible_arguments_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ASGCN(D, HIDDEN, CLASSES, **options)


# Products for scores


@pytest.fixture
def x():
    return torch.randn(7, 4, dtype=torch.float64)


def weights(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_product_and_gradient_are_those_of_torch(x):
    weight = weights(4, 3)
    assert torch.equal(shared_product(x, weight), x @ weight)
    assert torch.autograd.gradcheck(lambda w: shared_product(x, w), (weight,))


@pytest.mark.parametrize("dims", [(None, 0), (None, 2), (0, 0), (0, None), (1, 1)])
def test_lanes_equal_a_loop(x, dims):
    table = x if dims[0] is None else torch.randn(5, 7, 4, dtype=torch.float64).movedim(0, dims[0])
    lanes = 5
    weight = weights(4, 2) if dims[1] is None else weights(lanes, 4, 2)
    given = weight if dims[1] is None else weight.movedim(0, dims[1])
    found = torch.vmap(shared_product, dims)(table, given)
    factors = torch.randn(lanes, 7, 2, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((found * factors).sum(), weight)
    by_loop = torch.stack(
        [
            (table if dims[0] is None else table.select(dims[0], lane))
            @ (weight if dims[1] is None else weight[lane])
            for lane in range(lanes)
        ]
    )
    torch.testing.assert_close(found, by_loop)
    (expected,) = torch.autograd.grad((by_loop * factors).sum(), weight)
    torch.testing.assert_close(gradient, expected)


def test_gradients_taken_inside_lanes_equal_a_loop(x):
    """As training takes them where a model calls for derivatives of its own."""
    weight, factors = torch.randn(5, 4, 2).double(), torch.randn(7, 2).double()
    one = torch.func.grad(lambda w: (shared_product(x, w) * factors).sum())
    expected = torch.stack([x.T @ factors] * 5)
    torch.testing.assert_close(torch.vmap(one)(weight), expected)


@pytest.mark.parametrize("limit", [100, 3])
def test_scores_are_the_same_from_a_table_and_row_by_row(x, limit, monkeypatch):
    monkeypatch.setattr(module, "_SMALL_TABLE", limit)
    weight = weights(4, 2)
    scores = NodeScores(x, weight)
    assert (scores.table is None) == (limit < 7)
    nodes = torch.tensor([6, 0, 0, 3])
    for column in (0, 1):
        expected = (x @ weight)[nodes, column]
        torch.testing.assert_close(scores(nodes, column), expected)
        found = torch.autograd.grad(scores(nodes, column).sum(), weight, retain_graph=True)[0]
        torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), weight)[0])
