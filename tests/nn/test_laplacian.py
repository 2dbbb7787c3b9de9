import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackNoConvergence
from torch_geometric.utils import get_laplacian, to_dense_adj, to_undirected

from drgcn.errors import DrgcnWarning
from drgcn.nn import chebyshev as module
from drgcn.nn import scaled_laplacian

from ..reference import chebyshev

GRAPHS = {
    "path and an isolated node": (5, [(0, 1), (1, 2), (2, 3)]),
    "triangle": (3, [(0, 1), (1, 2), (2, 0)]),
    "square, regular and bipartite": (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "two components": (6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5)]),
    "no edges": (3, []),
    "one node": (1, []),
}


def both_ways(edges):
    return torch.tensor([*edges, *((v, u) for u, v in edges)], dtype=torch.long).view(-1, 2).t()


def random_graph(nodes, edges, seed=0):
    ends = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
    return to_undirected(ends[:, ends[0] != ends[1]])


@pytest.mark.parametrize("name", GRAPHS)
def test_matrix_equals_the_formula(name):
    nodes, edges = GRAPHS[name]
    edge_index = both_ways(edges)
    expected = chebyshev.scaled(chebyshev.laplacian(edge_index.t().tolist(), nodes))
    found = scaled_laplacian(edge_index, nodes, dtype=torch.float64).to_dense()
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-12, atol=1e-12)


def test_unscaled_laplacian_is_that_of_pyg():
    edges = random_graph(20, 30)
    index, weight = get_laplacian(edges, normalization="sym", num_nodes=22, dtype=torch.float64)
    expected = to_dense_adj(index, edge_attr=weight, max_num_nodes=22)[0]
    found = scaled_laplacian(edges, 22, lambda_max=2.0, dtype=torch.float64).to_dense()
    torch.testing.assert_close(found + torch.eye(22), expected)


def test_self_loops_and_the_order_of_edges_do_not_matter():
    edges = random_graph(20, 30)
    loops = torch.arange(3).expand(2, -1)
    shuffled = torch.cat([loops, edges], 1)[:, torch.randperm(edges.size(1) + 3)]
    assert torch.equal(
        scaled_laplacian(shuffled, 20).to_dense(), scaled_laplacian(edges, 20).to_dense()
    )


@pytest.mark.parametrize("edges", [400, 2000])
def test_large_graphs_have_the_eigenvalue_of_dense_ones(edges):
    graph = random_graph(400, edges)
    dense = chebyshev.laplacian(graph.t().tolist(), 400)
    expected = 2 / np.linalg.eigvalsh(dense)[-1] - 1
    found = scaled_laplacian(graph, 400, dtype=torch.float64).to_dense().diagonal()
    torch.testing.assert_close(found, torch.full_like(found, expected), rtol=1e-10, atol=1e-10)


def test_large_regular_bipartite_graph_has_eigenvalue_two():
    ring = torch.stack([torch.arange(300), (torch.arange(300) + 1) % 300])
    found = scaled_laplacian(to_undirected(ring), 300, dtype=torch.float64)
    torch.testing.assert_close(found.to_dense().diagonal(), torch.zeros(300).double())


def test_the_same_numbers_at_every_call():
    graph = random_graph(500, 900)
    assert torch.equal(scaled_laplacian(graph, 500).values, scaled_laplacian(graph, 500).values)


def test_edges_of_one_direction_take_the_bound():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    assert torch.equal(scaled_laplacian(edges, 3).to_dense().diagonal(), torch.zeros(3))


def test_a_search_without_result_takes_the_bound_and_says_so(monkeypatch):
    def fails(*_, **__):
        raise ArpackNoConvergence("no", [], [])

    monkeypatch.setattr(module, "eigsh", fails)
    with pytest.warns(DrgcnWarning, match="Laplacian of 300 nodes was not found; the bound 2.0"):
        found = scaled_laplacian(random_graph(300, 900), 300)
    assert torch.equal(found.to_dense().diagonal(), torch.zeros(300))


def test_impossible_eigenvalues_are_refused():
    with pytest.raises(ValueError, match="lambda_max > 0; found 0"):
        scaled_laplacian(both_ways([(0, 1)]), 2, lambda_max=0)
