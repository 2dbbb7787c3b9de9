import numpy as np
import pytest

from drgcn.errors import InputError
from drgcn.recommend.synthetic.random import (
    CELLS,
    FIXED,
    clicks_of_users,
    portable_power,
    rank_table,
    share_out,
)


@pytest.mark.parametrize("exponent", [0.0, 0.5, -1.5, 3.5, 2.25, -0.6, 7.03125])
def test_power(exponent):
    x = np.array([1e-6, 0.3, 1.0, 2.0, 55.5])
    rounded = round(exponent * 4096) / 4096
    np.testing.assert_allclose(portable_power(x, exponent), x**rounded, rtol=1e-14)


@pytest.mark.parametrize(
    ("users", "clicks", "most"),
    [(352, 1298, 4), (35_247, 129_834, 396), (5, 5, 9), (5, 45, 9), (1000, 1500, 7)],
)
def test_counts_add_up_and_descend(users, clicks, most):
    at_least = clicks_of_users(users, clicks, 2.5, most)
    assert at_least.sum() == clicks
    assert at_least[0] == users
    assert len(at_least) == most
    assert (np.diff(at_least) <= 0).all()
    assert (at_least >= 0).all()


def test_counts_at_full_size():
    at_least = clicks_of_users(35_246_808, 129_834_116, 2.5, 10_000)
    assert at_least.sum() == 129_834_116
    assert (np.diff(at_least) <= 0).all()
    # Far out, ten times as many clicks are 10 ** 1.5 times as rare.
    assert at_least[199] / at_least[1999] == pytest.approx(10**1.5, rel=0.05)


def test_impossible_counts_are_refused():
    with pytest.raises(InputError, match="Expected 10 to 30 clicks"):
        clicks_of_users(10, 31, 2.5, 3)


def test_share_out():
    assert share_out(np.array([2.25, 1.5, 0.75]), 5).tolist() == [2, 2, 1]
    assert share_out(np.array([2.25, 1.5, 0.75]), 9).sum() == 9
    assert share_out(np.array([2.25, 1.5, 0.75]), 1).tolist() == [1, 0, 0]


def test_ranks_follow_the_law():
    """Shares of the first places in a topic are those of ``rank ** -a`` up to its integral."""
    knots = rank_table(2.4)
    assert len(knots) == CELLS + 1
    assert knots[0] == 0
    assert knots[-1] == FIXED
    assert (np.diff(knots) >= 0).all()
    u = np.arange(CELLS + 1) / CELLS
    np.testing.assert_allclose(knots / FIXED, u**3.5, atol=2**-31)
