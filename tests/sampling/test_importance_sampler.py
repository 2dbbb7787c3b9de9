import numpy as np
import pytest
import torch

from drgcn.errors import InputError
from drgcn.sampling import ImportanceSampler

from .graphs import Given
from .matrices import NODES, as_graph, assert_mean, assert_not_mean, many, uneven_matrix

DENSE = uneven_matrix()
ROWS = torch.tensor([0, 9, 5, 7])
H = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
WAYS = pytest.mark.parametrize("candidates", ["rows", "all"])
REPLACE = pytest.mark.parametrize("replace", [False, True])
POWER = pytest.mark.parametrize("power", [1, 2])


def sampler(count=3, **options):
    return ImportanceSampler.of(as_graph(DENSE), count, **options)


def estimate(source, rows=ROWS):
    layer = source.sample(rows)
    return layer.matrix @ H[layer.nodes]


def q_by_loop(power):
    weights = []
    for u in range(NODES):
        square = sum(float(DENSE[v, u]) ** 2 for v in range(NODES))
        weights.append(square ** (power / 2))
    return torch.tensor(weights, dtype=torch.float64) / sum(weights)


@POWER
def test_weights_are_norms_of_columns_of_the_whole_matrix(power):
    torch.testing.assert_close(sampler(power=power).weight, q_by_loop(power))


@WAYS
@REPLACE
@POWER
def test_the_estimate_is_unbiased(candidates, replace, power):
    source = sampler(candidates=candidates, replace=replace, power=power)
    assert_mean(many(lambda: estimate(source), 30_000), DENSE[ROWS] @ H)


@WAYS
@REPLACE
def test_nodes_are_drawn_by_weight(candidates, replace):
    """One draw each: how often a node comes is its share of the candidates' weight."""
    source = sampler(1, candidates=candidates, replace=replace)
    nodes = many(lambda: source.sample(ROWS).nodes[0], 30_000)
    weight = q_by_loop(1)
    if candidates == "rows":
        weight = weight * (DENSE[ROWS] != 0).any(0)
    expected = weight / weight.sum()
    found = torch.nn.functional.one_hot(nodes, NODES).double()
    assert_mean(found, expected)
    assert not found[:, expected == 0].any()


def test_without_replacement_no_node_is_listed_twice():
    nodes = many(lambda: sampler(4).sample(ROWS).nodes, 500).sort(1).values
    assert (nodes.diff(dim=1) > 0).all()


def test_more_draws_than_candidates_give_the_exact_product():
    torch.testing.assert_close(estimate(sampler(NODES)), DENSE[ROWS] @ H)
    torch.testing.assert_close(estimate(sampler(500)), DENSE[ROWS] @ H)


def test_places_without_a_draw_are_told_from_the_others():
    layer = sampler(NODES).sample(ROWS)
    senders = (DENSE[ROWS] != 0).any(0).nonzero().flatten().tolist()
    assert sorted(layer.nodes[layer.real].tolist()) == senders
    assert not layer.matrix[:, ~layer.real].any()
    assert not layer.real.all()


def original(chosen, rows, count):
    """FastGCN's own weights: entries divided by q over all nodes times the number of draws."""
    q = q_by_loop(1)
    matrix = np.zeros((len(rows), len(chosen)))
    for i, v in enumerate(rows.tolist()):
        for j, u in enumerate(chosen.tolist()):
            matrix[i, j] = float(DENSE[v, u]) / (float(q[u]) * count)
    return torch.from_numpy(matrix)


@REPLACE
@pytest.mark.parametrize("count", [3, 500])
def test_without_renormalising_the_weights_are_the_originals(replace, count):
    """Also where all candidates are taken: the divisor stays the number asked for."""
    layer = sampler(count, replace=replace, renormalize=False).sample(ROWS)
    drawn = torch.ones_like(layer.nodes).bool() if layer.real is None else layer.real
    torch.testing.assert_close(
        layer.matrix[:, drawn], original(layer.nodes[drawn], ROWS, count), rtol=1e-9, atol=1e-12
    )
    assert not layer.matrix[:, ~drawn].any()


def test_without_renormalising_a_batch_is_scaled_by_its_candidates_share():
    """With replacement by exactly their part of q, which is what makes it an option."""
    source = sampler(replace=True, renormalize=False)
    mass = q_by_loop(1)[(DENSE[ROWS] != 0).any(0)].sum()
    assert mass < 0.9
    found = many(lambda: estimate(source), 30_000)
    assert_mean(found, DENSE[ROWS] @ H / mass)
    assert_not_mean(found, DENSE[ROWS] @ H)


def test_with_all_nodes_as_candidates_there_is_nothing_to_renormalise():
    chance = torch.rand(3, dtype=torch.float64)
    found = []
    for renormalize in (True, False):
        source = sampler(candidates="all", replace=True, renormalize=renormalize)
        with Given(chance):
            found.append(source.sample(ROWS))
    assert torch.equal(found[0].nodes, found[1].nodes)
    torch.testing.assert_close(found[0].matrix, found[1].matrix)


def test_rows_listed_twice_are_estimated_alike():
    rows = torch.tensor([9, 0, 9, 9])
    layer = sampler().sample(rows, distinct=False)
    assert torch.equal(layer.matrix[0], layer.matrix[2])
    found = many(lambda: estimate(sampler(), rows[:2]), 100)
    assert found.shape == (100, 2, 3)


@WAYS
@REPLACE
def test_lanes_draw_what_they_draw_alone(candidates, replace):
    source = sampler(candidates=candidates, replace=replace)
    batches = torch.tensor([[0, 1], [9, 5], [11, 3]])
    chances = torch.rand(3, 3 if replace else NODES, dtype=torch.float64)

    def work(rows, chance):
        with Given(chance):
            layer = source.sample(rows)
        return layer.nodes, layer.matrix

    together = torch.vmap(work)(batches, chances)
    for lane in range(3):
        for ours, alone in zip(together, work(batches[lane], chances[lane]), strict=True):
            assert torch.equal(ours[lane], alone)


def test_moving_keeps_every_setting():
    source = sampler(power=2, candidates="all", replace=True, renormalize=False)
    moved = source.to("cpu")
    for name in ("count", "candidates", "replace", "renormalize"):
        assert getattr(moved, name) == getattr(source, name)
    assert torch.equal(moved.weight, source.weight)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "at least one node; found 0"),
        ({"power": 3}, "power 1 .* found 3"),
        ({"candidates": "some"}, "'rows' or 'all'; found 'some'"),
    ],
)
def test_bad_settings_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        sampler(**options)
