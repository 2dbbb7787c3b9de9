"""Whose estimates vary least, on a graph where the theory gives the order.

One draw of node u by q contributes a_:u h_u^T / q_u, so that n draws with replacement have the
total variance (sum_u |a_:u|^2 |h_u|^2 / q_u - |A h|^2) / n. By the inequality of Cauchy and
Schwarz the least is reached at q_u ~ |a_:u| |h_u|. Here the features' norms are what AS-GCN's
scores say, |h_u| = (ReLU(t + k_u) + 1) (ReLU(k_u) + 1), so that its q is that very one; FastGCN's
q ~ |a_:u| leaves the features out. Against a uniform q, FastGCN wins by Chebyshev's inequality
on sums whenever |a_:u| and |a_:u| |h_u|^2 grow together, as they do here: nodes with longer
columns have larger features.
"""

import pytest
import torch

from drgcn.sampling import AdaptiveSampler, ImportanceSampler, LayerDependentSampler

from .matrices import as_graph, many

NODES, COUNT, DRAWS = 30, 6, 4000
ROWS = torch.arange(NODES)


@pytest.fixture(scope="module")
def case():
    draw = torch.Generator().manual_seed(2)
    size = torch.logspace(-1, 1, NODES, dtype=torch.float64)
    dense = torch.rand(NODES, NODES, generator=draw, dtype=torch.float64) + 0.5
    dense = dense / dense.norm(dim=0) * size
    k = torch.linspace(-1, 2, NODES, dtype=torch.float64)
    norm = (torch.relu(0.5 + k) + 1) * (torch.relu(k) + 1)
    direction = torch.randn(NODES, 4, generator=draw, dtype=torch.float64)
    h = direction / direction.norm(dim=1, keepdim=True) * norm[:, None]
    return dense, h, k


def theory(dense, h, weight):
    q = weight / weight.sum()
    each = (dense.square().sum(0) * h.square().sum(1) / q).sum()
    return float(each - (dense @ h).square().sum()) / COUNT


def measured(h, sample):
    def estimate():
        layer = sample()
        return layer.matrix @ h[layer.nodes]

    return float(many(estimate, DRAWS).var(0).sum())


def test_adaptive_varies_less_than_importance_and_that_less_than_uniform(case):
    dense, h, k = case
    graph = as_graph(dense)
    columns, features = dense.norm(dim=0), h.norm(dim=1)
    uniform = torch.full((NODES,), 1 / NODES, dtype=torch.float64)
    adaptive = AdaptiveSampler(graph, COUNT)
    fast = ImportanceSampler.of(graph, COUNT, replace=True)
    flat = ImportanceSampler(graph, uniform, COUNT, "all", True)
    score = torch.tensor(0.5, dtype=torch.float64)
    found = {
        "adaptive": measured(h, lambda: adaptive.sample(ROWS, score, lambda nodes: k[nodes])),
        "fast": measured(h, lambda: fast.sample(ROWS)),
        "uniform": measured(h, lambda: flat.sample(ROWS)),
    }
    expected = {
        "adaptive": theory(dense, h, columns * features),
        "fast": theory(dense, h, columns),
        "uniform": theory(dense, h, uniform),
    }
    assert expected["adaptive"] < 0.9 * expected["fast"] < 0.9 * 0.9 * expected["uniform"]
    for name in found:  # a variance of 4,000 draws is known to a few percent
        assert found[name] == pytest.approx(expected[name], rel=0.1)
    assert found["adaptive"] < found["fast"] < found["uniform"]


def test_distinct_draws_vary_less_than_independent_ones(case):
    dense, h, _ = case
    graph = as_graph(dense)
    for make in (
        lambda replace: ImportanceSampler.of(graph, 20, replace=replace),
        lambda replace: LayerDependentSampler(graph, 20, replace),
    ):
        again, once = (make(replace) for replace in (True, False))
        assert measured(h, lambda s=once: s.sample(ROWS)) < 0.8 * measured(
            h, lambda s=again: s.sample(ROWS)
        )


def test_norms_over_the_rows_serve_a_batch_better_than_norms_over_the_graph():
    """LADIES against FastGCN: a column that is long elsewhere, and short in the rows at hand."""
    draw = torch.Generator().manual_seed(3)
    dense = torch.rand(NODES, NODES, generator=draw, dtype=torch.float64) + 0.5
    dense[:5, :15] *= 5  # what the batch listens to
    dense[5:, 15:] *= 50  # what the others do
    graph, h = as_graph(dense), torch.ones(NODES, 1, dtype=torch.float64)
    rows = torch.arange(5)
    near = LayerDependentSampler(graph, COUNT, replace=True)
    far = ImportanceSampler.of(graph, COUNT, replace=True)
    assert measured(h, lambda: near.sample(rows)) < 0.2 * measured(h, lambda: far.sample(rows))
