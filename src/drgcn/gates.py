"""The family of gates: Dr from one, weights measured on training data, and the names of all."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn.inits import zeros

from drgcn.errors import InputError
from drgcn.reweighting import ConstantGate, DimensionalReweighting, Gate, StaticGate

# Weights stay within this factor of their median, up and down.
_WIDEST: Final = 64.0
# Columns that are propagated at a time.
_COLUMNS: Final = 256
# Steps in which labels are spread, and the weight of the labels themselves in each.
_SPREADING: Final = 20
_RESTART: Final = 0.1


class ReweightingFromOne(DimensionalReweighting):
    r"""The Dr block with :math:`\mathbf{s} = 2 \, \mathrm{sigmoid}(\cdot)` that starts at one.

    The last weights start at zero: before the first step a model is the plain one, where Dr as
    published halves the input of every layer.

    Args:
        in_channels (int): See :class:`~drgcn.DimensionalReweighting`, as for all that follow.
        hidden_channels (int, optional): Width of :math:`\mathbf{g}`.
        **options: Further arguments of it, but for ``gate``.
    """

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        super().reset_parameters()
        if self.in_channels != -1:
            zeros(self.excite_weight)

    def from_mean(self, mean: Tensor) -> Tensor:
        r"""Return the vector :math:`\mathbf{s}` of a mean :math:`\mathbf{r}` computed before."""
        return 2 * super().from_mean(mean)


class ExponentialReweighting(ReweightingFromOne):
    r"""The Dr block with :math:`\mathbf{s} = \exp(\cdot)` of a mean of root mean square one.

    Neither end saturates, and the unit in which features are measured has no say: a mean in the
    thousands pins a sigmoid to zero or one before the first step. It starts at one too.

    Args:
        in_channels (int): See :class:`~drgcn.DimensionalReweighting`, as for all that follow.
        hidden_channels (int, optional): Width of :math:`\mathbf{g}`.
        **options: Further arguments of it, but for ``gate``.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int | None = None, **options: Any
    ) -> None:
        super().__init__(in_channels, hidden_channels, gate=torch.exp, **options)

    def from_mean(self, mean: Tensor) -> Tensor:
        r"""Return the vector :math:`\mathbf{s}` of a mean :math:`\mathbf{r}` computed before."""
        square = mean.square().mean(-1, keepdim=True)
        # Of the block itself: twice the exponential would not start at one.
        unit = mean * torch.where(square > 0, square, 1.0).rsqrt()
        return DimensionalReweighting.from_mean(self, unit)


class Measurement(NamedTuple):
    """A number for each feature dimension, and the sum of squares of each column."""

    values: Tensor
    energy: Tensor


