import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj, to_undirected

from drgcn.errors import InputError
from drgcn.nn import SparseMatrix, normalized_adjacency
from drgcn.nn.graph import NodeGroups

from ..reference import adjacency
from .matrices import random_matrix

# Adjacency matrices


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


@pytest.mark.parametrize("shape", [(DIRECTED.size(1), 1), (DIRECTED.size(1) - 1,)])
def test_weights_of_another_shape_than_the_edges_are_refused(shape):
    with pytest.raises(InputError, match=r"a weight for each of the .* edges; found shape"):
        dense(DIRECTED, edge_weight=torch.ones(shape))


@EVERY_NORMALIZATION
def test_a_node_of_negative_degree_is_not_cut_off_without_a_word(normalization):
    edges, weight = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0.5, -3.0, -0.5])
    with pytest.raises(InputError, match="not negative at any node; found -2 at node 2"):
        dense(edges, edge_weight=weight, normalization=normalization)
    weight[1] = -0.9  # with the loop its sum is above zero, as PyG takes it
    found = dense(edges, edge_weight=weight)
    index, value = gcn_norm(edges, weight.double(), NODES, dtype=torch.float64)
    torch.testing.assert_close(
        found, to_dense_adj(index, edge_attr=value, max_num_nodes=NODES)[0].t()
    )


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


# Graphs of a batch


D = 4
GRAPH = torch.tensor([0, 0, 2, 0, 2, 2, 3, 0])  # graph 1 has no nodes
SIZE = 5  # nor has graph 4
GROUPED = len(GRAPH)
MIXED = torch.tensor([2, 0, 2, 1, 0, 3, 1, 0])  # nodes of a graph need not stand together


def groups(graph=GRAPH, size=SIZE):
    return NodeGroups(graph, size)


def mean_loop(x, graph, size):
    means = torch.zeros(size, x.size(1), dtype=x.dtype)
    for g in range(size):
        members = [v for v in range(len(graph)) if int(graph[v]) == g]
        for v in members:
            means[g] = means[g] + x[v] / len(members)
    return means


def spread_loop(s, graph):
    return torch.stack([s[int(g)] for g in graph])


@pytest.fixture(params=["dense", "sparse"])
def layout(request):
    return {"dense": lambda x: x, "sparse": SparseMatrix.from_tensor}[request.param]


@pytest.mark.parametrize(("graph", "size"), [(GRAPH, SIZE), (MIXED, 4), (GRAPH * 0, 1)])
def test_mean_equals_a_loop_over_graphs(layout, graph, size):
    x = random_matrix(GROUPED, D)
    torch.testing.assert_close(
        groups(graph, size).mean(layout(x)), mean_loop(x, graph, size), rtol=1e-12, atol=1e-14
    )


def test_a_graph_without_nodes_has_the_mean_zero(layout):
    found = groups().mean(layout(random_matrix(GROUPED, D, density=1.1)))
    assert torch.equal(found[[1, 4]], torch.zeros(2, D, dtype=torch.float64))


def test_spread_gives_every_node_the_row_of_its_graph():
    s = random_matrix(SIZE, D, density=1.1)
    assert torch.equal(groups().spread(s), spread_loop(s, GRAPH))


def test_mean_of_half_precision_features_is_taken_in_float32():
    x = torch.full((5000, 1), 1.001, dtype=torch.bfloat16)
    found = NodeGroups(torch.zeros(5000, dtype=torch.int64), 1).mean(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, x[:1].float())


def test_blocks_hold_each_graphs_columns_apart():
    x = random_matrix(GROUPED, D)
    found = groups().as_blocks(SparseMatrix.from_tensor(x)).to_dense()
    expected = torch.zeros(GROUPED, SIZE * D, dtype=torch.float64)
    for v in range(GROUPED):
        for i in range(D):
            expected[v, int(GRAPH[v]) * D + i] = x[v, i]
    assert torch.equal(found, expected)


