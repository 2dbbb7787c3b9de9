"""Common parts of the models: bases, norm and gate in front of layers, features times weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
import torch_geometric.nn
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric.data import Data
from torch_geometric.nn import PairNorm

from drgcn.errors import InputError
from drgcn.gates import GATES, MeasuredGate, gate_factory
from drgcn.kernels import LaneFunction
from drgcn.nn.graph import NodeGroups
from drgcn.nn.sparse import SparseMatrix, spmm
from drgcn.reweighting import fold, weighted_mean

Features = Tensor | SparseMatrix

# Bag-of-words tables are 1 to 10 % dense; above this the dense product is faster.
SPARSE_BELOW = 0.2

# Rows of each piece of a tall product's gradient.
_ROWS = 512
# Rows from which the pieces are worth their launches when these are not recorded.
_TALL: Final = 2**14
# Columns from which products are as fast on CPU as their transposes.
_NARROW: Final = 16
# A name of GATES, a gate to copy, or a function that makes one for a width.
Reweight = str | torch.nn.Module | Callable[[int], torch.nn.Module]
Norm = Literal["batch", "layer", "graph", "pair"]
# A layer's input before its gate, the gate, and the layer's output.
Layer = tuple[Features, Tensor | None, Tensor]

# What was made of a tensor, for as long as the tensor lives: a training loop gives the same
# features and edges to every call.
_MADE: Final = WeakTensorKeyDictionary()


class _Made(NamedTuple):
    version: int
    copy: Tensor | None
    result: Any  # None for the tensor itself, which would never die if it were kept here


def made_once(
    source: Tensor,
    key: Hashable,
    make: Callable[[], Any],
    still_made_of: Callable[[Any, Tensor], bool] | None = None,
) -> Any:
    """Return what ``make`` makes of a tensor, and the same again until the tensor changes.

    On CPU values are compared, with a copy or by ``still_made_of(result, source)``: NumPy arrays
    that share its memory change a tensor unseen.
    """
    if (
        type(source) is not Tensor
        or source.requires_grad
        or source.is_inference()
        or torch.compiler.is_compiling()
        or peek_interpreter_stack() is not None  # under vmap results belong to the transform
    ):
        return make()
    known, on_cpu = _MADE.setdefault(source, {}), source.device.type == "cpu"
    made = known.get(key)
    fresh = made is not None and made.version == source._version
    if fresh and made.result is not None and on_cpu:
        if made.copy is not None:
            fresh = torch.equal(source, made.copy)
        elif still_made_of is not None:
            fresh = still_made_of(made.result, source)
    if not fresh:
        with torch.inference_mode(False):  # training, which may come later, needs usual tensors
            result = make()
        kept = None if result is source else result
        copied = kept is not None and on_cpu and still_made_of is None
        made = known[key] = _Made(source._version, source.clone() if copied else None, kept)
    return source if made.result is None else made.result


def as_features(x: Tensor | SparseMatrix) -> Features:
    """Return dense features as they are, and sparse tensors as a :class:`SparseMatrix`."""
    if isinstance(x, SparseMatrix) or x.layout == torch.strided:
        return x
    return SparseMatrix.from_tensor(x)


def compress(x: Tensor | SparseMatrix) -> Features:
    """Return features in the layout that multiplies faster, by the share of their non-zeros."""
    if isinstance(x, SparseMatrix) or x.layout != torch.strided:
        return as_features(x)
    density = torch.count_nonzero(x) / max(x.numel(), 1)
    return SparseMatrix.from_tensor(x) if density < SPARSE_BELOW else x


def lasting_features(x: Tensor | SparseMatrix) -> Features:
    """Return the features of an ordinary call, in the faster layout where that can be kept.

    On a GPU dense products of this size cost less than the launches of sparse ones.
    """
    if isinstance(x, SparseMatrix):
        return x
    if x.layout == torch.strided and (x.requires_grad or x.device.type != "cpu"):
        return x
    return made_once(x, "features", lambda: compress(x), _holds)


def lasting_groups(batch: Tensor | NodeGroups | None, nodes: int) -> NodeGroups | None:
    """Return the graphs of an ordinary call, of which the patterns of means are kept likewise."""
    if not isinstance(batch, Tensor):
        return batch
    return made_once(batch, ("graphs", nodes), lambda: NodeGroups.of(batch.clone(), nodes))


def _holds(matrix: SparseMatrix, x: Tensor) -> bool:
    """Return whether a matrix has all non-zeros of a tensor, without a copy of it."""
    if x.layout != torch.strided:
        return True  # no array of NumPy's shares its memory
    values = x[matrix.pattern.row, matrix.pattern.col]
    return int(torch.count_nonzero(x)) == matrix.pattern.nnz and torch.equal(values, matrix.values)


def map_values(function: Callable[[Tensor], Tensor], x: Features) -> Features:
    """Apply an elementwise function that keeps zero at zero."""
    return x.with_values(function(x.values)) if isinstance(x, SparseMatrix) else function(x)


def dropout(x: Features, rate: float, training: bool) -> Features:
    """Drop entries in training; of sparse features, stored ones."""
    return map_values(lambda values: F.dropout(values, rate, training), x)


def gated_product(
    x: Features, weight: Tensor, s: Tensor | None = None, groups: NodeGroups | None = None
) -> Tensor:
    r"""The product :math:`\mathbf{X} \mathbf{S} \mathbf{W}`.

    One ``s`` for all nodes is folded into the weights, whatever the number of nodes. With one
    ``s`` per graph, sparse features meet one set of folded weights per graph, and dense ones are
    scaled.

    Args:
        x (Tensor or SparseMatrix): Node features ``[nodes, d]``; ``[heads, nodes, d]`` if every
            head sees its own.
        weight (Tensor): Weights ``[d, k]``; ``[heads, d, k]`` likewise.
        s (Tensor, optional): Gate ``[d]``, or ``[graphs, d]`` with ``groups``.
        groups (NodeGroups, optional): The graph of each node.
    """
    if s is not None and groups is None:
        weight = fold(weight, s, dim=-2)
    elif s is not None and groups is not None:
        if isinstance(x, SparseMatrix):
            folded = s[:, :, None] * weight[..., None, :, :]  # [..., graphs, d, k]
            return spmm(groups.as_blocks(x), folded.flatten(-3, -2))
        x = x * groups.spread(s)
    if isinstance(x, SparseMatrix):
        return spmm(x, weight)
    return tall_product(x, weight) if x.dim() == 2 else x @ weight


def tall_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight``, with a gradient for ``weight`` that keeps a GPU busy.

    That gradient, ``x.T @ grad``, is a small matrix summed over all nodes. GPU libraries give
    each entry to one thread block, which sums over all nodes while the rest of the device waits;
    here pieces of the nodes are summed side by side, of a small graph only for the lanes of
    ``vmap``: a loop over one model waits for the launches. On CPU, MKL takes four times as long
    to make narrow matrices, such as this gradient or scores of a few classes, as flat ones.
    """
    if x.is_cuda:
        pieces = x.size(0) >= _TALL or peek_interpreter_stack() is not None
        return _TallProduct.apply(x, weight) if pieces else x @ weight
    narrow = weight.size(-1) < _NARROW and not torch.is_autocast_enabled("cpu")
    return _NarrowProduct.apply(x, weight) if narrow else x @ weight


