import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.model.sampling import KeyedPermutation


def permuted(size, key=7, epoch=0, places=None):
    places = torch.arange(size) if places is None else places
    return KeyedPermutation(size)(places, torch.tensor(key), torch.full_like(places, epoch))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 97, 100, 101, 4096, 10_007])
def test_every_place_is_taken_once(size):
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
