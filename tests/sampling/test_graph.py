import json
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph

from .graphs import DEGREES, uneven
from .matrices import as_graph, uneven_matrix

EDGES = torch.tensor([[3, 0, 2, 0, 0], [1, 1, 0, 2, 1]])


def test_rows_hold_the_senders_in_order():
    graph = CSRGraph.from_edge_index(EDGES, (4, 3), torch.arange(5.0))
    assert graph.rowptr.tolist() == [0, 1, 4, 5]
    assert graph.col.tolist() == [2, 0, 0, 3, 0]  # the repeated edge is there twice
    assert graph.value.tolist()[3:] == [0.0, 3.0]
    assert sorted(graph.value.tolist()) == [0, 1, 2, 3, 4]
    assert (graph.num_rows, graph.num_cols, graph.num_entries) == (3, 4, 5)
    assert graph.degree.tolist() == [1, 3, 1]


def test_saved_and_mapped_back(tmp_path):
    graph = CSRGraph.from_edge_index(EDGES, (4, 3), torch.arange(5.0))
    graph.save(tmp_path / "graph")
    again = CSRGraph.open(tmp_path / "graph")
    assert again.num_cols == 4
    for name in ("rowptr", "col", "value"):
        assert torch.equal(getattr(again, name), getattr(graph, name))
        assert getattr(again, name).dtype == getattr(graph, name).dtype


def test_without_values_none_are_saved(tmp_path):
    CSRGraph.from_edge_index(EDGES, 4).save(tmp_path)
    assert CSRGraph.open(tmp_path).value is None
    assert not (tmp_path / "value.npy").exists()


def test_what_is_no_graph_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"CSRGraph\.save wrote"):
        CSRGraph.open(tmp_path / "nothing")
    with pytest.raises(InputError, match="source nodes from 0 to 2; found 0 to 3"):
        CSRGraph.from_edge_index(EDGES, 3)
    with pytest.raises(InputError, match="shape"):
        CSRGraph.from_edge_index(EDGES.T, 4)
    with pytest.raises(InputError, match="integers"):
        CSRGraph.from_edge_index(EDGES.float(), 4)


# What the layer samplers ask


def test_row_sums_and_lengths():
    dense = uneven_matrix()
    graph = as_graph(dense, torch.int32)
    torch.testing.assert_close(graph.row_sum, dense.sum(1))
    assert graph.longest_row == 11  # the hub, without the empty column
    plain = CSRGraph(graph.rowptr, graph.col, 12)
    assert plain.row_sum.tolist() == (dense != 0).sum(1).tolist()
    empty = CSRGraph(torch.zeros(1, dtype=torch.long), torch.empty(0, dtype=torch.long), 4)
    assert (empty.longest_row, empty.num_rows) == (0, 0)


def test_some_rows_keep_their_entries_in_the_order_asked_for():
    dense, index = uneven_matrix(), torch.tensor([7, 5, 2, 2])  # the second is empty
    part = as_graph(dense, torch.int32).rows(index)
    assert part.row.tolist() == dense[index].nonzero()[:, 0].tolist()
    found = torch.zeros(4, dense.size(1), dtype=dense.dtype)
    found[part.row, part.col.long()] = part.value
    assert torch.equal(found, dense[index])


def test_the_most_entries_of_rows_are_those_of_the_longest():
    graph = uneven()
    lengths = sorted(DEGREES, reverse=True)
    for rows in range(1, len(DEGREES) + 1):
        assert graph.most_entries(rows) == sum(lengths[:rows])
        assert graph.most_entries(rows, distinct=False) == rows * lengths[0]
    assert graph.most_entries(3) == sum(lengths[:3])  # asked twice
    assert graph.most_entries(20) >= sum(lengths)  # more rows than there are cannot be distinct


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("most", [1, 3, 5, 40, 100])
def test_trimmed_rows_hold_some_of_their_entries(kind, most):
    graph = uneven(kind)
    graph = CSRGraph(graph.rowptr, graph.col, 100, torch.randn(graph.num_entries))
    trimmed = graph.trimmed(most)
    assert trimmed.degree.tolist() == [min(size, most) for size in DEGREES]
    assert (trimmed.col.dtype, trimmed.rowptr.dtype) == (kind, kind)
    for row in range(len(DEGREES)):
        before, after = (entries(each, row) for each in (graph, trimmed))
        assert set(after) <= set(before)  # the same weights: a trimmed row sums to less
        assert after == sorted(after)
        assert len(set(after)) == len(after)


def entries(graph, row):
    inside = slice(int(graph.rowptr[row]), int(graph.rowptr[row + 1]))
    return list(zip(graph.col[inside].tolist(), graph.value[inside].tolist(), strict=True))


def test_trimming_has_no_favourites():
    """All 20 ways to keep 3 of 6 entries come equally often."""
    graph = CSRGraph(torch.tensor([0, 2, 8, 8]), torch.tensor([0, 9, 1, 2, 4, 5, 7, 8]), 10)
    kept = Counter(tuple(graph.trimmed(3, seed).col[2:].tolist()) for seed in range(2000))
    assert len(kept) == 20
    assert stats.chisquare(list(kept.values())).pvalue > 1e-4


def test_trimming_depends_on_its_seed_and_on_nothing_else():
    graph = uneven()
    before = torch.random.get_rng_state()
    first = graph.trimmed(3, seed=4)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(99)
    assert torch.equal(graph.trimmed(3, seed=4).col, first.col)
    assert not torch.equal(graph.trimmed(3, seed=5).col, first.col)
    with pytest.raises(InputError, match="max_degree to be at least one; found 0"):
        graph.trimmed(0)


def test_trimmed_graphs_are_saved_and_mapped_back(tmp_path):
    graph = as_graph(uneven_matrix(), torch.int32).trimmed(2)
    graph.save(tmp_path)
    again = CSRGraph.open(tmp_path)
    assert all(map(torch.equal, (again.rowptr, again.col), (graph.rowptr, graph.col)))
    assert torch.equal(again.row_sum, graph.row_sum)
    assert again.most_entries(4) == graph.most_entries(4)


@pytest.mark.parametrize("name", ["rowptr", "col", "value"])
def test_a_saved_graph_that_was_changed_within_its_ranges_is_refused(tmp_path, name):
    edges = torch.tensor([[0, 1, 1, 3], [1, 0, 2, 2]])
    CSRGraph.from_edge_index(edges, 4, torch.tensor([1.0, 2.0, 3.0, 4.0])).save(tmp_path)
    path = tmp_path / f"{name}.npy"
    array = np.load(path)
    changed = {"rowptr": [0, 1, 1, 4, 4], "col": [1, 0, 1, 2], "value": [1.0, 2.0, 3.0, 5.0]}
    np.save(path, np.array(changed[name], array.dtype))
    with pytest.raises(InputError, match="an array is not what was written"):
        CSRGraph.open(tmp_path)
    facts = json.loads((tmp_path / "graph.json").read_text())
    (tmp_path / "graph.json").write_text(json.dumps(facts | {"num_cols": 5}))
    with pytest.raises(InputError, match="was changed since"):
        CSRGraph.open(tmp_path)
    odd = {name: value for name, value in facts.items() if name != "sha256"} | {"content": None}
    (tmp_path / "graph.json").write_text(json.dumps(odd))
    with pytest.raises(InputError, match="an array is not what was written"):
        CSRGraph.open(tmp_path)
    # Folders of earlier versions have no digest.
    earlier = {"num_cols": 4, "arrays": facts["arrays"]}
    (tmp_path / "graph.json").write_text(json.dumps(earlier))
    assert CSRGraph.open(tmp_path).num_entries == 4
