"""What ``astar`` promises, measured on what it draws."""

import math
from dataclasses import replace

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickGraph
from drgcn.recommend.synthetic import AstarParameters, checksum, generate_astar
from drgcn.recommend.synthetic.clicks import day_ends

# On every machine and device. A change here is a change of the data: say so on its page.
CHECKSUM = "5d908339802f4cc0"
FULL_CHECKSUM = "19ba6985c7c0b5f0"  # fraction 1, drawn on a CPU
FRACTION = 0.001


@pytest.fixture(scope="module")
def data():
    return generate_astar(FRACTION)


@pytest.fixture(scope="module")
def larger():
    return generate_astar(0.01, seed=1)


def pairs(graph):
    users = torch.arange(graph.num_users).repeat_interleave(graph.by_user.degree)
    return users, graph.by_user.col.long()


def tail_exponent(values, least):
    """The maximum likelihood estimate for a density of whole numbers from ``least`` on."""
    values = values[values >= least].double()
    return 1 + values.numel() / float((values / (least - 0.5)).log().sum())


def test_pinned_checksum(data):
    assert checksum(data) == CHECKSUM


@pytest.mark.parametrize("chunk", [777, 20_000, 10**9])
def test_chunks_change_nothing(chunk):
    assert checksum(generate_astar(FRACTION, chunk=chunk)) == CHECKSUM


def test_threads_change_nothing():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert checksum(generate_astar(FRACTION, chunk=5000)) == CHECKSUM
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("chunk", [None, 3000])
def test_cuda_draws_the_same_bits(chunk):
    there = generate_astar(FRACTION, device="cuda", chunk=chunk)
    assert there.graph.device.type == "cuda"
    assert checksum(there) == CHECKSUM
    assert checksum(there.to("cpu")) == CHECKSUM


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_draws_full_size_in_bounded_memory():
    torch.cuda.reset_peak_memory_stats()
    there = generate_astar(device="cuda")
    assert torch.cuda.max_memory_allocated() < 40e9
    assert there.graph.num_clicks == 129_834_116
    assert checksum(there) == FULL_CHECKSUM


def test_seeds_and_parameters_change_everything(data):
    assert checksum(generate_astar(FRACTION, seed=1)) != CHECKSUM
    other = generate_astar(FRACTION, parameters=AstarParameters(latent_weight=0))
    assert not torch.equal(other.graph.by_user.col, data.graph.by_user.col)
    assert torch.equal(other.graph.by_user.rowptr, data.graph.by_user.rowptr)


@pytest.mark.parametrize("fraction", [1e-4, 0.00037, FRACTION, 0.0042])
def test_sizes_are_exact(fraction):
    graph = generate_astar(fraction, seed=2).graph
    assert graph.num_users == round(35_246_808 * fraction)
    assert graph.num_items == round(6_338_428 * fraction)
    assert graph.num_clicks == round(129_834_116 * fraction) == int(graph.by_user.rowptr[-1])
    users, items = pairs(graph)
    key = users * graph.num_items + items
    assert bool((key.diff() > 0).all())  # every pair once, items of a user ascending
    assert int(items.min()) >= 0
    assert int(items.max()) < graph.num_items
    assert int(graph.by_user.degree.min()) == 1


def test_both_sides_of_the_graph_agree(data):
    graph = data.graph
    again = ClickGraph.from_pairs(*pairs(graph), graph.num_users, graph.num_items, graph.days)
    for side in ("by_user", "by_item"):
        assert torch.equal(getattr(again, side).rowptr, getattr(graph, side).rowptr)
        assert torch.equal(getattr(again, side).col, getattr(graph, side).col)
    assert torch.equal(again.days, graph.days)


def test_tails(larger):
    users, items = larger.graph.by_user.degree, larger.graph.by_item.degree
    # The laws are 2.5 and 2.4; users' is shifted and cut off, items' is mixed over topics.
    assert 2.3 < tail_exponent(users, 20) < 2.9
    assert 2.1 < tail_exponent(items, 100) < 2.7
    assert float((users == 1).double().mean()) > 0.4
    assert int(users.max()) > 100 * float(users.double().mean())
    assert int(items.max()) > 100 * float(items.double().mean())
    assert float((items == 0).double().mean()) < 0.01


def test_tails_are_parameters():
    exponents = [
        tail_exponent(
            generate_astar(0.003, parameters=AstarParameters(item_tail=tail)).graph.by_item.degree,
            80,
        )
        for tail in (2.25, 3.0)
    ]
    assert exponents[0] + 0.3 < exponents[1]
    lighter = generate_astar(0.003, parameters=AstarParameters(user_tail=4.0)).graph.by_user.degree
    usual = generate_astar(0.003).graph.by_user.degree
    assert tail_exponent(lighter, 30) > tail_exponent(usual, 30) + 0.7


def test_days_weigh_the_same(larger):
    counts = torch.bincount(larger.graph.days.long(), minlength=13).double()
    assert counts.numel() == 13
    even = larger.graph.num_clicks / 13
    # The arcs of a user are not independent draws, so the bound is wider than that of chi2.
    assert float((counts / even - 1).abs().max()) < 5 / math.sqrt(even)


def test_day_table():
    ends = day_ends(AstarParameters())
    assert len(ends) == 26
    assert ends[12] == 2**32
    assert ends[25] == 2**33
    assert ends[13:23] == [2**32] * 10  # no rising click before the last three days
    assert ends == sorted(ends)


def test_parameters_that_cannot_be():
    for change, words in [
        ({"user_tail": 2.0}, "user_tail and item_tail above 2"),
        ({"favourite_shares": (40, 20, 1)}, "63 together"),
        ({"latent_bits": 17}, "latent_bits from 1 to 16"),
        ({"rising_days": (0, 0, 1), "rising_share": 5}, "no day with more rising clicks"),
        ({"days": 17}, "1 to 16 days"),
        ({"items": 2**23}, "fewer than 2\\*\\*23 items"),
        ({"topic_signal": 1.5}, "topic_signal from 0 to 1"),
    ]:
        with pytest.raises(InputError, match=words):
            AstarParameters(**change)


def test_arguments_that_cannot_be():
    for arguments, words in [
        ({"fraction": 0}, "Expected a fraction"),
        ({"fraction": 1.5}, "Expected a fraction"),
        ({"fraction": float("nan")}, "Expected a fraction"),
        ({"fraction": 0.001, "seed": -1}, "Expected a seed"),
        ({"fraction": 0.001, "chunk": 0}, "Expected a chunk"),
        ({"fraction": 1, "parameters": AstarParameters(50, 60, 70)}, "at least 64 items"),
    ]:
        with pytest.raises(InputError, match=words):
            generate_astar(**arguments)


def test_checksum_sees_values_and_order(data):
    def with_rows(change):
        numeric = data.users.numeric.clone()
        change(numeric)
        return checksum(replace(data, users=replace(data.users, numeric=numeric)))

    def swap(numeric):
        numeric[[5, 6]] = numeric[[6, 5]]

    def nudge(numeric):
        numeric[7, 0] += 1e-4

    assert with_rows(lambda numeric: None) == CHECKSUM
    assert len({CHECKSUM, with_rows(swap), with_rows(nudge)}) == 3
    assert checksum(replace(data, items=None)) != CHECKSUM
