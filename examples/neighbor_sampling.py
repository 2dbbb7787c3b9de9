"""
Large graphs: mini-batches of sampled neighbours
================================================

A PyG model with Dr, trained on batches of neighbours without pyg-lib or torch-sparse.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE

from drgcn import insert_reweighting, load
from drgcn.sampling import NeighborSampler

torch.manual_seed(0)
data = load("digits")
sampler = NeighborSampler(data, num_neighbors=[25, 10])  # the rest is as with NeighborLoader
loader = NodeLoader(
    data,
    sampler,
    input_nodes=data.train_mask,
    batch_size=64,
    shuffle=True,
)
# In training a block looks at the nodes of the batch, in the end at all nodes.
plain = GraphSAGE(data.num_features, 64, 2, data.dataset.classes, dropout=0.5)
model = insert_reweighting(plain)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

losses, sizes = [], []
for epoch in range(10):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        sizes.append(batch.num_nodes)
    print(f"epoch {epoch}: loss {loss.item():.3f}, {batch.num_nodes} nodes in the last batch")

model.eval()
right = model(data.x, data.edge_index).argmax(-1) == data.y
print(f"test accuracy on the full graph: {right[data.test_mask].float().mean():.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
left.plot(losses)
left.set(xlabel="step", ylabel="loss of the batch")
right.hist(sizes, bins=15)
right.set(xlabel="nodes in a batch", ylabel="batches", xlim=(0, data.num_nodes))
plt.show()
