"""Graphs for the samplers' tests, and chance that is given beforehand."""

import torch
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Data, HeteroData

from drgcn.sampling import CSRGraph

DEGREES = [0, 1, 3, 5, 40, 2, 0, 7]


def uneven(kind=torch.int32):
    """Rows of very different length, the first one empty, over 100 senders."""
    degree = torch.tensor(DEGREES)
    rowptr = torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)])
    col = torch.cat([torch.randperm(100)[:size].sort().values for size in DEGREES])
    return CSRGraph(rowptr.to(kind), col.to(kind), 100)


def random_data(nodes=60, edges=500, features=5, seed=3):
    """Random edges with repetitions, some nodes that nobody sends to, and an id on each edge."""
    draw = torch.Generator().manual_seed(seed)
    edge_index = torch.stack(
        [
            torch.randint(nodes, (edges,), generator=draw),
            torch.randint(nodes - 5, (edges,), generator=draw),
        ]
    )
    return Data(
        x=torch.randn(nodes, features, generator=draw),
        y=torch.randint(3, (nodes,), generator=draw),
        edge_index=edge_index,
        edge_attr=torch.arange(edges),
    )


def random_hetero(seed=4):
    """Papers, authors and a type of node without edges to it."""
    draw = torch.Generator().manual_seed(seed)
    data = HeteroData()
    sizes = {"paper": 50, "author": 30, "venue": 4}
    for kind, size in sizes.items():
        data[kind].x = torch.randn(size, 6, generator=draw)
    for kind, edges in {
        ("author", "writes", "paper"): 200,
        ("paper", "by", "author"): 150,
        ("paper", "cites", "paper"): 300,
        ("venue", "prints", "paper"): 50,
    }.items():
        ends = [torch.randint(sizes[end], (edges,), generator=draw) for end in kind[::2]]
        data[kind].edge_index = torch.stack(ends)
        data[kind].edge_attr = torch.arange(edges)
    return data


class Given(TorchFunctionMode):
    """While active, ``torch.rand`` hands out given numbers, call by call."""

    def __init__(self, *numbers):
        super().__init__()
        self.numbers = list(numbers)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.rand:
            number = self.numbers.pop(0)
            assert tuple(number.shape) == args
            assert kwargs["dtype"] is torch.float64
            return number
        return func(*args, **(kwargs or {}))