def test_blocks_take_the_present_values_of_a_known_pattern():
    matrix = SparseMatrix.from_tensor(random_matrix(GROUPED, D))
    grouped = groups()
    first = grouped.as_blocks(matrix)
    second = grouped.as_blocks(matrix.with_values(2 * matrix.values))
    assert second.pattern is first.pattern
    assert torch.equal(second.to_dense(), 2 * first.to_dense())


def test_patterns_that_come_and_go_are_not_mistaken_for_one_another():
    # Python gives the address of a pattern that died to the next one.
    grouped = groups()
    for seed in range(30):
        x = random_matrix(GROUPED, D, seed=seed, density=0.3 + 0.02 * (seed % 3))
        found = grouped.mean(SparseMatrix.from_tensor(x))
        torch.testing.assert_close(found, mean_loop(x, GRAPH, SIZE))


def test_two_groups_on_one_pattern_do_not_share_blocks():
    x = random_matrix(GROUPED, D)
    matrix = SparseMatrix.from_tensor(x)
    for graph, size in ((GRAPH, SIZE), (MIXED, 4)):
        found = groups(graph, size).mean(matrix)
        torch.testing.assert_close(found, mean_loop(x, graph, size))


# Gradients


def test_mean_of_dense_features_passes_gradcheck():
    x = random_matrix(GROUPED, D, density=1.1).requires_grad_()
    assert torch.autograd.gradcheck(groups().mean, (x,))


def test_mean_of_sparse_features_passes_gradcheck():
    matrix = SparseMatrix.from_tensor(random_matrix(GROUPED, D))
    grouped = groups()
    values = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: grouped.mean(matrix.with_values(v)), (values,))


def test_spread_passes_gradcheck():
    s = random_matrix(SIZE, D, density=1.1).requires_grad_()
    assert torch.autograd.gradcheck(groups().spread, (s,))


# Many seeds at once


def test_lanes_of_dense_features_equal_a_loop():
    x = torch.stack([random_matrix(GROUPED, D, seed=seed) for seed in range(3)])
    expected = torch.stack([mean_loop(lane, GRAPH, SIZE) for lane in x])
    torch.testing.assert_close(torch.vmap(groups().mean)(x), expected)


def test_lanes_of_sparse_values_equal_a_loop():
    matrix = SparseMatrix.from_tensor(random_matrix(GROUPED, D))
    values = torch.randn(3, matrix.values.numel(), dtype=torch.float64)
    grouped = groups()
    found = torch.vmap(lambda v: grouped.mean(matrix.with_values(v)))(values)
    for lane in range(3):
        dense = matrix.with_values(values[lane]).to_dense()
        torch.testing.assert_close(found[lane], mean_loop(dense, GRAPH, SIZE))


def test_lanes_of_vectors_equal_a_loop():
    s = torch.randn(3, SIZE, D, dtype=torch.float64)
    expected = torch.stack([spread_loop(lane, GRAPH) for lane in s])
    assert torch.equal(torch.vmap(groups().spread)(s), expected)


def test_gradients_of_lanes_equal_those_of_a_loop():
    x = torch.stack([random_matrix(GROUPED, D, seed=seed) for seed in range(3)])
    grouped = groups()

    def total(lane):
        return grouped.spread(grouped.mean(lane).sin()).square().sum()

    found = torch.vmap(torch.func.grad(total))(x)
    torch.testing.assert_close(found, torch.stack([torch.func.grad(total)(lane) for lane in x]))


# Making them


def test_groups_are_made_of_pygs_batch_vector():
    found = NodeGroups.of(GRAPH, len(GRAPH))
    assert found.size == 4
    assert found.graph is GRAPH
    assert NodeGroups.of(found, len(GRAPH)) is found
    assert NodeGroups.of(None, 3) is None
    assert NodeGroups.of(GRAPH[:0], 0).size == 0


def test_groups_moved_keep_their_empty_graphs():
    x = random_matrix(GROUPED, D)
    torch.testing.assert_close(groups().to("cpu").mean(x), mean_loop(x, GRAPH, SIZE))
