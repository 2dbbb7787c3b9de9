"""The section on label leaks: its tables from a small root, and the page from the real one."""

import json
import os
from functools import cache
from pathlib import Path

import pytest
from pages.leaks import (
    LEAK_SETS,
    LeakTexts,
    compare_leaks,
    distances,
    filled,
    leak_section,
    published_leaks,
)

from drgcn.audit.leaks.words import RULE_NAMES
from drgcn.errors import InputError, MissingDataError

compared = cache(compare_leaks)
PAGE = Path(__file__).parents[3] / "docs" / "audit-leaks.md"


def write(root, lines, names="dim,word,confident\n0,theory,1\n1,x,0\n"):
    (root / "text").mkdir()
    text = "\n".join(json.dumps(line) for line in lines)
    (root / "text" / "cora_planetoid_text.jsonl").write_text(text)
    (root / "text" / "cora_vocab_recovered.csv").write_text(names)


def test_texts_are_read_with_their_titles_but_not_where_they_were_guessed(tmp_path):
    write(
        tmp_path,
        [
            {"index": 1, "text": "guessed", "kind": "recovered bag of words"},
            {"index": 0, "text": "a text", "kind": "abstract", "title_terms": "a title"},
            {"index": 2, "text": "also guessed", "kind": "recovered bag of words"}
            | {"title_terms": "title"},
        ],
    )
    known = LeakTexts.of_dataset(tmp_path, "cora")
    assert known.texts == ("a text a title", "", "title")
    assert known.feature_names == ("theory", None)
    assert known.kinds == {"recovered bag of words": 2, "abstract": 1}
    assert known.titles == 2


def test_missing_texts_are_said(tmp_path):
    with pytest.raises(MissingDataError, match="there are no texts of cora"):
        LeakTexts.of_dataset(tmp_path, "cora")


def test_only_the_marked_place_is_filled():
    page = "before\n<!-- leaks -->\nold\n<!-- /leaks -->\nafter\n"
    assert filled(page, "new\n") == "before\n<!-- leaks -->\nnew\n<!-- /leaks -->\nafter\n"
    with pytest.raises(InputError, match="one place"):
        filled("nothing", "new\n")


def real_root():
    root = Path(os.environ.get("DRGCN_DATA") or "/nowhere")
    if not (root / "text").is_dir():
        pytest.skip("DRGCN_DATA has no texts: no real datasets here")
    return root


@pytest.mark.slow
@pytest.mark.data
def test_the_page_is_what_the_data_gives(monkeypatch):
    monkeypatch.setattr("pages.leaks.compare_leaks", compared)
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, leak_section(real_root())) == page


@pytest.mark.data
@pytest.mark.parametrize("name", LEAK_SETS)
def test_what_is_said_of_the_rules_holds(name):
    found = compared(real_root(), name)
    assert found.closest.rule == {"cora": "all", "citeseer": "any"}[name]
    for counted in found.counts:
        assert counted.distance == sum(distances(name, counted.table).values())
        assert counted.distance >= found.closest.distance
        assert RULE_NAMES[counted.rule] in str(counted)
    # More words asked for, fewer papers: for every class and every source.
    for source in ("text", "features", "either"):
        for other in ("all", "phrase"):
            few, many = found.of(other, source).table.rows, found.of("any", source).table.rows
            assert all(a.appeared <= b.appeared for a, b in zip(few, many, strict=True))
            assert all(a.elsewhere <= b.elsewhere for a, b in zip(few, many, strict=True))


@pytest.mark.data
def test_citeseer_is_near_the_paper_in_every_class_but_one():
    found = compared(real_root(), "citeseer")
    for row in found.closest.table.rows:
        cell = published_leaks("citeseer")[row.name]
        if row.name != "HCI":
            assert 0.94 * cell.appeared <= row.appeared <= cell.appeared
            assert 0.94 * cell.elsewhere <= row.elsewhere <= cell.elsewhere
