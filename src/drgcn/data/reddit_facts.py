"""What is published about the Reddit graph: its sizes, and how many posts each community has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    """Counts that tell the published graph from another one.

    Attributes:
        nodes: Posts.
        edges: Undirected edges.
        features: Columns; the first two are the number of comments and the score.
        classes: Communities.
        val: Validation nodes.
        test: Test nodes; the other nodes are there to train.
    """

    nodes: int
    edges: int
    features: int
    classes: int
    val: int
    test: int


# The sparse graph of FastGCN, GraphSAINT and the paper (PyG: Reddit2). The graph that PyG and DGL
# call Reddit has 57,307,946 undirected edges and another split.
PUBLISHED: Final = Sizes(
    nodes=232_965, edges=11_606_919, features=602, classes=41, val=23_699, test=55_334
)

# Labelled nodes of each class in FastGCN's reddit.npz, all parts together. The file labels
# 231,443 nodes: 152,410 of its nodes train, and the other 1,522 are in no part.
CLASS_SIZES: Final = (
    *(13065, 3538, 3279, 15163, 2304, 3588, 3930, 2117, 11151, 2232, 4898, 2960, 1696, 2689),
    *(4849, 28166, 993, 2630, 13963, 10242, 1588, 4044, 7944, 12043, 328, 1645, 4212, 5869),
    *(4668, 5052, 2797, 4548, 1554, 4937, 3422, 4184, 4161, 4188, 12742, 2977, 5087),
)
FASTGCN_TRAIN: Final = 152_410