class MeasuredGate(Gate):
    r"""Base of gates whose weights are measured on the training data, once, and then stay.

    A subclass has :meth:`measure`. With its result :math:`m_j` the weights are
    :math:`m_j^e`, kept within a factor of 64 of their median, times what leaves the features
    their total sum of squares. They speak about features, so models of :mod:`drgcn.nn` have such
    a gate in front of their first layer alone.

    :func:`drgcn.fit` shows each gate the training data of its split before training begins; in a
    loop of your own, :func:`observe` does.

    Args:
        in_channels (int): Number of feature dimensions, or :obj:`-1` for those of the data.
            (default: :obj:`-1`)
        exponent (float, optional): The exponent :math:`e`. (default: :obj:`0.5`)
        shuffled (bool, optional): Give every weight to a dimension drawn at random, the control
            that has the same weights and knows nothing. (default: :obj:`False`)
    """

    weights: Tensor
    exponent: Tensor
    #: Whether :meth:`measure` needs labels; of nodes that have none the weights are then one.
    sees_labels: bool = True
    #: The nodes of a heterogeneous model that it stands in front of.
    node_type: str | None = None

    def __init__(
        self, in_channels: int = -1, exponent: float = 0.5, *, shuffled: bool = False
    ) -> None:
        super().__init__()
        if not math.isfinite(exponent):
            raise ValueError(f"{type(self).__name__} expects a finite exponent; found {exponent}.")
        self.in_channels = in_channels
        self.shuffled = shuffled
        # Both are buffers, so that networks that are trained side by side have their own.
        self.register_buffer("exponent", torch.tensor(float(exponent)))
        self.register_buffer("weights", torch.empty(0))  # until data was seen

    def measure(self, data: Data) -> Tensor:
        """Return a number from zero on for each feature dimension ``[d]``.

        Args:
            data: ``x``, ``edge_index``, ``edge_weight`` where edges have weights, and ``y`` of
                the nodes in ``train_mask``; other labels are -1 or NaN.
        """
        raise NotImplementedError

    def measured(self, data: Data) -> Measurement:
        """Return what :meth:`take` makes the weights of; the same for every exponent."""
        x = data.x if data.x.layout == torch.strided else data.x.to_dense()
        values = self.measure(data)
        width = self.in_channels if self.in_channels != -1 else x.size(1)
        fits = values.shape == (width,) and bool((values.isfinite() & (values >= 0)).all())
        if x.size(1) != width or not fits:
            raise InputError(
                f"Expected {type(self).__name__} to measure a finite number from zero on for each "
                f"of {width} dimensions; found {list(values.shape)} of {x.size(1)} features. A "
                f"measured gate stands in front of the layer that takes the features."
            )
        return Measurement(values.double(), x.double().square().sum(0))

    def take(self, measurement: Measurement) -> None:
        """Make the weights of a measurement; a shuffled gate draws from torch's generator."""
        powers = measurement.values ** float(self.exponent)
        usable = powers[powers.isfinite() & (powers > 0)]
        middle = usable.median() if usable.numel() else powers.new_ones(())
        powers = powers.clamp(middle / _WIDEST, middle * _WIDEST)
        if self.shuffled:
            powers = powers[torch.randperm(len(powers)).to(powers.device)]
        energy = measurement.energy
        after = (powers.square() * energy).sum()
        scale = (energy.sum() / after).sqrt() if after > 0 else 1 / middle
        self.weights = (powers * scale).to(self.exponent)

    def from_mean(self, mean: Tensor) -> Tensor:
        """Return the weights, which do not depend on the mean."""
        if self.weights.numel() == 0:
            raise InputError(
                f"Expected a {type(self).__name__} that has seen training data; found a new one. "
                f"Train with drgcn.fit, or call drgcn.gates.observe(model, data) first."
            )
        if mean.size(-1) != self.weights.size(-1):
            raise ValueError(
                f"{type(self).__name__} was measured on {self.weights.size(-1)} feature "
                f"dimensions; found {mean.size(-1)}."
            )
        return self.weights.to(mean.dtype).expand_as(mean)

    def extra_repr(self) -> str:
        """Return the settings, but for the exponent, which a grid may replace."""
        return f"{self.in_channels}{', shuffled=True' if self.shuffled else ''}"

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        stored = state.get(f"{prefix}weights")
        if stored is not None:
            self.weights = self.weights.new_empty(stored.shape)
        super()._load_from_state_dict(state, prefix, *others)


class ClassShareGate(MeasuredGate):
    r"""Weights from the share of variance between classes, after propagation.

    Features are propagated by ``steps`` of :math:`\mathbf{D}^{-1} (\mathbf{A} + \mathbf{I})`. The
    measure is the ratio of the mean squares between and within the classes of training nodes,
    ANOVA's :math:`F`, with a moderated variance within: as few labels say little about it, it is
    averaged with the variance :math:`v_j` over all nodes, which needs no labels,

    .. math::
        m_j = \frac{B_j}{(d_0 v_j + f W_j) / (d_0 + f)},

    for :math:`f` degrees of freedom within. The weight :math:`d_0` is the one under which the
    spread of :math:`\log W_j / v_j` over dimensions is as found (Smyth 2004, `"Linear models and
    empirical Bayes methods" <https://doi.org/10.2202/1544-6115.1027>`_). With one node a class
    nothing is known within, and :math:`v_j` stands alone. Where nodes have several labels,
    mean squares are averaged over the labels.

    Args:
        in_channels (int): See :class:`MeasuredGate`.
        exponent (float, optional): See :class:`MeasuredGate`. (default: :obj:`0.5`)
        shuffled (bool, optional): See :class:`MeasuredGate`. (default: :obj:`False`)
        steps (int, optional): Steps of propagation; :obj:`0` to take features as they are.
            (default: :obj:`2`)
    """

    def __init__(
        self,
        in_channels: int = -1,
        exponent: float = 0.5,
        *,
        shuffled: bool = False,
        steps: int = 2,
    ) -> None:
        super().__init__(in_channels, exponent, shuffled=shuffled)
        if steps < 0:
            raise ValueError(f"ClassShareGate expects steps from 0 on; found {steps}.")
        self.steps = steps

    def measure(self, data: Data) -> Tensor:
        """Return the moderated ratio of mean squares for each feature dimension."""
        groups = _groups(data)
        propagate = _row_normalized(data) if self.steps else None
        nodes = data.train_mask.nonzero().flatten()
        parts = []
        for x in data.x.split(_COLUMNS, dim=1) if data.x.layout == torch.strided else [data.x]:
            h = x.to_dense().double()
            for _ in range(self.steps):
                h = propagate @ h
            # Rounding leaves a trace of variance in columns that have none.
            flat = h.var(0) <= 1e-24 * h.square().mean(0)
            parts.append((*_mean_squares(h[nodes], groups), h.var(0).where(~flat, 0.0)))
        between, within, prior = (torch.cat(part) for part in zip(*parts, strict=True))
        flat = prior == 0
        variance = _moderated(within, prior, groups.freedom)
        return torch.where(flat, 0.0, between / torch.where(flat, 1.0, variance))


