import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj, to_undirected

from drgcn.nn import normalized_adjacency

from ..reference import adjacency

NODES = 7  # node 6 is isolated
DIRECTED = torch.tensor([[0, 1, 2, 0, 3, 4, 5, 5], [1, 2, 3, 4, 4, 5, 2, 0]])
GRAPHS = {
    "undirected": to_undirected(DIRECTED),
    "directed": DIRECTED,
    "with loops": torch.cat([DIRECTED, torch.tensor([[1, 6, 6], [1, 6, 6]])], dim=1),
    "with repeated edges": torch.cat([DIRECTED, DIRECTED[:, :3]], dim=1),
    "without edges": torch.empty(2, 0, dtype=torch.long),
}
EVERY_GRAPH = pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS.keys())
NORMALIZATIONS = {"symmetric": adjacency.symmetric, "row": adjacency.row}
EVERY_NORMALIZATION = pytest.mark.parametrize("normalization", NORMALIZATIONS)


def dense(edges, **options):
    return normalized_adjacency(edges, NODES, dtype=torch.float64, **options).to_dense()


def weights(edges):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(edges.size(1), generator=generator, dtype=torch.float64) + 0.1


@EVERY_GRAPH
@EVERY_NORMALIZATION
@pytest.mark.parametrize("self_loops", [True, False])
def test_matrix_equals_the_formula(edges, normalization, self_loops):
    a = adjacency.adjacency(edges.t().tolist(), NODES, self_loops=self_loops)
    expected = torch.from_numpy(NORMALIZATIONS[normalization](a))
    found = dense(edges, normalization=normalization, self_loops=self_loops)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@EVERY_GRAPH
@EVERY_NORMALIZATION
def test_weighted_matrix_equals_the_formula(edges, normalization):
    weight = weights(edges)
    a = adjacency.adjacency(edges.t().tolist(), NODES, weight.tolist())
    expected = torch.from_numpy(NORMALIZATIONS[normalization](a))
    found = dense(edges, normalization=normalization, edge_weight=weight)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["undirected", "directed", "without edges"])
@pytest.mark.parametrize("weighted", [False, True])
def test_matrix_equals_that_of_pyg_without_loops(name, weighted):
    edges = GRAPHS[name]
    weight = weights(edges) if weighted else None
    index, value = gcn_norm(edges, weight, NODES, dtype=torch.float64)
    expected = to_dense_adj(index, edge_attr=value, max_num_nodes=NODES)[0].t()
    torch.testing.assert_close(dense(edges, edge_weight=weight), expected)


def test_loops_of_the_input_are_dropped():
    assert torch.equal(dense(GRAPHS["with loops"]), dense(DIRECTED))


def test_repeated_edges_add_up():
    weight = torch.ones(DIRECTED.size(1))
    weight[:3] = 2
    repeated = dense(GRAPHS["with repeated edges"])
    torch.testing.assert_close(repeated, dense(DIRECTED, edge_weight=weight))


def test_an_edge_stands_in_the_row_of_its_target():
    found = dense(torch.tensor([[0], [2]]), self_loops=False, normalization="row")
    assert found.nonzero().tolist() == [[2, 0]]


def test_isolated_nodes_keep_their_loop():
    row = dense(DIRECTED)[6]
    assert torch.equal(row, torch.eye(NODES, dtype=torch.float64)[6])


@EVERY_NORMALIZATION
def test_isolated_nodes_without_loops_have_zero_rows(normalization):
    found = dense(GRAPHS["undirected"], normalization=normalization, self_loops=False)
    assert not found[6].any()
    assert found.isfinite().all()


@EVERY_GRAPH
def test_rows_of_row_normalisation_sum_to_one(edges):
    ones = torch.ones(NODES, dtype=torch.float64)
    torch.testing.assert_close(dense(edges, normalization="row").sum(1), ones)


def test_symmetric_matrix_of_an_undirected_graph_is_symmetric():
    found = dense(GRAPHS["undirected"])
    torch.testing.assert_close(found, found.t())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_the_one_asked_for(dtype):
    assert normalized_adjacency(DIRECTED, NODES, dtype=dtype).dtype == dtype


def test_weights_take_the_dtype_asked_for():
    matrix = normalized_adjacency(DIRECTED, NODES, edge_weight=weights(DIRECTED))
    assert matrix.dtype == torch.float32


def test_other_normalisations_are_refused():
    with pytest.raises(ValueError, match="'symmetric' or 'row'; found 'column'"):
        normalized_adjacency(DIRECTED, NODES, normalization="column")
