"""
The block in your PyG model
===========================

Dimensional reweighting in a PyG model of your own: by hand, inserted, and compared with two
gates that see no data. ``planted`` is synthetic and made for Dr: loud columns say nothing there.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN, GCNConv

from drgcn import DimensionalReweighting, compare, insert_reweighting, load, reweighting_blocks

data = load("planted")
features, hidden, classes = data.num_features, 32, data.dataset.classes


class Net(torch.nn.Module):
    """Written by hand: a block in front of each convolution, or none."""

    def __init__(self, gate: str | None) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, hidden), GCNConv(hidden, classes)
        make = torch.nn.Identity if gate is None else DimensionalReweighting
        self.dr1, self.dr2 = make(features), make(hidden)

    def forward(self, x, edge_index):
        """Class scores."""
        x = self.conv1(self.dr1(x), edge_index).relu()
        x = F.dropout(x, 0.5, self.training)
        return self.conv2(self.dr2(x), edge_index)


def gcn() -> GCN:
    """PyG's own."""
    return GCN(features, hidden, num_layers=2, out_channels=classes, dropout=0.5)


# A copy of any PyG model, with a block in front of every convolution.
for name, block in reweighting_blocks(insert_reweighting(gcn())).items():
    print(f"inserted {name}: {block}")

# The same training, seeds and first weights for every row: only the gate differs.
print("\nwritten by hand:\n")
print(compare(Net, data, range(4), gates=(None, "dr"), epochs=60).summary())

print("\nPyG's GCN, with both control gates:\n")
found = compare(gcn, data, range(4), epochs=60)
print(found.summary())

# Every dot is a network, every grey line a seed: the same first weights, another gate.
rows = [[100 * score for score in result.test_accuracy] for result in found.fits.values()]
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(rows, color="0.85")
for place, scores in enumerate(rows):
    axes.plot([place] * len(scores), scores, "o")
axes.set_xticks(range(len(rows)), [gate or "plain" for gate in found.fits])
axes.set_ylabel("test accuracy %")
plt.show()
