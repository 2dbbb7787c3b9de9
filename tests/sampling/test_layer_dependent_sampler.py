import pytest
import torch

from drgcn.errors import InputError
from drgcn.sampling import LayerDependentSampler

from .graphs import Given
from .matrices import NODES, as_graph, assert_mean, many, uneven_matrix

DENSE = uneven_matrix()
ROWS = torch.tensor([0, 9, 5, 7])
H = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
REPLACE = pytest.mark.parametrize("replace", [False, True])


def sampler(count=3, **options):
    return LayerDependentSampler(as_graph(DENSE), count, **options)


def estimate(source):
    layer = source.sample(ROWS)
    return layer.matrix @ H[layer.nodes]


@REPLACE
def test_the_estimate_is_unbiased(replace):
    source = sampler(replace=replace)
    assert_mean(many(lambda: estimate(source), 30_000), DENSE[ROWS] @ H)


@REPLACE
def test_nodes_are_drawn_by_their_columns_in_the_rows(replace):
    nodes = many(lambda: sampler(1, replace=replace).sample(ROWS).nodes[0], 30_000)
    weight = [sum(float(DENSE[v, u]) ** 2 for v in ROWS.tolist()) for u in range(NODES)]
    expected = torch.tensor(weight, dtype=torch.float64) / sum(weight)
    found = torch.nn.functional.one_hot(nodes, NODES).double()
    assert_mean(found, expected)
    assert not found[:, expected == 0].any()


def test_more_draws_than_candidates_give_the_exact_product():
    for normalize_rows in (False, True):
        source = sampler(500, normalize_rows=normalize_rows)
        torch.testing.assert_close(estimate(source), DENSE[ROWS] @ H)


@REPLACE
def test_normalised_rows_keep_their_sums(replace):
    plain, scaled = [], []
    chance = torch.rand(3 if replace else NODES, dtype=torch.float64)
    for normalize_rows, found in ((False, plain), (True, scaled)):
        with Given(chance):
            found.append(sampler(replace=replace, normalize_rows=normalize_rows).sample(ROWS))
    assert torch.equal(plain[0].nodes, scaled[0].nodes)
    before, after = plain[0].matrix, scaled[0].matrix
    for place, v in enumerate(ROWS.tolist()):
        if before[place].any():
            torch.testing.assert_close(after[place].sum(), DENSE[v].sum())
            torch.testing.assert_close(
                after[place] / after[place].sum(), before[place] / before[place].sum()
            )
        else:  # nobody who sends to it was drawn
            assert not after[place].any()
    assert before[:2].any(1).all()  # the test has rows to look at
    assert not after[2].any()  # the empty row


def test_normalised_rows_without_values_sum_to_their_degree():
    graph = as_graph((DENSE != 0).float())
    source = LayerDependentSampler(type(graph)(graph.rowptr, graph.col, NODES), 500, True, True)
    sums = source.sample(ROWS).matrix.sum(1)
    torch.testing.assert_close(sums, (DENSE[ROWS] != 0).sum(1).float())


def test_lanes_draw_what_they_draw_alone():
    source = sampler(normalize_rows=True)
    batches, chances = torch.tensor([[0, 1], [9, 5]]), torch.rand(2, NODES, dtype=torch.float64)

    def work(rows, chance):
        with Given(chance):
            layer = source.sample(rows)
        return layer.nodes, layer.matrix

    together = torch.vmap(work)(batches, chances)
    for lane in range(2):
        for ours, alone in zip(together, work(batches[lane], chances[lane]), strict=True):
            assert torch.equal(ours[lane], alone)


def test_moving_keeps_every_setting():
    moved = sampler(4, replace=True, normalize_rows=True).to("cpu")
    assert (moved.count, moved.replace, moved.normalize_rows) == (4, True, True)


def test_nothing_to_draw_is_refused():
    with pytest.raises(InputError, match="at least one node; found 0"):
        sampler(0)
