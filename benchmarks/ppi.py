"""How long is an epoch on PPI, beside the example that PyG has for it, and how much memory?

All rows are measured in one run on the same graphs: those of ppi-rebuilt, or else synthetic ones
of PPI's size. An epoch is all training graphs and a look at the validation graphs. PyG's example
takes one graph a step in a loop over one network, with products in float32; it also looks at the
test graphs after every epoch, which is left out here. Its network has residuals around all three
layers, ours around the middle one, as the authors of GAT have it. Recipes on ppi-rebuilt take one
graph a step with TF32 products: on CUDA, which alone has them, every network is timed with both
kinds of products. The time to start a pass is left out.

    python benchmarks/ppi.py --device cuda --seeds 1 20
    python benchmarks/ppi.py --device cpu --seeds 1 2 --width 32 --graphs 4 --nodes 200
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from measuring import EpochClock, write_csv
from ppi_attention import random_graphs
from sklearn.metrics import f1_score
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv

from drgcn.data import load, unite
from drgcn.errors import MissingDataError
from drgcn.nn import GAT
from drgcn.training import Patience, fit

# Epochs that are not timed: the first fill caches.
WARM_UP = 2


class ExampleNet(torch.nn.Module):
    """The network of PyG's ``examples/ppi.py``."""

    def __init__(self, features: int, width: int, labels: int) -> None:
        super().__init__()
        sizes = [(features, width // 4, 4), (width, width // 4, 4), (width, labels, 6)]
        self.convs = torch.nn.ModuleList(
            GATConv(a, b, heads=heads, concat=heads == 4) for a, b, heads in sizes
        )
        self.lins = torch.nn.ModuleList(
            torch.nn.Linear(a, 4 * b if heads == 4 else b) for a, b, heads in sizes
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the scores of all labels."""
        for number, (conv, lin) in enumerate(zip(self.convs, self.lins, strict=True)):
            x = conv(x, edge_index) + lin(x)
            x = F.elu(x) if number < 2 else x
        return x


def tissues(count: int | None, nodes: int | None) -> tuple[str, list[list[Data]]]:
    """Return the source of the graphs, and those to train, validate and test on: some of them, or
    with their first nodes alone, for a trial."""
    try:
        data = load("ppi-rebuilt", offline=True)
    except MissingDataError:
        source, graphs = "synthetic", random_graphs()
    else:
        source, graphs = "ppi-rebuilt", []
        for number in range(24):
            kept = data.graph == number
            place = kept.cumsum(0) - 1
            edges = place[data.edge_index[:, kept[data.edge_index[0]]]]
            graphs.append(Data(x=data.x[kept], edge_index=edges, y=data.y[kept]))
    if nodes is not None:
        graphs = [graph.subgraph(torch.arange(nodes)) for graph in graphs]
    return source, [graphs[:20][:count], graphs[20:22], graphs[22:]]


def loop_seconds(
    make: Callable[[], torch.nn.Module],
    parts: list[list[Data]],
    per_step: int,
    epochs: int,
    device: torch.device,
) -> float:
    """Seconds of an epoch of one network in the loop of PyG's example."""
    model = make().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    training = DataLoader(parts[0], batch_size=per_step, shuffle=True)
    validation = DataLoader(parts[1], batch_size=2)
    for epoch in range(epochs + WARM_UP):
        if epoch == WARM_UP:
            _wait(device)
            start = time.perf_counter()
        model.train()
        total = 0.0
        for batch in training:
            there = batch.to(device)
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(there.x, there.edge_index), there.y)
            total += loss.item() * there.num_graphs
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for batch in validation:
                out = model(batch.x.to(device), batch.edge_index.to(device))
                f1_score(batch.y.cpu().numpy(), (out > 0).float().cpu().numpy(), average="micro")
    _wait(device)
    return (time.perf_counter() - start) / epochs


def pass_seconds(
    make: Callable[[], torch.nn.Module],
    data: Data,
    per_step: int,
    seeds: int,
    epochs: int,
    device: torch.device,
) -> float:
    """Seconds of an epoch of all networks of a pass, without the time to start."""
    settings = {"lr": 0.005, "weight_decay": 0.0, "rule": Patience(), "device": device}
    clock = EpochClock()
    fit(
        make,
        data,
        range(seeds),
        epochs=epochs,
        graphs_per_step=per_step,
        progress=clock,
        **settings,
    )
    return clock.seconds_per_epoch


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Time every row, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--width", type=int, default=1024, help="hidden units of a node")
    parser.add_argument("--graphs", type=int, help="training graphs, of 20")
    parser.add_argument("--nodes", type=int, help="nodes of each graph, of all")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    device = torch.device(given.device)
    source, parts = tissues(given.graphs, given.nodes)
    sizes = (parts[0][0].num_features, given.width, parts[0][0].y.size(1))
    data = unite(*parts)

    def ours(reweight: str | None) -> Callable[[], torch.nn.Module]:
        options = {"num_layers": 3, "heads": 4, "out_heads": 6, "dropout": 0.0, "residual": True}
        return lambda: GAT(*sizes, **options, reweight=reweight)

    networks = {
        "PyG's example": lambda: ExampleNet(*sizes),
        "drgcn GAT": ours(None),
        "drgcn Dr-GAT": ours("dr"),
    }
    rows: list[dict[str, object]] = []

    def add(network: str, trained_by: str, per_step: int, seeds: int, products: str) -> None:
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        make = networks[network]
        torch.backends.cuda.matmul.fp32_precision = "tf32" if products == "tf32" else "ieee"
        if trained_by == "its loop":
            seconds = loop_seconds(make, parts, per_step, given.epochs, device)
        else:
            seconds = pass_seconds(make, data, per_step, seeds, given.epochs, device)
        peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
        rows.append(
            {
                "network": network,
                "trained_by": trained_by,
                "products": products,
                "graphs_per_step": per_step,
                "seeds": seeds,
                "seconds_per_epoch": round(seconds, 4),
                "seconds_per_epoch_and_seed": round(seconds / seeds, 4),
                "peak_GiB": peak and round(peak, 2),
                "graphs": source,
                "training_graphs": len(parts[0]),
                "training_nodes": sum(graph.num_nodes for graph in parts[0]),
                "hidden_units": given.width,
            }
        )
        write_csv("ppi", rows, device, given.out, shown=1)  # after each: a run may be cut off

    for products in ("float32", "tf32") if device.type == "cuda" else ("float32",):
        for per_step in (1, 2):
            add("PyG's example", "its loop", per_step, 1, products)
        for network, per_step in product(networks, (1, 2)):
            for seeds in given.seeds:
                add(network, "fit", per_step, seeds, products)


if __name__ == "__main__":
    main()