class PseudoClassShareGate(ClassShareGate):
    r"""Weights as of :class:`ClassShareGate`, with training labels spread along edges first.

    A handful of labels says little about a dimension; guesses for all nodes say more, if most are
    right. Starting from the training labels :math:`\mathbf{Y}`, in 20 steps

    .. math::
        \mathbf{F} \leftarrow 0.9 \, \mathbf{D}^{-1} (\mathbf{A} + \mathbf{I}) \, \mathbf{F}
        + 0.1 \, \mathbf{Y},

    and each class is divided by its total, so that none takes all for its well-connected nodes. A
    node has the class of its largest entry; training nodes keep theirs, and those that no label
    reaches have none. Only for nodes of one class each.

    Args:
        in_channels (int): See :class:`MeasuredGate`.
        exponent (float, optional): See :class:`MeasuredGate`. (default: :obj:`0.5`)
        shuffled (bool, optional): See :class:`MeasuredGate`. (default: :obj:`False`)
        steps (int, optional): See :class:`ClassShareGate`; labels are spread in any case.
            (default: :obj:`2`)
    """

    def measure(self, data: Data) -> Tensor:
        """Return the moderated ratio of mean squares between and within guessed classes."""
        return super().measure(_with_spread_labels(data))


class VarianceGate(MeasuredGate):
    """Powers of the standard deviation of each feature dimension over all nodes; no labels.

    Args:
        in_channels (int): See :class:`MeasuredGate`.
        exponent (float, optional): :obj:`-1` brings all deviations to one size. (default:
            :obj:`-0.5`)
        shuffled (bool, optional): See :class:`MeasuredGate`. (default: :obj:`False`)
    """

    sees_labels = False

    def __init__(
        self, in_channels: int = -1, exponent: float = -0.5, *, shuffled: bool = False
    ) -> None:
        super().__init__(in_channels, exponent, shuffled=shuffled)

    def measure(self, data: Data) -> Tensor:
        """Return the deviations; a dimension without any counts as one of the median."""
        x = data.x if data.x.layout == torch.strided else data.x.to_dense()
        deviation = x.double().std(0, correction=0)
        spread = deviation > 0
        middle = deviation[spread].median() if bool(spread.any()) else deviation.new_ones(())
        return torch.where(spread, deviation, middle)


# The names that ``reweight=``, ``insert_reweighting(gate=)`` and the command line take. Static
# and constant are the controls of Dr; a shuffled gate is that of the gate it is named after.
GATES: Final[dict[str, Callable[..., Gate]]] = {
    "dr": DimensionalReweighting,
    "dr-one": ReweightingFromOne,
    "dr-exp": ExponentialReweighting,
    "class-share": ClassShareGate,
    "shuffled-class-share": partial(ClassShareGate, shuffled=True),
    "class-share-pseudo": PseudoClassShareGate,
    "shuffled-class-share-pseudo": partial(PseudoClassShareGate, shuffled=True),
    "variance": VarianceGate,
    "shuffled-variance": partial(VarianceGate, shuffled=True),
    "static": StaticGate,
    "constant": ConstantGate,
}


