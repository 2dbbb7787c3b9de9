"""Skip-gram with negative sampling, walk by walk."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def skip_gram_loss(
    inner: Tensor,
    outer: Tensor,
    walks: Tensor,
    negatives: Tensor,
    *,
    window: int,
    per_pair: float,
) -> Tensor:
    r"""The loss of word2vec over all pairs of nodes that are near each other in a walk.

    For each pair :math:`(v, c)` at a distance of at most ``window`` places

    .. math::
        -\log \sigma(\mathbf{u}_v \cdot \mathbf{w}_c)
        - \sum_{k} \log \sigma(-\mathbf{u}_v \cdot \mathbf{w}_{n_k}),

    summed over pairs, with ``per_pair`` negatives :math:`n_k` in expectation. word2vec draws
    new ones for each pair; here the pairs of a walk share theirs, each with the weight that
    gives the same expected loss. That turns all pairs of a walk into one small product.

    Args:
        inner: Vectors :math:`\mathbf{u}` of nodes as centres ``[nodes, d]``.
        outer: Vectors :math:`\mathbf{w}` of nodes as contexts ``[nodes, d]``.
        walks: Nodes ``[walks, length]``.
        negatives: Drawn nodes ``[walks, drawn]``.
        window: Greatest distance of a pair.
        per_pair: Number of negatives that a pair counts with.

    Returns:
        The sum over all pairs.
    """
    centres = F.embedding(walks, inner)
    near = torch.bmm(centres, F.embedding(walks, outer).transpose(1, 2))
    far = torch.bmm(centres, F.embedding(negatives, outer).transpose(1, 2))
    place = torch.arange(walks.size(1))
    distance = (place[:, None] - place).abs()
    paired = ((distance > 0) & (distance <= window)).to(inner.dtype)
    positive = (F.softplus(-near) * paired).sum()
    # A centre at the end of a walk has fewer contexts, and so fewer negatives.
    weight = paired.sum(dim=1) * (per_pair / negatives.size(1))
    return positive + (F.softplus(far) * weight[:, None]).sum()
