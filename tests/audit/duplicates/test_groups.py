"""Groups of duplicates, twins, and the findings about them."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch
from pages.removed_nodes import AgainstRemoved
from torch_geometric.data import Data

from drgcn.audit.duplicates import duplicate_findings, find_duplicates
from drgcn.audit.duplicates.findings import similarity_finding
from drgcn.audit.duplicates.groups import connected_groups, structure_duplicates
from drgcn.audit.finding import Finding
from drgcn.errors import InputError

NODES = 240


def _graph(seed: int = 0) -> Data:
    """Independent words in rows of different lengths, with planted copies.

    200 equals 0 (train, test), 201 equals 1 and 202 equals 201 (train alone), 203 is nearly 2
    (val, test) with another label, 204 and 205 are empty.
    """
    draw = np.random.default_rng(seed)
    frequency = 1 / np.arange(5, 405)
    wanted = draw.gamma(3, 6, NODES)[:, None] * frequency / frequency.sum()
    x = (draw.random((NODES, 400)) < wanted).astype(np.float32)
    x[~x.any(axis=1), 7] = 1
    x[:3, 300:315] = 1
    x[1, 300:310], x[2, 305:315] = 0, 0
    x[:3, 330:340] = np.eye(3).repeat([4, 3, 3], axis=1)
    x[200], x[201], x[202], x[203] = x[0], x[1], x[1], x[2]
    x[203, 399] = 1 - x[203, 399]
    x[204:206] = 0
    edges = torch.from_numpy(draw.integers(0, 200, (2, 600)))
    twins = torch.tensor([[0, 0, 200, 200], [5, 6, 5, 6]])
    edges = edges[:, (edges != 0).all(dim=0)]
    part = torch.zeros(NODES, dtype=torch.long)
    part[1:2], part[2], part[200], part[201:203], part[203] = 0, 1, 2, 0, 2
    y = torch.from_numpy(draw.integers(0, 3, NODES))
    y[2], y[203], y[200], y[0], y[1], y[201] = 0, 1, 2, 2, 1, 1
    y[202] = -1
    return Data(
        x=torch.from_numpy(x),
        edge_index=torch.cat([edges, twins], dim=1),
        y=y,
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
    )


def _by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_planted_groups_with_their_evidence() -> None:
    found = find_duplicates(_graph())
    assert found.groups() == ((0, 200), (1, 201, 202), (2, 203))
    assert found.groups("exact features") == ((0, 200), (1, 201, 202))
    assert found.groups("near features") == ((2, 203),)
    assert found.zero_rows == (204, 205)
    assert found.evidence(200, 0) == {"exact features": 1.0, "structure": 1.0}
    assert 0.8 < found.evidence(2, 203)["near features"] < 1
    assert found.evidence(0, 1) == {}
    assert found.text is None


def test_findings_know_parts_and_labels() -> None:
    findings = _by_name(duplicate_findings(_graph()))
    assert set(findings) == {"exact duplicates", "near duplicates", "duplicate groups"}
    exact, near, both = (
        findings[name] for name in ("exact duplicates", "near duplicates", "duplicate groups")
    )
    assert (exact.severity, near.severity, both.severity) == ("serious", "warning", "serious")
    assert exact.numbers["groups in train and test"] == 1
    assert exact.numbers["copies"] == 3
    assert exact.numbers["rows of zeros"] == 2
    assert exact.numbers["groups with different labels"] == 0
    assert near.numbers["groups with different labels"] == 1
    assert near.numbers["groups in two parts or more"] == 1
    assert both.numbers["pairs that are twins"] == 1
    assert both.rows[0][:2] == ("0 200", "train test")
    assert "equal features" in both.rows[0][3]
    json.dumps([finding.to_dict() for finding in findings.values()], allow_nan=False)


def test_texts_make_groups_of_their_own() -> None:
    draw = np.random.default_rng(1)
    words = [f"word{number}x" for number in range(3000)]
    texts = [" ".join(draw.choice(words, 30)) for _ in range(NODES)]
    texts[51], texts[52] = texts[50], ""
    found = find_duplicates(_graph(), texts)
    assert found.groups("text") == ((50, 51),)
    assert (50, 51) in found.groups()
    names = [finding.name for finding in duplicate_findings(_graph(), texts, found=found)]
    assert names == ["exact duplicates", "near duplicates", "text duplicates", "duplicate groups"]
    with pytest.raises(InputError, match="240 nodes"):
        find_duplicates(_graph(), texts[1:])
    alike = _graph()
    alike.x = torch.ones(NODES, 2)  # features that say nothing leave texts what they are
    assert find_duplicates(alike, texts).groups() == ((50, 51),)


def test_clean_data_are_fine() -> None:
    draw = torch.Generator().manual_seed(0)
    data = Data(x=torch.rand(300, 20, generator=draw), edge_index=torch.zeros(2, 0).long())
    assert {finding.severity for finding in duplicate_findings(data)} == {"fine"}


@pytest.mark.slow
def test_no_false_alarm_in_many_clean_graphs() -> None:
    alarms = 0
    for seed in range(30):
        data = _graph(seed)
        keep = torch.arange(3, 200)
        clean = Data(x=data.x[keep], edge_index=torch.zeros(2, 0).long())
        alarms += sum(finding.severity != "fine" for finding in duplicate_findings(clean))
    # Two findings a graph at most, each of them of an alarm expected 0.05 times at most.
    assert alarms <= 6


def test_equal_rows_that_chance_explains_make_no_group() -> None:
    draw = np.random.default_rng(2)
    yes_or_no = draw.integers(0, 2, (200, 8)).astype(np.float32)
    data = Data(x=torch.from_numpy(yes_or_no), edge_index=torch.zeros(2, 0).long())
    found = find_duplicates(data)
    assert found.comparable
    assert len(found.by_chance) > 50
    assert found.groups() == ()
    finding = _by_name(duplicate_findings(data))["exact duplicates"]
    assert finding.severity == "fine"
    equal = finding.numbers["nodes equal to another as chance may have it"]
    assert equal > 50
    # That no nodes have the same features would be false.
    assert f"{equal} nodes have the same features" in finding.summary


def _kinds(rows: int, columns: int, nodes: int = 200) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.rand(rows, columns, generator=draw)[torch.arange(nodes) % rows]


@pytest.mark.parametrize(
    ("x", "distinct", "words"),
    [
        (_kinds(7, 3), 7, "200 nodes have only 7 distinct rows"),
        (_kinds(7, 60), 7, "200 nodes have only 7 distinct rows"),
        (torch.eye(7)[torch.arange(200) % 7], 7, "200 nodes have only 7 distinct rows"),
        (torch.full((200, 4), 0.3), 1, "200 nodes have only 1 distinct row"),
        (torch.ones(5, 1), 1, "5 nodes have only 1 distinct row"),
        (torch.zeros(200, 4), 0, "All 200 nodes have no feature but zeros"),
        (torch.empty(200, 0), 0, "All 200 nodes have no feature but zeros"),
        (torch.eye(200), 200, "Each of 200 nodes has one feature"),
    ],
    ids=["seven", "seven-wide", "one-hot", "constant", "ones", "zeros", "no-columns", "identity"],
)
def test_features_that_do_not_tell_nodes_apart_judge_no_duplicates(
    x: torch.Tensor, distinct: int, words: str
) -> None:
    part = torch.arange(len(x)) % 3
    data = Data(x=x, edge_index=torch.zeros(2, 0).long(), y=part)
    data.train_mask, data.val_mask, data.test_mask = part == 0, part == 1, part == 2
    found = find_duplicates(data)
    assert not found.comparable
    assert found.distinct == distinct
    assert found.groups() == ()
    findings = [*duplicate_findings(data, found=found), similarity_finding(found)]
    assert words in findings[0].summary
    assert findings[0].numbers["distinct rows"] == distinct
    assert findings[0].severity == ("note" if found.one_hot else "warning")
    assert not any(finding.summary.startswith("No ") for finding in findings)


def test_every_node_twice_is_still_judged() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(100, 20, generator=draw).repeat(2, 1)
    data = Data(x=x, edge_index=torch.zeros(2, 0).long())
    assert len(find_duplicates(data).groups()) == 100


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_equals_dense_and_nothing_is_changed(layout: str) -> None:
    dense, other = _graph(), _graph()
    other.x = other.x.to_sparse_coo() if layout == "coo" else other.x.to_sparse_csr()

    def digest(data: Data) -> str:
        x = data.x if data.x.layout == torch.strided else data.x.to_dense()
        parts = [x, data.edge_index, data.y, data.train_mask]
        return hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()

    before = digest(other)
    assert find_duplicates(other).groups() == find_duplicates(dense).groups()
    assert [f.to_dict() for f in duplicate_findings(other)] == [
        f.to_dict() for f in duplicate_findings(dense)
    ]
    assert digest(other) == before == digest(dense)


def test_permuting_nodes_permutes_groups() -> None:
    data = _graph()
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(3))
    place = torch.empty_like(order)
    place[order] = torch.arange(NODES)
    permuted = Data(x=data.x[order], edge_index=place[data.edge_index], y=data.y[order])
    renamed = {tuple(sorted(order[list(g)].tolist())) for g in find_duplicates(permuted).groups()}
    assert renamed == set(find_duplicates(data).groups())


@pytest.mark.parametrize("nodes", [1, 2])
def test_tiny_graphs(nodes: int) -> None:
    data = Data(x=torch.ones(nodes, 3), edge_index=torch.zeros(2, 0).long())
    assert find_duplicates(data).groups() == ()  # of two rows alike, chance is not excluded
    assert len(duplicate_findings(data, [""] * nodes)) == 4


def test_not_finite_is_refused() -> None:
    data = _graph()
    data.x[7, 3] = float("nan")
    with pytest.raises(InputError, match="row 7, column 3"):
        duplicate_findings(data)


def test_connected_groups_equal_merging_sets() -> None:
    draw = np.random.default_rng(4)
    pairs = draw.integers(0, 60, (25, 2))
    sets = [{node} for node in range(60)]
    for a, b in pairs:
        one, other = (next(s for s in sets if node in s) for node in (a, b))
        if one is not other:
            sets.remove(other)
            one |= other
    expected = sorted(tuple(sorted(s)) for s in sets if len(s) > 1)
    assert list(connected_groups(pairs, 60)) == expected
    assert connected_groups(np.array([[3, 3]]), 5) == ()
    with pytest.raises(IndexError):
        connected_groups(pairs, 10)


def test_against_removed() -> None:
    result = AgainstRemoved.of(((0, 1), (2, 3, 4), (7, 8)), [1, 3, 4, 9])
    assert result.seen == ((0, 1), (2, 3, 4))
    assert result.unseen == ((7, 8),)
    assert (result.explained, result.unexplained) == ((1, 3, 4), (9,))
    assert result.precision == pytest.approx(2 / 3)
    assert result.recall == 0.75
    assert np.isnan(AgainstRemoved.of((), []).precision)


def _neighbours(edges: np.ndarray, nodes: int) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in edges.T.tolist():
        if a != b:
            found[a].add(b)
            found[b].add(a)
    return found


def test_twins_equal_a_comparison_of_all_pairs() -> None:
    for seed in range(5):
        draw = np.random.default_rng(seed)
        edges = draw.integers(0, 25, (2, 30))
        edges = np.concatenate([edges, [[25, 25, 26, 26, 27, 28, 27, 28, 27], [0, 1, 0, 1, 2, 2, 3, 3, 28]]], axis=1)  # noqa: E501 # fmt: skip
        around = _neighbours(edges, 29)
        twins = {
            (a, b)
            for a in range(29)
            for b in range(a + 1, 29)
            if around[a] - {b} == around[b] - {a} and len(around[a] - {b}) >= 2
        }
        found = structure_duplicates(edges, 29)
        pairs = set(map(tuple, found.nodes.tolist()))
        assert {(25, 26), (27, 28)} <= pairs <= twins
        assert {node for pair in pairs for node in pair} == {
            node for pair in twins for node in pair
        }
        np.testing.assert_array_equal(structure_duplicates(edges[::-1], 29).nodes, found.nodes)


def test_leaves_are_no_twins() -> None:
    star = np.array([[0] * 9, range(1, 10)])
    assert not len(structure_duplicates(star, 10))
    assert len(structure_duplicates(star, 10, least_degree=1)) == 8


def test_no_edges() -> None:
    assert not len(structure_duplicates(np.empty((2, 0), dtype=np.int64), 4))
    assert not len(structure_duplicates(np.empty((2, 0), dtype=np.int64), 0))
