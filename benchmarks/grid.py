"""Does a grid of 16 settings and 20 seeds in one pass find what a call for every setting finds?

GCN on Cora's public split, 200 epochs. Each setting is trained again by a call of its own.

    python benchmarks/grid.py --device cuda
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from measuring import write_csv
from torch_geometric.nn import models

from drgcn.data import load
from drgcn.nn import GCN
from drgcn.training import fit

GRID = {"lr": [0.003, 0.01, 0.03, 0.1], "weight_decay": [5e-4, 5e-3], "dropout": [0.3, 0.6]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    device, seeds = torch.device(arguments.device), range(arguments.seeds)
    data = load("cora", arguments.data_root, split="public")
    classes = data.dataset.classes
    networks = {
        "drgcn GCN": lambda: GCN(data.num_features, 64, classes, dropout=0.5),
        "drgcn GCN, Dr": lambda: GCN(data.num_features, 64, classes, dropout=0.5, reweight="dr"),
        "PyG GCN": lambda: models.GCN(
            data.num_features, 64, num_layers=2, out_channels=classes, dropout=0.5
        ),
    }
    options = {"epochs": arguments.epochs, "device": device}
    rows = []
    for name, make in networks.items():
        start = time.perf_counter()
        found = fit(make, data, seeds, grid=GRID, **options)
        in_one = time.perf_counter() - start
        best = found.best_setting()
        start, apart, differences = time.perf_counter(), {}, []
        settings = [found.settings[i] for i in range(0, len(found.seeds), len(seeds))]
        for one in settings:
            alone = fit(make, data, seeds, grid=[one], **options)
            apart[str(one)] = sum(alone.val_accuracy) / len(seeds)
            together = found.where(**one).test_accuracy
            differences += [abs(a - b) for a, b in zip(alone.test_accuracy, together, strict=True)]
        alone_seconds = time.perf_counter() - start
        rows.append(
            {
                "network": name,
                "networks": len(found.seeds),
                "epochs": arguments.epochs,
                "seconds_in_one_call": round(in_one, 2),
                "seconds_in_calls_of_their_own": round(alone_seconds, 2),
                "same_winner": max(apart, key=apart.__getitem__) == str(best.settings[0]),
                "winner": " ".join(f"{k}={v}" for k, v in best.settings[0].items()),
                "mean_difference_of_test_points": round(
                    100 * sum(differences) / len(differences), 3
                ),
                "largest_difference_of_test_points": round(100 * max(differences), 2),
            }
        )
        print(rows[-1], flush=True)
    write_csv("grid", rows, device, arguments.out)


if __name__ == "__main__":
    main()
