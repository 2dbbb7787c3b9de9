from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from drgcn.data import load, unite
from drgcn.errors import DrgcnWarning, InputError


def _graph(nodes: int, seed: int, **changes: Any) -> Data:
    generator = torch.Generator().manual_seed(seed)
    values = {
        "x": torch.randn(nodes, 3, generator=generator),
        "y": torch.arange(nodes) % 2,
        "edge_index": torch.randint(nodes, (2, 3 * nodes), generator=generator),
    }
    return Data(**{key: value for key, value in (values | changes).items() if value is not None})


def _lists() -> tuple[list[Data], list[Data], list[Data]]:
    return [_graph(4, 0), _graph(6, 1)], [_graph(3, 2)], [_graph(5, 3), _graph(2, 4)]


def _many_labels(nodes: int, seed: int) -> Data:
    generator = torch.Generator().manual_seed(seed)
    # The first node has all labels, so that every label is learnt.
    y = torch.randint(2, (nodes, 4), generator=generator)
    y[0] = 1
    return _graph(nodes, seed, y=y.float())


def test_graphs_stay_apart_and_in_order() -> None:
    lists = _lists()
    data = unite(*lists)
    graphs = [graph for part in lists for graph in part]
    assert data.graph.bincount().tolist() == [4, 6, 3, 5, 2]
    assert data.graph_names == ["train-0", "train-1", "val-0", "test-0", "test-1"]
    assert torch.equal(data.x, torch.cat([graph.x for graph in graphs]))
    assert torch.equal(data.y, torch.cat([graph.y for graph in graphs]))
    start = 0
    expected = set()
    for graph in graphs:
        for a, b in (graph.edge_index + start).T.tolist():
            expected |= {(a, b), (b, a)} if a != b else set()
        start += graph.num_nodes
    assert set(map(tuple, data.edge_index.T.tolist())) == expected
    assert data.is_coalesced()


def test_masks_are_the_parts() -> None:
    data = unite(*_lists())
    assert data.train_mask.tolist() == (data.graph < 2).tolist()
    assert data.val_mask.tolist() == (data.graph == 2).tolist()
    assert data.test_mask.tolist() == (data.graph > 2).tolist()


def test_the_record_says_what_it_is() -> None:
    info = unite(*_lists(), name="mine").dataset
    assert (info.name, info.split, info.feature_source) == ("mine", "given", "own")
    assert (info.train, info.val, info.test, info.classes) == (10, 3, 7, 2)
    assert not info.multi_label


def test_several_labels_a_node_stay_a_matrix() -> None:
    lists = [[_many_labels(4, 0)], [_many_labels(3, 1)], [_many_labels(5, 2)]]
    data = unite(*lists)
    assert data.dataset.multi_label
    assert data.dataset.classes == 4
    assert data.y.dtype == torch.float32
    assert torch.equal(data.y, torch.cat([part[0].y for part in lists]))


def test_classes_are_numbered_over_all_graphs() -> None:
    lists = [[_graph(4, 0, y=torch.tensor([7, 2, 2, 9]))], [_graph(2, 1, y=torch.tensor([9, 2]))]]
    data = unite(*lists, [_graph(2, 2, y=torch.tensor([[7], [-1]]))])
    assert data.y.tolist() == [1, 0, 0, 2, 2, 0, 1, -1]
    assert data.dataset.class_names == ("2", "7", "9")
    assert data.test_mask.tolist() == [False] * 6 + [True, False]


def test_sparse_features_are_taken() -> None:
    lists = _lists()
    dense = unite(*lists)
    for part in lists:
        for graph in part:
            graph.x = graph.x.to_sparse_csr()
    sparse = unite(*lists)
    assert torch.equal(sparse.x, dense.x)
    assert sparse.dataset.content_hash == dense.dataset.content_hash


def test_features_are_scaled_by_the_training_graphs() -> None:
    data = unite(*_lists(), normalize="standard")
    assert data.x[data.train_mask].mean(0).abs().max() < 1e-6


def test_what_load_gives_can_be_united() -> None:
    wine = load("wine")
    data = unite([wine, wine], [wine], [wine])
    assert data.num_nodes == 4 * wine.num_nodes
    assert data.num_edges == 4 * wine.num_edges


def test_a_saved_union_is_the_same_when_loaded(tmp_path: Any) -> None:
    for data in (unite(*_lists()), unite(*([_many_labels(4, seed)] for seed in range(3)))):
        torch.save(data, tmp_path / "union.pt")
        again = load(tmp_path / "union.pt")
        assert again.dataset.content_hash == data.dataset.content_hash
        assert torch.equal(again.graph, data.graph)


def test_weights_of_edges_are_not_dropped_in_silence() -> None:
    train, val, test = _lists()
    train[1].edge_weight = torch.ones(train[1].num_edges)
    with pytest.warns(DrgcnWarning, match="edge_weight of the graphs are not used"):
        unite(train, val, test)


def test_classes_that_are_only_tested_are_named() -> None:
    train, val, _ = _lists()
    with pytest.warns(DrgcnWarning, match=r"no training node has \(5\)"):
        unite(train, val, [_graph(2, 2, y=torch.tensor([0, 5]))])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.ones(3, 2)}, "val graph 0 has 2 features, but train graph 0 has 3"),
        ({"y": torch.ones(3, 2)}, "val graph 0 has 2 labels a node, but train graph 0 has 1"),
        ({"y": torch.ones(2)}, r"val graph 0 must have .* x is \(3, 3\) and y is \(2,\)"),
        ({"x": torch.full((3, 3), torch.nan)}, "val graph 0: the feature at row 0"),
        ({"y": None}, "val graph 0 has no y"),
        ({"edge_index": torch.tensor([[0], [3]])}, "val graph 0: edge 0 names node 3"),
        ({"y": torch.tensor([0.5, 1, 0])}, "the graphs: y must hold whole numbers"),
        ({"y": torch.tensor([-1, -1, -1])}, "the val graphs have no labelled node"),
    ],
)
def test_graphs_that_do_not_fit_are_one_clear_error(changes: dict[str, Any], message: str) -> None:
    train, _, test = _lists()
    with pytest.raises(InputError, match=message):
        unite(train, [_graph(3, 2, **changes)], test)


def test_labels_other_than_zeros_and_ones_are_refused() -> None:
    graph = _many_labels(4, 0)
    wrong = graph.clone()
    wrong.y[1, 2] = 3
    with pytest.raises(InputError, match=r"zeros and ones, but node 5 has 3\.0 at label 2"):
        unite([graph], [wrong], [graph])


@pytest.mark.parametrize(
    ("val", "message"),
    [
        ([], "val has no graphs"),
        (_graph(3, 0), r"val must be a list of graphs, not one: write \[graph\]"),
        ([torch.ones(3)], "val graph 0 must be a PyG Data, not a Tensor"),
    ],
)
def test_lists_that_are_no_graphs_are_refused(val: Any, message: str) -> None:
    train, _, test = _lists()
    with pytest.raises(InputError, match=message):
        unite(train, val, test)
