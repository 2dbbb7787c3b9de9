"""What training makes small: a softmax over sampled items, or the order of pairs."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.model.column_lse import column_lse

LogQ = Literal["standard", "refined", "off"]


def softmax_loss(
    users: Tensor,
    items: Tensor,
    positives: Tensor,
    item_ids: Tensor,
    log_q: Tensor,
    *,
    first: int = 0,
    logq: LogQ = "standard",
    mask_hits: bool = True,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""The mean of :math:`-\log` of the share of a user's item among the sampled ones.

    The column of a sampled item that is not the user's counts with :math:`\exp(\mathbf{u} \cdot
    \mathbf{v}_c - \log q_c)`, where :math:`q_c` is its chance to be drawn. The user's own item

    * is corrected likewise (:obj:`"standard"`, as is usual), or
    * is not, while negatives are corrected by the number of times they are expected
      (:obj:`"refined"`): it is there for certain, not by chance. The sum is then an unbiased
      estimate of the full softmax's (Khrylchenko et al., 2025).

    Args:
        users: Vectors of users ``[B, d]``, divided by the temperature.
        items: Vectors of sampled items ``[C, d]``; those from ``first`` on are the users' own.
        positives: The user's item ``[B]``.
        item_ids: The item of each column ``[C]``.
        log_q: Logarithm of the chance of each column ``[C]``.
        first: The column of the first user's item.
        logq: How to correct, or :obj:`"off"`.
        mask_hits: Leave out columns that hold the user's item by accident.
        dtype: What products are taken in on CUDA.
    """
    if logq not in ("standard", "refined", "off"):
        raise InputError(f"Expected logq to be standard, refined or off; found {logq!r}.")
    rows, columns = users.size(0), items.size(0)
    log_q = log_q.to(users.dtype)
    own = items[first : first + rows]
    score = (users * own).sum(-1)
    if logq == "off":
        bias = torch.zeros_like(log_q)
    elif logq == "standard":
        bias, score = -log_q, score - log_q[first : first + rows]
    else:
        bias = -log_q - math.log(columns)
    if mask_hits:
        row_labels, column_labels = positives, item_ids
    else:
        row_labels = torch.arange(first, first + rows, device=users.device)
        column_labels = torch.arange(columns, device=users.device)
    rest = column_lse(users, items, bias, row_labels, column_labels, dtype=dtype)
    # log(e^score + e^rest) - score; the user's own column is in `score` and not in `rest`.
    return F.softplus(rest - score).mean()


def bpr_loss(users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
    r"""The mean of :math:`-\log \sigma(\mathbf{u} \cdot \mathbf{v}_+ - \mathbf{u} \cdot
    \mathbf{v}_-)` over rows of users, their items, and others."""
    return F.softplus((users * (negatives - items)).sum(-1)).mean()
