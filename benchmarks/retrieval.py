"""How many users a second get their exact N best items, and where does the time go?

Without ``--sweep``: the exact search beside a plain matrix product with ``topk`` in batches, and
faiss Flat on the CPU where faiss is installed. With ``--sweep``: the layouts of the CUDA kernels
one after another, each checked on some users against a scan of all items (same bits) and against
64-bit floats; one that does not build is reported and passed over.

Vectors are random: ``unit`` ones, spread evenly, and ``clustered`` ones, whose neighbours are
many and near, as those of trained models are.

    python benchmarks/retrieval.py --device cpu
    python benchmarks/retrieval.py --device cuda
    python benchmarks/retrieval.py --device cuda --sweep
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from measuring import write_csv
from torch import Tensor

from drgcn.recommend.retrieval import FaissIndex, ItemBlocks, Tiling, TopItems, exact_top
from drgcn.recommend.retrieval.blocks import ErrorBound, RoundedVectors
from drgcn.recommend.retrieval.exact import (
    _EXTRA,
    _KEYS,
    BlockChoice,
    _memory,
    _Search,
    block_maxima,
    rescored,
)
from drgcn.recommend.retrieval.ranking import from_ranking_key

SWEEP = [
    Tiling(),
    Tiling(stages=4),
    Tiling(chunk=64, fold=64),
    Tiling(warps=8),
    Tiling(users=256, warps=8),
    Tiling(items=128, warps=8),
    Tiling(fold=1, columns=64, stages=4),
    Tiling(items=128, chunk=16, fold=1, columns=32),
    Tiling(items=128, chunk=16, fold=1, columns=64),
    Tiling(items=128, chunk=16, fold=1, columns=64, stages=4),
    Tiling(items=128, chunk=32, fold=1, columns=128),
    Tiling(users=256, items=128, chunk=16, fold=1, columns=64, warps=8),
    Tiling(items=256, chunk=8, fold=1, columns=64, warps=8),
    Tiling(dtype="bfloat16"),
]
#: Layouts of stage 2, tried on the best of stage 1: numbers gathered, and warps.
SECOND = [(4096, 2), (4096, 4), (8192, 2), (8192, 8), (16384, 8)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--users", type=int)
    parser.add_argument("--items", type=int)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--checked", type=int, default=64, help="users checked against a scan")
    parser.add_argument("--data", nargs="+", default=["unit", "clustered"])
    parser.add_argument("--metric", default="ip")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run?")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    device = torch.device(args.device)
    cuda = device.type == "cuda" and not args.quick
    users = args.users or (2**18 if cuda else 512)
    items = args.items or (6_338_428 if cuda else 20_000)
    kinds = args.data[:1] if args.sweep else args.data
    rows = []
    for kind in kinds:
        queries, vectors = drawn(kind, users, items, args.dim, device)
        work = sweep if args.sweep else ways
        for row in work(queries, vectors, args):
            print(row, flush=True)
            rows.append({"data": kind, "users": users, "items": items, "dim": args.dim} | row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name, "") for name in names} for row in rows]
    write_csv("retrieval_sweep" if args.sweep else "retrieval", rows, device, args.out)


def drawn(
    kind: str, users: int, items: int, dim: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Unit vectors of users and items: anywhere, or near one of a thousand centres."""
    draw = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, generator=draw)

    if kind == "unit":
        return F.normalize(normal(users, dim)), F.normalize(normal(items, dim))
    centres = F.normalize(normal(1000, dim))

    def near(rows: int) -> Tensor:
        which = torch.randint(1000, (rows,), device=device, generator=draw)
        return F.normalize(centres[which] + 0.5 * normal(rows, dim) / dim**0.5)

    return near(users), near(items)


def ways(queries: Tensor, items: Tensor, args: argparse.Namespace) -> Iterator[dict[str, object]]:
    """The exact search, and what one would do without it."""
    blocks = ItemBlocks.of(items, args.metric)
    exact_top(queries, blocks, args.n)  # builds the kernels
    seconds, top = timed(lambda: exact_top(queries, blocks, args.n))
    checks = checked(queries, items, blocks, top, args)
    yield (
        speed("exact_top", len(queries), len(items), args.dim, seconds)
        | checks
        | {
            "widened": top.widened,
            "scanned": top.scanned,
        }
    )
    for dtype in (torch.float32, torch.bfloat16) if queries.is_cuda else (torch.float32,):
        some = queries[: min(len(queries), 8192)]
        plain(some[:1024], items, args.n, dtype)
        seconds, _ = timed(lambda some=some, dtype=dtype: plain(some, items, args.n, dtype))
        name = f"matmul + topk, {str(dtype).split('.')[1]}"
        yield speed(name, len(some), len(items), args.dim, seconds)
    if find_spec("faiss") is not None:
        index, some = FaissIndex.build(items, "flat"), queries[:512].cpu()
        seconds, _ = timed(lambda: index.search(some, args.n))
        yield speed("faiss Flat, CPU", len(some), len(items), args.dim, seconds)


