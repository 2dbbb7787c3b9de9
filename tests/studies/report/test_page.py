"""The page of a report, as text; :mod:`test_page_in_browser` looks at it."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from drgcn.studies.comparison import decide_rows, verdict
from drgcn.studies.paper.page import paper_tables
from drgcn.studies.report.comparisons import correlation, with_k
from drgcn.studies.report.contents import contents, write_markdown, write_report
from drgcn.studies.report.gate_tests import gate_tests, words

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


@pytest.fixture
def many(make_record, with_data):
    """Four gates in five more settings."""
    draw, found = np.random.default_rng(1), []
    for epochs in range(60, 110, 10):
        for gate in GATES:
            values = (0.87 + 0.02 * (gate == "dr") + draw.normal(0, 0.003, 20)).tolist()
            found.append(with_data(make_record(values, reweight=gate, epochs=epochs), name="cora"))
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
    assert not re.search(r"https?:|//\w+\.|url\(|@import|src=", page)
    assert "<b>odd" not in page
    assert "&lt;b&gt;odd" in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower()


def test_the_head_counts_what_the_records_hold(records, many):
    whole = contents([*records, *many], list(paper_tables().values()))
    said = dict(line.split(": ", 1) for line in whole.findings)
    assert said["Trained"] == "560 networks in 28 experiments with 1 model on 2 datasets."
    assert (
        "2 can be compared: 0 reproduced, 2 of ours above and 0 below"
        in said["The paper's results"]
    )
    # Reddit and PPI are not at hand, and A* is private.
    assert " were not run, 27 of them for want of data." in said["The paper's results"]
    assert "of them are the same" in said["The paper's data"]
    assert whole.headline.startswith(
        "In 7 settings trained alike with and without it, Dr is surely"
    )
    assert whole.verdicts == ()
    for other in ("plain model", "static gate", "constant gate"):
        line = said[f"Dr against the {other}"]
        assert "surely up in 7, surely down in 0, no sure difference in 0 of 7 settings" in line
        assert line.endswith("(paired t-test, Holm over 7 comparisons).")
    assert whole.lines[0] == whole.headline
    assert whole.picture.count('class="inside"') == 9


def test_a_few_comparisons_are_told_as_the_command_that_trained_them_told_them(records):
    """Each in a family of its own five tests: the page and the terminal say the same."""
    whole = contents(records, list(paper_tables().values()))
    assert whole.headline == ""
    assert [setting for setting, _ in whole.verdicts] == [
        "<b>odd, split full: gcn (epochs 50)",
        "cora, split full: gcn",
    ]
    rows = {r.experiment.reweight: r.seeds for r in records if r.data["name"] == "cora"}
    assert whole.verdicts[1][1] == verdict(decide_rows(rows))
    assert "Holm over 5 comparisons" in whole.verdicts[1][1]
    assert not any(line.startswith("Dr against") for line in whole.findings)


def test_a_comparison_without_controls_is_counted_with_the_others(records):
    """Nobody judged it by itself: it would be missing where verdicts are told one by one."""
    left = [
        r for r in records if r.data["name"] == "cora" or r.experiment.reweight in (None, "dr")
    ]
    whole = contents(left, [])
    assert whole.verdicts == ()
    assert whole.headline.startswith("In 2 settings")


def test_a_seed_without_a_number_leaves_no_hole_in_a_picture(records):
    """One seed of a control has no accuracy: its difference is none."""
    (control,) = (
        r for r in records if r.experiment.reweight == "static" and r.data["name"] == "cora"
    )
    spoilt = {s: replace(r, test_accuracy=float("nan")) for s, r in control.seeds.items()}
    others = [r for r in records if r is not control]
    section = contents([*others, replace(control, seeds=spoilt)], []).sections[0]
    for svg in (*section.charts, *section.on_phone):
        assert ">no number</text>" in svg
        assert "nan" not in svg


def test_where_all_settings_together_say_less_the_page_says_so(make_record, with_data):
    """One setting whose gain is sure by itself, among many without any."""
    records = []
    for place in range(40):
        for gate in GATES:
            gain = 0.004 * (gate == "dr" and place == 0)
            values = [0.8 + gain + 0.004 * (gate == "dr") * (-1) ** seed for seed in range(12)]
            records.append(with_data(make_record(values, reweight=gate, content_hash=str(place))))
    (curves,) = (s for s in contents(records, []).sections if s.name == "curves")
    own, among = curves.blocks[0].verdict
    assert own.startswith("Dr gains over the plain model")
    assert "Holm over 5 comparisons" in own
    assert among.startswith("Among all 40 settings of this report with plain and Dr: no sure")
    assert all(len(block.verdict) == 1 for block in curves.blocks[1:])


def test_every_part_is_there(records):
    whole = contents(records, list(paper_tables().values()))
    names = [section.name for section in whole.sections]
    first, *folded = ["gains", "published"], "dr", "paper", "curves", "gates", "time", "where"
    assert names == [*first, *folded, "records", "reading"]
    tables = {table.name for table in whole.tables}
    assert {"full", "full-not-run", "ppi-not-run", "overview", "dr-plain", "dr-static"} <= tables
    (curves,) = [section for section in whole.sections if section.name == "curves"]
    assert [len(block.charts) for block in curves.blocks] == [3, 3]
    assert all("both gates that are blind" in block.verdict[0] for block in curves.blocks)


def test_who_trained_something_else_reads_nothing_of_the_paper(make_record, with_data):
    records = [with_data(make_record([0.8, 0.9], epochs=3))]
    whole = contents(records, list(paper_tables().values()))
    names = [section.name for section in whole.sections]
    assert names == ["curves", "time", "where", "records", "reading"]
    assert len(whole.lines) == 1


def test_numbers_of_the_pictures_are_those_of_the_records(records):
    sections = {s.name: s for s in contents(records, list(paper_tables().values())).sections}
    by = {(r.data["name"], r.experiment.reweight): r.seeds for r in records}
    tests = {t.name: t.test.gain for t in gate_tests(records, None)}
    for svg in (*sections["gains"].charts, *sections["gains"].on_phone):
        for name, gain in tests.items():
            own = [100 * r.test_accuracy for r in by[name, "dr"].values()]
            plain = [100 * r.test_accuracy for r in by[name, None].values()]
            assert gain.mean == pytest.approx(np.mean(own) - np.mean(plain))
            assert f">{gain.mean:+.2f}</text>" in svg
            assert f"{gain}</title>" in svg
    (svg,) = sections["published"].charts
    own = np.mean([100 * r.test_accuracy for r in by["cora", "dr"].values()])
    assert f"gcn + dr, cora, full: published 86.8 ± 0.2, ours {own:.2f}" in svg
    assert f"difference {own - 86.8:+.2f} [" in svg


def test_every_picture_has_its_words_and_every_head_its_scope(records, tmp_path):
    page = write_report(records, tmp_path / "r.html", title="t").read_text()
    pictures = re.findall(r"<svg[^>]*>", page)
    assert len(pictures) > 10
    for picture in pictures:
        assert 'role="img"' in picture
        assert len(re.search(r'aria-label="([^"]+)"', picture)[1]) > 3
    heads = re.findall(r"<th\b[^>]*>([^<]*)", page)
    assert len(heads) > 50
    assert all(heads)
    assert page.count("<th ") == len(re.findall(r'<th [^>]*scope="(?:col|row)"', page))
    assert "<main>" in page


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
    (said, _) = words("k", found=correlation(tests))
    assert "over 5 settings of 5 datasets" in said
    assert "+1.00" in said
    assert "nothing to correlate" in words("k", found=correlation(tests[:2]))[0]
    sections = contents(records, []).sections
    (gain_section,) = [section for section in sections if section.name == "gain"]
    for svg in (*gain_section.charts, *gain_section.on_phone):
        assert svg.count("<circle") == 5
        assert len(re.findall('<path class="dot [a-z ]+" d="M[^"]*Z"', svg)) == 1  # made-up data
        assert svg.count("hollow") == sum(test.sign == "unsure" for test in tests)


def test_rows_that_learnt_nothing_are_named(records, many, with_data, tmp_path):
    guessed = [with_data(one, guess=0.9, guess_nodes=1000) for one in records]
    few = contents(guessed, [])
    assert [words.partition(":")[0] for _, words in few.verdicts] == ["Nothing was learnt"] * 2
    assert "the most frequent class is 90.00 % of the test nodes" in few.verdicts[0][1]
    page = write_markdown(few, tmp_path / "few.md", title="x").read_text()
    assert page.count("no better than a guess") == len(guessed)
    whole = contents([*guessed, *many], [])
    (line,) = [words for words in whole.findings if words.startswith("Nothing learnt: in 2 ")]
    assert "cora" in line
    # A row above the guess is a row like any other, and so is one whose record knows no guess.
    better = [with_data(one, guess=0.8, guess_nodes=1000) for one in records]
    for found in (better, records):
        told = write_markdown(contents(found, []), tmp_path / "told.md", title="x").read_text()
        assert "Nothing" not in told
        assert "no better than" not in told


def test_rows_of_other_gates_stand_beside_the_four(records, make_record, with_data, tmp_path):
    other = [
        with_data(make_record([0.9, 0.91], reweight=gate), name="cora")
        for gate in ("variance", "class-share", "dr-one")
    ]
    page = write_report([*records, *other], tmp_path / "r.html", title="x").read_text()
    charts = re.findall('one dot per seed: ([^"]*)"', page)
    ends = "class-share 90.5, dr-one 90.5, variance 90.5"
    assert [ends in words for words in charts].count(True) == 1
    assert re.search(r'class="dot [^"]*three', page)
    told = write_markdown(contents(other[1:2], []), tmp_path / "r.md", title="x").read_text()
    assert "class-share" in told
