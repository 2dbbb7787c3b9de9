import torch

from drgcn.recommend.retrieval.ranking import is_listed


def test_equals_a_look_at_all_pairs_of_places():
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        wanted, found = (
            torch.stack([torch.randperm(30, generator=generator)[:n] for _ in range(8)])
            for n in (12, 9 + seed % 5)
        )
        wanted[:3, 8:] = -1
        found[1:5, 6:] = -1
        expected = (wanted[:, :, None] == found[:, None, :]).any(dim=2) & (wanted >= 0)
        assert expected.any()
        assert torch.equal(is_listed(wanted, found), expected)
    assert not is_listed(wanted, found[:, :0]).any()


def test_lists_of_all_items_need_no_table_of_pairs():
    """A table of pairs of places would take 2 TB here."""
    everything = torch.arange(10**6).expand(2, -1)
    assert bool(is_listed(everything, everything.flip(1)).all())
