"""What does Dr cost? Time per epoch with the block over without, at growing graphs.

Both are trained in turns in one run, and the ratio is that of the medians. Graphs are synthetic:
dense features (602 is the width of Reddit's), 64 hidden units, mean degree 10.

    python benchmarks/reweighting_overhead.py --device cpu
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from statistics import median

import torch
from measuring import write_csv

from drgcn.data import load
from drgcn.nn import GCN
from drgcn.training import fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nodes", nargs="+", type=int, default=[2_700, 20_000, 200_000])
    parser.add_argument("--features", nargs="+", type=int, default=[100])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seeds", nargs="+", type=int, default=[4])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    rows = []
    for features, seeds, nodes in product(arguments.features, arguments.seeds, arguments.nodes):
        data = load("planted", nodes=nodes, features=features, informative=20, mean_degree=10)
        epochs = max(3, min(100, 400_000 // nodes))
        if device.type == "cuda":
            epochs = max(10, min(1_000, 2_000_000 // nodes))
        times: dict[str | None, list[float]] = {None: [], "dr": []}
        for number in range(arguments.rounds + 1):
            for gate, spent in times.items():

                def make(gate=gate, data=data):
                    return GCN(data.num_features, 64, data.dataset.classes, reweight=gate)

                result = fit(make, data, range(seeds), epochs=epochs, device=device)
                if number:  # the first round warms up
                    spent.append(1e3 * result.seconds / epochs)
        plain, dr = median(times[None]), median(times["dr"])
        rows.append(
            {
                "nodes": nodes,
                "features": features,
                "seeds": seeds,
                "plain_ms_per_epoch": round(plain, 3),
                "dr_ms_per_epoch": round(dr, 3),
                "dr_over_plain": round(dr / plain, 3),
                "plain_spread": round(max(times[None]) / min(times[None]), 3),
            }
        )
    write_csv("reweighting_overhead", rows, device, arguments.out)


if __name__ == "__main__":
    main()
