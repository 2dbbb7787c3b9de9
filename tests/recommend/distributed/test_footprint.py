"""What the page on scale says is what the code does."""

import re
from pathlib import Path

import pytest
import torch
from pages.footprint import table_bytes, topology_bytes

from drgcn.recommend.clicks import ClickGraph
from drgcn.recommend.model.run_folder import load_run, save_run
from tests.recommend.model.clicks import data, graph

PAGE = (Path(__file__).parents[3] / "docs" / "recommend_inside.md").read_text()
PAGE = PAGE.partition("\n## Training past one process")[2].partition("\n## ")[0]


def tensors(clicks):
    found = [part for side in (clicks.by_user, clicks.by_item) for part in (side.rowptr, side.col)]
    return found if clicks.days is None else [*found, clicks.days]


@pytest.mark.parametrize("days", [None, 5])
def test_bytes_of_a_graph(days, tmp_path):
    clicks = graph(users=70, items=30, clicks=400, days=days)
    expected = topology_bytes(70, 30, clicks.num_clicks, days=days is not None)
    assert sum(part.nbytes for part in tensors(clicks)) == expected
    clicks.save(tmp_path)
    assert sum(part.nbytes for part in tensors(ClickGraph.load(tmp_path))) == expected
    small, large = (topology_bytes(2**31 - 1 + more, 5, 10) for more in (0, 1))
    assert large - small == 8 + 10 * 8


def test_bytes_of_a_trained_table():
    table = torch.nn.Parameter(torch.randn(50, 8))
    optimizer = torch.optim.Adam([table])
    table.sum().backward()
    optimizer.step()
    state = [part for part in optimizer.state[table].values() if part.numel() > 1]
    assert sum(part.nbytes for part in (table, table.grad, *state)) == table_bytes(50, 8)


def rows(columns):
    """The rows of numbers of the page's table with so many columns."""
    lines = re.findall(r"^\|((?: [\d,.]+ \|)+)$", PAGE, re.MULTILINE)
    cells = [[cell.strip().replace(",", "") for cell in line.split("|")[:-1]] for line in lines]
    return [row for row in cells if len(row) == columns]


def test_tables_of_the_page():
    assert len(rows(4)) == 4
    for *sizes, shown in rows(4):
        assert shown == f"{topology_bytes(*map(int, sizes)) / 1e9:.1f}"
    assert len(rows(3)) == 3
    for count, trained, sent in rows(3):
        assert trained == f"{table_bytes(int(count), 64) / 1e9:.1f}"
        assert sent == f"{table_bytes(int(count), 64) / 4e9:.2f}"


@pytest.mark.slow
def test_code_on_the_page_runs_alone(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(compile(code, "docs/recommend_inside.md", "exec"), names)
    config = {"clicks": data().save(tmp_path / "clicks"), "steps": 1, "checkpoint": tmp_path / "c"}
    model = names["train_rank"](config)
    save_run(tmp_path / "run", model, {}, torch.zeros(1), {})
    assert load_run(tmp_path / "run")[0].settings["gate"] == "dr"
