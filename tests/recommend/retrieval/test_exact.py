import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn.errors import InputError
from drgcn.recommend.retrieval import ItemBlocks, Tiling, exact_top
from drgcn.recommend.retrieval.blocks import ErrorBound
from drgcn.recommend.retrieval.ranking import from_ranking_key
from drgcn.sampling import CSRGraph

from .brute_force import halving_sum, ranked, score_table

FOLDED = Tiling(users=16, items=16, chunk=8, fold=8, columns=1)
REDUCED = Tiling(users=16, items=64, chunk=2, fold=1, columns=16)
MIXED = Tiling(users=16, items=32, chunk=4, fold=2, columns=4, dtype="bfloat16")
TILINGS = (None, FOLDED, REDUCED, MIXED)
WAYS = pytest.mark.parametrize(
    ("tiling", "metric"), [*((tiling, "ip") for tiling in TILINGS), (None, "l2"), (MIXED, "l2")]
)


def unit(*shape):
    return F.normalize(torch.randn(*shape))


def check(queries, items, n, metric="ip", tiling=None, seen=None, **options):
    exclude = None
    if seen is not None:
        pairs = [(i, u) for u, row in enumerate(seen) for i in sorted(row)]
        edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
        exclude = CSRGraph.from_edge_index(edges, (len(items), len(queries)))
    top = exact_top(queries, items, n, metric=metric, tiling=tiling, exclude=exclude, **options)
    scores, found = ranked(queries, items, n, metric, seen)
    assert torch.equal(top.items, found)
    assert torch.equal(top.scores, scores)
    return top


def test_the_reference_sums_as_it_says():
    queries, items = torch.randn(3, 11), torch.randn(5, 11)
    table = score_table(queries, items, "ip")
    for u in range(3):
        for i in range(5):
            assert table[u, i] == halving_sum((queries[u] * items[i]).tolist())
    exact = queries.double() @ items.double().T
    np.testing.assert_allclose(table, exact.numpy(), atol=1e-5)


@WAYS
def test_equals_brute_force(tiling, metric):
    for number in (1, 127, 2048, 4099):
        check(unit(17, 20), unit(number, 20), 10, metric, tiling)
        check(torch.randn(17, 20), 3 * torch.randn(number, 20), 10, metric, tiling)


@pytest.mark.parametrize("tiling", TILINGS)
def test_most_queries_need_no_second_look(tiling):
    top = check(unit(50, 64), unit(6000, 64), 10, tiling=tiling)
    assert top.widened <= 5
    assert top.scanned <= 5


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_n_beyond_the_number_of_items(metric):
    top = check(unit(5, 8), unit(7, 8), 12, metric)
    assert (top.items[:, 7:] == -1).all()
    assert (top.scores[:, 7:] == -torch.inf).all()


@WAYS
def test_near_ties_that_rounding_cannot_tell_apart(tiling, metric):
    # One direction with 32-bit noise: rounded to 16 bits nearly all items are the same vector.
    items = unit(1, 20) + 1e-6 * torch.randn(4000, 20)
    top = check(unit(12, 20), items, 10, metric, tiling)
    assert top.widened > 0


def test_without_its_certificate_the_search_would_err(monkeypatch):
    items = F.normalize(unit(40, 20).repeat(100, 1) + 3e-3 * torch.randn(4000, 20))
    queries = items[::200] + 1e-3 * torch.randn(20, 20)
    check(queries, items, 30, tiling=MIXED)
    monkeypatch.setattr(ErrorBound, "ceiling", lambda self, maxima: 0 * maxima - torch.inf)
    module = sys.modules["drgcn.recommend.retrieval.exact"]  # whose name is the function's
    monkeypatch.setattr(module, "_EXTRA", 0)
    with pytest.raises(AssertionError):
        check(queries, items, 30, tiling=MIXED)


