"""The loss that makes neighbours alike and strangers differ."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def margin_loss(vectors: Tensor, near: Tensor, far: Tensor, margin: float) -> Tensor:
    r"""The loss of Hadsell et al. (2006) that SemiEmb uses: for neighbours
    :math:`\|\mathbf{h}_i - \mathbf{h}_j\|^2`, for others
    :math:`\max(0, m - \|\mathbf{h}_i - \mathbf{h}_j\|)^2`, each a mean over its pairs.

    Args:
        vectors: One row per node ``[nodes, d]``.
        near: Pairs of neighbours ``[2, pairs]``.
        far: Pairs of other nodes ``[2, pairs]``.
        margin: Distance :math:`m` beyond which nodes are let be.
    """
    apart = F.embedding(near[0], vectors) - F.embedding(near[1], vectors)
    pulled = (apart * apart).sum(dim=1)
    apart = F.embedding(far[0], vectors) - F.embedding(far[1], vectors)
    # The root has no slope at zero: a node drawn with itself is left out by the small number.
    distance = ((apart * apart).sum(dim=1) + 1e-12).sqrt()
    pushed = (margin - distance).clamp(min=0) ** 2
    return (pulled.sum() + pushed.sum()) / max(near.size(1), 1)
