"""The report in all its forms, and the audit that makes it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import torch

from drgcn.audit.finding import Finding
from drgcn.audit.page import html_report, markdown_report, report_figures, shown, write_page
from drgcn.audit.report import SEVERITIES, AuditReport, audit
from drgcn.data import load
from drgcn.errors import InputError

from .graphs import ring, spoilt, tensors_of


def small() -> AuditReport:
    """One finding of each severity, with everything that could break a page."""
    findings = [
        Finding(f"thing {number}", severity, f"<b>{severity}</b> & more | less", "Counted.")
        for number, severity in enumerate(SEVERITIES)
    ]
    odd = Finding(
        "class balance",
        "note",
        "Names with odd signs.",
        "Counted.",
        numbers={"share": np.float64(0.5), "gone": float("nan"), "list": [1, np.int64(2)]},
        columns=("class", "train", "val", "test", "train %", "val %", "test %"),
        rows=(
            ("a|b\nc <script>alert(1)</script>", 1, 2, 3, 50.0, 25.0, 10.0),
            ("$x^2$", np.int64(1), 1, 1, 50.0, 75.0, 90.0),
        ),
    )
    return AuditReport("odd <name>", {"nodes": 12, "split": "given"}, (*findings, odd))


def test_the_worst_is_the_worst():
    for place, severity in enumerate(SEVERITIES):
        report = AuditReport("x", {}, tuple(reversed(small().findings[place:4])))
        assert report.worst == severity
    assert AuditReport("x", {}, ()).worst == "fine"


@pytest.fixture(scope="module")
def wine() -> AuditReport:
    return audit(load("wine"))


def test_json_survives_a_round_trip(wine):
    report = small()
    text = report.to_json()
    again = AuditReport.from_dict(json.loads(text))
    assert again.to_dict() == report.to_dict()
    assert again.findings[:4] == report.findings[:4]
    assert json.loads(text)["findings"][4]["numbers"] == {
        "share": 0.5,
        "gone": None,
        "list": [1, 2],
    }
    assert AuditReport.from_dict(json.loads(wine.to_json())) == wine


def test_what_is_no_audit_is_refused():
    with pytest.raises(InputError, match="drgcn audit 1"):
        AuditReport.from_dict({"dataset": "x"})


def test_markdown_lists_worst_first_and_keeps_tables_whole():
    text = markdown_report(small())
    places = [text.index(f"**thing {number}**") for number in range(4)]
    assert places == sorted(places)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4
    # Bars inside a cell are marked, so that every line has the same number of cells.
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {8}


def test_long_tables_are_cut_with_a_count():
    rows = tuple((number,) for number in range(25))
    finding = Finding("x", "note", "y", "z", columns=("n",), rows=rows)
    assert "5 more rows" in markdown_report(AuditReport("x", {}, (finding,)))


class _Reader(HTMLParser):
    """Everything on a page that could be fetched or run, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "action", "srcset", "poster"):
                self.fetched.append(value or "")


def test_the_page_fetches_nothing_and_runs_nothing(wine):
    for report in (small(), wine):
        page = html_report(report)
        reader = _Reader()
        reader.feed(page)
        assert all(value.startswith("#") for value in reader.fetched)
        assert not {"script", "link", "iframe", "img", "object", "base"} & set(reader.tags)
        assert "@import" not in page
        assert not re.search(r"url\((?!#)", page)
        assert "odd <name>" not in page
        assert "<b>serious" not in page


def test_the_page_says_first_what_is_doubtful_and_folds_what_is_fine():
    whole = small()
    for worst, words in (
        ("serious", "Results on this data are doubtful: thing 0."),
        ("warning", "Something may change results: thing 1."),
        ("note", "Nothing was found that makes results doubtful."),
    ):
        place = SEVERITIES.index(worst)
        left = [one for one in whole.findings if SEVERITIES.index(one.severity) >= place]
        page = html_report(replace(whole, findings=tuple(left)))
        assert words in page
        assert page.index('class="headline"') < page.index('class="facts"')
        assert page.index("nothing to say: thing 3") < page.index("</span>thing 3</h2>")
        assert all(re.search('aria-label="[^"]', svg) for svg in re.findall("<svg[^>]*", page))


def test_the_page_has_pictures_and_is_the_same_every_time(wine, tmp_path):
    page = html_report(wine)
    pictures = report_figures(wine)
    for name in ("class balance", "degrees"):
        assert name in pictures
    assert page.count("<svg") == sum(map(len, pictures.values())) >= 3
    again = AuditReport.from_dict(json.loads(wine.to_json()))
    path = write_page(again, tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8") == page


def test_values_are_shown_as_a_reader_wants_them():
    for value, words in [
        (1234567, "1,234,567"),
        (True, "yes"),
        (None, "-"),
        (0.123456, "0.123"),
        (12345.6, "12,346"),
        ([1, "a"], "1, a"),
        ("word", "word"),
    ]:
        assert shown(value) == words


def test_an_audit_looks_at_everything_and_changes_nothing():
    data = load("wine")
    before, seen = tensors_of(data), []
    report = audit(data, progress=lambda step, done, total: seen.append((step, done, total)))
    assert [step for step, _, _ in seen] == [
        "graph",
        "features",
        "split",
        "duplicates",
        "label leaks",
    ]
    assert [done for _, done, _ in seen] == list(range(5))
    assert all(torch.equal(data[key], value) for key, value in before.items())
    assert report.dataset == "wine"
    assert report.facts["nodes"] == 178
    names = [finding.name for finding in report.findings]
    assert len(names) == len(set(names))
    assert audit(data, name="mine").dataset == "mine"


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_and_dense_features_give_the_same_findings(wine):
    assert audit(load("wine", sparse=True)) == wine


def test_plain_graphs_without_split_or_labels_are_audited():
    bare = ring()
    for key in ("y", "train_mask", "val_mask", "test_mask"):
        del bare[key]
    report = audit(bare)
    assert report.dataset == "graph"
    assert report.finding("parts of the split").severity == "note"
    html_report(report)


def test_features_that_are_not_finite_stop_only_what_reads_them():
    x = ring().x.clone()
    x[0, 0] = float("nan")
    report = audit(spoilt(x=x))
    assert report.worst == "serious"
    assert report.finding("duplicates and label leaks").severity == "warning"
    html_report(report)


def test_texts_must_be_those_of_the_nodes():
    with pytest.raises(InputError, match="12 nodes; found 3"):
        audit(ring(), ["a", "b", "c"])


def test_huge_texts_and_odd_signs_are_no_trouble():
    texts = ["word " * 200_000, "\x00\ud800\N{LINE SEPARATOR}", *["short"] * 10]
    report = audit(ring(), texts)
    assert report.facts["texts"] == 12
    json.loads(report.to_json().encode("utf-8", "replace"))
