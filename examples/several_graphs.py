"""Train on some graphs, validate on another, test on a third: every graph has its own s.

Your own graphs are lists of PyG `Data`, as `torch_geometric.datasets.PPI` gives them. The ones
here are drawn at random.
"""

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
