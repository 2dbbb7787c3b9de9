import pytest
import torch

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph

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