def gate_factory(gate: Any, **options: Any) -> Callable[[int], torch.nn.Module]:
    """Return the function that makes a gate for a width.

    Args:
        gate (str, torch.nn.Module or callable): A name of :data:`GATES`, a module to copy, or
            such a function.
        **options: Arguments of the gate of that name.
    """
    named = isinstance(gate, str) and gate in GATES
    if options and (not named or gate in ("static", "constant")):
        raise InputError(
            f"Expected options ({', '.join(options)}) with a gate by its name that takes some, "
            f"such as gate='dr'; found gate={gate!r}. Give a function that makes the gate with "
            f"its options."
        )
    if named:
        return partial(GATES[gate], **options)
    if isinstance(gate, torch.nn.Module):
        return lambda _: copy.deepcopy(gate)
    if callable(gate):
        return gate
    raise InputError(
        f"Expected gate to be one of {', '.join(map(repr, GATES))}, a module, or a function from "
        f"a width to a module; found {gate!r}. For another activation of the Dr block: "
        f"gate=lambda width: DimensionalReweighting(width, gate={gate!r})."
    )


def measured_gates(model: torch.nn.Module) -> Iterator[tuple[str, MeasuredGate]]:
    """Yield the gates of a model that are measured on training data, by name."""
    for name, module in model.named_modules():
        if isinstance(module, MeasuredGate):
            yield name, module


def observe(model: torch.nn.Module, data: Data | HeteroData) -> torch.nn.Module:
    """Show training data to the measured gates of a model, and return the model.

    Args:
        model (torch.nn.Module): A model with gates.
        data (Data or HeteroData): A graph with ``x``, ``edge_index``, ``y`` and a boolean
            ``train_mask``. Labels of other nodes are taken away before a gate sees it. Of a
            heterogeneous graph a gate sees the nodes of its type, and the edges among them.
    """
    if isinstance(data, HeteroData):
        for name, gate in measured_gates(model):
            gate.take(_measured_of_type(name, gate, data))
        return model
    view = training_view(data)
    for _, gate in measured_gates(model):
        gate.take(gate.measured(view))
    return model


def _measured_of_type(name: str, gate: MeasuredGate, data: HeteroData) -> Measurement:
    own = gate.node_type
    if own is None:
        raise InputError(
            f"Expected gates of one node type each, to see a heterogeneous graph; found {name} "
            f"without one. Insert into what to_hetero returns, or into a HeteroConv."
        )
    nodes = data[own] if own in data.node_types else {}
    if not isinstance(x := nodes.get("x"), Tensor):
        raise InputError(f"Expected features of {own!r}, for the gate {name}; found none.")
    among = [data[way].edge_index for way in data.edge_types if way[0] == way[2] == own]
    edges = torch.cat(among, 1) if among else torch.empty(2, 0, dtype=torch.long, device=x.device)
    labelled = nodes.get("train_mask") is not None
    if gate.sees_labels and not labelled:
        even = torch.ones(x.size(1), dtype=torch.float64, device=x.device)
        return Measurement(even, even)
    mask = nodes["train_mask"] if labelled else x.new_zeros(x.size(0), dtype=torch.bool)
    view = Data(x=x, edge_index=edges, train_mask=mask, y=nodes.get("y") if labelled else None)
    return gate.measured(training_view(view))


def training_view(data: Data) -> Data:
    """Return features, edges and training labels of a graph; other labels are -1 or NaN."""
    mask = data.get("train_mask")
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 1:
        raise InputError(
            "Expected a boolean train_mask [nodes], whose labels a gate may see; found none. Of "
            "masks of several splits, take one column."
        )
    kept = {
        name: data[name] for name in ("edge_index", "edge_weight") if data.get(name) is not None
    }
    if (y := data.get("y")) is not None:
        if y.dim() == 2 and y.size(1) == 1 and not y.is_floating_point():
            y = y[:, 0]  # classes as OGB has them
        unknown = torch.nan if y.is_floating_point() else -1
        kept["y"] = torch.where(mask if y.dim() == 1 else mask[:, None], y, unknown)
    return Data(x=data.x, train_mask=mask, **kept)


class _Groups(NamedTuple):
    """Memberships ``[nodes, groups]`` of training nodes, of which those of one label are a
    division of all nodes, the number of divisions, and degrees of freedom between and within."""

    members: Tensor
    divisions: int
    between: int
    freedom: int


