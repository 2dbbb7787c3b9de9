"""Does ``fit`` predict the held-out links of Cora as well as PyG's own example, and how fast?

Both train the encoder of PyG's ``link_pred.py`` (two GCNConv, 128 hidden units, 64 outputs, inner
products) with Adam for 100 epochs on the same split, 5 % of the edges to validate and 10 % to
test, and test the epoch of the best validation ROC-AUC. PyG's side draws its negatives with
``negative_sampling``, one seed after the other.

    python benchmarks/link_prediction.py --device cpu --seeds 4
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from measuring import write_csv
from sklearn.metrics import roc_auc_score
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import negative_sampling

from drgcn.data import load
from drgcn.training import fit


class Net(torch.nn.Module):
    """The encoder and decoder of PyG's example."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, 128), GCNConv(128, 64)

    def forward(self, x, edge_index):
        """Vectors of nodes."""
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z, edge_label_index):
        """Scores of pairs."""
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


def train_with_pyg(parts, seed: int, epochs: int) -> float:
    """Test ROC-AUC at the epoch of the best validation ROC-AUC, as in the example."""
    train, val, test = parts
    torch.manual_seed(seed)
    model = Net(train.num_features).to(train.x.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = torch.nn.BCEWithLogitsLoss()
    best = kept = 0.0
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        z = model(train.x, train.edge_index)
        drawn = negative_sampling(
            train.edge_index, train.num_nodes, train.edge_label_index.size(1), method="sparse"
        )
        pairs = torch.cat([train.edge_label_index, drawn], dim=-1)
        labels = torch.cat([train.edge_label, train.edge_label.new_zeros(drawn.size(1))])
        criterion(model.decode(z, pairs).view(-1), labels).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            found = [
                roc_auc_score(
                    part.edge_label.cpu(),
                    model.decode(model(part.x, part.edge_index), part.edge_label_index).cpu(),
                )
                for part in (val, test)
            ]
        if found[0] > best:
            best, kept = found
    return kept


def main() -> None:
    """Trains on both sides and writes a row for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    device = torch.device(given.device)
    data = load("cora", normalize="none")
    seed_everything(0)
    cut = RandomLinkSplit(0.05, 0.1, is_undirected=True, add_negative_train_samples=False)
    parts = cut(Data(x=data.x, edge_index=data.edge_index).to(device))

    start = time.perf_counter()
    theirs = [train_with_pyg(parts, seed, given.epochs) for seed in range(given.seeds)]
    their_seconds = time.perf_counter() - start
    start = time.perf_counter()
    ours = fit(
        lambda: Net(data.num_features),
        parts,
        range(given.seeds),
        epochs=given.epochs,
        weight_decay=0.0,
        device=device,
    ).test_accuracy
    our_seconds = time.perf_counter() - start
    rows = [
        {
            "trained by": who,
            "seeds": given.seeds,
            "epochs": given.epochs,
            "test ROC-AUC %": f"{100 * np.mean(areas):.2f}",
            "deviation": f"{100 * np.std(areas, ddof=1):.2f}",
            "seconds": f"{seconds:.1f}",
        }
        for who, areas, seconds in (("PyG", theirs, their_seconds), ("fit", ours, our_seconds))
    ]
    write_csv("link_prediction", rows, device, given.out)


if __name__ == "__main__":
    main()
