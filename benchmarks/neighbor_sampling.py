"""How many edges a second do neighbour samplers draw, and what does a batch cost as graphs grow?

The first table compares (a) a Python loop over nodes, (b) ``NeighborTree``, (c) our
``NeighborSampler`` with its renumbered nodes, and (d) PyG's own, where pyg-lib or torch-sparse is
installed, on random graphs with hubs. A tree draws for every place, the others once for every
node, so each is judged by the edges it drew. The second table lets one thing grow at a time, and
gives the time of a batch and the most memory that its tensors held at once, without the graph.

    KINETO_LOG_LEVEL=99 python benchmarks/neighbor_sampling.py --device cpu
    KINETO_LOG_LEVEL=99 python benchmarks/neighbor_sampling.py --device cuda --batch 512 16384
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import torch
import torch_geometric.typing
from measuring import write_csv
from torch.profiler import ProfilerActivity, profile
from torch_geometric.data import Data
from torch_geometric.sampler import NeighborSampler as PyGSampler
from torch_geometric.sampler import NodeSamplerInput

from drgcn.sampling import CSRGraph, NeighborSampler, NeighborTree

#: Draws the neighbours of a batch of nodes, and says how many edges it drew.
Draw = Callable[[torch.Tensor], int | torch.Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[512])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="small graphs: does it run?")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    rounds = 3 if args.quick else args.rounds
    rows = [
        row
        for nodes, edges in graphs(args.quick)
        for fan_outs in ((25, 10), (10, 10))
        for row in speeds(random_edges(nodes, edges), nodes, fan_outs, args.batch, rounds, device)
    ]
    write_csv("neighbor_sampling", rows, device, args.out)
    rows = [row for setting in growing(args.quick) for row in costs(setting, rounds, device)]
    write_csv("neighbor_sampling_growth", rows, device, args.out)


def graphs(quick: bool) -> list[tuple[int, int]]:
    if quick:
        return [(1_000, 20_000)]
    return [(10_000, 200_000), (100_000, 2_000_000), (250_000, 5_000_000)]


def growing(quick: bool) -> Iterator[dict[str, object]]:
    """One setting, and the same with one thing larger. Mean degree is 20 but for ``edges``."""
    base = 1_000 if quick else 25_000
    usual = {"nodes": base, "edges": 20 * base, "batch": 512, "fan_outs": (10, 10)}
    yield {"grows": "nothing"} | usual
    for factor in (2,) if quick else (3, 10):
        larger = base * factor
        yield {"grows": "nodes"} | usual | {"nodes": larger, "edges": 20 * larger}
        yield {"grows": "edges"} | usual | {"edges": 20 * larger}
        yield {"grows": "batch"} | usual | {"batch": 512 * factor}
    for fan_outs in ((5, 5), (20, 10), (20, 20)):
        yield {"grows": "fan_outs"} | usual | {"fan_outs": fan_outs}


def random_edges(nodes: int, edges: int) -> torch.Tensor:
    """Targets with density 1/sqrt: the first hundredth of the nodes receive a tenth of it all."""
    draw = torch.Generator().manual_seed(0)
    source = torch.randint(nodes, (edges,), generator=draw)
    target = (nodes * torch.rand(edges, generator=draw, dtype=torch.float64) ** 2).long()
    return torch.stack([source, target])


def speeds(
    edge_index: torch.Tensor,
    nodes: int,
    fan_outs: Sequence[int],
    batches: Sequence[int],
    rounds: int,
    device: torch.device,
) -> Iterator[dict[str, object]]:
    found = ways(edge_index, nodes, fan_outs, device)
    for name, batch in itertools.product(found, batches):
        if batch > nodes or (name == "python loop" and batch > min(batches)):
            continue  # its edges a second do not depend on the batch, its patience does
        draw = found[name]
        drawn, seconds = timed(draw, nodes, batch, rounds, device)
        yield {
            "way": name,
            "nodes": nodes,
            "edges": edge_index.size(1),
            "batch": batch,
            "fan_outs": " ".join(map(str, fan_outs)),
            "edges_per_batch": round(sum(drawn) / rounds),
            "median_ms_per_batch": round(1e3 * median(seconds), 3),
            "edges_per_second": round(sum(drawn) / sum(seconds)),
        }


def costs(
    setting: dict[str, object], rounds: int, device: torch.device
) -> Iterator[dict[str, object]]:
    nodes, batch, fan_outs = int(setting["nodes"]), int(setting["batch"]), setting["fan_outs"]
    edge_index = random_edges(nodes, int(setting["edges"]))
    found = ways(edge_index, nodes, fan_outs, device)
    for name in ("tree", "sampler"):
        drawn, seconds = timed(found[name], nodes, batch, rounds, device)
        chosen = seeds(nodes, batch, 0, device)  # whose shuffle is not the sampler's
        peak = most_bytes(lambda name=name, chosen=chosen: found[name](chosen), device)
        per_edge = rounds / sum(drawn)
        yield setting | {
            "fan_outs": " ".join(map(str, fan_outs)),
            "way": name,
            "edges_per_batch": round(sum(drawn) / rounds),
            "median_ms_per_batch": round(1e3 * median(seconds), 3),
            "peak_mb": round(peak / 2**20, 2),
            "ns_per_edge": round(1e9 * median(seconds) * per_edge, 1),
            "bytes_per_edge": round(peak * per_edge, 1),
        }


def ways(
    edge_index: torch.Tensor, nodes: int, fan_outs: Sequence[int], device: torch.device
) -> dict[str, Draw]:
    graph = CSRGraph.from_edge_index(edge_index, nodes)
    there = graph.to(device)
    data = Data(edge_index=edge_index, num_nodes=nodes)
    found: dict[str, Draw] = {
        "tree": lambda batch: sum(
            mask.sum() for mask in NeighborTree.sample(there, batch, fan_outs).masks[1:]
        ),
        "sampler": of_sampler(NeighborSampler(there, list(fan_outs))),
    }
    found = {"python loop": python_loop(graph, fan_outs)} | found
    if torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without pyg-lib it calls itself deprecated
            found["PyG"] = of_sampler(PyGSampler(data, list(fan_outs)))
    return found


def of_sampler(sampler: NeighborSampler | PyGSampler) -> Draw:
    def draw(batch: torch.Tensor) -> int:
        return sampler.sample_from_nodes(NodeSamplerInput(None, batch)).edge.numel()

    return draw


def python_loop(graph: CSRGraph, fan_outs: Sequence[int]) -> Draw:
    """Each node once, as (c) and (d), with numbers for nodes from a dictionary."""
    rowptr, col = graph.rowptr.tolist(), graph.col.tolist()

    def draw(batch: torch.Tensor) -> int:
        number = {node: place for place, node in enumerate(batch.tolist())}
        frontier, edges = list(number), []
        for count in fan_outs:
            met = []
            for node in frontier:
                places = range(rowptr[node], rowptr[node + 1])
                for place in random.sample(places, min(count, len(places))):
                    sender = col[place]
                    if sender not in number:
                        number[sender] = len(number)
                        met.append(sender)
                    edges.append((number[sender], number[node]))
            frontier = met
        return torch.tensor(edges).size(0)

    return draw


def seeds(nodes: int, batch: int, number: int, device: torch.device) -> torch.Tensor:
    draw = torch.Generator().manual_seed(number)
    return torch.randperm(nodes, generator=draw)[:batch].to(device)


def timed(
    draw: Draw, nodes: int, batch: int, rounds: int, device: torch.device
) -> tuple[list[int], list[float]]:
    """Edges and seconds of each batch; the same batches for every way."""
    drawn, seconds = [], []
    for number in range(rounds + 2):
        chosen = seeds(nodes, batch, number, device)
        wait(device)
        start = time.perf_counter()
        edges = draw(chosen)
        wait(device)
        taken = time.perf_counter() - start
        if number >= 2:  # the first batches warm up
            seconds.append(taken)
            drawn.append(int(edges))
    return drawn, seconds


def most_bytes(work: Callable[[], object], device: torch.device) -> int:
    """The most bytes that tensors held at once above the start, by the allocator's own account."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    events = record.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    held = most = 0
    for _, change in changes:
        held += change
        most = max(most, held)
    return most


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
