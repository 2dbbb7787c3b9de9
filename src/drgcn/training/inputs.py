"""Arguments of ``fit``, checked and brought into one form: data, numbers, seeds, optimiser."""

from __future__ import annotations

import copy
import math
import operator
import os
from collections.abc import Iterable
from itertools import combinations
from numbers import Real
from typing import Any, Final, Literal, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn._format import plural
from drgcn.errors import InputError, warn

PARTS: Final = ("train", "val", "test")
# Seeds below this have keys of their own, see :func:`drgcn.streams.stream_key`.
_SEEDS: Final = 2**53
# Edges whose opposites are looked for first.
_FEW: Final = 4096
# Characters of another library's error that are repeated.
_REASON: Final = 120
# Meaning of labels: class numbers, zeros and ones, measurements, or edges and pairs without one.
Kind = Literal["classes", "labels", "values", "links"]


class MakeOptimizer(Protocol):
    """An optimiser class of torch, or a partial of one with options of its own."""

    def __call__(self, params: Any, *, lr: Any) -> torch.optim.Optimizer:
        """Return the optimiser of some parameters."""


def checked_data(
    data: Any, split: int | None = None, kind: Kind | None = None, *, known: bool = False
) -> Data:
    """Return a copy of ``data`` with boolean masks ``[nodes]`` and labels in one of three forms.

    Args:
        data: A PyG graph. Masks are boolean, one column a split, or lists of node numbers, in
            tensors, arrays or lists.
        split: Column of masks ``[nodes, splits]``.
        kind: Meaning of the labels. (default: what their form says)
        known: Features and edges were checked before, with another split.

    Returns:
        The graph. Its ``y`` holds class numbers ``[nodes]`` or other numbers ``[nodes, values]``.
    """
    if not isinstance(data, Data):
        hint = (
            "Give three lists of graphs to learn from whole graphs, or join them with "
            "drgcn.data.unite."
        )
        if type(data).__name__ == "HeteroData":
            hint = "Take one node type, or call data.to_homogeneous()."
        raise InputError(f"Expected one PyG Data; found {type(data).__name__}. {hint}")
    data = copy.copy(data)
    if not known:
        check_features(data)
    data.y = labels_of(data.get("y"), int(data.num_nodes or 0), "node")
    for part in PARTS:
        data[f"{part}_mask"] = _as_tensor(data.get(f"{part}_mask"), part, data.y.device)
    dims = {getattr(data.get(f"{part}_mask"), "ndim", 1) for part in PARTS}
    if split is not None and dims == {1}:
        raise InputError(
            f"Expected masks [nodes, splits] for split={split}; found masks of one split."
        )
    masks = [data.get(f"{part}_mask") for part in PARTS]
    widths = sorted({m.size(1) for m in masks if m is not None and m.dim() == 2} - {1})
    if len(widths) > 1:
        raise InputError(
            f"Expected masks of the same number of splits; found {' and '.join(map(str, widths))}."
            " Give [nodes, splits] for each."
        )
    columns = {part: _mask(data, part, split) for part in PARTS}
    for part, mask in columns.items():
        data[f"{part}_mask"] = mask
        check_labels(data.y[mask], f"nodes of data.{part}_mask", kind)
    warn_of_one_hot(torch.cat([data.y[mask] for mask in columns.values()]), kind)
    data.y = labels_as(data.y, kind)
    for first, second in combinations(PARTS, 2):
        shared = int((columns[first] & columns[second]).sum())
        if shared:
            warn(
                f"{plural(shared, 'node')} in both data.{first}_mask and data.{second}_mask: "
                f"results on them say little about unseen nodes."
            )
    return data


