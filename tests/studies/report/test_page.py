"""The page of a report, as text; :mod:`test_page_in_browser` looks at it."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from drgcn.studies.paper.page import paper_tables
from drgcn.studies.report.comparisons import correlation_words, with_k
from drgcn.studies.report.contents import contents, write_markdown, write_report
from drgcn.studies.report.gate_tests import gate_tests

GATES = (None, "dr", "static", "constant")
VOID = ("meta", "link", "br", "hr", "img", "input")


class Reader(HTMLParser):
    """Checks that tags close in order, and gathers anchors and links."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.tags = [], [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def records(make_record, with_data):
    """Four gates on Cora with its usual training, and on some other data."""
    draw = np.random.default_rng(0)
    found = []
    for gate in GATES:
        values = (0.87 + 0.02 * (gate == "dr") + draw.normal(0, 0.003, 20)).tolist()
        found.append(with_data(make_record(values, reweight=gate), name="cora"))
        found.append(with_data(make_record(values, reweight=gate, epochs=50), name="<b>odd"))
    return found


def test_the_page_is_whole_and_its_links_lead_somewhere(records, tmp_path):
    page = write_report(records, tmp_path / "deep" / "r.html", title="A <title>").read_text()
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert {link.removeprefix("#") for link in reader.links} <= set(reader.ids)
    assert len(reader.links) >= 8
    assert not reader.tags & {"script", "img", "link", "iframe"}
    assert "<b>odd" not in page
    assert "&lt;b&gt;odd" in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower()


def test_the_head_counts_what_the_records_hold(records):
    whole = contents(records, list(paper_tables().values()))
    size, paper, data, *families = whole.findings
    assert size == "160 trained networks: 8 experiments with 1 model on 2 datasets."
    assert re.search(
        r"\b2 can be compared: 0 are reproduced, 2 of ours lie above and 0 below", paper
    )
    assert "of them are the same" in data
    assert len(families) == 3
    for family in families:
        assert "Holm over 2 comparisons" in family
        assert "surely up in 2, surely down in 0" in family


def test_every_part_is_there(records):
    whole = contents(records, list(paper_tables().values()))
    names = [section.name for section in whole.sections]
    assert names == ["where", "paper", "dr", "gates", "curves", "time", "records", "reading"]
    tables = {table.name for table in whole.tables}
    assert {"full", "full-not-run", "ppi-not-run", "overview", "dr-plain", "dr-static"} <= tables
    (curves,) = [section for section in whole.sections if section.name == "curves"]
    assert [len(block.charts) for block in curves.blocks] == [3, 3]
    assert all("both gates that are blind" in block.verdict for block in curves.blocks)


def test_who_trained_something_else_reads_nothing_of_the_paper(make_record, with_data):
    records = [with_data(make_record([0.8, 0.9], epochs=3))]
    whole = contents(records, list(paper_tables().values()))
    names = [section.name for section in whole.sections]
    assert names == ["where", "curves", "time", "records", "reading"]
    assert len(whole.findings) == 1


def test_one_seed_without_curves_makes_a_page(make_record, tmp_path):
    record = make_record([0.8], reweight="dr")
    bare = replace(record.seeds[0], curve_val_accuracy=[], curve_train_loss=[], k=[None, None])
    page = write_report([replace(record, seeds={0: bare})], tmp_path / "r.html", title="t")
    assert "gcn + dr" in page.read_text()


def test_few_comparisons_are_open_and_many_are_not(make_record, tmp_path):
    few = [make_record([0.8, 0.9], epochs=e) for e in range(2, 5)]
    many = [make_record([0.8, 0.9], epochs=e) for e in range(2, 12)]
    for records, opened in ((few, 3), (many, 0)):
        page = write_report(records, tmp_path / "r.html", title="t").read_text()
        assert page.count('<details class="block" open>') == opened


def test_markdown_has_all_tables(records, tmp_path):
    whole = contents(records, list(paper_tables().values()))
    text = write_markdown(whole, tmp_path / "deep" / "r.md", title="t").read_text()
    for table in whole.tables:
        assert f"### {table.title}\n" in text
        assert "| " + " | ".join(table.heads) + " |" in text
    assert "Welch's method" in text


def test_gain_and_k_are_correlated_over_datasets(make_record, with_data):
    """The larger K the larger the gain: six sets, one of them made up."""
    records = []
    for place in range(6):
        gain, source = 0.01 * place, "generated" if place == 5 else "published"
        for gate in (None, "dr"):
            values = [0.7 + gain * (gate == "dr") + 0.001 * (s % 3) for s in range(6)]
            record = make_record(values, reweight=gate, content_hash=str(place))
            seeds = {
                s: replace(r, k=[0.5 + 0.1 * place, 1.0] if gate else [])
                for s, r in record.seeds.items()
            }
            record = with_data(record, name=f"set {place}", feature_source=source)
            records.append(replace(record, seeds=seeds))
    tests = with_k(gate_tests(records, None))
    assert len(tests) == 6
    words = correlation_words(tests)
    assert "Over 5 settings of 5 datasets" in words
    assert "+1.00" in words
    assert "nothing to correlate" in correlation_words(tests[:2])
    sections = contents(records, []).sections
    (gain_section,) = [section for section in sections if section.name == "gain"]
    assert gain_section.charts[0].count("<circle") == 6
    assert gain_section.charts[0].count("hollow") == 1
