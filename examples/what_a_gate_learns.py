"""
What a gate learns, and K
=========================

``planted`` has columns that say which class a node has, and louder ones that say nothing. A block
learns to silence the loud ones: K, the variance across dimensions after reweighting relative to
before, falls below one. On most real data it does not; :doc:`/results` counts.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN

from drgcn import (
    StabilityTracker,
    insert_reweighting,
    load,
    minimal_k_in_range,
    reweighting_blocks,
)
from drgcn.stability import feature_variance

torch.manual_seed(0)
data = load("planted")
model = insert_reweighting(GCN(data.num_features, 32, 2, data.dataset.classes, dropout=0.5))
tracker = StabilityTracker(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(100):
    model.train()
    optimizer.zero_grad()
    scores = model(data.x, data.edge_index)
    F.cross_entropy(scores[data.train_mask], data.y[data.train_mask]).backward()
    optimizer.step()
    tracker.record(data.x, data.edge_index)

# What any gate could do whose entries differ by a factor of at most four.
least = minimal_k_in_range(data.x, 4)
names = list(reweighting_blocks(model))
curves = {name: [state.k for state in tracker.history if state.block == name] for name in names}
print(f"K of the first block {curves[names[0]][-1]:.2f}, least within 4: {least.value:.2f}")

s = reweighting_blocks(model)[names[0]].vector(data.x).detach()
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.scatter(feature_variance(data.x), s)
left.set(xlabel="variance of a feature", ylabel="its weight s", xscale="log")
for name, ks in curves.items():
    right.plot(ks, label=name)
right.axhline(1, color="0.6", linewidth=1)
right.set(xlabel="epoch", ylabel="K")
right.legend(frameon=False)
plt.show()
