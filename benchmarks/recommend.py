"""What does each stage of the recommendation job cost, and how does that grow with the graph?

On synthetic `astar` clicks of several sizes: drawing them, sampled neighbours a second, a training
step with each gate, all embeddings, and the exact 50 best items of users, beside a plain matrix
product with topk and, on CPU, faiss Flat. One row per size and stage.

    python benchmarks/recommend.py --device cuda --fraction 0.1 0.3 1
    python benchmarks/recommend.py --device cpu --fraction 0.001 0.003 0.01
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from measuring import write_csv

from drgcn.recommend.clicks import ClickData, ClickSplit
from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model import ClickSAGE, ModelOptions, build_model, embed_all
from drgcn.recommend.model.objectives import SAGEObjective, TrainSettings
from drgcn.recommend.model.run_folder import Gate
from drgcn.recommend.model.sampling import Positives
from drgcn.recommend.model.training import ClickTrainer
from drgcn.recommend.retrieval import FaissIndex, ItemBlocks, exact_top
from drgcn.recommend.synthetic import generate_astar
from drgcn.sampling import draw_neighbors

_WARM = 12  # by then a step on CUDA is recorded
GATES: tuple[Gate, ...] = ("none", "constant", "static", "dr")
Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fraction", type=float, nargs="+", default=[0.001, 0.003, 0.01])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--users", type=int, default=2**17, help="users whose items are searched")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    device = torch.device(args.device)
    rows = [row for fraction in args.fraction for row in stages(fraction, device, args)]
    write_csv("recommend", rows, device, args.out)


def stages(fraction: float, device: torch.device, args: argparse.Namespace) -> Iterator[Row]:
    """All stages at one size."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    data, seconds = timed(lambda: generate_astar(fraction, device=device), device)
    split = ClickSplit.by_time(data)
    graph = split.train
    size = {"fraction": fraction, "users": graph.num_users, "clicks": data.graph.num_clicks}

    def row(stage: str, what: str, count: float, seconds: float) -> Row:
        memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
        rate = f"{count / seconds:.4g}"
        found = {"stage": stage, "per_second": rate, "of": what, "seconds": f"{seconds:.4g}"}
        found = {**size, **found, "peak_gib": f"{memory:.1f}"}
        print(found, flush=True)
        return found

    yield row("generate", "clicks", data.graph.num_clicks, seconds)
    count = 2**20 if device.type == "cuda" else 2**14
    seeds = torch.randint(graph.num_items, (count,)).to(device)
    for replace in (True, False):
        draw = partial(draw_neighbors, graph.by_item, seeds, 10, replace=replace)
        seconds = best_of(draw, device)
        way = "with" if replace else "without"
        yield row(f"sample 10, {way} replacement", "edges", 10 * seeds.numel(), seconds)
    trainers = {gate: trainer(data, split, gate, device, args) for gate in GATES}
    for each in trainers.values():
        each.run(_WARM if device.type == "cuda" else 1)
    best = dict.fromkeys(trainers, float("inf"))
    for _ in range(3):  # the gates take turns
        for gate, each in trainers.items():
            _, seconds = timed(lambda each=each: each.run(args.steps), device)
            best[gate] = min(best[gate], seconds)
    for gate, seconds in best.items():
        name = f"train, gate {gate}"
        yield row(name, "positives", args.steps * args.batch, seconds)
    model = build_model(data, graph).to(device).eval()
    assert isinstance(model, ClickSAGE)
    model.frozen.fill_(True)
    (users, items), seconds = timed(
        lambda: embed_all(model, data, graph, dtype=torch.float16), device
    )
    yield row("embed all", "nodes", graph.num_users + graph.num_items, seconds)
    queries, items = users[: args.users].float(), items.float()
    blocks, seconds = timed(lambda: ItemBlocks.of(items), device)
    yield row("prepare items", "items", graph.num_items, seconds)
    seconds = best_of(lambda: exact_top(queries, blocks, 50), device)
    yield row("exact 50 best", "users", queries.size(0), seconds)
    few = queries[: max(args.users // 64, 256)]
    seconds = best_of(lambda: plain(few, items), device)
    yield row("matrix product and topk", "users", few.size(0), seconds)
    if device.type == "cpu" and find_spec("faiss"):
        flat = FaissIndex.build(items, "flat")
        seconds = best_of(lambda: flat.search(few, 50), device)
        yield row("faiss Flat", "users", few.size(0), seconds)


def trainer(
    data: ClickData,
    split: ClickSplit,
    gate: Gate,
    device: torch.device,
    args: argparse.Namespace,
) -> ClickTrainer:
    """A run that is ready to go."""
    settings = TrainSettings(batch_size=args.batch, bfloat16=device.type == "cuda")
    model, exchange = build_model(data, split.train, ModelOptions(gate=gate)), Exchange()
    assert isinstance(model, ClickSAGE)
    model.to(device).train()
    positives = Positives(split.train, args.batch, 0, settings.draw, exchange)
    attributes = model.prepare(data, device)
    objective = SAGEObjective(model, attributes, split.train, split.train, settings, exchange)
    steps = _WARM + 3 * args.steps
    return ClickTrainer(model, objective, positives, steps, lr=1e-3, exchange=exchange)


def plain(queries: torch.Tensor, items: torch.Tensor) -> None:
    """What one would write first: in batches that fit into memory."""
    for part in queries.split(256):
        (part @ items.T).topk(50)


def timed(work: Callable, device: torch.device) -> tuple:
    """What it returns, and the seconds it took."""
    wait(device)
    start = time.perf_counter()
    found = work()
    wait(device)
    return found, time.perf_counter() - start


def best_of(work: Callable, device: torch.device) -> float:
    """Seconds of the quickest of three, after one that warms up."""
    work()
    return min(timed(work, device)[1] for _ in range(3))


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
