"""Mini-batches of sampled neighbours for a PyG model, without pyg-lib or torch-sparse.

python examples/neighbor_sampling.py
"""

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

for epoch in range(10):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}, {batch.num_nodes} nodes in the last batch")

model.eval()
right = model(data.x, data.edge_index).argmax(-1) == data.y
print(f"test accuracy on the full graph: {right[data.test_mask].float().mean():.3f}")
