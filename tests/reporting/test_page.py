"""Pages of all parts of the package have one base: whole, self-contained, light and dark."""

import re
from importlib import resources

import pytest
from jinja2 import UndefinedError

from drgcn.reporting.page import render_html, write_html

TEMPLATES = {
    "drgcn.audit": "report.html.jinja",
    "drgcn.cli": "theory.html.jinja",
    "drgcn.studies.advice": "advice.html.jinja",
    "drgcn.studies.report": "report.html.jinja",
}


@pytest.mark.parametrize("package", TEMPLATES)
def test_every_template_extends_the_base_and_has_no_style_of_its_own(package):
    text = (resources.files(package) / TEMPLATES[package]).read_text()
    assert text.startswith('{% extends "base.html.jinja" %}')
    assert "<style" not in text
    assert "style=" not in text


def test_a_page_is_whole_escaped_and_fetches_nothing(tmp_path):
    values = {"title": "<b>", "summary": "1 < 2", "rows": []}
    path = write_html(tmp_path / "a" / "b.html", "drgcn.cli", "theory.html.jinja", **values)
    page = path.read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert page.count("&lt;b&gt;") == 2  # title and heading
    assert "1 &lt; 2" in page
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"https?:|url\(|@import|<script|src=|\{\{|\{%", page)


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="summary"):
        render_html("drgcn.cli", "theory.html.jinja", title="t", rows=[])
