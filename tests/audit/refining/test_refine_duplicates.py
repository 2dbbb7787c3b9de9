"""Finding and merging until nothing is left to merge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from drgcn.audit.duplicates import find_duplicates
from drgcn.audit.duplicates.findings import similarity_finding
from drgcn.audit.refining.folder import write_refined
from drgcn.audit.refining.refine import refine_duplicates
from drgcn.data import load
from drgcn.errors import InputError

from ...data.conftest import real, real_root  # noqa: F401 - fixtures
from .test_refine import same

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
    refined = refine_duplicates(
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
    assert refine_duplicates(data, other, evidence=["text"]).node_map.counts["merged"] == 0
    found = refine_duplicates(data, other, evidence=["exact features"])
    assert found.node_map.counts["merged"] == 3
    with pytest.raises(InputError, match="out of exact features"):
        refine_duplicates(data, evidence=["gut feeling"])
    with pytest.raises(InputError, match="found nothing"):
        refine_duplicates(data, evidence=[])


def test_chains_over_several_rounds_are_one_group(monkeypatch):
    """A search that sees one pair at a time ends where one that sees all does."""
    from drgcn.audit.refining import refine as module

    data, _ = documents()
    whole = refine_duplicates(data)
    search = module.find_duplicates

    class One:
        def __init__(self, found):
            self.found = found

        def groups(self, *evidence):
            return [group[:2] for group in self.found.groups(*evidence)[:1]]

        def pairs(self, *evidence):
            return self.found.pairs(*evidence)

    monkeypatch.setattr(module, "find_duplicates", lambda *a, **k: One(search(*a, **k)))
    again = refine_duplicates(data)
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
        refine_duplicates(documents()[0])


def test_the_written_result_has_nothing_left_to_refine(tmp_path):
    data, texts = documents()
    refined = refine_duplicates(data, texts)
    again = load(write_refined(refined, tmp_path / "out"))
    second = refine_duplicates(again, refined.texts)
    assert not second.changed
    assert same(refined.data, second.data)
    assert second.data.dataset.content_hash == refined.data.dataset.content_hash


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
    refined = refine_duplicates(data)
    assert refined.changed
    assert not refine_duplicates(refined.data).changed
    place = refined.node_map.new_numbers()
    assert not refined.data.train_mask[place[data.test_mask.numpy()]].any()
