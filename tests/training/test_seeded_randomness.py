import torch
import torch.nn.functional as F

from drgcn.training.seeded_randomness import SeededRandomness


def dropped(p: float, key: int = 1, size: int = 1 << 16) -> torch.Tensor:
    with SeededRandomness(torch.tensor(key)):
        return F.dropout(torch.ones(size), p)


def test_the_share_dropped_is_the_rate_and_the_mean_is_kept():
    for p in (0.1, 0.35, 0.5, 0.6, 0.9):
        out = dropped(p)
        share = float((out == 0).float().mean())
        assert abs(share - p) < 4 * (p * (1 - p) / out.numel()) ** 0.5
        assert abs(float(out.mean()) - 1) < 0.05


def test_survivors_are_scaled_by_the_keep_rate():
    out = dropped(0.35)
    torch.testing.assert_close(
        out[out > 0], torch.full_like(out[out > 0], 1 / 0.65), rtol=1e-4, atol=0
    )


def test_the_same_key_gives_the_same_mask_and_another_key_another():
    assert torch.equal(dropped(0.5), dropped(0.5))
    assert not torch.equal(dropped(0.5), dropped(0.5, key=2))


def test_two_dropouts_in_one_pass_have_different_masks():
    with SeededRandomness(torch.tensor(1)):
        first, second = F.dropout(torch.ones(1000)), F.dropout(torch.ones(1000))
    assert not torch.equal(first, second)


def test_modules_and_pyg_layers_are_covered():
    from torch_geometric.nn import GATConv

    conv = GATConv(4, 8, dropout=0.5)
    x, edges = torch.rand(6, 4), torch.randint(0, 6, (2, 20))

    def run() -> torch.Tensor:
        with SeededRandomness(torch.tensor(7)):
            return torch.nn.Dropout(0.5)(conv(x, edges))

    torch.manual_seed(0)
    first = run()
    torch.manual_seed(1)
    assert torch.equal(first, run())


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    x = torch.ones(10)
    with SeededRandomness(torch.tensor(1)):
        assert F.dropout(x, 0.5, training=False) is x
        assert F.dropout(x, 0.0) is x


def test_dropout_outside_the_context_is_torchs_own():
    torch.manual_seed(0)
    with SeededRandomness(torch.tensor(1)):
        pass
    expected_state = torch.random.get_rng_state()
    F.dropout(torch.ones(10))
    assert not torch.equal(expected_state, torch.random.get_rng_state())


def test_in_place_dropout_changes_its_input():
    x = torch.ones(100)
    with SeededRandomness(torch.tensor(1)):
        out = F.dropout(x, 0.5, inplace=True)
    assert out is x
    assert (x == 0).any()


def test_lanes_have_masks_of_their_own_under_vmap():
    def one(key: torch.Tensor) -> torch.Tensor:
        with SeededRandomness(key):
            return F.dropout(torch.ones(500), 0.5)

    keys = torch.tensor([1, 2])
    together = torch.vmap(one)(keys)
    assert torch.equal(together[0], one(keys[0]))
    assert torch.equal(together[1], one(keys[1]))