@WAYS
def test_duplicates_come_out_by_id(tiling, metric):
    items = unit(30, 12).repeat(100, 1)  # every item a hundred times
    top = check(unit(9, 12), items, 40, metric, tiling)
    assert (top.scores[:, 0] == top.scores[:, 39]).all()
    shuffled = items[torch.randperm(len(items))]
    check(unit(9, 12), shuffled, 40, metric, tiling)


@WAYS
def test_vectors_of_zeros(tiling, metric):
    queries, items = unit(12, 16), unit(3000, 16)
    queries[::3] = 0
    items[5:1500:7] = 0
    check(queries, items, 10, metric, tiling)
    check(queries, torch.zeros(3000, 16), 10, metric, tiling)


def test_queries_of_zeros_do_not_scan_all_items():
    top = check(torch.zeros(40, 16), unit(5000, 16), 10, tiling=FOLDED)
    assert top.widened == 40
    assert top.scanned == 0


@WAYS
def test_scales_far_apart(tiling, metric):
    queries = unit(12, 16) * 10.0 ** torch.arange(-6, 6)[:, None]
    items = unit(3000, 16) * 10.0 ** torch.linspace(-3, 3, 3000)[:, None]
    check(queries, items, 10, metric, tiling)
    check(1e-15 * queries, 1e10 * items, 10, metric, tiling)


def test_all_scores_negative():
    queries, items = unit(8, 16).abs(), -unit(3000, 16).abs()
    check(queries, items, 10, tiling=FOLDED)
    check(queries, items, 10, tiling=MIXED)


@WAYS
def test_excluded_items(tiling, metric):
    queries, items = unit(12, 16), unit(3000, 16)
    best = ranked(queries, items, 600, metric)[1].tolist()
    seen = [set() for _ in range(12)]
    seen[1] = set(best[1][:3])
    seen[2] = set(best[2])  # all that the search would look at first
    seen[3] = set(range(3000)) - {7, 2999}
    seen[4] = set(range(3000))
    seen[5] = set(best[5][1:200:2])
    top = check(queries, items, 10, metric, tiling, seen=seen)
    assert (top.items[4] == -1).all()
    assert top.items[3].tolist()[2:] == [-1] * 8
    zero = torch.zeros_like(queries)
    check(zero, items, 10, metric, tiling, seen=seen)


def test_rows_of_exclude():
    queries, items = unit(6, 16), unit(200, 16)
    edges = torch.stack([torch.randint(200, (300,)), torch.randint(10, (300,))]).unique(dim=1)
    exclude = CSRGraph.from_edge_index(edges, (200, 10))
    seen = [set(edges[0, edges[1] == row].tolist()) for row in range(10)]
    top = exact_top(queries, items, 5, exclude=exclude, first_query=4)
    assert torch.equal(top.items, ranked(queries, items, 5, seen=seen[4:])[1])
    rows = torch.tensor([3, 3, 0, 9, 1, 2])
    top = exact_top(queries, items, 5, exclude=exclude, exclude_rows=rows)
    assert torch.equal(top.items, ranked(queries, items, 5, seen=[seen[r] for r in rows])[1])


def test_batches_change_nothing():
    queries, items = unit(70, 16), unit(3000, 16)
    whole = exact_top(queries, items, 10, tiling=FOLDED)
    parts = exact_top(queries, ItemBlocks.of(items, tiling=FOLDED), 10, memory=1)
    assert torch.equal(whole.items, parts.items)
    assert torch.equal(whole.scores, parts.scores)
    none = exact_top(queries[:0], items, 10)
    assert none.items.shape == (0, 10)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 700), st.integers(1, 9), st.integers(1, 30), st.integers(0, 10**6),
    st.sampled_from(["ip", "l2"]), st.sampled_from(TILINGS),
)  # fmt: skip
def test_small_whole_numbers_full_of_ties(number, dim, n, seed, metric, tiling):
    draw = torch.Generator().manual_seed(seed)
    queries = torch.randint(-2, 3, (5, dim), generator=draw).float()
    items = torch.randint(-2, 3, (number, dim), generator=draw).float()
    check(queries, items, n, metric, tiling)


