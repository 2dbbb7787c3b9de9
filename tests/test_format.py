"""Counts with their nouns, and durations."""

import pytest

from drgcn._format import duration, plural


def test_counts_have_their_nouns():
    assert [plural(n, "job") for n in (0, 1, 1200)] == ["0 jobs", "1 job", "1,200 jobs"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (4.4, "4.4 s"),
        (41.4, "41 s"),
        (59.7, "1 min 0 s"),
        (725, "12 min 5 s"),
        (5399, "1 h 29 min"),
    ],
)
def test_durations_are_words(seconds, words):
    assert duration(seconds) == words
