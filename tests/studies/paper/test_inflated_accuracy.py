from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pages.asgcn_quirks import inflated_accuracy, inflation

from drgcn.errors import InputError


def _as_the_script_does(correct: list[bool], chunk: int) -> float:
    """A slow transcription: every chunk's mean counts as a whole chunk."""
    total = 0.0
    start = 0
    while start < len(correct):
        part = correct[start : start + chunk]
        total += sum(part) / len(part) * chunk
        start += chunk
    return total / len(correct)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 20))
def test_it_is_what_the_script_computes(correct: list[bool], chunk: int) -> None:
    expected = _as_the_script_does(correct, chunk)
    assert inflated_accuracy(correct, chunk=chunk) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("nodes", "chunks"), [(55_334, 28), (23_699, 12)])
def test_constant_accuracy_is_inflated_by_a_factor(nodes: int, chunks: int) -> None:
    factor = chunks * 2048 / nodes
    assert inflation(nodes) == factor
    # All nodes right, and every second node right: each chunk has an even number of nodes.
    assert inflated_accuracy(np.ones(nodes, dtype=bool)) == pytest.approx(factor, rel=1e-12)
    half = np.arange(nodes - nodes % 2) % 2 == 0
    assert inflated_accuracy(half) == pytest.approx(0.5 * inflation(len(half)), rel=1e-12)


def test_reddits_factors_are_those_of_the_arithmetic() -> None:
    assert round(inflation(55_334), 4) == 1.0363
    assert round(inflation(23_699), 4) == 1.037
    # From this accuracy on, the script prints more than 100 %.
    assert 1 / inflation(55_334) == pytest.approx(0.965, abs=5e-4)


def test_full_chunks_are_not_inflated() -> None:
    correct = np.random.default_rng(0).random(3 * 2048) < 0.7
    assert inflated_accuracy(correct) == pytest.approx(correct.mean(), rel=1e-12)
    assert inflation(3 * 2048) == 1


def test_the_last_nodes_weigh_most() -> None:
    first, last = np.zeros(55_334, dtype=bool), np.zeros(55_334, dtype=bool)
    first[0] = last[-1] = True
    ratio = inflated_accuracy(last) / inflated_accuracy(first)
    assert ratio == pytest.approx(2048 / 38, rel=1e-12)


def test_tensors_and_counts_of_one_are_read() -> None:
    assert inflated_accuracy(torch.tensor([True, False, True]), chunk=2) == 1.0
    assert inflated_accuracy([1, 0, 1], chunk=2) == 1.0


@pytest.mark.parametrize("correct", [[], [[True]], [0.5], 1, ["yes"]])
def test_what_is_no_list_of_booleans_is_refused(correct: Any) -> None:
    with pytest.raises(InputError, match="Expected true or false"):
        inflated_accuracy(correct)


@pytest.mark.parametrize("chunk", [0, -1])
def test_chunks_need_a_size(chunk: int) -> None:
    for call in (
        lambda: inflated_accuracy([True], chunk=chunk),
        lambda: inflation(3, chunk=chunk),
    ):
        with pytest.raises(InputError, match="per chunk"):
            call()
    with pytest.raises(InputError, match="at least one node; found 0"):
        inflation(0)
