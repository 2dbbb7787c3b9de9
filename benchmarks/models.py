"""How long is an epoch of every model, beside PyG's nearest counterpart?

Three ways to train the same network: PyG's layers in an ordinary loop, our module in the same
loop, and ``fit`` with one seed and with twenty. An epoch is a training step and a look at the
validation nodes. PyG's GAT draws one mask of the input for all heads where the authors' code, and
ours, draws one for each; its MixHop has no batch norm with shared statistics and is given PyG's.
PyG has no LGCN: in its place stands ours with neighbours ranked as one would write it, by
``torch.topk`` over rows padded to the longest.

    python benchmarks/models.py --device cpu --epochs 10
    python benchmarks/models.py --only LGCN
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from measuring import EpochClock, write_csv
from torch_geometric.nn import BatchNorm, ChebConv, GATConv, GCNConv, MixHopConv

from drgcn.data import load
from drgcn.nn import GAT, GCN, LGCN, MLP, ChebNet, MixHop, SparseMatrix, normalized_adjacency
from drgcn.training import fit

WARM_UP = 3
# A fourth of the fewest epochs of a pass; those of a loop are an option.
FIT_EPOCHS = {"cpu": 10, "cuda": 100}


class PyGNet(torch.nn.Module):
    """Two layers of PyG's with dropout in front of both, as in PyG's examples."""

    def __init__(self, first, second, between, dropout: float) -> None:
        super().__init__()
        self.first, self.second, self.between, self.dropout = first, second, between, dropout

    def forward(self, x, edges):
        """Class scores."""
        x = F.dropout(x, self.dropout, self.training)
        x = self.between(self.first(x, edges))
        x = F.dropout(x, self.dropout, self.training)
        return self.second(x, edges)


class PyGMixHop(torch.nn.Module):
    """PyG's MixHopConv twice, batch norm between, a linear read-out."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = MixHopConv(features, 20, powers=[0, 1, 2], bias=False)
        self.norm = BatchNorm(60)
        self.second = MixHopConv(60, classes, powers=[0, 1, 2], bias=False)
        self.out = torch.nn.Linear(3 * classes, classes)

    def forward(self, x, edges):
        """Class scores."""
        x = F.dropout(x, 0.5, self.training)
        x = self.norm(self.first(x, edges)).relu()
        x = F.dropout(x, 0.9, self.training)
        return self.out(self.second(x, edges))


class PyGMLP(torch.nn.Module):
    """Two linear layers."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(features, 16, bias=False)
        self.second = torch.nn.Linear(16, classes, bias=False)

    def forward(self, x, edges):
        """Class scores."""
        x = self.first(F.dropout(x, 0.5, self.training)).relu()
        return self.second(F.dropout(x, 0.5, self.training))


class PaddedNeighbors:
    """Rows of the adjacency matrix padded to the longest, ranked by torch."""

    def __init__(self, adj: SparseMatrix) -> None:
        start, length = adj.pattern.crow[:-1, None].long(), adj.pattern.crow.diff()[:, None]
        place = torch.arange(int(length.max()), device=length.device)
        entries = (start + place).clamp(max=adj.pattern.nnz - 1)
        self.matrix, self.col = adj, adj.pattern.col.long()[entries]
        self.values = torch.where(place < length, adj.values[entries], 0)[:, :, None]

    def select(self, x, count):
        """The largest values above zero of every node's neighbours."""
        return (x[self.col] * self.values).relu().topk(count, dim=1).values


class PaddedLGCN(LGCN):
    """LGCN that takes features and edges, and pads its rows."""

    def forward(self, x, edges):
        """Class scores."""
        if not hasattr(self, "padded"):
            self.padded = PaddedNeighbors(normalized_adjacency(edges, len(x)))
        *_, (_, _, out) = self.run_layers(x, self.padded, None)
        return out


def pairs(d: int, c: int) -> dict[str, tuple[Callable, Callable]]:
    """For every model, PyG's and ours."""
    return {
        "GCN": (
            lambda: PyGNet(
                GCNConv(d, 64, cached=True, bias=False),
                GCNConv(64, c, cached=True, bias=False),
                F.relu,
                0.5,
            ),
            lambda: GCN(d, 64, c),
        ),
        "GAT": (
            lambda: PyGNet(
                GATConv(d, 8, heads=8, dropout=0.6), GATConv(64, c, dropout=0.6), F.elu, 0.6
            ),
            lambda: GAT(d, 64, c),
        ),
        "MixHop": (lambda: PyGMixHop(d, c), lambda: MixHop(d, (20, 20, 20), c)),
        "Chebyshev": (
            lambda: PyGNet(
                ChebConv(d, 16, K=4, bias=False), ChebConv(16, c, K=4, bias=False), F.relu, 0.5
            ),
            lambda: ChebNet(d, 16, c, K=3),
        ),
        "MLP": (lambda: PyGMLP(d, c), lambda: MLP(d, 16, c)),
        "LGCN": (lambda: PaddedLGCN(d, 32, c), lambda: LGCN(d, 32, c)),
    }


def loop(make: Callable, inputs: tuple, data, epochs: int) -> float:
    """Seconds per epoch of one model in an ordinary training loop."""
    torch.manual_seed(0)
    model = make().to(data.y.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, kept = -1.0, {}
    for epoch in range(epochs + WARM_UP):
        if epoch == WARM_UP:
            wait(data.y.device)
            start = time.perf_counter()
        model.train()
        optimizer.zero_grad()
        out = model(*inputs)
        F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            guess = model(*inputs)[data.val_mask].argmax(-1)
        accuracy = float((guess == data.y[data.val_mask]).float().mean())
        if accuracy > best:
            best, kept = accuracy, {k: v.clone() for k, v in model.state_dict().items()}
    wait(data.y.device)
    assert kept
    return (time.perf_counter() - start) / epochs


def wait(device: torch.device) -> None:
    """For a GPU to finish."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--data-root")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--only", nargs="+", help="Names of models.")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    device, epochs = torch.device(arguments.device), arguments.epochs
    data = load(arguments.dataset, arguments.data_root, split="full")
    classes = data.dataset.classes
    plain = data.clone()
    del plain.dataset
    there = plain.to(device)
    rows = []
    for name, (pyg, ours) in pairs(data.num_features, classes).items():
        if arguments.only and name not in arguments.only:
            continue
        inputs = there.x, there.edge_index
        times = {
            ("PyG, loop", 1): loop(pyg, inputs, there, epochs),
            ("ours, loop", 1): loop(ours, inputs, there, epochs),
        }
        for seeds in (1, arguments.seeds):
            clock = EpochClock()
            count = FIT_EPOCHS[device.type]
            while len(clock.reports) < 4:  # for a fast model more epochs
                clock, count = EpochClock(), 4 * count
                fit(ours, data, range(seeds), epochs=count, device=device, progress=clock)
            times["ours, fit", seeds] = clock.seconds_per_epoch
        reference = times["PyG, loop", 1]
        for (way, seeds), seconds in times.items():
            rows.append(
                {
                    "dataset": arguments.dataset,
                    "model": name,
                    "way": way,
                    "seeds": seeds,
                    "ms_per_epoch": round(1e3 * seconds, 3),
                    "time_over_pyg": round(seconds / (reference * seeds), 3),
                    "throughput_over_pyg": round(reference * seeds / seconds, 1),
                }
            )
    name = "_".join(["models", *(arguments.only or ())])
    write_csv(name, rows, device, arguments.out)


if __name__ == "__main__":
    main()