def _groups(data: Data) -> _Groups:
    y = data.get("y")
    labels = torch.empty(0) if y is None else y[data.train_mask]
    if labels.dim() == 2 and bool(((labels == 0) | (labels == 1)).all()):
        labels = labels[:, (labels.min(0).values == 0) & (labels.max(0).values == 1)].double()
        members, divisions, between = torch.cat([labels, 1 - labels], 1), labels.size(1), 1
    elif labels.dim() == 1 and not labels.is_floating_point():
        classes = labels[labels >= 0].unique()
        members = (labels[:, None] == classes).double()
        divisions, between = 1, len(classes) - 1
    else:
        members, divisions, between = labels.new_empty(len(labels), 0), 0, 0
    if divisions < 1 or between < 1:
        raise InputError(
            "Expected training labels of at least two classes for class-share, whole numbers "
            "[nodes] or zeros and ones [nodes, labels]; found "
            f"{'none' if y is None else f'{labels.dtype} {list(labels.shape)} that are not'}. Use "
            f"the gate 'variance', which needs no labels."
        )
    known = int(members.sum()) // divisions
    return _Groups(members, divisions, between, known - between - 1)


def _with_spread_labels(data: Data) -> Data:
    """Return the graph with the class that training labels spread to each node they reach."""
    _groups(data)  # refuses labels of fewer than two classes
    labels = data.y
    if labels.dim() != 1:
        raise InputError(
            "Expected one class a node, to spread labels along edges; found several labels. Use "
            "the gate 'class-share'."
        )
    propagate, mask = _row_normalized(data), data.train_mask & (labels >= 0)
    given = torch.zeros(len(labels), int(labels.max()) + 1, dtype=torch.float64).to(labels.device)
    given[mask, labels[mask]] = 1.0
    spread = given
    for _ in range(_SPREADING):
        spread = (1 - _RESTART) * (propagate @ spread) + _RESTART * given
    total = spread.sum(0)
    spread = spread / torch.where(total > 0, total, 1.0)
    reached = spread.sum(1) > 0
    guessed = torch.where(reached, spread.argmax(1), -1)
    found = data.clone()
    found.y, found.train_mask = torch.where(mask, labels, guessed), reached | mask
    return found


def _mean_squares(h: Tensor, groups: _Groups) -> tuple[Tensor, Tensor]:
    """Return the mean squares between and within groups for each column, over divisions."""
    known = groups.members.sum(1) > 0
    h, members = h[known], groups.members[known]
    h = h - h.mean(0)
    counts = members.sum(0)
    between = (members.T @ h).square().div(counts[:, None]).sum(0) / groups.divisions
    total = h.square().sum(0)
    within = total - between
    within = within.where(within > 1e-12 * total, 0.0)  # less is rounding
    return between / groups.between, within / max(groups.freedom, 1)


def _moderated(within: Tensor, prior: Tensor, freedom: int) -> Tensor:
    """Return variances averaged with a prior by the weight that empirical Bayes finds for it."""
    usable = (within > 0) & (prior > 0)
    if freedom < 1 or int(usable.sum()) < 2:
        return prior
    spread = (within[usable] / prior[usable]).log().var()
    excess = spread - torch.polygamma(1, spread.new_tensor(freedom / 2))
    if excess <= 0:
        return prior
    weight = 2 * _inverse_trigamma(excess)
    return (weight * prior + freedom * within) / (weight + freedom)


def _inverse_trigamma(value: Tensor) -> Tensor:
    found = 0.5 + 1 / value
    for _ in range(20):  # of Newton's steps, which converge from this side
        now = torch.polygamma(1, found)
        found = found + now * (1 - now / value) / torch.polygamma(2, found)
    return found


def _row_normalized(data: Data) -> Tensor:
    """Return the sparse matrix of mean neighbours, each node one of its own."""
    if data.get("edge_index") is None:
        raise InputError(
            "Expected data.edge_index to propagate features; found none. Take steps=0 for data "
            "without edges."
        )
    count, edges = data.x.size(0), data.edge_index
    apart = edges[0] != edges[1]
    weight = data.get("edge_weight")
    weight = torch.ones_like(edges[0], dtype=torch.float64) if weight is None else weight.double()
    nodes = torch.arange(count, device=edges.device)
    # Row v holds the sources of edges into v, as everywhere.
    row, col = torch.cat([edges.flip(0)[:, apart], nodes.expand(2, -1)], dim=1)
    weight = torch.cat([weight[apart], torch.ones_like(nodes, dtype=torch.float64)])
    total = weight.new_zeros(count).index_add(0, row, weight)
    total = torch.where(total > 0, total, 1.0)
    matrix = torch.sparse_coo_tensor(
        torch.stack([row, col]), weight / total[row], (count, count), check_invariants=False
    )
    return matrix.to_sparse_csr()