def plain(queries: Tensor, items: Tensor, n: int, dtype: torch.dtype) -> None:
    right = items.to(dtype).T
    step = max(1, 2**32 // len(items)) if queries.is_cuda else 256
    for some in queries.to(dtype).split(step):
        (some @ right).topk(n, dim=1)


def sweep(queries: Tensor, items: Tensor, args: argparse.Namespace) -> Iterator[dict[str, object]]:
    """All layouts of stage 1, and on the fastest those of stage 2."""
    best: tuple[float, Tiling] | None = None
    for tiling in SWEEP:
        row = attempt(queries, items, tiling, args)
        if "failed" not in row and (best is None or float(str(row["seconds"])) < best[0]):
            best = (float(str(row["seconds"])), tiling)
        yield row
    for gathered, warps in SECOND if best is not None else []:
        tiling = replace(best[1], gathered=gathered, gathering_warps=warps)
        yield attempt(queries, items, tiling, args)


def attempt(
    queries: Tensor, items: Tensor, tiling: Tiling, args: argparse.Namespace
) -> dict[str, object]:
    """One layout: its speed, its stages, its checks; or why it does not run."""
    row: dict[str, object] = {"block": tiling.block}
    row |= {
        f"tile_{name}" if name in ("users", "items") else name: value
        for name, value in asdict(tiling).items()
    }
    try:
        blocks = ItemBlocks.of(items, args.metric, tiling)
        exact_top(queries[: 2 * tiling.users], blocks, args.n)  # builds the kernels
        batch = one_batch(queries, blocks)
        stages(batch, blocks, args.n)
        row |= stages(batch, blocks, args.n)
        exact_top(batch, blocks, args.n)
        seconds, top = timed(lambda: exact_top(queries, blocks, args.n))
        row |= speed("exact_top", len(queries), len(items), args.dim, seconds)
        row |= {"widened": top.widened, "scanned": top.scanned}
        row |= checked(queries, items, blocks, top, args)
    except Exception as error:  # whatever a compiler or a driver may raise
        row["failed"] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}"[:200]
    if queries.is_cuda:
        torch.cuda.empty_cache()
    return row


def one_batch(queries: Tensor, blocks: ItemBlocks) -> Tensor:
    """As many queries as the search takes at once."""
    width = 4 * blocks.num_chunks * blocks.tiling.chunk_blocks
    tiles = max(1, _memory(queries.device) // (width * blocks.tiling.users) * 9 // 10)
    return queries[: tiles * blocks.tiling.users]


def stages(queries: Tensor, blocks: ItemBlocks, n: int) -> dict[str, object]:
    """Microseconds per user of every step of one batch, and the arithmetic of stage 1."""
    spent: dict[str, float] = {}

    def step(name: str, work: Callable[[], object]) -> object:
        spent[name], found = timed(work)
        return found

    kind = getattr(torch, blocks.tiling.dtype)
    by_row = blocks.metric == "ip"
    rounded = step("rounding", lambda: RoundedVectors.of(queries, kind, by_row=by_row))
    bound = ErrorBound.of(rounded, blocks)
    maxima = step("maxima", lambda: block_maxima(rounded, blocks))
    count = n + _EXTRA
    choice = step("choice", lambda: BlockChoice.of(*maxima, count, blocks.num_blocks))
    floor = bound.floor(choice.maxima[:, min(n, choice.maxima.size(1)) - 1])
    keys = step("rescoring", lambda: rescored(queries, blocks, choice.blocks, floor, _KEYS * n)[0])
    step("ranking", lambda: keys.topk(min(n, keys.size(1)), dim=1).values)
    operations = 2 * blocks.dim * len(queries) * blocks.num_items
    return (
        {"batch": len(queries)}
        | {
            f"{name}_us_per_user": round(1e6 * seconds / len(queries), 3)
            for name, seconds in spent.items()
        }
        | {"stage_1_tflops": round(operations / spent["maxima"] / 1e12, 1)}
    )


def checked(
    queries: Tensor, items: Tensor, blocks: ItemBlocks, top: TopItems, args: argparse.Namespace
) -> dict[str, object]:
    """Some users against a scan of all items, 64-bit floats, and the bound of stage 1."""
    some = queries[:: max(1, len(queries) // args.checked)][: args.checked]
    place = torch.arange(len(queries), device=queries.device)
    place = place[:: max(1, len(queries) // args.checked)][: args.checked]
    scan = _Search(blocks, args.n, None)._scan(some, place)
    scores, found = from_ranking_key(scan)
    same = torch.equal(scores, top.scores[place]) and torch.equal(found, top.items[place])
    rounded = RoundedVectors.of(some, getattr(torch, blocks.tiling.dtype), by_row=True)
    bound = ErrorBound.of(rounded, blocks)
    short, farthest = 0.0, 0.0
    for row in range(len(some)):
        exact = items.double() @ some[row].double()
        if args.metric == "l2":
            exact = (
                2 * exact - items.double().square().sum(dim=1) - some[row].double().square().sum()
            )
        worst = float(exact.topk(args.n).values[-1])
        short = max(short, worst - float(exact[top.items[place[row]]].min()))
    if args.metric == "ip":
        maxima = block_maxima(rounded, blocks)[0][:, : blocks.num_blocks].double()
        size = blocks.tiling.block
        for row in range(len(some)):
            exact = items.double() @ some[row].double() * rounded.scale[row] * blocks.scale
            exact = F.pad(exact, (0, -len(exact) % size), value=-torch.inf).view(-1, size).amax(1)
            off = float((maxima[row] - exact).abs().max() / bound.stage_one[row])
            farthest = max(farthest, off)
    return {
        "same_as_scan": same,
        "short_of_float64": f"{short:.1e}",
        "largest_error_over_bound": round(farthest, 3),
    }


def speed(way: str, users: int, items: int, dim: int, seconds: float) -> dict[str, object]:
    return {
        "way": way,
        "seconds": round(seconds, 4),
        "users_per_second": round(users / seconds),
        "tflops_overall": round(2 * dim * users * items / seconds / 1e12, 2),
    }


def timed(work: Callable[[], object]) -> tuple[float, object]:
    wait()
    start = time.perf_counter()
    found = work()
    wait()
    return time.perf_counter() - start, found


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