@pytest.fixture
def _coarse_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("_coarse_products")
def test_products_that_may_be_rounded_are_not_trusted():
    assert ItemBlocks.of(unit(50, 16)).tiling.dtype == "bfloat16"
    check(unit(12, 16), unit(3000, 16), 10)
    with pytest.raises(InputError, match="float32_matmul_precision"):
        exact_top(unit(2, 16), unit(3000, 16), 10, tiling=replace(REDUCED, dtype="float32"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(
    ("scale", "dim", "metric"),
    [(1.0, 20, "ip"), (1.0, 64, "ip"), (1.0, 300, "ip"), (3.0, 64, "ip"), (3.0, 300, "l2")],
)
def test_on_cuda(scale, dim, metric):
    queries, items = unit(300, dim).cuda(), unit(50_001, dim).cuda()
    items[::7] *= scale
    items[1000:1100] = items[0]
    queries[5] = 0
    edges = torch.stack([torch.randint(50_001, (9000,)), torch.randint(300, (9000,))])
    exclude = CSRGraph.from_edge_index(edges.unique(dim=1), (50_001, 300)).to("cuda")
    top = exact_top(queries, items, 50, metric=metric, exclude=exclude)
    blocks = ItemBlocks.of(items, metric)
    search = sys.modules["drgcn.recommend.retrieval.exact"]._Search(blocks, 50, exclude)
    scan = search._scan(queries, torch.arange(300, device="cuda"))
    scores, found = from_ranking_key(scan)
    assert torch.equal(top.items, found)
    assert torch.equal(top.scores, scores)
    assert top.scanned < 30
    table = queries.double() @ items.double().T
    if metric == "l2":
        table = -torch.cdist(queries.double(), items.double()).square()
    row = torch.arange(300, device="cuda").repeat_interleave(exclude.degree)
    table[row, exclude.col.long()] = -torch.inf
    torch.testing.assert_close(top.scores.double(), table.topk(50).values, rtol=1e-5, atol=1e-5)


def test_equals_other_libraries_up_to_rounding():
    queries, items = unit(30, 24), unit(5000, 24)
    near = torch.cdist(queries.double(), items.double()).topk(20, largest=False)
    top = exact_top(queries, items, 20, metric="l2")
    torch.testing.assert_close(-top.scores.double(), near.values.square(), rtol=1e-5, atol=1e-6)
    assert (top.items == near.indices).float().mean() > 0.99
    assert torch.equal(exact_top(queries, items, 20).items.sort().values, top.items.sort().values)


def test_bad_input():
    items = unit(10, 4)
    for queries, n, options, what in (
        (unit(2, 5), 3, {}, "4 columns"),
        (unit(2, 4), 0, {}, "at least one"),
        (unit(2, 4), 3, {"metric": "cosine"}, "'ip' or 'l2'"),
        (torch.full((2, 4), torch.nan), 3, {}, "finite"),
        (torch.full((2, 4), 1e30), 3, {}, "finite"),
        (torch.ones(2, 4, dtype=torch.int64), 3, {}, "floats"),
    ):
        with pytest.raises(InputError, match=what):
            exact_top(queries, items, n, **options)
    with pytest.raises(InputError, match="at least one item"):
        exact_top(items, items[:0], 3)
    graph = CSRGraph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), (10, 1))
    with pytest.raises(InputError, match="one row of exclude"):
        exact_top(items, items, 3, exclude=graph)
    graph = CSRGraph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), (9, 10))
    with pytest.raises(InputError, match="10 columns"):
        exact_top(items, items, 3, exclude=graph)
    with pytest.raises(InputError, match="fold to divide"):
        Tiling(chunk=32, fold=5)
    with pytest.raises(InputError, match="dtype"):
        Tiling(dtype="float8")
