"""Pages of all parts of the package have one base: whole, self-contained, light and dark."""

import re
from importlib import resources

import pytest
from jinja2 import UndefinedError

from drgcn.reporting.page import render_html, render_words, write_html

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


def palettes():
    """Colours of the style sheet by name, light and dark."""
    style = render_html("drgcn.cli", "theory.html.jinja", title="t", summary="", rows=[])
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours = [dict(re.findall(r"--(\w+): (#\w+)", part)) for part in (light, dark)]
    return {"light": colours[0], "dark": colours[0] | colours[1]}


def channels(colour):
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]


def contrast(colour, ground, opacity=1.0):
    """The ratio of WCAG 2, of a colour that lets through some of what is behind it."""

    def luminance(values):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
        return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    behind = channels(ground)
    mixed = [
        opacity * c + (1 - opacity) * b for c, b in zip(channels(colour), behind, strict=True)
    ]
    dark, light = sorted([luminance(mixed), luminance(behind)])
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#fff", "#000") == pytest.approx(21)
    assert contrast("#767676", "#fff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#000", "#fff", opacity=0.0) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_shapes_stand_out_from_the_page_and_its_cards(scheme):
    """WCAG AA: 4.5 for words, also those that are white on a colour, 3 for shapes."""
    colours = palettes()[scheme]
    words = ("ink", "soft", "good", "over", "under", "unsure", "bad")
    words += ("plain", "dr", "static", "constant")
    series = ("one", "two", "three", "four", "five", "six")
    for ground in ("paper", "card"):
        low = {n: contrast(colours[n], colours[ground]) for n in words}
        assert {n: c for n, c in low.items() if c < 4.5} == {}, ground
        low = {n: contrast(colours[n], colours[ground], 0.85) for n in (*words, *series)}
        assert {n: c for n, c in low.items() if c < 3} == {}, ground


def test_the_light_colours_print():
    """Dark ones are of screens alone; what is folded is left out."""
    style = render_html("drgcn.cli", "theory.html.jinja", title="t", summary="", rows=[])
    assert "@media screen and (prefers-color-scheme: dark)" in style
    assert "@media (prefers-color-scheme: dark)" not in style
    printed = style[style.index("@media print") :]
    assert "break-inside: avoid" in printed
    assert "details:not([open])" in printed


def test_sentences_come_line_by_line_and_are_not_escaped():
    values = {"own": "a < b,  c", "over_plain": None}
    assert render_words("drgcn.studies.report", "words.txt.jinja", "verdict", **values) == [
        "a < b, c"
    ]


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="summary"):
        render_html("drgcn.cli", "theory.html.jinja", title="t", rows=[])
