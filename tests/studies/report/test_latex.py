"""LaTeX that compiles: there is no TeX here, so what it would trip over is looked for."""

import re

import pytest

from drgcn.studies.report.page import escape, to_latex, to_markdown, write_latex
from drgcn.studies.report.text_table import TextTable

ODD = TextTable(
    name="Odd one",
    title="50 % & more_of {it}",
    heads=("row", "difference [95 %]", "verdict"),
    rows=(("[a] #1 ~ ^ \\", "-0.5 [-1.0, +0.2]", "p < 0.05 | $"), ("A*", "86.8 ± 0.5", "x" * 50)),
    notes=("`drgcn data info` has ours — 100 %.",),
)


def expect_sound(text):
    """Nothing unescaped, as many columns in each row as are declared, all that opens closes."""
    assert text.isascii()
    body = text.split("\n", 1)[1] if text.startswith("%") else text
    assert not re.search(r"(?<!\\)[%#]", body)
    for char in "_^~":
        assert not re.search(rf"(?<!\\){re.escape(char)}", body), char
    assert len(re.findall(r"(?<!\\)\$", body)) % 2 == 0
    assert len(re.findall(r"(?<!\\)\{", body)) == len(re.findall(r"(?<!\\)\}", body))
    begun, ended = (re.findall(rf"\\{word}\{{(\w+)\}}", body) for word in ("begin", "end"))
    assert begun == ended[::-1]
    declared = re.search(r"\\begin\{longtable\}\{(.*)\}", body)[1]
    columns = len(re.sub(r">\{[^}]*\}|\{[^}]*\}", "", declared))
    rows = [line for line in body.splitlines() if line.endswith(r" \\")]
    assert rows
    for line in rows:
        assert len(re.findall(r"(?<!\\)&", line)) == columns - 1
        assert not line.startswith("[")
    for rule in ("toprule", "midrule", "bottomrule"):
        assert body.count(f"\\{rule}") == 1


def test_odd_characters_are_escaped():
    assert escape("50 % & a_b #1 {x} $") == r"50 \% \& a\_b \#1 \{x\} \$"
    assert escape("86.8 ± 0.5") == r"86.8 $\pm$ 0.5"
    assert escape("-0.5 [-1.0, +0.2]") == "$-$0.5 [$-$1.0, +0.2]"
    assert escape("reddit-like, ZHTW-DE, k-1") == "reddit-like, ZHTW-DE, k-1"
    assert escape("\\") == r"\textbackslash{}"
    assert escape("雪") == "?"


def test_a_table_is_sound():
    text = to_latex(ODD)
    expect_sound(text)
    assert r"\label{tab:odd-one}" in text
    assert "p{55mm}" in text  # what is long is set in lines


def test_files_stand_beside_one_that_takes_them_all_in(tmp_path):
    whole = write_latex([ODD, TextTable("b", "b", ("x",), (("1",),))], tmp_path / "deep")
    text = whole.read_text()
    for name in re.findall(r"\\input\{(.*?)\}", text):
        expect_sound((whole.parent / name).read_text())
    assert text.count(r"\input") == 2
    assert "booktabs" in text


def test_markdown_has_the_same_cells():
    lines = to_markdown(ODD).splitlines()
    assert lines[0] == "### 50 % & more_of {it}"
    assert lines[2] == "| row | difference [95 %] | verdict |"
    assert lines[3] == "| --- | ---: | ---: |"
    assert lines[4] == "| [a] #1 ~ ^ \\ | -0.5 [-1.0, +0.2] | p < 0.05 \\| $ |"
    assert lines[-1] == ODD.notes[0]


@pytest.mark.parametrize("changes", [{"rows": (("1",),)}, {"kinds": ("a",)}, {"pictures": ("",)}])
def test_tables_whose_parts_do_not_fit_are_refused(changes):
    parts = {"rows": (("1", "2"), ("3", "4")), **changes}
    with pytest.raises(ValueError, match="odd"):
        TextTable("odd", "odd", ("a", "b"), **parts)
