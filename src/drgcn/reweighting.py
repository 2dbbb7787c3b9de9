"""The dimensional reweighting (Dr) block, one gate per feature dimension, and its controls."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import Parameter, UninitializedParameter, is_lazy
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import scatter

from drgcn.errors import InputError
from drgcn.kernels import LaneFunction, being_recorded, triton_available, with_lanes

if triton_available():
    from drgcn.kernels.reweighting import (
        scaled_rows_backward,
        squeeze_excite,
        squeeze_excite_backward,
    )
else:
    scaled_rows_backward = squeeze_excite = squeeze_excite_backward = None  # type: ignore[assignment]

# One thread block walks over all weights of a Dr block; beyond this, matrix products are faster.
_MOST_FUSED_WEIGHTS = 2**15
# One thread block holds whole rows of folded weights; beyond this width plain torch is as fast.
_WIDEST_FUSED_ROW = 1024


class Gate(torch.nn.Module):
    """Base of gates: one factor per feature dimension, shared by all nodes of a graph.

    A gate made for :obj:`-1` dimensions takes their number from the first input.
    """

    def forward(
        self,
        x: Tensor,
        weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Multiply every feature dimension by its factor.

        Args:
            x (Tensor): Node features, dense or sparse.
            weight (Tensor, optional): Node weights :math:`w_v`, normalised to sum to
                one (per graph). (default: uniform)
            batch (Tensor, optional): Graph of each node; every graph then has its own
                :math:`\mathbf{s}`. (default: one graph)
            batch_size (int, optional): Number of graphs. (default: inferred)
        """
        return scale_columns(x, self.vector(x, weight, batch, batch_size), batch)

    def vector(
        self,
        x: Tensor,
        weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Return the vector :math:`\mathbf{s}`: ``[d]``, or ``[graphs, d]`` with ``batch``."""
        s = self.from_mean(weighted_mean(x, weight, batch, batch_size))
        return s.to(x.dtype) if x.is_floating_point() else s

    def from_mean(self, mean: Tensor) -> Tensor:
        r"""Return the vector :math:`\mathbf{s}` of a mean :math:`\mathbf{r}` computed before."""
        raise NotImplementedError

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        if not any(is_lazy(parameter) for parameter in self.parameters(recurse=False)):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            return
        for name, parameter in self.named_parameters(recurse=False):
            destination[prefix + name] = parameter  # without a shape there is nothing to detach


class DimensionalReweighting(Gate):
    r"""The dimensional reweighting block from `"Dimensional Reweighting Graph
    Convolutional Networks" <https://arxiv.org/abs/1907.02237>`_.

    With nodes as rows of :math:`\mathbf{X} \in \mathbb{R}^{n \times d}`,

    .. math::
        \mathbf{r} = \sum_v w_v \mathbf{x}_v, \quad
        \mathbf{g} = \mathrm{ELU}(\mathbf{W}_g \mathbf{r} + \mathbf{b}_g), \quad
        \mathbf{s} = \mathrm{sigmoid}(\mathbf{W}_s \mathbf{g} + \mathbf{b}_s), \quad
        \mathbf{X}' = \mathbf{X} \, \mathrm{diag}(\mathbf{s}).

    Args:
        in_channels (int): Number of feature dimensions :math:`d`, or :obj:`-1` to
            take it from the first input.
        hidden_channels (int, optional): Width of :math:`\mathbf{g}`. (default: the
            integer nearest to :math:`\sqrt{d}`)
        act (str or callable, optional): Activation of :math:`\mathbf{g}`.
            (default: :obj:`"elu"`)
        gate (str or callable, optional): Activation of :math:`\mathbf{s}`.
            (default: :obj:`"sigmoid"`)
        bias (bool, optional): Learn :math:`\mathbf{b}_g, \mathbf{b}_s`.
            (default: :obj:`True`)

    Shapes:
        - **input:** node features :math:`(n, d)`, dense, COO or CSR
        - **output:** :math:`(n, d)`, in the layout and data type of the input

    Example:
        >>> block = DimensionalReweighting(16)
        >>> block(torch.rand(10, 16)).shape
        torch.Size([10, 16])
        >>> block.vector(torch.rand(10, 16)).shape
        torch.Size([16])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int | None = None,
        *,
        act: Any = "elu",
        gate: Any = "sigmoid",
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if in_channels != -1 and in_channels < 1:
            raise ValueError(
                f"DimensionalReweighting expects in_channels >= 1, or -1 to take the width "
                f"from the first input; found {in_channels}."
            )
        if hidden_channels is not None and hidden_channels < 1:
            raise ValueError(
                f"DimensionalReweighting expects hidden_channels >= 1; found {hidden_channels}."
            )
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.act = activation_resolver(act)
        self.gate = activation_resolver(gate)
        elu = isinstance(self.act, torch.nn.ELU) and self.act.alpha == 1
        self._usual = elu and isinstance(self.gate, torch.nn.Sigmoid)

        def empty() -> Parameter:
            return UninitializedParameter(device=device, dtype=dtype)  # type: ignore[call-arg, return-value]

        self.squeeze_weight = empty()  # [g, d]
        self.excite_weight = empty()  # [d, g]
        self.squeeze_bias: Parameter | None
        self.excite_bias: Parameter | None
        self.register_parameter("squeeze_bias", empty() if bias else None)
        self.register_parameter("excite_bias", empty() if bias else None)
        if in_channels == -1:
            self._register_load_state_dict_pre_hook(self._load_lazy)
        else:
            self._materialize(in_channels)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        # NOTE[PAPER] The initialisation is not stated. Glorot weights and zero biases are those
        # of every host model it uses, and make s start near 0.5.
        if self.in_channels == -1:
            return
        glorot(self.squeeze_weight)
        glorot(self.excite_weight)
        zeros(self.squeeze_bias)
        zeros(self.excite_bias)

    def from_mean(self, mean: Tensor) -> Tensor:
        r"""Return the vector :math:`\mathbf{s}` of a mean :math:`\mathbf{r}` computed before."""
        if self.in_channels == -1:
            self._materialize(mean.size(-1))
        if mean.size(-1) != self.in_channels:
            raise ValueError(
                f"DimensionalReweighting was built for {self.in_channels} feature dimensions; "
                f"found {mean.size(-1)}."
            )
        mean = mean.to(self.squeeze_weight.dtype)
        if self._usual and self.squeeze_bias is not None and self.excite_bias is not None:
            weights = (
                self.squeeze_weight,
                self.squeeze_bias,
                self.excite_weight,
                self.excite_bias,
            )
            s = fused_gate_vector(mean, *weights)
            if s is not None:
                return s
        hidden = self.act(F.linear(mean, self.squeeze_weight, self.squeeze_bias))
        return self.gate(F.linear(hidden, self.excite_weight, self.excite_bias))

    def extra_repr(self) -> str:
        """Return the widths, as in ``DimensionalReweighting(602, hidden_channels=25)``."""
        return f"{self.in_channels}, hidden_channels={self.hidden_channels}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _materialize(self, in_channels: int) -> None:
        # The nearest integer, not the floor: no square root of an integer ends in .5.
        self.hidden_channels = self.hidden_channels or max(1, round(math.sqrt(in_channels)))
        self.in_channels = in_channels
        shapes = {
            "squeeze_weight": (self.hidden_channels, in_channels),
            "squeeze_bias": (self.hidden_channels,),
            "excite_weight": (in_channels, self.hidden_channels),
            "excite_bias": (in_channels,),
        }
        for name, parameter in self.named_parameters(recurse=False):
            assert isinstance(parameter, UninitializedParameter)
            parameter.materialize(shapes[name])
        self.reset_parameters()

    def _load_lazy(self, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
        stored = state.get(f"{prefix}squeeze_weight")
        if self.in_channels == -1 and stored is not None and not is_lazy(stored):
            self.hidden_channels = stored.size(0)
            self._materialize(stored.size(1))


class StaticGate(Gate):
    """A control of the Dr block: a learnable gate ``s = sigmoid(logits)`` that sees no data.

    A sigmoid gate halves its input at the start of training, which changes the effective step
    size. This gate and :class:`ConstantGate` do the same without the block, and are compared with
    it wherever a gain is claimed.
    """

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.logits: Parameter
        if in_channels == -1:
            self.logits = UninitializedParameter()  # type: ignore[assignment]
            self._register_load_state_dict_pre_hook(self._load_lazy)
        else:
            self.logits = Parameter(torch.empty(in_channels))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        if not is_lazy(self.logits):
            torch.nn.init.zeros_(self.logits)

    def from_mean(self, mean: Tensor) -> Tensor:
        """Return the gate, which does not depend on the mean."""
        self._materialize(mean.size(-1))
        return torch.sigmoid(self.logits).to(mean.dtype).expand_as(mean)

    def _materialize(self, in_channels: int) -> None:
        if isinstance(self.logits, UninitializedParameter):
            self.logits.materialize((in_channels,))
            self.reset_parameters()

    def _load_lazy(self, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
        stored = state.get(f"{prefix}logits")
        if stored is not None and not is_lazy(stored):
            self._materialize(stored.numel())


class ConstantGate(Gate):
    """A control of the Dr block: one half for every feature dimension, a smaller step alone."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels

    def from_mean(self, mean: Tensor) -> Tensor:
        """Return the gate, which does not depend on the mean."""
        return torch.full_like(mean, 0.5)


def fold(weight: Tensor, s: Tensor, dim: int = -1) -> Tensor:
    r"""Multiply the weights of the layer that follows by :math:`\mathbf{S}`.

    Since :math:`(\mathbf{X} \mathbf{S}) \mathbf{W} = \mathbf{X} (\mathbf{S} \mathbf{W})`,
    the cost of reweighting grows with the entries of the weight matrix, and not with the
    number of nodes.

    Args:
        weight (Tensor): Weights of a linear map.
        s (Tensor): Reweighting vector ``[d]``.
        dim (int, optional): The dimension of ``weight`` that meets the features:
            :obj:`-1` for :class:`torch.nn.Linear`, :obj:`0` for ``x @ weight``.
            (default: :obj:`-1`)
    """
    if s.dim() != 1 or s.size(0) != weight.size(dim):
        raise ValueError(
            f"fold expects one s of width {weight.size(dim)} for all nodes; "
            f"found shape {tuple(s.shape)}. Scale the features instead of the weights."
        )
    if weight.dim() == 2 and dim % 2 == 0:
        return _scaled_rows(weight, s)
    return weight * s.view([-1 if d == dim % weight.dim() else 1 for d in range(weight.dim())])


def weighted_mean(
    x: Tensor,
    weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    """Return the mean over nodes: ``[d]``, or ``[graphs, d]`` with ``batch``.

    Sums run in float32 or better. Weights are taken to be non-negative. A graph without nodes,
    or of zero total weight, has the zero vector as its mean, so that a batch with an empty
    entry stays finite.
    """
    if x.dim() != 2:
        raise ValueError(f"Expected node features of shape [nodes, d]; found {tuple(x.shape)}.")
    dtype = torch.promote_types(x.dtype, torch.float32)
    if weight is not None:
        if weight.shape != x.shape[:1]:
            raise InputError(
                f"Expected weight to have one number for each of {x.size(0)} nodes; found shape "
                f"{list(weight.shape)}."
            )
        weight = weight.to(dtype)
    if batch is None:
        if weight is None:
            return _column_sum(x, None, dtype) / max(x.size(0), 1)
        return _column_sum(x, weight / _nonzero(weight.sum()), dtype)
    if batch.shape != x.shape[:1] or batch.is_floating_point() or batch.dtype == torch.bool:
        raise InputError(
            f"Expected batch to have the number of the graph of each of {x.size(0)} nodes; found "
            f"{batch.dtype} of shape {list(batch.shape)}."
        )
    batch = batch.long()
    size = int(batch.max()) + 1 if batch_size is None and batch.numel() > 0 else batch_size or 0
    if weight is None:
        weight = torch.ones(x.size(0), dtype=dtype, device=x.device)
    mass = scatter(weight, batch, dim_size=size)
    weight = weight / _nonzero(mass)[batch]
    if x.layout == torch.strided:
        return scatter(x.to(dtype) * weight[:, None], batch, dim_size=size)
    row, col, value = _entries(x)
    cell = batch[row] * x.size(1) + col
    flat = torch.zeros(size * x.size(1), dtype=dtype, device=x.device)
    return flat.index_add(0, cell, value.to(dtype) * weight[row]).view(size, x.size(1))


def scale_columns(x: Tensor, s: Tensor, batch: Tensor | None = None) -> Tensor:
    """Return ``x * s`` in the layout of ``x``; with ``batch``, row ``v`` takes ``s[batch[v]]``."""
    if x.layout == torch.strided:
        return x * (s if batch is None else s[batch])
    row, col, value = _entries(x)
    value = value * (s[col] if batch is None else s[batch[row], col])
    if x.layout == torch.sparse_coo:
        coalesced = x.is_coalesced() or x.requires_grad
        return torch.sparse_coo_tensor(
            torch.stack([row, col]), value, x.shape, is_coalesced=coalesced, check_invariants=False
        )
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), value, x.shape, check_invariants=False
    )


def _column_sum(x: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    if x.layout == torch.strided:
        return x.sum(0, dtype=dtype) if weight is None else weight @ x.to(dtype)
    row, col, value = _entries(x)
    value = value.to(dtype) if weight is None else value.to(dtype) * weight[row]
    return torch.zeros(x.size(1), dtype=dtype, device=x.device).index_add(0, col, value)


def _entries(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return row, column and value of the stored entries of a sparse matrix."""
    if x.layout == torch.sparse_coo:
        if x.requires_grad:
            x = x.coalesce()  # only its entries carry gradients
            return x.indices()[0], x.indices()[1], x.values()
        indices = x._indices()  # the stored ones: repeated entries add up, as they should
        return indices[0], indices[1], x._values()
    if x.layout == torch.sparse_csr:
        crow = x.crow_indices()
        rows = torch.arange(x.size(0), device=x.device)
        row = rows.repeat_interleave(crow.diff(), output_size=x.values().numel())
        return row, x.col_indices(), x.values()
    raise ValueError(f"Expected dense, COO or CSR features; found {x.layout}. Convert first.")


def _nonzero(mass: Tensor) -> Tensor:
    return torch.where(mass == 0, torch.ones_like(mass), mass)


def fused_gate_vector(
    mean: Tensor, squeeze: Tensor, squeeze_bias: Tensor, excite: Tensor, excite_bias: Tensor
) -> Tensor | None:
    """``sigmoid(excite @ elu(squeeze @ mean + b) + c)`` in one CUDA kernel, where that pays.

    A small block costs little but the start of its kernels: a dozen of them, forward and
    backward together, become two. ``None`` where plain torch is to be used.
    """
    kinds = {t.dtype for t in (mean, squeeze, squeeze_bias, excite, excite_bias)}
    fits = mean.dim() == 1 and squeeze.numel() <= _MOST_FUSED_WEIGHTS and kinds == {torch.float32}
    if squeeze_excite is None or not mean.is_cuda or not fits or being_recorded():
        return None
    return _GateVector.apply(mean, squeeze, squeeze_bias, excite, excite_bias)[0]


class _GateVector(LaneFunction):
    """The vector ``s``, and the hidden layer for its gradient; lanes of ``vmap`` in one launch."""

    @staticmethod
    def forward(*arguments: Tensor) -> tuple[Tensor, Tensor]:
        single = arguments[0].dim() == 1
        lanes = [t[None] if single else t for t in arguments]
        out, hidden = squeeze_excite(*(t.contiguous() for t in lanes))
        return (out[0], hidden[0]) if single else (out, hidden)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        out, hidden = output
        ctx.mark_non_differentiable(hidden)
        ctx.save_for_backward(out, hidden, *inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        out, hidden, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # for the gradient of a gradient
            return gate_gradients(grad, *inputs)
        mean, squeeze, _, excite, _ = inputs
        return _GateVectorGradient.apply(grad, out, mean, hidden, squeeze, excite)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor) -> Any:
        return _GateVector.apply(*_with_lanes(info, in_dims, arguments)), (0, 0)


def gate_gradients(
    grad: Tensor,
    mean: Tensor,
    squeeze: Tensor,
    squeeze_bias: Tensor,
    excite: Tensor,
    excite_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of all five arguments of a gate in plain torch, for any leading axes."""
    hidden = F.elu(_times(squeeze, mean) + squeeze_bias)
    s = torch.sigmoid(_times(excite, hidden) + excite_bias)
    slope = grad * s * (1 - s)
    of_hidden = _times(excite.mT, slope) * torch.where(hidden > 0, 1.0, hidden + 1)
    return (
        _times(squeeze.mT, of_hidden),
        of_hidden[..., None] * mean[..., None, :],
        of_hidden,
        slope[..., None] * hidden[..., None, :],
        slope,
    )


class _GateVectorGradient(LaneFunction):
    """The backward pass as a function of its own, so that ``vmap`` can take it in lanes too."""

    @staticmethod
    def forward(*arguments: Tensor) -> tuple[Tensor, ...]:
        single = arguments[0].dim() == 1
        lanes = [t[None] if single else t for t in arguments]
        found = squeeze_excite_backward(*(t.contiguous() for t in lanes))
        return tuple(t[0] for t in found) if single else found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor) -> Any:
        return _GateVectorGradient.apply(*_with_lanes(info, in_dims, arguments)), (0,) * 5


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]


def _scaled_rows(weight: Tensor, s: Tensor) -> Tensor:
    """``s[:, None] * weight``. On CUDA both gradients come out of one kernel."""
    kinds = {weight.dtype, s.dtype}
    fits = weight.dim() == 2 and weight.size(1) <= _WIDEST_FUSED_ROW and kinds == {torch.float32}
    if scaled_rows_backward is None or not weight.is_cuda or not fits or being_recorded():
        return weight * s[:, None]
    return _ScaledRows.apply(weight, s)


class _ScaledRows(LaneFunction):
    """``s[..., None] * weight`` with both gradients from one kernel."""

    @staticmethod
    def forward(weight: Tensor, s: Tensor) -> Tensor:
        return weight * s[..., None]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weight, s = ctx.saved_tensors
        if torch.is_grad_enabled():  # for the gradient of a gradient
            return grad * s[..., None], (grad * weight).sum(-1)
        return _ScaledRowsGradient.apply(grad, weight, s)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *values: Tensor) -> tuple[Tensor, int]:
        return _ScaledRows.apply(*_with_lanes(info, in_dims, values)), 0


class _ScaledRowsGradient(LaneFunction):
    """The backward pass as a function of its own, so that ``vmap`` can take it in lanes too."""

    @staticmethod
    def forward(*values: Tensor) -> tuple[Tensor, Tensor]:
        single = values[1].dim() == 2
        grad, weight, s = (v[None] if single else v for v in values)
        found = scaled_rows_backward(grad.contiguous(), weight.contiguous(), s.contiguous())
        return (found[0][0], found[1][0]) if single else found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *values: Tensor) -> Any:
        return _ScaledRowsGradient.apply(*_with_lanes(info, in_dims, values)), (0, 0)


def _with_lanes(
    info: Any, in_dims: tuple[int | None, ...], values: tuple[Tensor, ...]
) -> list[Tensor]:
    pairs = zip(values, in_dims, strict=True)
    return [with_lanes(value, dim, info.batch_size) for value, dim in pairs]
