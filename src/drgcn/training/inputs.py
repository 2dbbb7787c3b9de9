"""Arguments of ``fit``, checked and brought into one form: data, model, seeds, optimiser."""

from __future__ import annotations

import copy
import inspect
import operator
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, Protocol

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
        data: A PyG graph. Masks are boolean, one column a split, or lists of node numbers.
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
    dims = {getattr(data.get(f"{part}_mask"), "ndim", 1) for part in PARTS}
    if split is not None and dims == {1}:
        raise InputError(
            f"Expected masks [nodes, splits] for split={split}; found masks of one split."
        )
    columns = {part: _mask(data, part, split) for part in PARTS}
    for part, mask in columns.items():
        data[f"{part}_mask"] = mask
        check_labels(data.y[mask], f"nodes of data.{part}_mask", kind)
    data.y = labels_as(data.y, kind)
    for part in ("val", "test"):
        shared = int((columns["train"] & columns[part]).sum())
        if shared:
            warnings.warn(
                f"{shared:,} nodes are in both data.train_mask and data.{part}_mask: results on "
                f"them say little about unseen nodes.",
                DrgcnWarning,
                stacklevel=3,
            )
    return data


def check_features(data: Data) -> None:
    """Refuse a graph without features, or with features that are no numbers."""
    x = data.get("x")
    if not isinstance(x, Tensor):
        raise InputError(
            f"Expected node features in data.x; found "
            f"{'none' if x is None else type(x).__name__}. Without features, one-hot degrees or "
            f"an embedding's node numbers are usual: data.x = torch.arange(data.num_nodes)."
        )
    values = x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values()
    if values.is_floating_point() and not bool(values.isfinite().all()):
        wrong = int((~values.isfinite()).sum())
        raise InputError(
            f"Expected finite features; found {wrong:,} NaN or infinite entries in data.x. Fill "
            f"or drop them, for example with torch.nan_to_num."
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


def _mask(data: Data, part: str, split: int | None) -> Tensor:
    """Return the nodes of a part as a boolean mask."""
    name, nodes = f"data.{part}_mask", int(data.num_nodes or 0)
    mask = data.get(f"{part}_mask")
    if not isinstance(mask, Tensor) or mask.numel() == 0:
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
        raise InputError(f"Expected several seeds, such as range({seeds}); found one number.")
    found = list(seeds)
    try:
        whole = tuple(operator.index(seed) for seed in found)
    except TypeError:
        whole = ()
    if not whole or len(set(whole)) != len(whole) or min(whole) < 0:
        raise InputError(f"Expected distinct seeds from 0 upwards; found {found}.")
    return whole


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
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"Expected a device of this machine; found {device!r}: {reason}"
        ) from None
    return found


def expect_elementwise(make_optimizer: MakeOptimizer, lr: float) -> None:
    """Refuse optimisers that would mix the networks of a pass.

    Two networks are stepped together and each by itself: their weights must be the same.
    """
    name = name_of(make_optimizer)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 3, 4, generator=generator)
    gradients = (
        torch.randn(3, 2, 3, 4, generator=generator) * torch.tensor([1.0, 9.0])[:, None, None]
    )

    def stepped(lanes: slice) -> Tensor:
        parameter = weights[lanes].clone().requires_grad_()
        optimizer = make_optimizer([{"params": [parameter], "weight_decay": 0.0}], lr=lr)
        for gradient in gradients:
            parameter.grad = gradient[lanes].clone()
            optimizer.step()
        return parameter.detach()

    try:
        together = stepped(slice(0, 2))
        apart = torch.cat([stepped(slice(0, 1)), stepped(slice(1, 2))])
    except Exception as error:  # an optimiser of anyone's may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"Expected an optimiser of torch that steps from gradients, as in "
            f"partial(torch.optim.SGD, momentum=0.9); {name} does not: {reason}"
        ) from None
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


def new_model(make_model: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Build a model that is not trained, without moving torch's generator."""
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        raise InputError(
            f"Expected a function that builds a model, such as lambda: GCN(...); found "
            f"{type(make_model).__name__}."
        )
    with torch.random.fork_rng(devices=[]):
        model = make_model()
    if not isinstance(model, torch.nn.Module):
        found = type(model).__name__
        raise InputError(f"Expected make_model to return a module; it returned {found}.")
    return model


def default_prepare(model: torch.nn.Module) -> Prepare:
    """Return the function that makes the arguments of a model's ``forward``.

    That is its own ``prepare``, if it has one. Otherwise arguments of a name that PyG gives to
    tensors of a graph (``edge_weight``, ``batch``) are those of the graph; under other names the
    first is the features and the second the edges. Edge features reach models made for them. A
    model of one argument ``data`` gets the whole graph.
    """
    own = getattr(model, "prepare", None)
    if callable(own):
        return own
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(model.forward).parameters.values()
    parameters = [parameter for parameter in signature if parameter.kind in kinds]
    if not parameters:  # forward(*args), as wrappers have it
        return lambda data: (data.x, _edges(data))
    if parameters[0].name in _WHOLE_GRAPH and len(parameters) == 1:
        return lambda data: (data,)
    takes_edge_features = not isinstance(model, BasicGNN) or any(
        getattr(module, "edge_dim", None) is not None for module in model.modules()
    )

    def value_of(place: int, name: str, data: Data) -> Any:
        if name in ("edge_index", "adj_t", "adj") or (place == 1 and name not in _BY_NAME):
            return _edges(data)
        if place == 0 and name not in _BY_NAME:
            return data.x
        if name == "batch_size":  # which pooling layers would otherwise read off the device
            return data.num_graphs if isinstance(data, Batch) else None
        return data.get(name) if name != "edge_attr" or takes_edge_features else None

    def prepare(data: Data) -> tuple[Any, ...]:
        values: list[Any] = []
        given = 0
        for place, parameter in enumerate(parameters):
            value = value_of(place, parameter.name, data)
            if value is None and parameter.default is inspect.Parameter.empty:
                raise InputError(
                    f"Expected data.{parameter.name}, an argument of {type(model).__name__}; "
                    f"found none. Give fit a function prepare(data) that returns the arguments."
                )
            values.append(parameter.default if value is None else value)
            given = given if value is None else len(values)
        return tuple(values[:given])

    return prepare


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
    types = {p.dtype for p in model.parameters() if not is_lazy(p) and p.is_floating_point()}
    x = inputs[0] if inputs else None
    if isinstance(x, Tensor) and x.is_floating_point() and types and x.dtype not in types:
        wanted = " or ".join(sorted(str(kind) for kind in types))
        raise InputError(
            f"Expected features of {wanted}, as the weights of {name} are; found {x.dtype}. "
            f"Convert them, data.x = data.x.to({wanted.split()[0]})."
        )
    try:
        with torch.random.fork_rng(devices=[]):
            scores = copy.deepcopy(model).eval().to(device)(*inputs)
    except InputError:
        raise
    except Exception as error:  # a model of anyone's may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"Expected a model that takes {_shapes(inputs)}; {name} raised "
            f"{type(error).__name__}: {reason}"
        ) from error
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
    return scores.size(1)


def _shapes(inputs: tuple[Any, ...]) -> str:
    def word(value: Any) -> str:
        shape = getattr(value, "shape", None)
        return type(value).__name__ if shape is None else "x".join(map(str, shape))

    return "arguments of shapes " + ", ".join(map(word, inputs))
