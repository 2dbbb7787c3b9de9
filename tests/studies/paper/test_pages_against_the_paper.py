"""The pages against the paper: counts always, every number where its source is at hand.

``DRGCN_PAPER=path/to/drgcn.tex pytest tests/studies/paper`` compares number by number.
"""

import os
from pathlib import Path

import pytest

from drgcn.studies.paper.page import NAMES, paper_tables
from drgcn.studies.paper.table import PrintedNumber

from .latex_tables import NUMBER, latex_tables

TABLES = paper_tables()

# Counted in the paper, table by table: rows times columns, less the dashes.
COUNTS = {
    **{"datasets": 7 * 6 - 1, "main": 10 * 4 - 5, "ppi": 5, "recommendation": 2, "k": 5 * 6},
    **{"reddit-norms": 2 * 5, "leaks-cora": 3 * 8, "leaks-cora-others": 2 * 7},
    **{"leaks-citeseer": 3 * 7, "leaks-citeseer-others": 2 * 6, "datasets-citation": 8 * 3},
    **{"full": 8 * 2, "semi": 17 * 3 - 3, "norms": 4 * 3, "pre-activation": 4 * 3},
    **{"inductive": 0, "ppi-rebuilt": 0, "reddit-like": 0, "quoted": 0},
}


@pytest.fixture(scope="module")
def source():
    path = Path(os.environ.get("DRGCN_PAPER", "no-paper"))
    if not path.is_file():
        pytest.skip("DRGCN_PAPER is not set to the paper's source")
    return latex_tables(path)


def test_every_numeric_cell_of_the_paper_is_there():
    assert {name: len(table.printed) for name, table in TABLES.items()} == COUNTS
    assert sum(COUNTS.values()) == 306


def test_pages_and_names_are_the_same(request):
    folder = request.config.rootpath / "src/drgcn/studies/paper/tables"
    assert {path.stem for path in folder.iterdir()} == set(NAMES)
    assert [table.number for table in TABLES.values()] == [*range(1, 16), *[None] * 4]


def test_tables_stand_in_the_order_of_the_paper(source):
    assert [table.label for table in TABLES.values() if table.number] == list(source)


@pytest.mark.parametrize("name", [name for name, count in COUNTS.items() if count])
def test_every_number_is_that_of_the_source(source, name):
    table = TABLES[name]
    rows = dict(source[table.label])
    assert list(table.columns) == rows.pop("")
    assert list(table.rows) == list(rows)
    for row, cells in rows.items():
        for column, text in zip(table.columns, cells, strict=True):
            printed = table.cell(row, column).printed
            assert NUMBER.fullmatch(text) or text in ("-", "--")
            assert (printed is None) == (text in ("-", "--"))
            if printed is not None:
                plain = text.replace(" ", "").replace("%", "")
                assert printed.text.replace(" ", "").replace("%", "") == plain
                mean, _, std = plain.replace(",", "").partition("±")
                assert (printed.mean, printed.std) == (float(mean), float(std) if std else None)


@pytest.mark.parametrize(
    ("text", "mean", "std", "shown", "decimals"),
    [
        ("86.8 ± 0.5", 86.8, 0.5, "86.8 ± 0.5", 1),
        (" 86.8±0.5 ", 86.8, 0.5, "86.8 ± 0.5", 1),
        ("129,834,116", 129_834_116, None, "129,834,116", 0),
        ("-0.16", -0.16, None, "-0.16", 2),
        ("50.7%", 50.7, None, "50.7 %", 1),
        ("84.30", 84.3, None, "84.30", 2),
    ],
)
def test_a_printed_number_keeps_its_form(text, mean, std, shown, decimals):
    found = PrintedNumber.read(text)
    assert (found.mean, found.std, str(found), found.decimals) == (mean, std, shown, decimals)


def test_the_source_is_read_without_the_pages(tmp_path):
    """The reader of LaTeX on a table of the paper's habits, numbers made up."""
    path = tmp_path / "paper.tex"
    path.write_text(
        r"""
\begin{table*}
  \newcommand{\tabincell}[2]{\begin{tabular}{@{}#1@{}}#2\end{tabular}}
  \caption{Nothing (\%).} \label{tab:some}
  \begin{tabular}{@{\;}c|@{\;}cc}
    \toprule
    Category & Method & \tabincell{c}{Case \\Based} & A* \\
    \cmidrule{1-4}
    \multirow{2}*{\makecell{\small Both\\ kinds}} & GCN~\citep{one} & 1.0$\pm$ 0.5 & - \\
    & Dr-GCN & \textbf{2.5$\pm $0.1} & 3,100 \\ % 4.0
    \bottomrule
  \end{tabular}
\end{table*}
"""
    )
    assert latex_tables(path) == {
        "tab:some": {"": ["Case Based", "A*"], "GCN": ["1.0± 0.5", "-"]}
        | {"Dr-GCN": ["2.5±0.1", "3,100"]}
    }
