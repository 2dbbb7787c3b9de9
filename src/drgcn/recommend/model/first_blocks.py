"""What enters the first layer, from trees of nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from drgcn.recommend.model.attribute_encoder import AttributeEncoder
from drgcn.recommend.model.click_tree import ClickTree, Side, other
from drgcn.recommend.model.encoded_attributes import ClickAttributes
from drgcn.recommend.model.neighborhood_encoding import encode_means
from drgcn.recommend.model.tree_block import TreeBlock, TreePlaces


def first_blocks(
    encoders: dict[Side, AttributeEncoder],
    trees: Sequence[ClickTree],
    attributes: ClickAttributes,
    counted: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
) -> list[TreeBlock]:
    """A block for each level of each tree but the deepest, which is only ever averaged over.

    Args:
        encoders: The encoder of each side.
        trees: The trees.
        attributes: What the encoders prepared.
        counted: For each tree, how many of its roots count in pooled means. (default: all)
        dtype: Of the vectors. (default: that of the embeddings)
    """
    blocks = []
    for number, tree in enumerate(trees):
        count = tree.levels[0].numel() if counted is None else counted[number]
        for level in range(len(tree.levels) - 1):
            mine = tree.side_of(level)
            theirs = other(mine)
            nodes = tree.levels[level].reshape(-1, 1)
            neighbors = tree.levels[level + 1].flatten(0, -2)
            own = encode_means(encoders[mine], attributes[mine], nodes, dtype)
            mean = encode_means(encoders[theirs], attributes[theirs], neighbors, dtype)
            blocks.append(TreeBlock(TreePlaces(tree, level, count), own, mean))
    return blocks
