"""What of each dimension's variance lies between classes, and the K of weights made of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError, UndefinedStability
from drgcn.stability.measure import stability_k
from drgcn.stability.moments import FeatureMoments
from drgcn.stability.rows import checked_features


def class_share(x: Any, y: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""The share of each dimension's variance that lies between classes, ``[d]``:

    .. math::
        \eta_i^2 = \frac{\sum_c n_c (m_{ci} - m_i)^2}{\sum_v (x_{vi} - m_i)^2}.

    Zero for a constant dimension.

    Args:
        x (Tensor): Features ``[n, d]``, dense or sparse.
        y (Tensor): Class of each row, ``[n]``; rows below 0 have none and are left out.
        mask (Tensor, optional): The rows to look at: the training nodes, so that nothing of the
            others' labels is seen. (default: all)
    """
    x = checked_features(x)
    y = torch.as_tensor(y)
    if y.shape != (x.shape[0],) or y.is_floating_point() or y.is_complex():
        raise InputError(
            f"Expected one class number per row, [{x.shape[0]}]; found {y.dtype} of shape "
            f"{list(y.shape)}."
        )
    known = y >= 0
    if mask is not None:
        known &= torch.as_tensor(mask, dtype=torch.bool, device=y.device)
    classes = y[known].unique()
    if len(classes) < 2:
        raise UndefinedStability(
            f"The share between classes is undefined: {len(classes)} classes among the rows."
        )
    device = x.device if isinstance(x, Tensor) else None
    whole = FeatureMoments(x.shape[1], diagonal=True, device=device)
    within = torch.zeros(x.shape[1], dtype=torch.float64, device=device)
    for label in classes:
        part = FeatureMoments(x.shape[1], diagonal=True, device=device)
        part.update(x, (y == label) & known)
        within += part.variance() * part.weight
        whole.merge(part)
    total = whole.variance() * whole.weight
    share = 1 - within / torch.where(total > 0, total, 1.0)
    return torch.where(total > 0, share.clamp(0, 1), 0.0)


def discriminative_k(
    x: Any, y: Tensor, mask: Tensor | None = None, *, propagated: Any = None
) -> float:
    r"""K of :math:`s_i = \sqrt{\eta_i^2}`: of weighting dimensions by what they say of classes.

    Below one, the dimensions that tell classes apart are the quieter ones, and reweighting
    towards them evens out the spread; above one, they are the loud ones already. A companion of
    :func:`minimal_k_in_range`, which is blind to labels. It promises nothing either.

    Args:
        x (Tensor): Features ``[n, d]``, whose spread K measures.
        y (Tensor): Class of each row.
        mask (Tensor, optional): The training rows. (default: all)
        propagated (Tensor, optional): Features after one step over the graph,
            :math:`\mathbf{A}\mathbf{X}`, to take the shares of. (default: ``x``)
    """
    return stability_k(x, class_share(x if propagated is None else propagated, y, mask).sqrt())
