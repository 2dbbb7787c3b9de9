"""How many network-epochs a second does one pass train, against PyG's loop, by number of networks?

Two-layer networks with 64 hidden units on Cora: PyG's own classes as they come, and drgcn's GCN
plain and with Dr, which has dropout in front of both layers and is held against PyG's example of
that form. The loop of PyG's examples trains one network, and validates it after every epoch. The
time to start a pass is no part of its epochs and has a column of its own.

    python benchmarks/lanes.py --device cpu --lanes 1 4 20
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from measuring import EpochClock, write_csv
from torch_geometric.nn import GCNConv, models

from drgcn.data import load
from drgcn.nn import GCN
from drgcn.training import fit

LOOP_EPOCHS = {"cpu": 30, "cuda": 200}
# Epochs of all networks of a pass together, and the fewest and most of one of them.
EPOCHS = {"cpu": (500, 25, 300), "cuda": (60_000, 400, 5_000)}


class Example(torch.nn.Module):
    """The GCN of PyG's examples: dropout in front of both layers."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, 64), GCNConv(64, classes)

    def forward(self, x, edge_index):
        """Class scores."""
        x = self.first(F.dropout(x, 0.5, self.training), edge_index).relu()
        return self.second(F.dropout(x, 0.5, self.training), edge_index)


def networks(features: int, classes: int) -> dict[str, Callable[[], torch.nn.Module]]:
    """Return the networks by name."""
    options = {"num_layers": 2, "out_channels": classes, "dropout": 0.5}
    return {
        "PyG example GCN": lambda: Example(features, classes),
        "drgcn GCN": lambda: GCN(features, 64, classes),
        "drgcn GCN, Dr": lambda: GCN(features, 64, classes, reweight="dr"),
        "PyG GCN": lambda: models.GCN(features, 64, **options),
        "PyG GAT": lambda: models.GAT(features, 64, **options),
        "PyG GAT, 8 heads": lambda: models.GAT(features, 64, heads=8, **options),
        "PyG GraphSAGE": lambda: models.GraphSAGE(features, 64, **options),
        "PyG GIN": lambda: models.GIN(features, 64, **options),
    }


def loop_seconds(make: Callable[[], torch.nn.Module], data, device, epochs: int) -> float:
    """Seconds of an epoch of one network in the loop of PyG's examples, the median."""
    there = data.clone().to(device)
    model = make().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, seconds = 0.0, []
    for _ in range(epochs + 3):
        start = time.perf_counter()
        model.train()
        optimizer.zero_grad()
        out = model(there.x, there.edge_index)
        F.cross_entropy(out[there.train_mask], there.y[there.train_mask]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            guess = model(there.x, there.edge_index)[there.val_mask].argmax(-1)
        best = max(best, float((guess == there.y[there.val_mask]).float().mean()))  # waits
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[3:])  # the first epochs fill caches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 4, 20, 80, 320])
    parser.add_argument("--only", nargs="+", help="Names of networks.")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    data = load("cora", arguments.data_root, split="public")
    classes = data.dataset.classes
    del data.dataset
    in_all, fewest, most = EPOCHS[device.type]
    rows = []
    found = networks(data.num_features, classes)
    for name, make in found.items():
        against = "PyG example GCN" if name.startswith("drgcn") else name
        if name not in (arguments.only or found):
            continue
        fit(make, data, range(2), epochs=20, device=device)  # compiles kernels
        for lanes in arguments.lanes:
            # Beside every pass, as the speed of a machine may change in minutes.
            loop = loop_seconds(found[against], data, device, LOOP_EPOCHS[device.type])
            clock = EpochClock()
            epochs = min(max(in_all // lanes, fewest), most)
            fit(make, data, range(lanes), epochs=epochs, device=device, progress=clock)
            each = clock.seconds_per_epoch
            rows.append(
                {
                    "network": name,
                    "lanes": lanes,
                    "loop_ms": round(1e3 * loop, 3),
                    "us_per_lane_epoch": round(1e6 * each / lanes, 2),
                    "over_loop": round(loop * lanes / each, 2),
                    "seconds_to_start": round(clock.seconds_to_start, 2),
                    "peak_mib": _peak(device),
                }
            )
            write_csv(
                "lanes", rows, device, arguments.out, shown=1
            )  # after each: a run may be cut off


def _peak(device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return round(peak / 2**20)


if __name__ == "__main__":
    main()
