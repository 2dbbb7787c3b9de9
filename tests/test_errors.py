"""Advice in errors has to be right for somebody who has a copy of the source code."""

import re
import tomllib
from pathlib import Path

import pytest

import drgcn
from drgcn.errors import InputError, MissingDataError, how_to_install

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
