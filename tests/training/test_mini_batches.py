import numpy as np
import pytest
import torch
from scipy import stats

from drgcn.streams import stream_key
from drgcn.training.task import MiniBatches


def keys(*seeds):
    return torch.tensor([stream_key(seed, "batches") for seed in seeds])


def order(batches, seeds=(0, 1, 2), epoch=1):
    return batches.order(keys(*seeds), torch.tensor(epoch))


@pytest.mark.parametrize(
    ("nodes", "size", "steps", "used"),
    [(20, 5, 4, 5), (23, 5, 4, 5), (4, 5, 1, 4), (5, 5, 1, 5), (9, 5, 1, 5), (1, 256, 1, 1)],
)
def test_steps_and_sizes(nodes, size, steps, used):
    """What is left over has no turn; fewer nodes than a batch are one."""
    batches = MiniBatches(nodes, size)
    assert batches.steps == steps
    found = order(batches)
    assert found.shape == (steps, 3, used)
    for lane in range(3):
        places = found[:, lane].flatten().tolist()
        assert len(set(places)) == len(places)  # no node twice in an epoch
        assert set(places) <= set(range(nodes))


def test_an_epoch_without_leftovers_is_a_permutation():
    found = order(MiniBatches(24, 6))
    for lane in range(3):
        assert sorted(found[:, lane].flatten().tolist()) == list(range(24))


def test_seeds_and_epochs_differ():
    batches = MiniBatches(40, 10)
    orders = [order(batches, (seed,), epoch) for seed in range(4) for epoch in (1, 2, 3)]
    assert len({tuple(o.flatten().tolist()) for o in orders}) == 12


def test_an_order_depends_on_seed_and_epoch_alone():
    batches = MiniBatches(40, 10)
    among = order(batches, (5, 3, 9), 7)
    torch.manual_seed(4)
    assert torch.equal(among[:, 1:2], order(batches, (3,), 7))


def test_every_node_comes_as_often_at_every_place():
    """Ten nodes in batches of three: all have the same chance of each place, and of none."""
    batches, epochs = MiniBatches(10, 3), 3000
    counts = np.zeros((10, 9))
    for epoch in range(1, epochs + 1):
        places = order(batches, (0,), epoch).flatten().numpy()
        counts[places, np.arange(9)] += 1
    for place in range(9):
        assert stats.chisquare(counts[:, place]).pvalue > 1e-5
    left_out = epochs - counts.sum(1)
    assert stats.chisquare(left_out).pvalue > 1e-5


def test_orders_of_neighbouring_epochs_are_unrelated():
    batches = MiniBatches(500, 500)
    first, second = (order(batches, (0,), epoch).flatten().argsort() for epoch in (1, 2))
    correlation = np.corrcoef(first.numpy(), second.numpy())[0, 1]
    assert abs(correlation) < 0.2
