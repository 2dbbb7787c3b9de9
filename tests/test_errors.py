"""Advice in errors has to be right for somebody who has a copy of the source code."""

import re
import tomllib
import warnings
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import drgcn
from drgcn.errors import DrgcnWarning, InputError, MissingDataError, how_to_install

SOURCE = Path(drgcn.__file__).parent
PROJECT = SOURCE.parents[1] / "pyproject.toml"


def test_extras_are_installed_from_a_copy_and_exist():
    if not PROJECT.is_file():
        pytest.skip("drgcn is not run from its source code")
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    by_name = [path for path, text in texts.items() if re.search(r"drgcn\[\w", text)]
    assert by_name == []  # no index of packages knows drgcn
    called = [
        n for text in texts.values() for n in re.findall(r"how_to_install\(['\"](.+?)['\"]", text)
    ]
    assert set(called) == set(extras) - {"docs"}  # which no code of the package needs


def test_the_advice_is_a_command():
    assert how_to_install("serve").endswith("run: pip install '.[serve]'")


@pytest.mark.parametrize("kind", [InputError, MissingDataError])
@pytest.mark.parametrize(
    "words",
    ["one\ntwo", "a\r\nb", "x" * 9000, "\n" * 9000, "\x1b[31m" * 900, "\udcff\u2028\x00 two"],
)
def test_every_message_is_one_line_that_a_terminal_can_show(kind, words):
    told = str(kind(words))
    assert len(told.splitlines()) <= 1
    assert len(told) < 1600
    assert told.isprintable()
    assert told.encode()


def test_plain_words_stay_as_they_are():
    words = "Expected a  folder; found \u00e9t\u00e9/\u6f22 in 'a  b'."
    assert str(InputError(words)) == words


def one_way():
    """A graph whose edges are listed in one direction alone, of which `fit` warns."""
    mask = torch.arange(6) % 3
    return Data(
        x=torch.eye(6),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]),
        y=torch.tensor([0, 1, 0, 1, 0, 1]),
        train_mask=mask == 0,
        val_mask=mask == 1,
        test_mask=mask == 2,
    )


def gcn():
    return GCN(6, 4, num_layers=2, out_channels=2)


def own_table(folder):
    (folder / "nodes.csv").write_text("id,a,label\n1,0.5,x\n2,0.25,y\n3,1,x\n")
    (folder / "edges.csv").write_text("source,target,since\n1,2,7\n2,3,8\n")
    return folder


DOORS = {
    "fit": lambda folder: drgcn.fit(gcn, one_way(), seeds=[0], epochs=1),
    "compare": lambda folder: drgcn.compare(gcn, one_way(), seeds=range(2), epochs=1),
    "load": lambda folder: drgcn.load(own_table(folder)),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_warning_points_at_the_line_of_the_caller(door, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DOORS[door](tmp_path)
    own = [one for one in caught if issubclass(one.category, DrgcnWarning)]
    line = DOORS[door].__code__.co_firstlineno
    assert {(one.filename, one.lineno) for one in own} == {(__file__, line)}
