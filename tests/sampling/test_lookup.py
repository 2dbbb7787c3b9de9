import pytest
import torch

from drgcn.sampling import CSRGraph
from drgcn.sampling.layers import lookup

from .matrices import as_graph, uneven_matrix

KIND = pytest.mark.parametrize("kind", [torch.int32, torch.int64])


@KIND
@pytest.mark.parametrize("shape", [(12, 12), (12, 300), (60, 7)])
def test_crossings_are_those_of_the_dense_matrix(kind, shape):
    dense = uneven_matrix(*shape)  # with a hub, an empty row and an empty column
    graph = as_graph(dense, kind)
    rows, cols = torch.arange(shape[0]), torch.arange(shape[1])
    assert torch.equal(lookup(graph, rows, cols), dense)


@KIND
def test_rows_and_columns_may_be_listed_twice_and_in_any_order(kind):
    dense = uneven_matrix(12, 30)
    graph = as_graph(dense, kind)
    rows = torch.tensor([9, 2, 2, 5, 0, 11])
    cols = torch.tensor([29, 3, 0, 29, 29, 14, 1, 0])
    assert torch.equal(lookup(graph, rows, cols), dense[rows][:, cols])
    assert lookup(graph, rows[:0], cols).shape == (0, 8)
    assert lookup(graph, rows, cols[:0]).shape == (6, 0)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 31, 32, 33])
def test_rows_of_every_length_are_searched_to_their_ends(length):
    """Bisection goes wrong at the first and last entry, or where a length is a power of two."""
    dense = torch.zeros(3, 80)
    dense[1, 1 : 2 * length : 2] = torch.arange(1.0, length + 1)
    dense[2, 0] = dense[0, 79] = 5.0
    graph = as_graph(dense)
    assert torch.equal(lookup(graph, torch.arange(3), torch.arange(80)), dense)


def test_a_last_row_without_entries_finds_none():
    dense = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    assert torch.equal(lookup(as_graph(dense), torch.arange(2), torch.arange(2)), dense)


def test_without_values_entries_are_one():
    dense = uneven_matrix()
    graph = as_graph(dense)
    plain = CSRGraph(graph.rowptr, graph.col, graph.num_cols)
    found = lookup(plain, torch.arange(12), torch.arange(12))
    assert torch.equal(found, (dense != 0).float())


@pytest.mark.parametrize("shared", ["nothing", "rows", "cols"])
def test_every_lane_has_crossings_of_its_own(shared):
    dense = uneven_matrix()
    graph = as_graph(dense)
    rows, cols = torch.randint(12, (4, 6)), torch.randint(12, (4, 9))
    if shared == "rows":
        rows = rows[0]
    if shared == "cols":
        cols = cols[0]
    dims = (None if shared == "rows" else 0, None if shared == "cols" else 0)
    found = torch.vmap(lambda r, c: lookup(graph, r, c), dims)(rows, cols)
    for lane in range(4):
        r, c = rows if shared == "rows" else rows[lane], cols if shared == "cols" else cols[lane]
        assert torch.equal(found[lane], dense[r][:, c])


def test_trimmed_and_mapped_graphs_are_searched_too(tmp_path):
    dense = uneven_matrix(20, 60)
    graph = as_graph(dense, torch.int32).trimmed(5)
    graph.save(tmp_path)
    for each in (graph, CSRGraph.open(tmp_path)):
        found = lookup(each, torch.arange(20), torch.arange(60))
        kept = found != 0
        assert torch.equal(found[kept], dense[kept])
        assert torch.equal(kept.sum(1), (dense != 0).sum(1).clamp(max=5))


@pytest.mark.parametrize("weighted", [True, False])
def test_a_graph_without_entries_has_zeros_only(weighted):
    value = torch.zeros(0, dtype=torch.float64) if weighted else None
    graph = CSRGraph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), 4, value)
    found = lookup(graph, torch.tensor([0, 3]), torch.tensor([1, 1, 2]))
    assert found.shape == (2, 3)
    assert not found.any()
    assert found.dtype == (torch.float64 if weighted else torch.get_default_dtype())
