"""Encoded vectors of nodes, and means over several, without writing down a vector per node."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.kernels import triton_available
from drgcn.recommend.model.attribute_encoder import AttributeEncoder
from drgcn.recommend.model.encoded_attributes import EncodedAttributes

if triton_available():
    from drgcn.recommend.model.encoding_kernel import encoded_mean, encoded_mean_backward
else:
    encoded_mean = encoded_mean_backward = None  # type: ignore[assignment]


def encode_means(
    encoder: AttributeEncoder,
    attributes: EncodedAttributes,
    nodes: Tensor,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """For each row of ``nodes``, the mean of the encoded vectors of those who are somebody.

    The tensor ``[rows, count, channels]`` never exists: numbers and categories are gathered and
    added in one go, by ``embedding_bag`` or by one kernel of our own on CUDA.

    Args:
        encoder: The encoder of their side.
        attributes: What it prepared.
        nodes: ``[rows, count]``; one in a row gives the vector of that node.
        dtype: Of the result. (default: that of the embeddings)

    Returns:
        ``[rows, channels]``, zero for a row of nobodies.
    """
    dtype = dtype or encoder.table.dtype
    ids = encoder.id_table, attributes.ids
    if _fits(encoder.table, nodes):
        numbers, codes = attributes.numeric, attributes.codes
        parts = [_EncodedMean.apply(encoder.table, nodes, numbers, codes, dtype)]
    else:
        parts = [_numbers(attributes, nodes), _categories(encoder, attributes, nodes)]
    if ids[0] is not None and ids[1] is not None:
        if _fits(ids[0], nodes):  # as the only category, without numbers
            nothing = attributes.numeric[:, :0]
            parts.append(_EncodedMean.apply(ids[0], nodes, nothing, ids[1][:, None], dtype))
        else:
            bags, nobody = ids[1][nodes], encoder.id_rows
            parts.append(F.embedding_bag(bags, ids[0], mode="mean", padding_idx=nobody))
    parts = [part.to(dtype) for part in parts if part.size(1)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def encode_bags(
    encoder: AttributeEncoder, attributes: EncodedAttributes, nodes: Tensor, offsets: Tensor
) -> Tensor:
    """The same for bags of different sizes: ``nodes`` one after the other, and where each bag
    begins. For inference."""
    dtype = encoder.table.dtype
    parts = []
    if attributes.numeric.size(1):
        parts.append(F.embedding_bag(nodes, attributes.numeric, offsets, mode="mean").to(dtype))
    for column in range(attributes.codes.size(1)):
        codes = attributes.codes[nodes, column].to(offsets.dtype)
        parts.append(F.embedding_bag(codes, encoder.table, offsets, mode="mean"))
    if encoder.id_table is not None:
        assert attributes.ids is not None
        ids = attributes.ids[nodes].to(offsets.dtype)
        parts.append(F.embedding_bag(ids, encoder.id_table, offsets, mode="mean"))
    return torch.cat(parts, dim=1)


def _numbers(attributes: EncodedAttributes, nodes: Tensor) -> Tensor:
    if not attributes.numeric.size(1):
        return attributes.numeric.new_empty(nodes.size(0), 0)
    if nodes.size(1) == 1:
        return attributes.numeric.index_select(0, nodes[:, 0])
    return F.embedding_bag(
        nodes, attributes.numeric, mode="mean", padding_idx=attributes.num_nodes
    )


def _categories(encoder: AttributeEncoder, attributes: EncodedAttributes, nodes: Tensor) -> Tensor:
    columns = attributes.codes.size(1)
    if not columns:
        return encoder.table.new_empty(nodes.size(0), 0)
    if nodes.size(1) == 1:  # on CPU a gradient without a sort
        codes = attributes.codes.index_select(0, nodes[:, 0])
        return F.embedding(codes, encoder.table, padding_idx=encoder.rows).flatten(1)
    bags = attributes.codes[nodes].transpose(1, 2).flatten(0, 1)  # one per row and column
    found = F.embedding_bag(bags, encoder.table, mode="mean", padding_idx=encoder.rows)
    return found.unflatten(0, (-1, columns)).flatten(1)


def _fits(table: Tensor, nodes: Tensor) -> bool:
    """Whether our own kernel is to be used, which wants a width that is a power of two."""
    width = table.size(1)
    fits = table.dtype == torch.float32 and width & (width - 1) == 0
    return encoded_mean is not None and nodes.is_cuda and fits


class _EncodedMean(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, nodes: Tensor, numeric: Tensor, codes: Tensor, dtype: torch.dtype
    ) -> Tensor:
        nodes = nodes.contiguous()
        ctx.save_for_backward(nodes, codes)
        ctx.rows, ctx.numbers = table.shape, numeric.size(1)
        return encoded_mean(table, nodes, numeric, codes, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        nodes, codes = ctx.saved_tensors
        grad_table = None
        if ctx.needs_input_grad[0]:
            grad = grads[0].contiguous()
            grad_table = encoded_mean_backward(grad, nodes, codes, ctx.rows, ctx.numbers)
        return grad_table, None, None, None, None