def check_features(data: Data) -> None:
    """Refuse a graph without features, or with features of nodes or edges that are no numbers."""
    x = data.get("x")
    if x is None:
        raise InputError(
            "Expected node features in data.x; found none. Without features, one-hot degrees or "
            "an embedding's node numbers are usual: data.x = torch.arange(data.num_nodes)."
        )
    if not isinstance(x, Tensor):
        raise InputError(
            f"Expected node features in data.x, a tensor; found {type(x).__name__}. Use "
            f"torch.as_tensor."
        )
    for name in ("x", "edge_weight", "edge_attr"):
        values = data.get(name)
        if not isinstance(values, Tensor):
            continue
        if values.layout != torch.strided:
            values = values.to_sparse_coo().coalesce().values()
        if values.is_floating_point() and not bool(values.isfinite().all()):
            wrong = int((~values.isfinite()).sum())
            raise InputError(
                f"Expected finite {'features' if name == 'x' else name}; found {wrong:,} NaN or "
                f"infinite entries in data.{name}. Fill or drop them, for example with "
                f"torch.nan_to_num."
            )
    _check_edges(data)


def _share_any(values: Tensor, others: Tensor) -> bool:
    """Test if a value stands in both."""
    others = others.sort().values
    place = torch.searchsorted(others, values).clamp(max=len(others) - 1)
    return bool((others[place] == values).any())


def _check_edges(data: Data) -> None:
    """Refuse edges of another form than PyG's, and warn if all go one way."""
    edges, nodes = data.get("edge_index"), int(data.num_nodes or 0)
    if edges is None:  # a model may do without, or take them by another name
        return
    whole = isinstance(edges, Tensor) and not (edges.is_floating_point() or edges.is_complex())
    if not whole or edges.dim() != 2 or edges.size(0) != 2 or edges.dtype == torch.bool:
        found = (
            f"{edges.dtype} of shape {list(edges.shape)}"
            if isinstance(edges, Tensor)
            else type(edges).__name__
        )
        turned = whole and edges.dim() == 2 and edges.size(1) == 2
        advice = "Turn it, data.edge_index.t().contiguous()" if turned else "Convert it"
        raise InputError(
            f"Expected data.edge_index as whole numbers [2, edges]; found {found}. {advice}."
        )
    weights, count = data.get("edge_weight"), edges.size(1)
    if isinstance(weights, Tensor) and weights.shape not in ((count,), (count, 1)):
        raise InputError(
            f"Expected data.edge_weight with one number for each of {count:,} edges; found shape "
            f"{list(weights.shape)}."
        )
    if not edges.numel():
        return
    first, last = int(edges.min()), int(edges.max())
    if first < 0 or last >= nodes:
        raise InputError(
            f"Expected edges between the nodes 0 to {nodes - 1:,}; found node "
            f"{first if first < 0 else last:,} in data.edge_index. Number the nodes as the rows "
            f"of data.x."
        )
    source, target = edges.long()
    between = source != target
    keys = source[between] * nodes + target[between]
    back = target[between] * nodes + source[between]
    # A few are enough for nearly every graph; large ones would take long to sort.
    if len(keys) and not _share_any(keys, back[:_FEW]) and not _share_any(keys, back):
        warn(
            "every edge of data.edge_index goes one way alone, so a node hears only of those that "
            "point to it: if the graph is undirected, list each edge in both directions "
            "(torch_geometric.utils.to_undirected), as drgcn.data.load does"
        )


def labels_of(y: Any, count: int, what: str) -> Tensor:
    """Return labels with one row per node or graph: class numbers ``[nodes]`` or a table.

    Args:
        y: Labels as found in the data.
        count: Number of nodes or graphs.
        what: ``"node"`` or ``"graph"``.
    """
    if not isinstance(y, Tensor):
        found = "none" if y is None else f"{type(y).__name__}. Use torch.as_tensor"
        raise InputError(f"Expected labels in data.y, a tensor; found {found}.")
    if y.dim() == 0 or y.size(0) != count:
        other = "one node" if what == "graph" else "a whole graph"
        raise InputError(
            f"Expected data.y with one row per {what}, {count:,}; found shape {list(y.shape)}. "
            f"The label of {other} is not the label of a {what}; several labels of one are a row."
        )
    if y.dim() > 2:
        raise InputError(f"Expected data.y [{what}s] or [{what}s, labels]; found {list(y.shape)}.")
    if y.dim() == 2 and y.size(1) == 1 and not y.is_floating_point():
        y = y[:, 0]
    return y.long() if y.dim() == 1 and not y.is_floating_point() else y


