"""Dimensional reweighting in a PyG model of your own: two ways.

python examples/dr_in_your_pyg_model.py
"""

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN, GCNConv

from drgcn import DimensionalReweighting, insert_reweighting, load, reweighting_blocks


class Net(torch.nn.Module):
    """Written by hand: a block in front of each convolution."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.dr1 = DimensionalReweighting(in_channels)
        self.conv1 = GCNConv(in_channels, hidden_channels)
        self.dr2 = DimensionalReweighting(hidden_channels)
        self.conv2 = GCNConv(hidden_channels, out_channels)

    def forward(self, x, edge_index):
        """Class scores."""
        x = F.dropout(self.dr1(x), 0.5, self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(self.dr2(x), 0.5, self.training)
        return self.conv2(x, edge_index)


def train(model: torch.nn.Module, data) -> float:
    """Test accuracy after a plain PyG training loop."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    model.train()
    for _epoch in range(200):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    model.eval()
    right = model(data.x, data.edge_index).argmax(-1) == data.y
    return float(right[data.test_mask].float().mean())


torch.manual_seed(0)
data = load("planted")

by_hand = Net(data.num_features, 32, data.dataset.classes)
print(f"by hand:  {train(by_hand, data):.3f}")

plain = GCN(data.num_features, 32, num_layers=2, out_channels=data.dataset.classes, dropout=0.5)
inserted = insert_reweighting(plain)  # a copy; `plain` stays as it is
for name, block in reweighting_blocks(inserted).items():
    print(f"inserted: {name}: {block}")
print(f"plain:    {train(plain, data):.3f}")
print(f"inserted: {train(inserted, data):.3f}")
