"""What does a pass cost as networks, nodes and edges grow?

Two-layer GCNs with 64 hidden units on random graphs with 64 features. From one base case networks,
nodes and edges are each multiplied alone. An epoch is the difference of a long and a short pass;
on CPU of one thread, in processor time, which other work on the machine does not lengthen. Memory
is the peak of a process, or of the device, above what it holds without a pass.

    python benchmarks/lane_growth.py --device cpu
    python benchmarks/lane_growth.py --device cuda
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from pathlib import Path

import torch
from measuring import write_csv
from torch_geometric.data import Data

from drgcn.nn import GCN
from drgcn.training import fit

FEATURES, CLASSES = 64, 7
BASE = {
    "cpu": {"lanes": 4, "nodes": 2_000, "edges": 10_000},
    "cuda": {"lanes": 20, "nodes": 20_000, "edges": 200_000},
}
TIMES = (1, 2, 4, 8, 16)
EPOCHS = (3, 23)


def graph(nodes: int, edges: int) -> Data:
    """A random graph with random labels and features."""
    generator = torch.Generator().manual_seed(0)
    part = torch.rand(nodes, generator=generator)
    return Data(
        x=torch.randn(nodes, FEATURES, generator=generator),
        edge_index=torch.randint(nodes, (2, edges), generator=generator),
        y=torch.randint(CLASSES, (nodes,), generator=generator),
        train_mask=part < 0.3,
        val_mask=(part >= 0.3) & (part < 0.6),
        test_mask=part >= 0.6,
    )


def measure(case: dict[str, int], gate: str | None, device: str) -> dict[str, float]:
    """Milliseconds of an epoch, and the peak of memory in MiB."""
    data = graph(case["nodes"], case["edges"])
    before = _peak(device)

    def seconds(epochs: int) -> float:
        make = lambda: GCN(FEATURES, 64, CLASSES, reweight=gate)  # noqa: E731
        start = time.process_time()
        result = fit(make, data, range(case["lanes"]), epochs=epochs, device=device)
        return time.process_time() - start if device == "cpu" else result.seconds

    seconds(EPOCHS[0])  # compiles kernels
    short, long = (seconds(epochs) for epochs in EPOCHS)
    each = (long - short) / (EPOCHS[1] - EPOCHS[0])
    return {"ms_per_epoch": round(1e3 * each, 3), "peak_mib": round(_peak(device) - before)}


def _peak(device: str) -> float:
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    peak = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return peak


def _apart(queue, *arguments) -> None:
    queue.put(measure(*arguments))


def measured(case: dict[str, int], gate: str | None, device: str) -> dict[str, float]:
    """A measurement; on CPU in a process of its own, whose peak is its own."""
    if device != "cpu":
        return measure(case, gate, device)
    context = multiprocessing.get_context("fork")  # from one that has computed nothing
    queue = context.Queue()
    process = context.Process(target=_apart, args=(queue, case, gate, device))
    process.start()
    found = queue.get()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--times", type=int, nargs="+", default=TIMES)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    base = BASE[arguments.device]
    torch.set_num_threads(1)
    rows = []
    for grows in base:
        for times in arguments.times:
            case = base | {grows: times * base[grows]}
            for gate in (None, "dr"):
                found = measured(case, gate, arguments.device)
                network = "GCN" if gate is None else "GCN, Dr"
                rows.append({"grows": grows, "times": times, "network": network, **case, **found})
                write_csv("lane_growth", rows, torch.device(arguments.device), arguments.out)


if __name__ == "__main__":
    main()