def labels_as(y: Tensor, kind: Kind | None) -> Tensor:
    """Return checked labels in the form of their kind: class numbers ``[nodes]`` or a table."""
    if kind == "classes":
        return y.flatten().long()
    if kind == "values" and not y.is_floating_point():
        y = y.float()
    table = y.dim() == 1 and (kind is not None or y.is_floating_point())
    return y[:, None] if table else y


def check_labels(labels: Tensor, where: str, kind: Kind | None = None) -> None:
    """Refuse labels that the model cannot be held against.

    Args:
        labels: Labels of one part.
        where: The part in words, such as ``"nodes of data.train_mask"``.
        kind: Their meaning. (default: what their form says)
    """
    if labels.is_floating_point() and not bool(labels.isfinite().all()):
        raise InputError(f"Expected labels on all {where}; some are NaN or infinite.")
    zeros_and_ones = bool(((labels == 0) | (labels == 1)).all())
    whole = not labels.is_floating_point() or not bool((labels != labels.round()).any())
    if kind == "values":
        return
    if kind == "labels" and not zeros_and_ones:
        raise InputError(
            "Expected data.y to hold zeros and ones for the loss bce; found other numbers. For "
            "classes leave the loss out, for measurements use loss='mse'."
        )
    if kind == "classes" and not (whole and labels.numel() == len(labels)):
        raise InputError(
            "Expected data.y to hold one class number per node for the loss cross_entropy; found "
            "a table or fractions. Leave the loss out, or use 'bce' or 'mse'."
        )
    numbers = kind == "classes" or (labels.dim() == 1 and not labels.is_floating_point())
    if numbers and bool((labels < 0).any()):
        raise InputError(f"Expected labels on all {where}; some have y < 0.")
    if kind is not None:
        return
    if labels.dim() == 2 and not labels.is_floating_point() and not zeros_and_ones:
        raise InputError(
            f"Expected data.y [nodes, labels] to hold zeros and ones; found {labels.dtype} from "
            f"{int(labels.min())} to {int(labels.max())}. Pick one column of class numbers, "
            f"data.y[:, 0]."
        )
    if labels.is_floating_point() and whole and not (labels.dim() == 2 and zeros_and_ones):
        raise InputError(
            f"Expected class numbers as whole numbers; found data.y of {labels.dtype} with whole "
            f"values, which could be classes or measurements. For classes, use data.y.long(); "
            f"for measurements, loss='mse'; for several labels per node, a table [nodes, labels] "
            f"of zeros and ones."
        )


def warn_of_one_hot(labels: Tensor, kind: Kind | None) -> None:
    """Warn of a table of labels that looks like classes."""
    if kind is not None or labels.dim() != 2 or labels.size(1) < 2 or not len(labels):
        return
    zeros_and_ones = bool(((labels == 0) | (labels == 1)).all())
    if zeros_and_ones and bool((labels.sum(1) == 1).all()):
        warn(
            f"data.y [{', '.join(map(str, labels.shape))}] has a single one in every row, and is "
            f"trained as several labels (loss bce, metric micro-F1). For classes, use "
            f"data.y.argmax(1); to keep it so, say loss='bce'."
        )


def _as_tensor(mask: Any, part: str, device: torch.device) -> Tensor | None:
    """Return a mask, or a list of nodes, of any type of sequence as a tensor."""
    if mask is None or isinstance(mask, Tensor):
        return mask
    try:
        return torch.as_tensor(mask, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"Expected data.{part}_mask to hold booleans or node numbers; found "
            f"{type(mask).__name__} that torch.as_tensor cannot read."
        ) from None


