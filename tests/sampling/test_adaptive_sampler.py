import pytest
import torch

from drgcn.errors import InputError
from drgcn.sampling import AdaptiveSampler

from ..reference import adaptive_sampling
from .graphs import Given
from .matrices import NODES, as_graph, assert_mean, assert_not_mean, many, uneven_matrix

DENSE = uneven_matrix()
ROWS = torch.tensor([0, 9, 5, 7])
_draw = torch.Generator().manual_seed(5)
H = torch.randn(NODES, 3, generator=_draw, dtype=torch.float64)
K = 2 * torch.randn(NODES, generator=_draw, dtype=torch.float64)  # of both signs
T = torch.randn(NODES, generator=_draw, dtype=torch.float64)


def sampler(count=5, **options):
    return AdaptiveSampler(as_graph(DENSE), count, **options)


def sample(source, rows=ROWS, sign=1.0, **options):
    return source.sample(rows, sign * T[rows].sum(), lambda nodes: K[nodes], **options)


def reference_q(count=5, sign=1.0):
    found = adaptive_sampling.probabilities(
        DENSE.numpy(), ROWS.tolist(), (sign * T).tolist(), K.tolist(), count
    )
    return torch.from_numpy(found)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nodes_are_drawn_as_the_code_of_asgcn_draws(sign):
    nodes = many(lambda: sample(sampler(2), sign=sign).nodes, 20_000).flatten()
    found = torch.nn.functional.one_hot(nodes, NODES).double()
    assert_mean(found, reference_q(2, sign))
    assert not found[:, reference_q(2, sign) == 0].any()


def test_entries_are_divided_by_the_chance_they_were_drawn_with():
    layer = sample(sampler())
    q = reference_q()
    expected = DENSE[ROWS][:, layer.nodes] / (5 * q[layer.nodes])
    torch.testing.assert_close(layer.matrix, expected)


def test_the_estimate_is_unbiased():
    source = sampler()

    def estimate():
        layer = sample(source)
        return layer.matrix @ H[layer.nodes]

    assert_mean(many(estimate, 30_000), DENSE[ROWS] @ H)


def test_dropped_duplicates_shrink_the_mean_by_a_known_share():
    """A node counts if it was drawn at all, so that its entries shrink by the chance of that,
    1 - (1 - q)^n, against the n q draws it is divided by."""
    source, count = sampler(20, drop_duplicates=True), 20

    def columns():
        layer = sample(source)
        return torch.zeros(len(ROWS), NODES, dtype=torch.float64).index_add(
            1, layer.nodes, layer.matrix
        )

    q = reference_q(count)
    share = torch.where(q > 0, (1 - (1 - q) ** count) / (count * q), 0)
    found = many(columns, 20_000)
    assert_mean(found, DENSE[ROWS] * share)
    assert_not_mean(found, DENSE[ROWS])
    assert (share[q > 0] < 1).all()


def test_of_duplicates_the_first_place_is_kept():
    chance = torch.rand(20, dtype=torch.float64)
    with Given(chance):
        plain = sample(sampler(20))
    with Given(chance):
        layer = sample(sampler(20, drop_duplicates=True))
    assert torch.equal(plain.nodes, layer.nodes)
    nodes = plain.nodes.tolist()
    first = torch.tensor([u not in nodes[:j] for j, u in enumerate(nodes)])
    assert 0 < int(first.sum()) < 20
    assert torch.equal(layer.matrix, plain.matrix * first)


def test_no_gradient_flows_through_the_draw():
    k, t = K.clone().requires_grad_(), T.clone().requires_grad_()
    layer = sampler().sample(ROWS, t[ROWS].sum(), lambda nodes: k[nodes])
    assert not layer.matrix.requires_grad


def test_rows_listed_twice_count_twice():
    """As in the lower of two sampled layers, whose rows are draws."""
    rows = torch.tensor([9, 0, 9])
    nodes = many(lambda: sample(sampler(2), rows, distinct=False).nodes, 20_000).flatten()
    found = torch.nn.functional.one_hot(nodes, NODES).double()
    expected = adaptive_sampling.probabilities(
        DENSE.numpy(), rows.tolist(), T.tolist(), K.tolist(), 2
    )
    assert_mean(found, torch.from_numpy(expected))


def test_lanes_draw_what_they_draw_alone():
    source = sampler(drop_duplicates=True)
    batches, chances = torch.tensor([[0, 1], [9, 5]]), torch.rand(2, 5, dtype=torch.float64)

    def work(rows, chance):
        with Given(chance):
            layer = sample(source, rows)
        return layer.nodes, layer.matrix

    together = torch.vmap(work)(batches, chances)
    for lane in range(2):
        for ours, alone in zip(together, work(batches[lane], chances[lane]), strict=True):
            assert torch.equal(ours[lane], alone)


def test_moving_keeps_every_setting():
    moved = sampler(7, drop_duplicates=True).to("cpu")
    assert (moved.count, moved.drop_duplicates) == (7, True)


def test_nothing_to_draw_is_refused():
    with pytest.raises(InputError, match="at least one node; found 0"):
        sampler(0)
