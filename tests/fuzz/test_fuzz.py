"""Files that once did harm, and a short run of the generators; `make fuzz` is the long one."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drgcn.data import load
from drgcn.data.readers import read_pickle
from drgcn.errors import InputError

from .corpus import PICKLES, READ, REFUSED, REFUSED_ELSEWHERE
from .generators import small_world
from .outcome import check_graph, outcome_of
from .targets import TARGETS


@pytest.fixture(autouse=True, scope="module")
def _small_world() -> Iterator[None]:
    with small_world():
        yield


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_did_harm_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    path = REFUSED[name](tmp_path)
    found = outcome_of(lambda: load(path), check_graph)
    assert found.kind == "refused", found.words


@pytest.mark.parametrize("name", REFUSED_ELSEWHERE)
def test_other_files_that_did_harm_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    write, read = REFUSED_ELSEWHERE[name]
    path = write(tmp_path)
    found = outcome_of(lambda: read(path), lambda found: None)
    assert found.kind == "refused", found.words


@pytest.mark.parametrize("name", READ)
def test_odd_files_that_do_no_harm_are_read(tmp_path: Path, name: str) -> None:
    path = READ[name](tmp_path)
    found = outcome_of(lambda: load(path), check_graph)
    assert found.kind == "accepted", found.words


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_that_did_harm_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(PICKLES[name])
    with pytest.raises(InputError):
        read_pickle(path)


_SHORT = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", TARGETS)
@_SHORT
@given(draw=st.randoms(use_true_random=False))
def test_any_input_is_read_soundly_or_refused(name: str, draw: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = TARGETS[name].outcome(Path(folder), draw)
    assert not found.defect, found.words
