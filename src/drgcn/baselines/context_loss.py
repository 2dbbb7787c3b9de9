"""How well the vectors of nodes tell true contexts from drawn ones."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor


def context_loss(
    embed: Callable[[Tensor], Tensor], weight: Tensor, pairs: Tensor, wrong: Tensor
) -> Tensor:
    r"""The loss of Planetoid's contexts, summed over pairs: for a centre :math:`i`, its context
    :math:`c` and wrong contexts :math:`n`

    .. math::
        -\log \sigma(\mathbf{w}_c \cdot \mathbf{e}_i)
        - \sum_n \log \sigma(-\mathbf{w}_n \cdot \mathbf{e}_i).

    Args:
        embed: Gives the vectors of nodes ``[count, d]``.
        weight: A vector for each node as context ``[nodes, d]``.
        pairs: Centre and context ``[2, pairs]``.
        wrong: Wrong contexts of each pair ``[pairs, negatives]``.
    """
    # A centre stands in many pairs, and a layer over features is dear.
    centres, place = pairs[0].unique(return_inverse=True)
    vectors = F.embedding(place, embed(centres))
    right = (vectors * F.embedding(pairs[1], weight)).sum(dim=1)
    drawn = (F.embedding(wrong, weight) @ vectors[:, :, None]).squeeze(2)
    return F.softplus(-right).sum() + F.softplus(drawn).sum()