def _mask(data: Data, part: str, split: int | None) -> Tensor:
    """Return the nodes of a part as a boolean mask."""
    name, nodes = f"data.{part}_mask", int(data.num_nodes or 0)
    mask = data.get(f"{part}_mask")
    if mask is None or mask.numel() == 0:
        raise InputError(
            f"Expected {name} to mark at least one node; found "
            f"{'no such mask' if mask is None else 'an empty one'}. Give all three node sets."
        )
    if mask.dim() == 2 and mask.size(0) == nodes:
        mask = _column(mask, name, split)
    if mask.dim() != 1:
        raise InputError(f"Expected {name} [nodes] or [nodes, splits]; found {list(mask.shape)}.")
    if not mask.is_floating_point() and not _is_mask(mask, nodes):
        mask = _from_indices(mask, name, nodes)
    if len(mask) != nodes or mask.is_floating_point():
        raise InputError(
            f"Expected {name} to be boolean with one entry per node, {nodes:,}, or a list of node "
            f"numbers; found {mask.dtype} of length {len(mask):,}."
        )
    mask = mask.bool()
    if not bool(mask.any()):
        raise InputError(
            f"Expected {name} to mark at least one node; found an empty one. Give all three node "
            f"sets."
        )
    return mask


def _is_mask(mask: Tensor, nodes: int) -> bool:
    """True for booleans, and for zeros and ones of one entry per node."""
    if mask.dtype == torch.bool:
        return True
    return len(mask) == nodes > 2 and bool(((mask == 0) | (mask == 1)).all())


def _column(mask: Tensor, name: str, split: int | None) -> Tensor:
    splits = mask.size(1)
    if split is None and splits > 1:
        raise InputError(
            f"Expected one split; found {splits} in {name} {list(mask.shape)}. Choose one by its "
            f"column, as in split=0."
        )
    number = split or 0
    if not 0 <= number < splits:
        raise InputError(f"Expected split from 0 to {splits - 1}; found {split}.")
    return mask[:, number]


def _from_indices(numbers: Tensor, name: str, nodes: int) -> Tensor:
    outside = bool((numbers < 0).any()) or bool((numbers >= nodes).any())
    if outside or len(numbers.unique()) != len(numbers):
        raise InputError(
            f"Expected {name} to list distinct nodes from 0 to {nodes - 1:,}; found "
            f"{'numbers outside' if outside else 'some twice'}."
        )
    mask = torch.zeros(nodes, dtype=torch.bool, device=numbers.device)
    mask[numbers.long()] = True
    return mask


def checked_seeds(seeds: Any) -> tuple[int, ...]:
    """Return distinct whole numbers from 0 on."""
    if isinstance(seeds, int) or not isinstance(seeds, Iterable):
        raise InputError(
            f"Expected several seeds, such as range({seeds if isinstance(seeds, int) else 10}); "
            f"found {shown(seeds)}."
        )
    found = list(seeds)
    try:
        whole = tuple(operator.index(seed) for seed in found)
    except TypeError:
        whole = ()
    if not whole or len(set(whole)) != len(whole) or min(whole) < 0:
        raise InputError(f"Expected distinct seeds from 0 upwards; found {found}.")
    if max(whole) >= _SEEDS:
        raise InputError(
            f"Expected seeds below 2**53, {_SEEDS:,}; found {max(whole)}. Larger ones would share "
            f"their random numbers with others."
        )
    return whole


def checked_numbers(
    *,
    epochs: Any,
    lr: Any,
    weight_decay: Any,
    split: Any = None,
    seeds_at_once: Any = None,
    progress: Any = None,
    checkpoint: Any = None,
    rule: Any = None,
) -> tuple[int, float, float, int | None, int | None]:
    """Check the plain arguments of ``fit``; return those that are numbers, of Python's types."""
    if progress is not None and not callable(progress):
        raise InputError(
            f"Expected progress to be a function of a Progress; found {shown(progress)}. Leave "
            f"it out for none."
        )
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise InputError(f"Expected checkpoint to be a path; found {shown(checkpoint)}.")
    parts = (getattr(rule, name, None) for name in ("start", "update"))
    if rule is not None and (isinstance(rule, type) or not all(map(callable, parts))):
        raise InputError(
            f"Expected a stopping rule, such as BestValidation(patience=100); found {shown(rule)}."
        )
    return (
        checked_count(epochs, "epochs"),
        checked_rate(lr, "lr"),
        checked_rate(weight_decay, "weight_decay"),
        None if split is None else checked_count(split, "split", least=0),
        None if seeds_at_once is None else checked_count(seeds_at_once, "seeds_at_once"),
    )


