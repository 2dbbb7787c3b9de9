"""Small graphs that share their classes, as inductive datasets have them."""

import torch
from torch_geometric.data import Data

from drgcn.data import unite

FEATURES, CLASSES, LABELS = 12, 3, 5


def graph(nodes, seed, *, many_labels=False):
    """A graph whose features say something about its labels, and whose edges join like nodes."""
    shared, own = (torch.Generator().manual_seed(s) for s in (99, seed))
    y = torch.randint(CLASSES, (nodes,), generator=own)
    y[:CLASSES] = torch.arange(CLASSES)  # every class in every graph
    centres = torch.randn(CLASSES, FEATURES, generator=shared)
    x = centres[y] + 0.8 * torch.randn(nodes, FEATURES, generator=own)
    pairs = torch.randint(nodes, (2, 12 * nodes), generator=own)
    alike = y[pairs[0]] == y[pairs[1]]
    kept = alike | (torch.rand(pairs.size(1), generator=own) < 0.2)
    if many_labels:
        table = (torch.rand(CLASSES, LABELS, generator=shared) < 0.5).float()
        table[0], table[1] = 1, 0  # every label is carried by some, and missing from others
        y = table[y]
    return Data(x=x, edge_index=pairs[:, kept], y=y)


def several(sizes=((14, 9, 17, 11, 8), (13, 10), (12, 15)), **options):
    """Training, validation and test graphs as one union."""
    seeds = iter(range(100))
    return unite(*([graph(n, next(seeds), **options) for n in part] for part in sizes))
