"""Arguments of ``fit``, checked and brought into one form: data, model, seeds, optimiser."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import operator
import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from numbers import Real
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.data import Batch, Data
from torch_geometric.nn.models.basic_gnn import BasicGNN

from drgcn.errors import DrgcnWarning, InputError

PARTS: Final = ("train", "val", "test")
# Names that PyG gives to tensors of a graph, beside features and edges.
_BY_NAME: Final = ("batch", "edge_attr", "edge_type", "edge_weight", "pos", "ptr")
_WHOLE_GRAPH: Final = ("data", "batch", "graph")
_EDGES: Final = ("edge_index", "adj_t", "adj")
# Seeds below this have keys of their own, see :func:`drgcn.streams.stream_key`.
_SEEDS: Final = 2**53
# Characters of another library's error that are repeated.
_REASON: Final = 120
# Meaning of labels: class numbers, zeros and ones, measurements, or edges and pairs without one.
Kind = Literal["classes", "labels", "values", "links"]
# Makes the arguments of a model from a graph.
Prepare = Callable[[Data], tuple[Any, ...]]


class MakeOptimizer(Protocol):
    """An optimiser class of torch, or a partial of one with options of its own."""

    def __call__(self, params: Any, *, lr: Any) -> torch.optim.Optimizer:
        """Return the optimiser of some parameters."""


def checked_data(data: Any, split: int | None = None, kind: Kind | None = None) -> Data:
    """Return a copy of ``data`` with boolean masks ``[nodes]`` and labels in one of three forms.

    Args:
        data: A PyG graph. Masks are boolean, one column a split, or lists of node numbers, in
            tensors, arrays or lists.
        split: Column of masks ``[nodes, splits]``.
        kind: Meaning of the labels. (default: what their form says)

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
    check_features(data)
    data.y = labels_of(data.get("y"), int(data.num_nodes or 0), "node")
    for part in PARTS:
        data[f"{part}_mask"] = _as_tensor(data.get(f"{part}_mask"), part, data.y.device)
    dims = {getattr(data.get(f"{part}_mask"), "ndim", 1) for part in PARTS}
    if split is not None and dims == {1}:
        raise InputError(
            f"Expected masks [nodes, splits] for split={split}; found masks of one split."
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
            warnings.warn(
                f"{shared:,} nodes are in both data.{first}_mask and data.{second}_mask: results "
                f"on them say little about unseen nodes.",
                DrgcnWarning,
                stacklevel=3,
            )
    return data


def check_features(data: Data) -> None:
    """Refuse a graph without features, or with features of nodes or edges that are no numbers."""
    x = data.get("x")
    if not isinstance(x, Tensor):
        raise InputError(
            f"Expected node features in data.x; found "
            f"{'none' if x is None else type(x).__name__}. Without features, one-hot degrees or "
            f"an embedding's node numbers are usual: data.x = torch.arange(data.num_nodes)."
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


def labels_of(y: Any, count: int, what: str) -> Tensor:
    """Return labels with one row per node or graph: class numbers ``[nodes]`` or a table.

    Args:
        y: Labels as found in the data.
        count: Number of nodes or graphs.
        what: ``"node"`` or ``"graph"``.
    """
    if not isinstance(y, Tensor):
        found = "none" if y is None else type(y).__name__
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
        warnings.warn(
            f"data.y [{', '.join(map(str, labels.shape))}] has a single one in every row, and is "
            f"trained as several labels (loss bce, metric micro-F1). For classes, use "
            f"data.y.argmax(1); to keep it so, say loss='bce'.",
            DrgcnWarning,
            stacklevel=4,
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


class Numbers(NamedTuple):
    """Checked numbers of a call of ``fit``, of Python's own types."""

    epochs: int
    lr: float
    weight_decay: float
    split: int | None
    seeds_at_once: int | None


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
) -> Numbers:
    """Check the plain arguments of ``fit``, and return those that are numbers."""
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
    return Numbers(
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


@contextlib.contextmanager
def _kept_generators(device: torch.device | None = None) -> Iterator[None]:
    """Context after which the generators of torch, Python and NumPy are as before."""
    before = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(
            [device] if device is not None and device.type == "cuda" else []
        ):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def new_model(make_model: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Build a model that is not trained, without moving any generator."""
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        raise InputError(
            f"Expected a function that builds a model, such as lambda: GCN(...); found "
            f"{type(make_model).__name__}."
        )
    try:
        with _kept_generators():
            model = make_model()
    except InputError:
        raise
    except Exception as error:  # a function of anyone's may raise anything
        raise InputError(
            f"Expected a function that builds a model, such as lambda: GCN(...); "
            f"{name_of(make_model)} raised {reason_of(error)}"
        ) from error
    if not isinstance(model, torch.nn.Module):
        found = type(model).__name__
        raise InputError(f"Expected make_model to return a module; it returned {found}.")
    return model


def default_prepare(model: torch.nn.Module) -> Prepare:
    """Return the function that makes the arguments of a model's ``forward``.

    That is its own ``prepare``, if it has one. Otherwise arguments of a name that PyG gives to
    tensors of a graph (``x``, ``edge_weight``, ``batch``) are those of the graph; of those under
    other names the first is the features and the second the edges. Edge features reach models
    made for them. A model of one argument ``data``, or of one of PyG's type ``Data``, gets the
    whole graph.
    """
    own = getattr(model, "prepare", None)
    if callable(own):
        return own
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(model.forward).parameters.values()
    parameters = [parameter for parameter in signature if parameter.kind in kinds]
    by_keyword = [p for p in signature if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if not parameters and not by_keyword:  # forward(*args), as wrappers have it
        return lambda data: (data.x, _edges(data))
    whole, features, edges = _roles(parameters)
    takes_edge_features = not isinstance(model, BasicGNN) or any(
        getattr(module, "edge_dim", None) is not None for module in model.modules()
    )

    def value_of(name: str, data: Data) -> Any:
        if name == whole:
            return data
        if name == features:
            return data.x
        if name in _EDGES or name == edges:
            return _edges(data)
        if name == "batch_size":  # which pooling layers would otherwise read off the device
            return data.num_graphs if isinstance(data, Batch) else None
        return data.get(name) if name != "edge_attr" or takes_edge_features else None

    def prepare(data: Data) -> tuple[Any, ...]:
        values: list[Any] = []
        given = 0
        for parameter in parameters:
            value = value_of(parameter.name, data)
            if value is None and parameter.default is inspect.Parameter.empty:
                raise InputError(
                    f"Expected data.{parameter.name}, an argument of {type(model).__name__}; "
                    f"found none. Give fit a function prepare(data) that returns the arguments."
                )
            values.append(parameter.default if value is None else value)
            given = given if value is None else len(values)
        for parameter in by_keyword:
            needed = parameter.default is inspect.Parameter.empty
            if needed or (
                parameter.name != "batch_size" and value_of(parameter.name, data) is not None
            ):
                raise InputError(
                    f"Expected arguments of {type(model).__name__}.forward by position; found "
                    f"{parameter.name} behind a *. Take the * away, or give fit a function "
                    f"prepare(data) that returns the arguments without it."
                )
        return tuple(values[:given])

    return prepare


def _roles(parameters: list[inspect.Parameter]) -> tuple[str | None, str | None, str | None]:
    """Return the names of the arguments that are the whole graph, its features and its edges."""
    first = parameters[0] if parameters else None
    if first is not None:
        kind = first.annotation
        kind = kind.rsplit(".", 1)[-1] if isinstance(kind, str) else kind
        typed = kind in ("Data", "Batch") or (isinstance(kind, type) and issubclass(kind, Data))
        alone = all(p.default is not inspect.Parameter.empty for p in parameters[1:])
        if typed or (first.name in _WHOLE_GRAPH and alone):
            return first.name, "x", None
    names = [parameter.name for parameter in parameters]
    # An argument such as ``return_attention=False`` is an option.
    free = [
        p.name
        for p in parameters
        if p.name not in ("x", "batch_size", *_BY_NAME, *_EDGES)
        and (p.default is inspect.Parameter.empty or p.default is None)
    ]
    features = "x" if "x" in names or not free else free.pop(0)
    return None, features, free[0] if free and not set(names) & set(_EDGES) else None


def _edges(data: Data) -> Any:
    return data.edge_index if data.edge_index is not None else data.get("adj_t")


@torch.no_grad()
def try_model(
    model: torch.nn.Module,
    inputs: tuple[Any, ...],
    count: int,
    device: torch.device,
    what: str = "nodes",
) -> int:
    """Call a model once by itself, so that what is wrong with it is said of it alone, and return
    the number of its outputs.

    Args:
        model: A model that is not trained.
        inputs: Its arguments.
        count: Number of nodes, pairs or graphs that it must score.
        device: Device of the arguments.
        what: Word for them.
    """
    name = type(model).__name__
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"Expected a model with parameters to train; {name} has none.")
    expect_types(model, inputs)
    # Clones, so that a model that writes into its arguments leaves the user's data alone.
    inputs = tuple(_cloned(value) for value in inputs)
    before = _contents(inputs)
    trial = copy.deepcopy(model).eval().to(device)
    with _kept_generators(device):
        scores = call_model(trial, inputs)
        with contextlib.suppress(Exception):  # what fails in training alone is told by training
            trial.train()(*inputs)
    after = _contents(inputs)
    same = len(before) == len(after) and all(
        value is now and version == version_now
        for (value, version), (now, version_now) in zip(before, after, strict=True)
    )
    if not same:
        raise InputError(
            f"Expected a model that leaves its arguments as they are; {name} changes them in "
            f"place, and so the data of the next epoch. Let it work on x.clone(), or without "
            f"inplace=True."
        )
    if not isinstance(scores, Tensor):
        raise InputError(
            f"Expected {name} to return one tensor of scores; it returned "
            f"{type(scores).__name__}. Wrap it in a module that returns the scores alone."
        )
    if scores.dim() != 2 or scores.size(0) != count:
        raise InputError(
            f"Expected {name} to return scores [{what}, classes] of {count:,} {what}; it returned "
            f"{list(scores.shape)}."
        )
    if not scores.is_floating_point():
        raise InputError(f"Expected {name} to return real scores; it returned {scores.dtype}.")
    if not bool(scores.isfinite().all()):
        raise InputError(
            f"Expected {name} to return finite scores; before any training it returns "
            f"{int((~scores.isfinite()).sum()):,} that are NaN or infinite. Scale large "
            f"features, and look for divisions by zero or logarithms of zero in it."
        )
    return scores.size(1)


def expect_types(model: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
    """Refuse features of another type than the weights."""
    types = {p.dtype for p in model.parameters() if not is_lazy(p) and p.is_floating_point()}
    x = inputs[0] if inputs else None
    if isinstance(x, Tensor) and x.is_floating_point() and types and x.dtype not in types:
        wanted = " or ".join(sorted(str(kind) for kind in types))
        raise InputError(
            f"Expected features of {wanted}, as the weights of {type(model).__name__} are; found "
            f"{x.dtype}. Convert them, data.x = data.x.to({wanted.split()[0]})."
        )


def call_model(model: torch.nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Call a model; whatever it raises becomes a sentence."""
    try:
        return model(*inputs)
    except InputError:
        raise
    except Exception as error:  # a model of anyone's may raise anything
        raise InputError(
            f"Expected a model that takes {_shapes(inputs)}; {type(model).__name__} raised "
            f"{reason_of(error)}"
        ) from error


def _cloned(value: Any) -> Any:
    if isinstance(value, tuple | list | dict):
        return copy.deepcopy(value)
    return value.clone() if isinstance(value, Tensor | Data) else value


def _contents(inputs: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """Return the tensors of a model's arguments and whole graphs, each with its version."""
    values = [v for i in inputs for v in (i.to_dict().values() if isinstance(i, Data) else [i])]
    return [(value, value._version if isinstance(value, Tensor) else 0) for value in values]


def _shapes(inputs: tuple[Any, ...]) -> str:
    def word(value: Any) -> str:
        shape = getattr(value, "shape", None)
        return type(value).__name__ if shape is None else "x".join(map(str, shape))

    return "arguments of shapes " + ", ".join(map(word, inputs))
