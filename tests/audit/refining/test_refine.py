"""Refining: what is merged, what is lost, and that nothing is lost without a line."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from drgcn.audit.duplicates import find_duplicates
from drgcn.audit.duplicates.findings import similarity_finding
from drgcn.audit.refining.refine import refine, refine_until_stable, write_refined
from drgcn.data import load
from drgcn.errors import DrgcnWarning, InputError

from ...data.conftest import real, real_root  # noqa: F401 - fixtures
from ..graphs import marked, ring, spoilt, tensors_of

CASES = pytest.mark.parametrize(
    ("seed", "rule"), [(0, "first"), (1, "first"), (2, "first"), (3, "mean"), (4, "max")]
)
TENSORS = ("x", "y", "edge_index", "train_mask", "val_mask", "test_mask")


def same(first: Data, second: Data) -> bool:
    return all(torch.equal(_dense(first[key]), _dense(second[key])) for key in TENSORS)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def random_case(seed: int) -> tuple[Data, list[list[int]], dict[int, str]]:
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(12, 40))
    data = Data(
        x=torch.from_numpy(rng.integers(0, 3, (nodes, 5)).astype(np.float32)),
        edge_index=torch.from_numpy(rng.integers(0, nodes, (2, 3 * nodes))),
        y=torch.from_numpy(rng.integers(-1, 3, nodes)),
    )
    part = np.where(data.y.numpy() >= 0, rng.integers(0, 4, nodes), 3)
    for number, name in enumerate(("train", "val", "test")):
        data[f"{name}_mask"] = torch.from_numpy(part == number)
    order = rng.permutation(nodes).tolist()
    groups = [order[0:3], order[3:5], order[5:9]]
    return data, groups, {order[1]: "no source", order[10]: "no source"}


def test_refining_agrees_with_a_plain_transcription():
    for seed in range(20):
        data, groups, drop = random_case(seed)
        refined = refine(data, groups, drop)
        into = {node: node for node in range(data.num_nodes)}
        for group in groups:
            kept = min(set(group) - set(drop))
            into.update(dict.fromkeys(set(group) - set(drop), kept))
        left = sorted({into[node] for node in into if node not in drop})
        new = {old: number for number, old in enumerate(left)}
        edges = set()
        for a, b in data.edge_index.T.tolist():
            if a not in drop and b not in drop and into[a] != into[b]:
                edges |= {(new[into[a]], new[into[b]]), (new[into[b]], new[into[a]])}
        assert {tuple(pair) for pair in refined.data.edge_index.T.tolist()} == edges
        assert refined.data.edge_index.shape[1] == len(edges)
        parts = {}
        names = refined.data.dataset.class_names
        for old, number in new.items():
            members = [node for node in into if into[node] == old and node not in drop]
            labels = [int(data.y[node]) for node in members if data.y[node] >= 0]
            best = max(map(labels.count, labels), default=0)
            expected = next((label for label in labels if labels.count(label) == best), -1)
            found = int(refined.data.y[number])
            assert (int(names[found]) if found >= 0 else -1) == expected
            parts = [
                p for p in ("test", "val", "train") if any(data[f"{p}_mask"][m] for m in members)
            ]
            for part in ("train", "val", "test"):
                assert bool(refined.data[f"{part}_mask"][number]) == (part == (parts or [""])[0])
            rows = [data.x[node] for node in members if data.x[node].any()] or [data.x[members[0]]]
            assert torch.equal(refined.data.x[number], rows[0])


@CASES
def test_every_node_and_every_edge_is_accounted_for(seed, rule):
    data, groups, drop = random_case(seed)
    before = tensors_of(data)
    refined = refine(data, groups, drop, feature_rule=rule)
    assert all(torch.equal(data[key], value) for key, value in before.items())
    fates = refined.node_map.fates
    assert [fate.old for fate in fates] == list(range(data.num_nodes))
    assert sum(refined.node_map.counts.values()) == data.num_nodes
    for fate in fates:
        assert (fate.new is None) == (fate.fate == "dropped")
        assert (fate.into is None) == (fate.fate != "merged")
        assert bool(fate.reason) == (fate.fate != "kept")
        if fate.into is not None:
            assert fates[fate.into].fate == "kept"
            assert fates[fate.into].new == fate.new
    edges = refined.edges
    assert edges.before == edges.after + edges.inside + edges.repeated + edges.dropped
    assert edges.after == refined.data.dataset.edges


@CASES
def test_refining_twice_changes_nothing_and_the_same_input_gives_the_same_result(seed, rule):
    data, groups, drop = random_case(seed)
    first = refine(data, groups, drop, feature_rule=rule)
    again = refine(
        data, [list(reversed(group)) for group in reversed(groups)], drop, feature_rule=rule
    )
    assert same(first.data, again.data)
    assert first.node_map == again.node_map
    second = refine(first.data, feature_rule=rule)
    assert same(first.data, second.data)
    assert first.data.dataset.class_names == second.data.dataset.class_names
    assert first.data.dataset.content_hash == second.data.dataset.content_hash
    assert not second.changed
    assert first.changed


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_rules_for_features(layout):
    x = torch.tensor([[0.0, 0, 0], [4, 0, 2], [1, 3, 2], [5, 5, 5]])
    data = Data(
        x=x if layout == "dense" else x.to_sparse_csr(),
        edge_index=torch.tensor([[0, 1], [3, 3]]),
        y=torch.tensor([0, 0, 0, 1]),
    )

    def row(rule: Any) -> list[float]:
        refined = refine(data, [[0, 1, 2]], feature_rule=rule).data.x
        assert (refined.layout == torch.strided) == (layout == "dense")
        return _dense(refined)[0].tolist()

    assert row("first") == [4, 0, 2]  # the first that is not empty
    assert row("mean") == pytest.approx([5 / 3, 1, 4 / 3])
    assert row("max") == [4, 3, 2]
    with pytest.raises(InputError, match="first, mean, max"):
        row("loudest")


def test_conflicts_are_listed_with_the_majority_or_the_first_in_a_tie():
    data = spoilt(y=torch.tensor([0, 1, 1, 1, 0, -1, 0, 0, 0, 1, 1, 1]))
    refined = refine(data, [[0, 1, 2], [3, 4], [5, 6], [7, 8]])
    assert [conflict.nodes for conflict in refined.conflicts] == [(0, 1, 2), (3, 4)]
    assert [conflict.chosen for conflict in refined.conflicts] == ["1", "1"]
    assert refined.conflicts[0].labels == ("0", "1", "1")
    assert refined.data.y.tolist()[:4] == [1, 1, 0, 0]


def test_a_group_with_a_test_node_leaves_training():
    data = spoilt(train_mask=marked(0, 1, 2), val_mask=marked(3, 4), test_mask=marked(5, 6))
    refined = refine(data, [[0, 5], [1, 3], [4, 6], [2, 7]])
    part = {
        name: refined.data[f"{name}_mask"].nonzero()[:, 0].tolist()
        for name in ("train", "val", "test")
    }
    # New numbers: 0 (with 5), 1 (with 3), 2 (with 7), 3 (old 4 with 6), 4 (old 8), ...
    assert part == {"train": [2], "val": [1], "test": [0, 3]}
    assert refined.left_training == (0, 1)
    # No document of the old test is in the new training.
    place = refined.node_map.new_numbers()
    assert not refined.data.train_mask[place[data.test_mask.numpy()]].any()


def test_dropping_wins_over_merging_and_the_rest_is_merged():
    refined = refine(ring(), [[0, 1, 2]], {0: "untraceable"})
    fates = refined.node_map.fates
    assert (fates[0].fate, fates[0].reason) == ("dropped", "untraceable")
    assert (fates[1].fate, fates[2].into) == ("kept", 1)


def test_columns_are_removed_and_features_replaced():
    refined = refine(ring(), [[0, 1]], remove_features=[2, 0])
    assert torch.equal(refined.data.x[:, 0], ring().x[[0, *range(2, 12)], 1])
    assert refined.removed_features == (0, 2)
    other = np.arange(24, dtype=np.float32).reshape(12, 2)
    refined = refine(ring(), [[0, 1]], new_features=other)
    assert refined.data.x.tolist() == other[[0, *range(2, 12)]].tolist()
    assert refined.replaced_features


def test_classes_are_numbered_by_name_and_empty_ones_go():
    data = load("wine")
    named = data.dataset.__class__(**{**data.dataset.__dict__, "class_names": ("c", "a", "b")})
    data.dataset = named
    refined = refine(data, drop=(data.y == 2).nonzero()[:, 0].tolist())
    assert refined.data.dataset.class_names == ("a", "c")
    assert refined.data.y[0] == 1


@pytest.mark.parametrize("names", [("a", " a "), ("", "b"), ("0.5", "1.5")])
def test_odd_class_names_become_numbers(names):
    data = ring()
    data.dataset = load("wine").dataset.__class__(
        **{**load("wine").dataset.__dict__, "class_names": names, "classes": 2}
    )
    refined = refine(data)
    assert refined.data.dataset.class_names == ("0", "1")
    assert torch.equal(refined.data.y, data.y)


def test_several_graphs_stay_apart():
    data = spoilt(graph=(torch.arange(12) >= 6).long(), graph_names=["a", "b"])
    data.edge_index = data.edge_index[:, data.graph[data.edge_index].diff(dim=0)[0] == 0]
    refined = refine(data, [[0, 1], [7, 9]], [11])
    assert refined.data.graph.tolist() == [0] * 5 + [1] * 4
    assert refined.data.graph_names == ["a", "b"]
    with pytest.raises(InputError, match="in one graph"):
        refine(data, [[0, 8]])


def test_several_labels_are_decided_one_by_one():
    y = torch.zeros(12, 2)
    y[0] = torch.tensor([1.0, 0])
    y[1] = torch.tensor([1.0, 1])
    y[2] = torch.tensor([0.0, 1])
    refined = refine(spoilt(y=y), [[0, 1, 2]])
    assert refined.data.y[0].tolist() == [1, 1]
    assert len(refined.conflicts) == 1
    assert refine(spoilt(y=y), [[0, 1]]).data.y[0].tolist() == [1, 0]  # a tie: the first


def test_texts_go_with_their_nodes():
    texts = ["", "one", "two", *map(str, range(3, 12))]
    refined = refine(ring(), [[0, 2, 1]], [11], texts=texts)
    assert refined.texts == ("one", *map(str, range(3, 11)))


def test_the_map_is_a_table(tmp_path):
    refine(ring(), [[0, 2]], {5: 'no "source", lost'}).node_map.write(tmp_path / "map.csv")
    with (tmp_path / "map.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[2] == {
        "old": "2",
        "new": "0",
        "fate": "merged",
        "into": "0",
        "reason": "duplicate",
    }
    assert rows[5]["reason"] == 'no "source", lost'
    assert rows[5]["new"] == ""
    assert len(rows) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": [[0, 12]]}, "from 0 to 11; found 12"),
        ({"groups": [[0, -1]]}, "found -1"),
        ({"groups": [[0, 1], [1, 2]]}, "node 1 is in two"),
        ({"drop": [99]}, "found 99 in drop"),
        ({"drop": range(12)}, "all are dropped"),
        ({"groups": [[0, 1]], "reasons": []}, "1 reasons"),
        ({"remove_features": [3]}, "columns from 0 to 2"),
        ({"remove_features": [0, 1, 2]}, "all 3 are removed"),
        ({"new_features": np.ones((3, 2))}, "12 nodes"),
        ({"texts": ["a"]}, "each of 12 nodes"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        refine(ring(), **arguments)


COPIES = {150: 3, 151: 3, 152: 40}


def documents(seed: int = 0, copies: dict[int, int] = COPIES) -> tuple[Data, list[str]]:
    """Random bags of words as features and as texts, of which some are copies of others."""
    rng = np.random.default_rng(seed)
    x = (rng.random((160, 300)) < 0.08).astype(np.float32)
    for copy, original in copies.items():
        x[copy] = x[original]
    words = [
        f"w{chr(97 + i // 26 % 26)}{chr(97 + i % 26)}{chr(97 + i // 676)}" for i in range(300)
    ]
    texts = [" ".join(words[column] for column in np.flatnonzero(row)) for row in x]
    part = np.arange(160) % 3
    data = Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(rng.integers(0, 160, (2, 400))),
        y=torch.from_numpy(rng.integers(0, 2, 160)),
        train_mask=torch.from_numpy(part == 0),
        val_mask=torch.from_numpy(part == 1),
        test_mask=torch.from_numpy(part == 2),
    )
    return data, texts


@pytest.mark.parametrize("with_texts", [False, True])
def test_planted_copies_are_merged_and_nothing_else(with_texts):
    data, texts = documents()
    rounds = []
    refined = refine_until_stable(
        data,
        texts if with_texts else None,
        progress=lambda number, groups: rounds.append(groups),
    )
    merged = {fate.old: fate.into for fate in refined.node_map.fates if fate.fate == "merged"}
    assert merged == COPIES
    assert rounds[-1] == 0
    reasons = {fate.reason for fate in refined.node_map.fates} - {""}
    assert reasons == {"exact features and text" if with_texts else "exact features"}


def test_the_evidence_can_be_chosen():
    data, texts = documents()
    other = ["", *texts[1:]]
    for copy in COPIES:
        other[copy] = ""
    assert refine_until_stable(data, other, evidence=["text"]).node_map.counts["merged"] == 0
    found = refine_until_stable(data, other, evidence=["exact features"])
    assert found.node_map.counts["merged"] == 3
    with pytest.raises(InputError, match="out of exact features"):
        refine_until_stable(data, evidence=["gut feeling"])
    with pytest.raises(InputError, match="found nothing"):
        refine_until_stable(data, evidence=[])


def test_chains_over_several_rounds_are_one_group(monkeypatch):
    """A search that sees one pair at a time ends where one that sees all does."""
    from drgcn.audit.refining import refine as module

    data, _ = documents()
    whole = refine_until_stable(data)
    search = module.find_duplicates

    class One:
        def __init__(self, found):
            self.found = found

        def groups(self, *evidence):
            return [group[:2] for group in self.found.groups(*evidence)[:1]]

        def pairs(self, *evidence):
            return self.found.pairs(*evidence)

    monkeypatch.setattr(module, "find_duplicates", lambda *a, **k: One(search(*a, **k)))
    again = refine_until_stable(data)
    assert same(whole.data, again.data)
    assert whole.node_map == again.node_map


def test_a_search_that_never_ends_is_stopped(monkeypatch):
    from drgcn.audit.refining import refine as module

    class Always:
        def groups(self, *_):
            return [(0, 1)]

        def pairs(self, *_):
            return []

    monkeypatch.setattr(module, "find_duplicates", lambda *_, **__: Always())
    with pytest.raises(InputError, match="10 rounds"):
        refine_until_stable(documents()[0])


def test_the_written_result_has_nothing_left_to_refine(tmp_path):
    data, texts = documents()
    refined = refine_until_stable(data, texts)
    again = load(write_refined(refined, tmp_path / "out"))
    second = refine_until_stable(again, refined.texts)
    assert not second.changed
    assert same(refined.data, second.data)
    assert second.data.dataset.content_hash == refined.data.dataset.content_hash


def test_weights_of_edges_are_said_not_to_be_kept():
    data, _ = documents()
    data.edge_weight = torch.full((data.num_edges,), 2.0)
    with pytest.warns(DrgcnWarning, match="edge weights are not kept"):
        assert "edge_weight" not in refine_until_stable(data).data


def test_similarities_are_counted_in_steps():
    data, texts = documents()
    found = find_duplicates(data, texts)
    finding = similarity_finding(found)
    assert finding.numbers["exact features"] == 3
    assert finding.rows[-1][0] == 0.95
    column = finding.columns.index("text")
    score = found.text.pairs.score
    for row in finding.rows:
        above = (score >= row[0] - 1e-9) & ((score < row[0] + 0.05 - 1e-9) | (row[0] == 0.95))
        assert row[column] == above.sum()
    none = similarity_finding(find_duplicates(documents(copies={})[0]))
    assert (none.rows, none.severity) == ((), "fine")


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_refined_citation_graphs_stay_refined(real, name):  # noqa: F811
    data = real(name, normalize="none", sparse=True)
    refined = refine_until_stable(data)
    assert refined.changed
    assert not refine_until_stable(refined.data).changed
    place = refined.node_map.new_numbers()
    assert not refined.data.train_mask[place[data.test_mask.numpy()]].any()