class _TallProduct(LaneFunction):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        return (
            grad @ weight.t() if ctx.needs_input_grad[0] else None,
            _sum_over_rows(x, grad) if ctx.needs_input_grad[1] else None,
        )


class _NarrowProduct(LaneFunction):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return (weight.t() @ x.t()).t().contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        return (
            grad @ weight.t() if ctx.needs_input_grad[0] else None,
            (grad.t() @ x).t() if ctx.needs_input_grad[1] else None,
        )


def _sum_over_rows(x: Tensor, grad: Tensor) -> Tensor:
    pieces = x.size(0) // _ROWS
    if pieces < 2:
        return x.t() @ grad
    head = pieces * _ROWS
    a = x[:head].unflatten(0, (pieces, _ROWS))
    b = grad[:head].unflatten(0, (pieces, _ROWS))
    return (a.transpose(1, 2) @ b).sum(0) + x[head:].t() @ grad[head:]


class ReweightedModel(torch.nn.Module, ABC):
    """Base of all models: one :class:`LayerInput` per layer, in ``inputs``."""

    inputs: torch.nn.ModuleList

    @abstractmethod
    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return the parameters under L2, without those of gates."""

    def regularized_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Yield the parameters under L2, those of gates included; norms are never decayed."""
        # NOTE[PAPER] "The same coefficient as the original GCNs" leaves open which blocks are
        # decayed when the host decays its first layer only; here all of them are. Dr for
        # Chebyshev networks, MixHop and MLP is not in the paper, and decayed likewise.
        yield from self.decayed()
        yield from self.gate_parameters()

    def gate_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Yield the parameters of all gates."""
        for module in self.inputs:
            yield from module.gate_parameters()  # type: ignore[operator]

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for children in self.children():
            for module in children if isinstance(children, torch.nn.ModuleList) else [children]:
                module.reset_parameters()  # type: ignore[operator]


class FullBatchModel(ReweightedModel):
    """Base of models whose layers share one matrix of the graph: adjacency, Laplacian or
    neighbourhoods.

    A subclass makes the matrix, runs the layers, and names the parameters under L2.
    """

    @staticmethod
    @abstractmethod
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> Any:
        """Return the matrix of the graph that the layers take; attention uses no weights."""

    @abstractmethod
    def run_layers(self, x: Features, matrix: Any, groups: NodeGroups | None) -> Iterator[Layer]:
        """Run the layers one after the other."""

    @classmethod
    def prepare(cls, data: Data) -> tuple[Any, ...]:
        """Return the arguments of ``forward``, computed once: features in the faster layout, the
        matrix of the graph (of ``data.edge_weight`` where edges have weights), and the graph of
        each node where ``data`` is a batch of several."""
        weight = data.get("edge_weight")
        weight = None if weight is None else weight.reshape(-1)  # a column with OGB
        matrix = cls.matrix(data.edge_index, data.num_nodes, data.x.dtype, weight)
        return compress(data.x), matrix, NodeGroups.of(data.get("batch"), data.num_nodes)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Any,
        batch: Tensor | NodeGroups | None = None,
    ) -> Tensor:
        """Return the class scores of every node.

        Args:
            x (Tensor or SparseMatrix): Node features.
            edge_index (Tensor or matrix): Edges, made a matrix at the first call with them, or
                the matrix that :meth:`prepare` makes.
            batch (Tensor or NodeGroups, optional): The graph of each node; every graph then has
                its own reweighting vector. (default: one graph)
        """
        *_, (_, _, out) = self.layers(x, edge_index, batch)
        return out

    def layers(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Any,
        batch: Tensor | NodeGroups | None = None,
    ) -> Iterator[Layer]:
        """Yield the input, the reweighting vector and the output of every layer."""
        features = lasting_features(x)
        nodes, dtype = features.shape[0], features.dtype
        matrix = edge_index
        if isinstance(edge_index, Tensor):
            matrix = made_once(
                edge_index,
                (type(self), nodes, dtype),
                lambda: self.matrix(edge_index, nodes, dtype),
            )
        yield from self.run_layers(features, matrix, lasting_groups(batch, nodes))


class LayerInput(torch.nn.Module):
    r"""Norm and gate at the Dr position: the input of a layer, raw features included.

    The gate is not multiplied here but returned, so that the convolution can fold it into
    its weights.

    Args:
        in_channels (int): Number of feature dimensions.
        norm (str, optional): :obj:`"batch"`, :obj:`"layer"`, :obj:`"graph"` or :obj:`"pair"`.
        reweight (str, torch.nn.Module or callable, optional): A name of
            :data:`drgcn.gates.GATES`, a gate, or a function that makes one for a width.
    """

    def __init__(
        self, in_channels: int, *, norm: Norm | None = None, reweight: Reweight | None = None
    ) -> None:
        super().__init__()
        _check("norm", norm, get_args(Norm))
        if not isinstance(reweight, torch.nn.Module) and not callable(reweight):
            _check("reweight", reweight, tuple(GATES))
        # NOTE[PAPER] Where the norms stand, whether they are affine, and their order with Dr are
        # not stated. Here they are affine and come first: the gate then acts directly before
        # the weights, as in Eq. 4.
        norms: dict[str, Callable[[int], torch.nn.Module]] = {
            "batch": WeightedBatchNorm,
            "layer": torch.nn.LayerNorm,
            "graph": GraphNorm,
            "pair": lambda _: PairNorm(),
        }
        self.norm = norms[norm](in_channels) if norm else None
        self.gate: Any = None if reweight is None else gate_factory(reweight)(in_channels)
        if self.gate is not None and not hasattr(self.gate, "from_mean"):
            raise InputError(
                f"Expected a drgcn.reweighting.Gate, which has from_mean(mean), for reweight; "
                f"found {type(self.gate).__name__}."
            )

    def forward(
        self,
        x: Tensor | SparseMatrix,
        groups: NodeGroups | None = None,
        weight: Tensor | None = None,
    ) -> tuple[Tensor | SparseMatrix, Tensor | None]:
        """Return the normalised input, and the vector ``s`` for the convolution to apply: ``[d]``,
        or ``[graphs, d]`` with ``groups``. Rows of a dense ``x`` count by their ``weight`` in the
        gate's mean and in a batch norm."""
        if self.norm is not None:
            dense = x.to_dense() if isinstance(x, SparseMatrix) else x
            x = self._normalized(dense, groups, weight)
        if self.gate is None:
            return x, None
        if groups is not None:
            mean = groups.mean(x)
        else:
            mean = x.column_mean if isinstance(x, SparseMatrix) else weighted_mean(x, weight)
        return x, self.gate.from_mean(mean).to(x.dtype)

    def _normalized(self, x: Tensor, groups: NodeGroups | None, weight: Tensor | None) -> Tensor:
        if isinstance(self.norm, WeightedBatchNorm):
            return self.norm(x, weight)
        if isinstance(self.norm, GraphNorm):
            return self.norm(x, groups)
        if isinstance(self.norm, PairNorm) and groups is not None:
            return self.norm(x, groups.graph, groups.size)
        assert self.norm is not None
        return self.norm(x)

    def gate_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Yield the parameters of the gate."""
        if self.gate is not None:
            yield from self.gate.parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for child in self.children():
            if hasattr(child, "reset_parameters"):
                child.reset_parameters()  # type: ignore[operator]


def layer_inputs(
    widths: Iterable[int], *, norm: Norm | None = None, reweight: Reweight | None = None
) -> torch.nn.ModuleList:
    """Return the inputs of all layers; only the first has a gate that is measured on features."""
    inputs = [LayerInput(width, norm=norm, reweight=reweight) for width in widths]
    for later in inputs[1:]:
        if isinstance(later.gate, MeasuredGate):
            later.gate = None
    return torch.nn.ModuleList(inputs)


def _check(argument: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise ValueError(f"Expected {argument} to be one of {allowed} or None; found {value!r}.")


class GraphNorm(torch_geometric.nn.GraphNorm):
    r"""The normalisation of `"GraphNorm: A Principled Approach to Accelerating Graph Neural
    Network Training" <https://arxiv.org/abs/2009.03294>`_, in the parameters and formula of PyG.

    PyG adds up by scatter: on CUDA all nodes of a graph then queue for the same few addresses
    (50 ms an epoch for 20 seeds of Pubmed, against 6 ms without a norm), in no fixed order.
    """

    def forward(self, x: Tensor, groups: NodeGroups | None = None) -> Tensor:
        """Shift and scale every feature by its statistics over the graph of the node."""

        def mean(values: Tensor) -> Tensor:
            return values.mean(0) if groups is None else groups.spread(groups.mean(values))

        centred = x - mean(x) * self.mean_scale
        scale = (mean(centred.square()) + self.eps).sqrt()
        return self.weight * centred / scale + self.bias


class WeightedBatchNorm(torch.nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` with statistics over rows of weight one.

    Sampled batches have a fixed number of rows, and a node with few neighbours leaves some of
    them empty: those have weight zero.
    """

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Normalise the rows.

        Args:
            x (Tensor): Rows ``[n, d]``.
            weight (Tensor, optional): One for rows that count, else zero ``[n]``. (default: ones)
        """
        if weight is None or not self.training:
            return super().forward(x)
        weight = weight.to(x.dtype)
        count = weight.sum()
        share = weight / count.clamp(min=1)
        mean = share @ x
        variance = share @ (x - mean).square()
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            momentum = 0.1 if self.momentum is None else self.momentum
            self.running_mean.mul_(1 - momentum).add_(momentum * mean)
            unbiased = variance * count / (count - 1).clamp(min=1)
            self.running_var.mul_(1 - momentum).add_(momentum * unbiased)
        out = (x - mean) * torch.rsqrt(variance + self.eps)
        return out * self.weight + self.bias


def check_sizes(owner: str, **sizes: int) -> None:
    """Refuse widths and counts that are not whole numbers from 1 on."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{owner} expects {name} >= 1; found {value!r}.")


def check_rates(owner: str, **rates: float) -> None:
    """Refuse dropout rates outside ``[0, 1)``."""
    for name, value in rates.items():
        if not isinstance(value, int | float) or not 0 <= value < 1:
            words = name.replace("_", " ")
            raise ValueError(f"{owner} expects a {words} rate in [0, 1); found {value!r}.")
