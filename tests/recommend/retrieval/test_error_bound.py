import pytest
import torch
import torch.nn.functional as F

from drgcn.recommend.retrieval import ItemBlocks, Tiling
from drgcn.recommend.retrieval.blocks import ErrorBound, RoundedVectors
from drgcn.recommend.retrieval.exact import BlockChoice, block_maxima, pair_scores

KINDS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}


def single_items(dtype):
    """A block for every item: maxima are then the scores of stage 1."""
    return Tiling(users=1, items=64, chunk=1, fold=1, columns=1, dtype=dtype)


def worst_case(rows, dtype):
    """Entries halfway between two neighbours, all moved the same way."""
    return torch.full((rows, 32), 1 + KINDS[dtype]) * (1 - 1e-6)


@pytest.mark.parametrize("metric", ["ip", "l2"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("which", ["unit", "any", "worst"])
def test_no_score_is_farther_off_than_its_bound(which, dtype, metric):
    queries, items = torch.randn(40, 32), torch.randn(300, 32)
    if which == "unit":
        queries, items = F.normalize(queries), F.normalize(items)
    if which == "worst":
        queries, items = worst_case(4, dtype), worst_case(300, dtype) * 2.0**-5
    blocks = ItemBlocks.of(items, metric, single_items(dtype))
    rounded = RoundedVectors.of(queries, getattr(torch, dtype), by_row=metric == "ip")
    bound = ErrorBound.of(rounded, blocks)
    unit = rounded.scale * blocks.scale
    truth = queries.double() @ items.double().T
    if metric == "l2":
        truth = truth - 0.5 * items.double().square().sum(dim=1)
    first = block_maxima(rounded, blocks)[0][:, :300].double() + bound.offset[:, None]
    off = (first - truth * unit).abs()
    assert (off <= bound.stage_one[:, None]).all()
    if dtype != "float32":  # whose rounding is as good as never at its worst
        assert (off.amax(dim=1) > bound.stage_one / 60).all()  # or it would say nothing
    second = pair_scores(queries[:, None], items[None], metric)
    off = (bound.factor[:, None] * second.double() + bound.shift[:, None] - truth * unit).abs()
    assert (off <= bound.stage_two[:, None]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_worst_case_needs_nearly_all_of_the_bound(dtype):
    queries, items = worst_case(4, dtype), worst_case(64, dtype)
    blocks = ItemBlocks.of(items, "ip", single_items(dtype))
    rounded = RoundedVectors.of(queries, getattr(torch, dtype), by_row=True)
    bound = ErrorBound.of(rounded, blocks).stage_one
    truth = (queries.double() @ items.double().T) * rounded.scale * blocks.scale
    off = (block_maxima(rounded, blocks)[0][:, :64] - truth).abs().amax(dim=1)
    assert (off > 0.9 * bound).all()
    share = 2 * KINDS[dtype] * (queries.norm(dim=1) * items.norm(dim=1).max())
    assert (bound < 1.1 * share * (rounded.scale * blocks.scale)[:, 0]).all()


def test_rounding_facts():
    x = torch.randn(50, 12) * 10.0 ** torch.randint(-8, 8, (50, 1))
    for by_row in (True, False):
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            rounded = RoundedVectors.of(x, dtype, by_row=by_row)
            scaled, back = x.double() * rounded.scale, rounded.values.double()
            for name, true in (
                ("norm", scaled.norm(dim=1)),
                ("rounded_norm", back.norm(dim=1)),
                ("moved", (scaled - back).norm(dim=1)),
            ):
                found = getattr(rounded, name)
                assert (found >= true).all()
                torch.testing.assert_close(found, true, rtol=1e-8, atol=1e-30)
            assert (rounded.scale.log2() % 1 == 0).all()


def test_chosen_blocks_are_those_with_the_largest_maxima():
    tiling = Tiling(users=1, items=32, chunk=2, fold=2, columns=2)
    queries, items = torch.randn(20, 8), torch.randn(3001, 8)
    blocks = ItemBlocks.of(items, "ip", tiling)
    rounded = RoundedVectors.of(queries, torch.float16, by_row=True)
    maxima, tops = block_maxima(rounded, blocks)
    scores = rounded.values.float() @ (items * blocks.scale).half().float().T
    padded = F.pad(scores, (0, -3001 % 4), value=-torch.inf)
    expected = padded.view(20, -1, 4).amax(dim=2)
    torch.testing.assert_close(maxima[:, : blocks.num_blocks], expected)
    for count in (1, 5, 40, 46, 47, 48, 400, blocks.num_blocks, 10**6):
        choice = BlockChoice.of(maxima, tops, count, blocks.num_blocks)
        whole = maxima[:, : blocks.num_blocks].sort(dim=1, descending=True)
        number = min(count, blocks.num_blocks)
        assert torch.equal(choice.maxima, whole.values[:, :number])
        assert torch.equal(maxima.gather(1, choice.blocks), choice.maxima)
        assert all(len(set(row)) == number for row in choice.blocks.tolist())
        outside = whole.values[:, number] if number < blocks.num_blocks else -torch.inf
        assert (choice.outside == outside).all()
