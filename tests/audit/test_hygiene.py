"""Faults of graph, features and split: planted and found, and nothing found on clean data."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import (
    contains_isolated_nodes,
    degree,
    homophily,
    is_undirected,
    to_undirected,
)

from drgcn.audit.finding import Finding
from drgcn.audit.hygiene import feature_findings, graph_findings, split_findings
from drgcn.data import load
from drgcn.errors import InputError

from ..data.conftest import real, real_root  # noqa: F401 - fixtures
from .graphs import marked, ring, spoilt, tensors_of, with_edges


def of_graph(data: Data) -> dict[str, Finding]:
    return {finding.name: finding for finding in graph_findings(data)}


def test_a_clean_graph_has_nothing_to_say():
    found = of_graph(ring())
    assert {finding.severity for finding in found.values()} == {"fine"}
    assert found["edge counts"].numbers["undirected edges, each once"] == 12
    assert found["edge counts"].numbers["both directions"] == 24


def test_checks_of_the_graph_change_nothing():
    data = with_edges((3, 3), (0, 1))
    before = tensors_of(data)
    graph_findings(data)
    assert all(torch.equal(data[key], value) for key, value in before.items())


def test_loops_are_counted_by_node():
    found = of_graph(with_edges((3, 3), (3, 3), (5, 5)))["self-loops"]
    assert (found.severity, found.numbers["nodes with a loop"]) == ("warning", 2)


def test_repeats_are_counted_by_entry_and_loops_are_not_repeats():
    found = of_graph(with_edges((0, 1), (0, 1), (1, 0), (3, 3), (3, 3)))
    assert found["repeated edges"].numbers["repeats"] == 3
    assert found["repeated edges"].severity == "warning"
    assert found["direction"].severity == "fine"
    assert found["edge counts"].numbers["undirected edges, each once"] == 12


def test_one_way_edges_are_found():
    found = of_graph(with_edges((0, 5), (7, 2), (7, 2)))["direction"]
    assert found.severity == "warning"
    assert found.numbers == {"entries": 26, "without counterpart": 2, "symmetric": False}


def test_isolated_nodes_and_pieces_are_found():
    data = ring()
    cut = (data.edge_index != 4).all(dim=0)  # node 4 loses its edges, the ring becomes a path
    data.edge_index = data.edge_index[:, cut]
    found = of_graph(data)
    assert found["isolated nodes"].numbers["isolated"] == 1
    assert found["isolated nodes"].severity == "warning"  # 1 of 12 is more than 5 %
    assert found["components"].numbers["components"] == 2
    assert found["components"].severity == "note"
    assert found["components"].numbers["test nodes out of reach"] == 0


def test_test_nodes_out_of_reach_are_counted_in_graphs_that_are_trained_on():
    data = spoilt(edge_index=torch.tensor([[0, 1, 4, 5], [1, 0, 5, 4]]))
    # Pieces {0, 1}, {4, 5} and single nodes; training nodes are 0, 3, 6, 9.
    assert of_graph(data)["components"].numbers["test nodes out of reach"] == 4
    data.graph = (torch.arange(12) >= 4).long()
    data.train_mask &= data.graph == 0
    assert of_graph(data)["components"].numbers["test nodes out of reach"] == 1  # node 2


def test_several_whole_graphs_are_no_pieces():
    data = spoilt(edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    data = data.subgraph(torch.arange(4))
    data.graph = torch.tensor([0, 0, 1, 1])
    assert of_graph(data)["components"].severity == "fine"
    del data.graph
    assert of_graph(data)["components"].severity == "note"


def slow_components(pairs: np.ndarray, nodes: int) -> int:
    neighbours = {node: set[int]() for node in range(nodes)}
    for a, b in pairs.T.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    seen: set[int] = set()
    count = 0
    for start in range(nodes):
        count += start not in seen
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if node not in seen:
                seen.add(node)
                queue.extend(neighbours[node])
    return count


def test_random_graphs_agree_with_pyg_and_a_plain_search():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        nodes, edges = int(rng.integers(2, 30)), int(rng.integers(1, 40))
        pairs = rng.integers(0, nodes, (2, edges))
        index = torch.from_numpy(pairs)
        data = Data(x=torch.ones(nodes, 2), edge_index=index)
        found = of_graph(data)
        proper = index[:, index[0] != index[1]]
        assert found["direction"].numbers["symmetric"] == is_undirected(proper)
        both = to_undirected(proper)
        assert found["edge counts"].numbers["both directions"] == both.shape[1]
        assert found["components"].numbers["components"] == slow_components(pairs, nodes)
        alone = found["isolated nodes"].numbers["isolated"]
        assert bool(alone) == contains_isolated_nodes(both, nodes)
        degrees = degree(both[0], nodes)
        assert found["degrees"].numbers["mean"] == pytest.approx(float(degrees.mean()))
        assert found["degrees"].numbers["largest"] == int(degrees.max())
        assert sum(count for _, count in found["degrees"].rows) == nodes
        assert found["repeated edges"].numbers["repeats"] == proper.shape[1] - len(
            {tuple(pair) for pair in proper.T.tolist()}
        )


def test_degrees_are_counted_in_doubling_steps():
    star = torch.tensor([[0] * 6, [1, 2, 3, 4, 5, 6]])
    data = Data(x=torch.ones(8, 1), edge_index=star)
    assert of_graph(data)["degrees"].rows == (("0", 1), ("1", 6), ("2-3", 0), ("4-6", 1))


def test_what_loading_removed_is_told(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "id,a,label\n" + "".join(f"{i},1,{i % 2}\n" for i in range(6))
    )
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n0,1\n2,2\n1,0\n")
    found = of_graph(load(tmp_path))
    assert found["self-loops"].numbers == {"nodes with a loop": 0, "removed when loading": 1}
    assert found["repeated edges"].numbers == {"repeats": 0, "removed when loading": 1}
    assert {found["self-loops"].severity, found["repeated edges"].severity} == {"note"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "found no x"),
        ({"edge_index": None}, "found no edge_index"),
        ({"x": torch.ones(0, 3)}, "empty graph"),
        ({"edge_index": torch.tensor([[0], [99]])}, "names node 99"),
        ({"y": torch.zeros(5)}, "labels of 12 nodes"),
        ({"y": torch.full((12,), 0.5)}, "class numbers"),
        ({"train_mask": torch.ones(12, 10, dtype=torch.bool)}, "choose one column"),
        ({"graph": torch.zeros(3, dtype=torch.int64)}, "number of its graph"),
    ],
)
def test_what_is_no_graph_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        graph_findings(spoilt(**change))


@pytest.mark.data
def test_cora_in_all_its_edge_counts(real):  # noqa: F811
    found = of_graph(real("cora"))["edge counts"].numbers
    assert found["undirected edges, each once"] == 5278
    assert found["both directions"] == 10556
    assert found["with the repeats of a file that lists both ends"] == 5429


def of_features(x: torch.Tensor, layout: str, **others: torch.Tensor) -> dict[str, Finding]:
    forms = {
        "dense": lambda x: x,
        "coo": torch.Tensor.to_sparse,
        "csr": torch.Tensor.to_sparse_csr,
    }
    return {f.name: f for f in feature_findings(spoilt(x=forms[layout](x), **others))}


LAYOUTS = pytest.mark.parametrize("layout", ["dense", "coo", "csr"])


@LAYOUTS
def test_clean_features_have_nothing_to_say(layout):
    assert {found.severity for found in of_features(ring().x, layout).values()} == {"fine"}


@pytest.mark.parametrize(
    ("layout", "value"),
    [
        ("dense", float("nan")),
        ("coo", float("nan")),
        ("csr", float("nan")),
        ("dense", float("inf")),
        ("dense", -float("inf")),
    ],
)
def test_numbers_that_are_none_are_serious(layout, value):
    x = ring().x.clone()
    x[4, 1] = x[7, 2] = x[7, 0] = value
    found = of_features(x, layout)["features that are not finite"]
    assert found.severity == "serious"
    assert found.numbers == {"entries": 3, "nodes": 2}
    assert set(found.rows) == {(4, 1), (7, 0), (7, 2)}


@LAYOUTS
def test_empty_rows_are_worse_in_the_test(layout):
    x = ring().x.clone()
    x[3] = 0
    found = of_features(x, layout)["nodes without features"]
    assert (found.severity, found.numbers["nodes"], found.rows) == ("note", 1, ((3,),))
    x[5] = 0  # a test node
    found = of_features(x, layout)["nodes without features"]
    assert (found.severity, found.numbers["test nodes"]) == ("warning", 1)
    y = ring().y.clone()
    y[3] = -1
    assert of_features(x, layout, y=y)["nodes without features"].numbers["without a label"] == 1


@LAYOUTS
def test_constant_columns_of_any_value_are_found(layout):
    base = ring().x
    training = torch.where(ring().train_mask, 4.0, torch.arange(12.0))
    x = torch.stack([base[:, 0], torch.zeros(12), torch.full((12,), 2.5), training], dim=1)
    found = of_features(x, layout)["constant features"]
    assert found.severity == "note"
    assert found.rows == ((1,), (2,))
    assert found.numbers == {"constant": 2, "constant in training": 1, "columns": 4}


def test_a_column_of_nan_is_not_constant():
    x = ring().x.clone()
    x[:, 0] = float("nan")
    assert of_features(x, "dense")["constant features"].numbers["constant"] == 0


def test_no_split_has_no_training_columns():
    data = ring()
    del data.train_mask
    found = {f.name: f for f in feature_findings(data)}["constant features"]
    assert found.numbers["constant in training"] == 0


def of_split(data: Data) -> dict[str, Finding]:
    return {finding.name: finding for finding in split_findings(data)}


def test_a_clean_split_has_no_more_than_a_note_on_transductive_training():
    found = of_split(ring())
    said = {name for name, finding in found.items() if finding.severity != "fine"}
    assert said == {"exposure of the test"}
    assert found["exposure of the test"].severity == "note"


def test_checks_of_the_split_change_nothing():
    data = spoilt(y=torch.tensor([-1, *[0] * 11]))
    before = tensors_of(data)
    split_findings(data)
    assert all(torch.equal(data[key], value) for key, value in before.items())


def test_overlaps_are_serious_and_counted_by_pair():
    found = of_split(spoilt(test_mask=marked(0, 1, 2)))["overlapping parts"]
    assert found.severity == "serious"
    assert found.numbers == {"train and val": 0, "train and test": 1, "val and test": 1}


def test_an_empty_part_is_serious_and_no_split_is_a_note():
    found = of_split(spoilt(val_mask=marked()))["parts of the split"]
    assert (found.severity, found.numbers["val"]) == ("serious", 0)
    assert "val is empty" in found.summary
    bare = ring()
    for part in ("train", "val", "test"):
        del bare[f"{part}_mask"]
    found = of_split(bare)["parts of the split"]
    assert found.severity == "note"
    assert "no split" in found.summary


def test_classes_are_counted_by_part():
    data = spoilt(y=torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 2]))
    rows = {row[0]: row[1:4] for row in of_split(data)["class balance"].rows}
    y, slow = data.y.tolist(), {}
    for part in range(3):
        slow[part] = Counter(y[node] for node in range(12) if node % 3 == part)
    assert rows == {str(c): tuple(slow[part][c] for part in range(3)) for c in range(3)}


def test_one_class_in_most_of_the_test_is_a_warning():
    data = spoilt(y=torch.tensor([0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0]))
    found = of_split(data)["class balance"]
    assert found.severity == "warning"
    assert found.numbers["largest test share"] == 1.0


def test_shares_that_shift_are_a_note():
    data = spoilt(y=torch.tensor([0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0]))
    found = of_split(data)["class balance"]
    assert found.severity == "note"
    assert found.numbers["largest shift"] == pytest.approx(0.25)


def test_a_class_that_is_never_trained_on_is_serious():
    data = spoilt(y=torch.tensor([0, 1, 2, 0, 1, 2, 1, 0, 2, 1, 0, 1]))
    found = of_split(data)["classes missing from training"]
    assert found.severity == "serious"
    assert found.numbers["test nodes"] == 3
    assert found.rows == (("2", 0, 3),)


def test_unlabelled_nodes_are_serious_inside_a_part_and_a_note_outside():
    data = ring()
    data.y = data.y.clone()
    data.y[2] = -1
    found = of_split(data)["unlabelled nodes"]
    assert (found.severity, found.numbers["in test"]) == ("serious", 1)
    data.test_mask = data.test_mask & (data.y >= 0)
    assert of_split(data)["unlabelled nodes"].severity == "note"


def test_exposure_counts_neighbours_and_graphs():
    found = of_split(ring())["exposure of the test"].numbers
    assert found["share beside a training node"] == 1.0  # 2 beside 3, 5 beside 6, ...
    assert found["share of test features seen"] == 1.0
    data = spoilt(test_mask=marked(1, 7), val_mask=marked(8), train_mask=marked(0, 1, 2))
    data.train_mask[1] = False
    assert of_split(data)["exposure of the test"].numbers["beside a training node"] == 1
    apart = spoilt(graph=(torch.arange(12) >= 6).long())
    apart.edge_index = apart.edge_index[:, apart.graph[apart.edge_index].diff(dim=0)[0] == 0]
    apart.train_mask, apart.test_mask = marked(0, 1, 2), marked(7, 8)
    found = of_split(apart)["exposure of the test"]
    assert found.severity == "fine"
    assert found.numbers["share of test features seen"] == 0.0


def test_the_vote_and_homophily_agree_with_plain_counting_and_pyg():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        nodes = 40
        pairs = rng.integers(0, nodes, (2, 60))
        pairs = pairs[:, pairs[0] != pairs[1]]
        part = rng.integers(0, 3, nodes)
        y = torch.from_numpy(rng.integers(0, 3, nodes))
        data = Data(x=torch.ones(nodes, 2), edge_index=torch.from_numpy(pairs), y=y)
        for number, name in enumerate(("train", "val", "test")):
            data[f"{name}_mask"] = torch.from_numpy(part == number)
        edges = {frozenset(pair) for pair in pairs.T.tolist()}
        right = asked = beside = 0
        for node in np.flatnonzero(part == 2).tolist():
            around = [next(iter(edge - {node})) for edge in edges if node in edge]
            labels = [int(y[other]) for other in around if part[other] == 0]
            beside += bool(labels)
            if labels:
                asked += 1
                right += max(range(3), key=labels.count) == y[node]
        found = of_split(data)
        assert found["exposure of the test"].numbers["beside a training node"] == beside
        vote = found["exposure of the test"].numbers["correct by a vote of training neighbours"]
        assert vote == pytest.approx(int(right) / asked)
        both = torch.tensor([tuple(edge) for edge in edges]).T
        both = torch.cat([both, both.flip(0)], dim=1)
        same = homophily(both, y, method="edge")
        chance = float(((y[both[0]].bincount(minlength=3) / both.shape[1]) ** 2).sum())
        assert found["homophily"].numbers["same label"] == pytest.approx(same)
        assert found["homophily"].numbers["adjusted"] == pytest.approx(
            (same - chance) / (1 - chance), abs=1e-6
        )


def test_adjusted_homophily_is_one_for_pure_edges_and_nil_by_chance():
    data = ring()
    data.y = torch.arange(12) % 2  # every edge joins different classes
    found = of_split(data)["homophily"]
    assert found.numbers["same label"] == 0
    assert found.numbers["adjusted"] == pytest.approx(-1)
    assert found.severity == "note"
    pure = ring()
    pure.edge_index = pure.edge_index[:, pure.y[pure.edge_index].diff(dim=0)[0] == 0]
    assert of_split(pure)["homophily"].numbers["adjusted"] == pytest.approx(1)
    # Of all pairs of a large random labelling, about none beyond chance.
    rng = np.random.default_rng(0)
    many = Data(
        x=torch.ones(2000, 1),
        y=torch.from_numpy(rng.integers(0, 3, 2000)),
        edge_index=torch.from_numpy(rng.integers(0, 2000, (2, 20000))),
    )
    assert abs(of_split(many)["homophily"].numbers["adjusted"]) < 0.03


def test_several_labels_a_node_are_balanced_by_label():
    y = torch.zeros(12, 3)
    y[:, 0] = 1
    y[2, 1] = y[5, 1] = 1
    found = of_split(spoilt(y=y))
    assert found["class balance"].rows[0][1:4] == (4, 4, 4)
    assert found["classes missing from training"].rows == (("1", 0, 2),)
    assert "several labels" in found["homophily"].summary


def test_without_labels_only_the_parts_are_judged():
    found = of_split(spoilt(y=None))
    assert "class balance" not in found
    assert found["unlabelled nodes"].severity == "serious"