def checked_count(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number, of any integer type, that is not too small."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(
            f"Expected {name} to be a whole number from {least} on; found {shown(value)}."
        )
    return number


def checked_rate(value: Any, name: str) -> float:
    """Return a finite number that is not negative."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or value < 0:
        raise InputError(
            f"Expected {name} to be a finite number, zero or more; found {shown(value)}."
        )
    return value if type(value) in (int, float) else float(value)


def shown(value: Any) -> str:
    """Return a short value as it prints, or else its type."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return text if len(text) < 40 else type(value).__name__


def reason_of(error: Exception) -> str:
    """Return the first line of an error, cut short, with its type."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:_REASON]}".removesuffix(": ")


def checked_device(device: torch.device | str) -> torch.device:
    """Return a device that is there."""
    try:
        found = torch.device(device)
        if found.type == "cuda":
            count = torch.cuda.device_count()
            if (found.index or 0) >= count:
                raise InputError(f"Expected a device that is there; found {count} CUDA devices.")
        elif found.type != "cpu":
            torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise InputError(
            f"Expected a device of this machine, such as 'cpu'; found {device!r}: "
            f"{reason_of(error)}"
        ) from None
    return found


def expect_elementwise(
    make_optimizer: MakeOptimizer, lr: float, weight_decay: float = 0.0
) -> None:
    """Refuse optimisers that would mix the networks of a pass, or not decay their weights.

    Two networks are stepped together and each by itself: their weights must be the same.
    """
    name = name_of(make_optimizer)
    own = [n for n in ("lr", "weight_decay") if n in getattr(make_optimizer, "keywords", {})]
    if own:
        raise InputError(
            f"Expected an optimiser without {' and '.join(own)} of its own; found {name}. Give "
            f"fit lr and weight_decay instead, which would override them."
        )
    lr = min(max(lr, 0.01), 1.0)  # steps that neither are lost in rounding nor overflow
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 3, 4, generator=generator)
    gradients = (
        torch.randn(3, 2, 3, 4, generator=generator) * torch.tensor([1.0, 9.0])[:, None, None]
    )

    def stepped(lanes: slice, decay: float = 0.0) -> Tensor:
        parameter = weights[lanes].clone().requires_grad_()
        optimizer = make_optimizer([{"params": [parameter], "weight_decay": decay}], lr=lr)
        for gradient in gradients:
            parameter.grad = gradient[lanes].clone()
            optimizer.step()
        return parameter.detach()

    try:
        together = stepped(slice(0, 2))
        apart = torch.cat([stepped(slice(0, 1)), stepped(slice(1, 2))])
        decayed = stepped(slice(0, 2), 0.5) if weight_decay else None
    except Exception as error:  # an optimiser of anyone's may raise anything
        raise InputError(
            f"Expected an optimiser of torch that steps from gradients, as in "
            f"partial(torch.optim.SGD, momentum=0.9); {name} does not: {reason_of(error)}"
        ) from None
    if decayed is not None and torch.equal(together, decayed):
        raise InputError(
            f"Expected an optimiser that decays weights for weight_decay={weight_decay}; {name} "
            f"does not. Use another, or weight_decay=0."
        )
    if not torch.allclose(together, apart, rtol=1e-4, atol=1e-7):
        raise InputError(
            f"Expected an optimiser that works elementwise, such as Adam or SGD; {name} looks at "
            f"whole tensors, and would mix the networks that are trained together."
        )


def name_of(make: Any) -> str:
    """Return the name of a class or function, with the options of a partial."""
    options = getattr(make, "keywords", None)
    inner = getattr(make, "func", make)
    name = getattr(inner, "__name__", type(inner).__name__)
    return f"{name}({', '.join(f'{k}={v!r}' for k, v in options.items())})" if options else name
