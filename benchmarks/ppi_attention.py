"""How long is an epoch of the three-layer GAT on graphs of PPI's size, and how much memory?

The graphs are synthetic: 24 of them, with PPI's totals of 56,944 nodes and 818,716 edges, 50
features and 121 labels, random and without meaning. An epoch is ten steps of two graphs each and
a look at the two validation graphs.

    python benchmarks/ppi_attention.py --device cuda --seeds 1 4 20
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from measuring import write_csv
from torch_geometric.data import Data

from drgcn.data import unite
from drgcn.nn import GAT
from drgcn.training import Patience, fit

GRAPHS, NODES, EDGES, FEATURES, LABELS = 24, 56_944, 818_716, 50, 121


def random_graphs() -> list[Data]:
    """Graphs with heavy-tailed degrees, every pair of nodes joined at most once."""
    draw = torch.Generator().manual_seed(0)
    sizes = [NODES // GRAPHS + (i < NODES % GRAPHS) for i in range(GRAPHS)]
    counts = [EDGES // GRAPHS + (i < EDGES % GRAPHS) for i in range(GRAPHS)]
    graphs = []
    for size, count in zip(sizes, counts, strict=True):
        lure = torch.rand(size, generator=draw) ** -0.4
        ends = torch.multinomial(lure, 6 * count, replacement=True, generator=draw).view(2, -1)
        ends = ends[:, ends[0] != ends[1]].sort(0).values.unique(dim=1)
        chosen = torch.randperm(ends.size(1), generator=draw)[:count]
        assert len(chosen) == count
        one_way = ends[:, chosen]
        graphs.append(
            Data(
                x=torch.randn(size, FEATURES, generator=draw),
                edge_index=torch.cat([one_way, one_way.flip(0)], dim=1),
                y=(torch.rand(size, LABELS, generator=draw) < 0.3).float(),
            )
        )
    return graphs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 4, 20])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    graphs = random_graphs()
    data = unite(graphs[:20], graphs[20:22], graphs[22:])
    rows = []
    for reweight in (None, "dr"):

        def make(reweight=reweight):
            return GAT(
                *(FEATURES, 1024, LABELS),
                **{"num_layers": 3, "heads": 4, "out_heads": 6, "dropout": 0.0},
                residual=True,
                reweight=reweight,
            )

        for seeds in arguments.seeds:
            seen = []
            if device.type == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            settings = {"lr": 0.005, "weight_decay": 0.0, "rule": Patience(), "device": device}
            result = fit(
                make,
                data,
                range(seeds),
                epochs=arguments.epochs,
                graphs_per_step=2,
                progress=seen.append,
                **settings,
            )
            peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
            rows.append(
                {
                    "model": "GAT" if reweight is None else "Dr-GAT",
                    "seeds": seeds,
                    "seeds_at_once": seen[-1].seeds_at_once,
                    "seconds_per_epoch_of_all_seeds": round(result.seconds / arguments.epochs, 3),
                    "peak_GiB": peak and round(peak, 2),
                }
            )
    write_csv("ppi_attention", rows, device, arguments.out)


if __name__ == "__main__":
    main()
