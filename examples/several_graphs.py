"""
Several graphs, several labels a node
=====================================

Train on some graphs, validate on another, test on a third: every graph has its own reweighting
vector. Your own graphs are lists of PyG ``Data``, as ``torch_geometric.datasets.PPI`` gives them.
The ones here are drawn at random.
"""

import matplotlib.pyplot as plt
import torch
from torch_geometric.data import Data

from drgcn import fit
from drgcn.data import unite
from drgcn.nn import GAT


def random_graph(seed: int) -> Data:
    """60 nodes whose three labels say which of three features are positive."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 8, generator=draw)
    return Data(
        x=x,
        edge_index=torch.randint(60, (2, 120), generator=draw),
        y=(x[:, :3] > 0).float(),  # several labels a node: judged by micro-F1
    )


graphs = [random_graph(seed) for seed in range(8)]
data = unite(graphs[:6], graphs[6:7], graphs[7:])
result = fit(
    lambda: GAT(8, 32, 3, dropout=0.1, reweight="dr"),
    data,
    seeds=range(4),
    epochs=60,
    graphs_per_step=2,
)
print(result.metric, [round(score, 2) for score in result.test_accuracy])

# The first gate's vector of each graph, under seed 0: similar graphs, similar vectors.
gate = result.models[0].inputs[0].gate
vectors = torch.stack([gate.vector(graph.x) for graph in graphs]).detach()
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(vectors.T, marker="o", alpha=0.6)
axes.set(xlabel="feature (the first three say the labels)", ylabel="weight s")
plt.show()
