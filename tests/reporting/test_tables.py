"""Tables in Markdown, LaTeX, HTML and a terminal. There is no TeX here: LaTeX is searched for
what would stop it."""

import re

import pytest
from rich.console import Console

from drgcn.reporting.tables import Table, escape_latex, without_tags, write_latex

ODD = Table(
    name="Odd one",
    title="50 % & more_of {it}",
    heads=("row", "difference [95 %]", "verdict"),
    rows=(("[a] #1 ~ ^ \\", "-0.5 [-1.0, +0.2]", "p < 0.05 | $"), ("A*", "86.8 ± 0.5", "x" * 50)),
    left=1,
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
    assert escape_latex("50 % & a_b #1 {x} $") == r"50 \% \& a\_b \#1 \{x\} \$"
    assert escape_latex("86.8 ± 0.5") == r"86.8 $\pm$ 0.5"
    assert escape_latex("-0.5 [-1.0, +0.2]") == "$-$0.5 [$-$1.0, +0.2]"
    assert escape_latex("reddit-like, ZHTW-DE, k-1") == "reddit-like, ZHTW-DE, k-1"
    assert escape_latex("\\") == r"\textbackslash{}"
    assert escape_latex("雪") == "?"


def test_a_table_is_sound():
    text = ODD.latex()
    expect_sound(text)
    assert r"\label{tab:odd-one}" in text
    assert "p{55mm}" in text  # what is long is set in lines


def test_files_stand_beside_one_that_takes_them_all_in(tmp_path):
    whole = write_latex([ODD, Table(("x",), (("1",),), "b", "b")], tmp_path / "deep")
    text = whole.read_text()
    for name in re.findall(r"\\input\{(.*?)\}", text):
        expect_sound((whole.parent / name).read_text())
    assert text.count(r"\input") == 2
    assert "booktabs" in text


def test_markdown_has_the_same_cells():
    lines = ODD.markdown_section().splitlines()
    assert lines[0] == "### 50 % & more_of {it}"
    assert lines[2] == "| row | difference [95 %] | verdict |"
    assert lines[3] == "| --- | ---: | ---: |"
    assert lines[4] == "| [a] #1 ~ ^ \\ | -0.5 [-1.0, +0.2] | p < 0.05 \\| $ |"
    assert lines[-1] == ODD.notes[0]


@pytest.mark.parametrize("changes", [{"rows": (("1",),)}, {"kinds": ("a",)}, {"pictures": ("",)}])
def test_tables_whose_parts_do_not_fit_are_refused(changes):
    parts = {"rows": (("1", "2"), ("3", "4")), **changes}
    with pytest.raises(ValueError, match="odd"):
        Table(("a", "b"), name="odd", **parts)


def test_markdown_keeps_the_spaces_of_a_page():
    table = Table(("a", "b"), [("1|2", "3\n4")], left=1)
    assert table.markdown("cells") == "| a | b |\n|---|---:|\n| 1\\|2 | 3 4 |"
    assert table.markdown("none") == "|a|b|\n|---|---:|\n|1\\|2|3 4|"
    assert Table(("a",), [("1",)]).markdown() == "| a |\n| --- |\n| 1 |"


def test_a_page_shows_cells_as_they_are_and_pictures_before_the_last():
    table = Table(("a", "b"), [("<i>", "2"), ("x" * 30, "4")], left=1, title='"t"')
    lines = table.html().splitlines()
    assert lines[0].endswith('aria-label="&quot;t&quot;"><table>')
    heads = '<th class="word" scope="col">a</th><th scope="col">b</th>'
    assert lines[1] == f"<thead><tr>{heads}</tr></thead>"
    assert lines[3] == '<tr><th class="word" scope="row">&lt;i&gt;</th><td>2</td></tr>'
    assert '<th class="long" scope="row">xxx' in lines[4]
    drawn = Table(("a", "b"), [("1", "2")], left=1, kinds=["above"], pictures=["<svg/>"]).html()
    assert '<th scope="col">drawn</th><th class="word" scope="col">b</th>' in drawn
    assert '<th class="word" scope="row">1</th><td><svg/></td><td class="word">2' in drawn
    assert "<th" not in Table((), [("1", "2")], left=0).html()


def printed(table):
    console = Console(width=40, color_system=None)
    with console.capture() as found:
        console.print(table)
    return found.get()


def test_a_terminal_shows_cells_as_they_are_or_in_markup():
    table = Table(("a", "b"), [("[dim]x[/dim]", "2")], left=1)
    assert "│ [dim]x[/dim] │ 2 │" in printed(table.rich())
    assert "│ x │ 2 │" in printed(table.rich(markup=True))
    assert "┃" not in printed(Table((), [("x", "2")]).rich())


def test_rows_become_columns():
    found = Table(("gate", "none", "dr"), [("recall", "1", "2"), ("ndcg", "3", "4")]).transposed()
    assert found.heads == ("gate", "recall", "ndcg")
    assert list(found.rows) == [("none", "1", "3"), ("dr", "2", "4")]


def test_markdown_passes_no_tags_and_keeps_signs():
    assert without_tags("p < 0.05, <0.1, <script>x</script><!--") == (
        "p < 0.05, <0.1, &lt;script>x&lt;/script>&lt;!--"
    )
