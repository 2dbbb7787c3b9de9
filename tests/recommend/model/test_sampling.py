import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.model.sampling import KeyedPermutation, check_drawable, draw_systematic
from drgcn.sampling import CSRGraph

from .clicks import graph


def row_of(degree):
    """A graph of one row with so many entries, and an empty one."""
    return CSRGraph(torch.tensor([0, degree, degree]), torch.arange(degree).int(), degree)


@pytest.mark.parametrize(("degree", "count"), [(1, 5), (3, 10), (7, 5), (100, 8)])
def test_every_entry_is_drawn_equally_often_on_average(degree, count):
    rows = torch.zeros(40_000, dtype=torch.int64)
    drawn = draw_systematic(row_of(degree), rows, count, torch.tensor(11))
    counts = torch.zeros(len(rows), degree).scatter_add_(
        1, drawn, torch.ones(drawn.shape, dtype=torch.float32)
    )
    expected = count / degree
    # Never further away than one draw: that is what systematic means.
    assert (counts - expected).abs().max() < 1
    error = counts.mean(0) - expected
    assert error.abs().max() < 5 * max(float(counts.std(0).max()), 1e-9) / 200 + 1e-6


def test_draws_of_long_rows_are_distinct():
    drawn = draw_systematic(row_of(50), torch.zeros(1000, dtype=torch.int64), 50, torch.tensor(3))
    assert torch.equal(drawn.sort(1).values, torch.arange(50).expand(1000, 50))


def test_nobody_and_rows_without_entries_draw_nobody():
    rows = torch.tensor([[0, 1, 2]])  # a row, an empty row, nobody
    drawn = draw_systematic(row_of(4), rows, 3, torch.tensor(0))
    assert drawn.shape == (1, 3, 3)
    assert (drawn[0, 0] < 4).all()
    assert (drawn[0, 1:] == 4).all()
    empty = CSRGraph(torch.tensor([0, 0]), torch.empty(0, dtype=torch.int32), 6)
    assert (
        draw_systematic(empty, torch.zeros(2, dtype=torch.int64), 2, torch.tensor(0)) == 6
    ).all()


def test_draws_are_those_of_the_formula_in_big_integers():
    from drgcn.streams import mix

    clicks = graph().by_item
    rows = torch.arange(clicks.num_rows)
    drawn = draw_systematic(clicks, rows, 7, torch.tensor(-123456789), first=10)
    for row in range(clicks.num_rows):
        begin, end = int(clicks.rowptr[row]), int(clicks.rowptr[row + 1])
        chance = int(mix(torch.tensor(-123456789 + 10 + row))) % 2**64 >> 32
        for k in range(7):
            place = (k * 2**32 + chance) * (end - begin) // (7 * 2**32)
            expected = int(clicks.col[begin + place]) if end > begin else clicks.num_cols
            assert int(drawn[row, k]) == expected


def test_a_part_of_the_rows_draws_what_it_drew_among_all():
    clicks = graph().by_user
    rows = torch.arange(30)
    whole = draw_systematic(clicks, rows, 4, torch.tensor(5))
    parts = [draw_systematic(clicks, rows[b : b + 10], 4, torch.tensor(5), b) for b in (0, 10, 20)]
    assert torch.equal(torch.cat(parts), whole)


def test_bad_counts_and_too_long_rows_are_refused():
    with pytest.raises(InputError, match="at least one"):
        draw_systematic(row_of(3), torch.tensor([0]), 0, torch.tensor(0))
    with pytest.raises(InputError, match="below 2\\*\\*30"):
        check_drawable(row_of(1 << 16), 1 << 14)


def permuted(size, key=7, epoch=0, places=None):
    places = torch.arange(size) if places is None else places
    return KeyedPermutation(size)(places, torch.tensor(key), torch.full_like(places, epoch))


def test_every_place_is_taken_once():
    for size in [1, 2, 3, 100, 4096, 10_007]:
        for key in range(3):
            assert torch.equal(permuted(size, key).sort().values, torch.arange(size))


def test_a_place_needs_no_other():
    whole = permuted(1000)
    some = torch.tensor([5, 17, 999, 0])
    assert torch.equal(permuted(1000, places=some), whole[some])


def test_keys_and_epochs_give_other_permutations():
    first = permuted(1000)
    for other in (permuted(1000, key=8), permuted(1000, epoch=1)):
        assert (first == other).float().mean() < 0.02


def test_large_sizes_stay_inside_and_apart():
    size = 129_834_116
    places = torch.randint(size, (20_000,)).unique()
    found = permuted(size, places=places)
    assert 0 <= int(found.min()) <= int(found.max()) < size
    assert found.unique().numel() == places.numel()


def test_places_land_uniformly_whatever_the_key():
    """Chi-squared of where one place goes over many keys, and of pairs of neighbours."""
    size, keys = 12, 24_000
    permutation = KeyedPermutation(size)
    landed = permutation(torch.full((keys,), 3), torch.tensor(1), torch.arange(keys))
    beside = permutation(torch.full((keys,), 4), torch.tensor(1), torch.arange(keys))
    counts = torch.bincount(landed, minlength=size).double()
    assert float(((counts - keys / size) ** 2 / (keys / size)).sum()) < 31  # 11 degrees, p = 0.001
    pairs = torch.bincount(landed * size + beside, minlength=size * size).double()
    expected = torch.full((size, size), keys / (size * (size - 1)), dtype=torch.float64)
    off = ~torch.eye(size, dtype=torch.bool)
    chi = (((pairs.view(size, size) - expected) ** 2) / expected)[off].sum()
    assert float(chi) < 185  # 131 degrees, p = 0.001


def test_nothing_cannot_be_permuted():
    with pytest.raises(InputError, match="at least one"):
        KeyedPermutation(0)


def test_clicks_are_drawn_as_often_as_they_weigh():
    """In every epoch never a whole draw off; with equal weights each click once, as without."""
    from drgcn.recommend.model.sampling import Positives, item_shares

    clicks = graph(clicks=300)
    count = clicks.num_clicks
    weights = torch.rand(count, generator=torch.Generator().manual_seed(1)) ** 3
    keys = clicks.pairs()

    def drawn(epoch, weights):
        positives = Positives(clicks, count, seed=5, weights=weights)
        users, items = positives.window(epoch, 1)
        place = torch.searchsorted(keys, users[0] * clicks.num_items + items[0])
        assert torch.equal(keys[place], users[0] * clicks.num_items + items[0])
        return torch.bincount(place, minlength=count)

    expected = count * weights.double() / weights.double().sum()
    epochs = torch.stack([drawn(epoch, weights) for epoch in range(200)]).double()
    assert (epochs - expected).abs().max() < 1
    assert (epochs.mean(0) - expected).abs().max() < 5 * 0.5 / 200**0.5
    assert (drawn(3, torch.ones(count)) == 1).all()
    share = item_shares(clicks, weights)
    items = clicks.by_user.col.long()
    whole = torch.zeros(clicks.num_items, dtype=torch.float64).index_add(
        0, items, expected / count
    )
    torch.testing.assert_close(share, whole)
    torch.testing.assert_close(item_shares(clicks, torch.ones(count)), item_shares(clicks))
