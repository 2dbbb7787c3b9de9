"""One rank with a batch of B and two ranks with B/2 each take the same steps."""

import socket

import pytest
import torch
from torch.multiprocessing.spawn import start_processes

from tests import children  # noqa: F401 - what is forked has imported torch already
from tests.recommend.model.clicks import data

from .ranks import CASES, Alone, rank_main, run

WRONG = {
    "dr with means of its own": ("dr", "OwnMeans"),
    "no gradient through gathered items": ("none", "NoWayBack"),
}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What came out on each of two ranks over gloo, in double precision."""
    folder = tmp_path_factory.mktemp("ranks")
    jobs = {case: (case, "Together") for case in CASES} | WRONG
    arguments = (2, free_port(), folder, jobs)
    start_processes(rank_main, arguments, nprocs=2, start_method="forkserver")
    return [torch.load(folder / f"rank-{rank}.pt") for rank in range(2)]


@pytest.fixture
def in_double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_take_the_steps_of_one(case, two_ranks, in_double):
    alone = run(case, Alone())
    first, second = (found[case] for found in two_ranks)
    for name in ("losses", "gradients", "weights"):
        assert torch.equal(first[name], second[name]), name
    scale = alone["gradients"].abs().max()
    error = (first["gradients"] - alone["gradients"]).abs().max() / scale
    assert error < 1e-12
    torch.testing.assert_close(first["losses"], alone["losses"], rtol=1e-6, atol=0)  # float32
    # Adam divides by the size of a gradient, which blows up the rounding of the smallest ones.
    torch.testing.assert_close(first["weights"], alone["weights"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_exchanged_is_missed(name, two_ranks, in_double):
    alone = run(WRONG[name][0], Alone())
    found = two_ranks[0][name]["gradients"]
    error = (found - alone["gradients"]).abs().max() / alone["gradients"].abs().max()
    assert error > 1e-4


def test_ranks_map_the_same_clicks(two_ranks, in_double):  # the data are drawn in it
    clicks = data(days=3).graph
    seen, held_back = clicks.until(2).num_clicks, clicks.on(2).num_clicks
    for found in two_ranks:
        assert found["mapped"] == [seen, held_back, seen, True]


def test_ranks_that_see_different_things_are_refused(two_ranks):
    for found in two_ranks:
        weights, clicks = found["refusals"]
        assert "Expected the same weights" in weights
        assert "rank 1" in weights
        assert clicks == "Expected clicks before day 0."
