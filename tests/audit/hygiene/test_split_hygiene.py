"""Every fault of a split, planted and found; and nothing found on a clean one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import homophily

from drgcn.audit.finding import Finding
from drgcn.audit.hygiene.split import split_findings

from ..graphs import marked, ring, spoilt, tensors_of


def named(data: Data) -> dict[str, Finding]:
    return {finding.name: finding for finding in split_findings(data)}


def test_a_clean_split_has_no_more_than_a_note_on_transductive_training():
    found = named(ring())
    said = {name for name, finding in found.items() if finding.severity != "fine"}
    assert said == {"exposure of the test"}
    assert found["exposure of the test"].severity == "note"


def test_the_input_is_not_changed():
    data = spoilt(y=torch.tensor([-1, *[0] * 11]))
    before = tensors_of(data)
    split_findings(data)
    assert all(torch.equal(data[key], value) for key, value in before.items())


def test_overlaps_are_serious_and_counted_by_pair():
    found = named(spoilt(test_mask=marked(0, 1, 2)))["overlapping parts"]
    assert found.severity == "serious"
    assert found.numbers == {"train and val": 0, "train and test": 1, "val and test": 1}


def test_an_empty_part_is_serious_and_no_split_is_a_note():
    found = named(spoilt(val_mask=marked()))["parts of the split"]
    assert (found.severity, found.numbers["val"]) == ("serious", 0)
    assert "val is empty" in found.summary
    bare = ring()
    for part in ("train", "val", "test"):
        del bare[f"{part}_mask"]
    found = named(bare)["parts of the split"]
    assert found.severity == "note"
    assert "no split" in found.summary


def test_classes_are_counted_by_part():
    data = spoilt(y=torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 2]))
    rows = {row[0]: row[1:4] for row in named(data)["class balance"].rows}
    y, slow = data.y.tolist(), {}
    for part in range(3):
        slow[part] = Counter(y[node] for node in range(12) if node % 3 == part)
    assert rows == {str(c): tuple(slow[part][c] for part in range(3)) for c in range(3)}


def test_one_class_in_most_of_the_test_is_a_warning():
    data = spoilt(y=torch.tensor([0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0]))
    found = named(data)["class balance"]
    assert found.severity == "warning"
    assert found.numbers["largest test share"] == 1.0


def test_shares_that_shift_are_a_note():
    data = spoilt(y=torch.tensor([0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0]))
    found = named(data)["class balance"]
    assert found.severity == "note"
    assert found.numbers["largest shift"] == pytest.approx(0.25)


def test_a_class_that_is_never_trained_on_is_serious():
    data = spoilt(y=torch.tensor([0, 1, 2, 0, 1, 2, 1, 0, 2, 1, 0, 1]))
    found = named(data)["classes missing from training"]
    assert found.severity == "serious"
    assert found.numbers["test nodes"] == 3
    assert found.rows == (("2", 0, 3),)


def test_unlabelled_nodes_are_serious_inside_a_part_and_a_note_outside():
    data = ring()
    data.y = data.y.clone()
    data.y[2] = -1
    found = named(data)["unlabelled nodes"]
    assert (found.severity, found.numbers["in test"]) == ("serious", 1)
    data.test_mask = data.test_mask & (data.y >= 0)
    assert named(data)["unlabelled nodes"].severity == "note"


def test_exposure_counts_neighbours_and_graphs():
    found = named(ring())["exposure of the test"].numbers
    assert found["share beside a training node"] == 1.0  # 2 beside 3, 5 beside 6, ...
    assert found["share of test features seen"] == 1.0
    data = spoilt(test_mask=marked(1, 7), val_mask=marked(8), train_mask=marked(0, 1, 2))
    data.train_mask[1] = False
    assert named(data)["exposure of the test"].numbers["beside a training node"] == 1
    apart = spoilt(graph=(torch.arange(12) >= 6).long())
    apart.edge_index = apart.edge_index[:, apart.graph[apart.edge_index].diff(dim=0)[0] == 0]
    apart.train_mask, apart.test_mask = marked(0, 1, 2), marked(7, 8)
    found = named(apart)["exposure of the test"]
    assert found.severity == "fine"
    assert found.numbers["share of test features seen"] == 0.0


@pytest.mark.parametrize("seed", range(10))
def test_the_vote_and_homophily_agree_with_plain_counting_and_pyg(seed):
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
    found = named(data)
    assert found["exposure of the test"].numbers["beside a training node"] == beside
    vote = found["exposure of the test"].numbers["correct by a vote of training neighbours"]
    assert vote == pytest.approx(int(right) / asked)
    both = torch.tensor([tuple(edge) for edge in edges]).T
    both = torch.cat([both, both.flip(0)], dim=1)
    assert found["homophily"].numbers["same label"] == pytest.approx(
        homophily(both, y, method="edge")
    )


def test_adjusted_homophily_is_one_for_pure_edges_and_nil_by_chance():
    data = ring()
    data.y = torch.arange(12) % 2  # every edge joins different classes
    found = named(data)["homophily"]
    assert found.numbers["same label"] == 0
    assert found.numbers["adjusted"] == pytest.approx(-1)
    assert found.severity == "note"
    pure = ring()
    pure.edge_index = pure.edge_index[:, pure.y[pure.edge_index].diff(dim=0)[0] == 0]
    assert named(pure)["homophily"].numbers["adjusted"] == pytest.approx(1)
    # Of all pairs of a large random labelling, about none beyond chance.
    rng = np.random.default_rng(0)
    many = Data(
        x=torch.ones(2000, 1),
        y=torch.from_numpy(rng.integers(0, 3, 2000)),
        edge_index=torch.from_numpy(rng.integers(0, 2000, (2, 20000))),
    )
    assert abs(named(many)["homophily"].numbers["adjusted"]) < 0.03


def test_several_labels_a_node_are_balanced_by_label():
    y = torch.zeros(12, 3)
    y[:, 0] = 1
    y[2, 1] = y[5, 1] = 1
    found = named(spoilt(y=y))
    assert found["class balance"].rows[0][1:4] == (4, 4, 4)
    assert found["classes missing from training"].rows == (("1", 0, 2),)
    assert "several labels" in found["homophily"].summary


def test_without_labels_only_the_parts_are_judged():
    found = named(spoilt(y=None))
    assert "class balance" not in found
    assert found["unlabelled nodes"].severity == "serious"
