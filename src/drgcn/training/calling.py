"""Models of anyone: built, given their arguments, called once before they are trained, and made to
score pairs of nodes."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.data import Batch, Data
from torch_geometric.nn.models.basic_gnn import BasicGNN

from drgcn.errors import InputError, warn
from drgcn.gates import Measurement, measured_gates
from drgcn.training.inputs import Kind, name_of, reason_of

MakeModel = Callable[[], torch.nn.Module]
# Makes the arguments of a model from a graph.
Prepare = Callable[[Data], tuple[Any, ...]]
# Names that PyG gives to tensors of a graph, beside features and edges.
_BY_NAME: Final = ("batch", "edge_attr", "edge_type", "edge_weight", "pos", "ptr")
_WHOLE_GRAPH: Final = ("data", "batch", "graph")
_EDGES: Final = ("edge_index", "adj_t", "adj")
# Distance from one of a row of probabilities, and the weights that only a sigmoid keeps below it.
_ONE: Final = 1e-3
_ANY_WEIGHTS: Final = 1e3
# Pairs drawn for each negative, of which the first is taken that is no edge.
_DRAWS: Final = 3


@contextlib.contextmanager
def kept_generators(device: torch.device | None = None) -> Iterator[None]:
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
        with kept_generators():
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
    called = model.encoder if isinstance(model, LinkPredictor) else model
    if getattr(called.forward, "__func__", None) is torch.nn.Module.forward:
        raise InputError(
            f"Expected a model with a forward method, which fit calls; {type(called).__name__} "
            f"has none. Call what it has by that name, as an encode(x, edge_index) of nodes."
        )
    return model


def gate_observer(
    make_model: MakeModel, view: Callable[[int | None], Data]
) -> Callable[[int | None, float | None], MakeModel]:
    """Return a function from a split and an exponent to one that builds a model whose measured
    gates have seen the training data; models without such gates are built as ever.

    Args:
        make_model: Builds the model.
        view: Returns the graph that training sees of a split, with the labels of training nodes.
    """
    found = dict(measured_gates(new_model(make_model)))
    measured: dict[int | None, dict[str, Measurement]] = {}

    def build(split: int | None, exponent: float | None) -> torch.nn.Module:
        if split not in measured:
            seen = view(split)
            measured[split] = {name: gate.measured(seen) for name, gate in found.items()}
        model = make_model()
        for name, gate in measured_gates(model):
            if exponent is not None:
                gate.exponent.fill_(exponent)
            gate.take(measured[split][name])
        return model

    def maker(split: int | None, exponent: float | None) -> MakeModel:
        if not found and exponent is not None:
            raise InputError(
                "Expected a gate that is measured on training data, such as class-share, for a "
                "grid of exponents; found none in the model. Build it with such a gate."
            )
        return functools.partial(build, split, exponent) if found else make_model

    return maker


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

    names = {parameter.name for parameter in parameters}
    takes_weights = "edge_weight" in names and getattr(model, "supports_edge_weight", True)
    ignores_edge_features = not takes_edge_features or "edge_attr" not in names

    def prepare(data: Data) -> tuple[Any, ...]:
        if takes_weights and ignores_edge_features and _has_numbers_for_edges(data):
            warn(
                f"data.edge_attr has one number an edge, which {type(model).__name__} does not "
                f"take: if they are weights, name them data.edge_weight"
            )
        values = [value_of(parameter.name, data) for parameter in parameters]
        for parameter, value in zip(parameters, values, strict=True):
            if value is None and parameter.default is inspect.Parameter.empty:
                raise InputError(
                    f"Expected data.{parameter.name}, an argument of {type(model).__name__}; "
                    f"found none. Give fit a function prepare(data) that returns the arguments."
                )
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
        while values and values[-1] is None:  # a default of the model's own
            values.pop()
        return tuple(
            parameter.default if value is None else value
            for parameter, value in zip(parameters, values, strict=False)
        )

    return prepare


def _has_numbers_for_edges(data: Data) -> bool:
    """Return whether a graph has one number an edge that is not named a weight."""
    numbers = data.get("edge_attr")
    unnamed = data.get("edge_weight") is None and isinstance(numbers, Tensor)
    return unnamed and numbers.numel() == data.num_edges > 0


def training_prepare(model: torch.nn.Module, batch_size: int | None) -> Prepare | None:
    """Return the function that prepares the arguments of steps on samples."""
    if batch_size is None:
        return None
    if not (hasattr(model, "sampled") and hasattr(model, "prepare_training")):
        raise InputError(
            f"Expected a model that samples, such as FastGCN, with batch_size; found "
            f"{type(model).__name__}, which takes whole graphs. Leave batch_size out."
        )
    return model.prepare_training  # type: ignore[return-value]


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
    kind: Kind = "classes",
) -> int:
    """Call a model once by itself, so that what is wrong with it is said of it alone, and return
    the number of its outputs.

    Args:
        model: A model that is not trained.
        inputs: Its arguments.
        count: Number of nodes, pairs or graphs that it must score.
        device: Device of the arguments.
        what: Word for them.
        kind: Meaning of the outputs.
    """
    name = type(model).__name__
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"Expected a model with parameters to train; {name} has none.")
    expect_types(model, inputs)
    # Clones, so that a model that writes into its arguments leaves the user's data alone.
    inputs = tuple(_cloned(value) for value in inputs)
    before = _contents(inputs)
    trial = copy.deepcopy(model).eval().to(device)
    with kept_generators(device):
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
    with kept_generators(device):
        _warn_of_probabilities(trial.eval(), inputs, scores, kind)
    return scores.size(1)


def _warn_of_probabilities(
    model: torch.nn.Module, inputs: tuple[Any, ...], scores: Tensor, kind: Kind
) -> None:
    """Warn of a model whose scores went through a sigmoid or softmax; its weights are spoilt."""

    def shares(scores: Tensor) -> bool:
        return bool(((scores >= 0) & (scores <= 1)).all())

    # Scores can lie between 0 and 1 by chance: only those of a sigmoid do with any weights.
    if kind == "values" or not shares(scores) or not bool((scores > 0).any()):
        return
    if kind == "classes":
        if not bool(((scores.sum(-1) - 1).abs() < _ONE).all()):
            return
    else:
        for parameter in model.parameters():
            parameter.mul_(_ANY_WEIGHTS)
        with contextlib.suppress(Exception):  # what such weights do to a model of anyone's
            scores = model(*inputs)
        if not shares(scores):
            return
    last = "softmax" if kind == "classes" else "sigmoid"
    owner = model.encoder if isinstance(model, LinkPredictor) else model
    warn(
        f"{type(owner).__name__} returns probabilities, of which loss, metrics and predictions "
        f"would take the {last} once more: let it return the scores before the {last}"
    )


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
        x = inputs[0] if inputs else None
        if isinstance(x, Tensor) and x.dim() > 1 and not x.is_floating_point():
            raise InputError(
                f"Expected features of torch.float32; found {x.dtype}, of which "
                f"{type(model).__name__} raised {reason_of(error)}. Convert them, "
                f"data.x = data.x.float()."
            ) from error
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


class LinkPredictor(torch.nn.Module):
    """An encoder of nodes, and scores of pairs of them.

    The score of a pair is the inner product of its nodes' vectors, or what the encoder's own
    ``decode(z, edge_label_index)`` returns. Where training pairs are all edges, as many others
    are drawn anew at every step, uniformly among the pairs that are no training edge.

    Args:
        encoder: Returns a vector for every node.
        prepare: Makes the arguments of the encoder from a graph. (default: as in
            :func:`drgcn.fit`)
    """

    def __init__(self, encoder: torch.nn.Module, prepare: Prepare | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.prepare_encoder = prepare or default_prepare(encoder)
        if hasattr(encoder, "penalty"):
            self.penalty = encoder.penalty

    def prepare(self, data: Data) -> tuple[Any, ...]:
        """Return the encoder's arguments, the pairs to score, and the training edges as sorted
        numbers, which are empty where no pairs are to be drawn."""
        pairs, labels = data.edge_label_index, data.get("edge_label")
        edges = torch.cat([data.edge_index, pairs], 1)
        if data.is_undirected():
            edges = torch.cat([edges, pairs.flip(0)], 1)
        known = (edges[0] * data.num_nodes + edges[1]).unique()
        drawn = labels is None or bool((labels == 1).all())
        return (*self.prepare_encoder(data), pairs, known if drawn else known[:0])

    def forward(self, *arguments: Any) -> Tensor:
        """Return scores ``[pairs, 1]``; in training those of drawn pairs come last."""
        *inputs, pairs, known = arguments
        z = self.encoder(*inputs)
        if self.training and len(known):
            pairs = torch.cat([pairs, _pairs_outside(known, z.size(0), pairs.size(1))], 1)
        if hasattr(self.encoder, "decode"):
            return self.encoder.decode(z, pairs).reshape(-1, 1)  # type: ignore[operator]
        return (z[pairs[0]] * z[pairs[1]]).sum(-1, keepdim=True)

    def regularized_parameters(self) -> Any:
        """Return the parameters under L2: the encoder's choice, or all."""
        chosen = getattr(self.encoder, "regularized_parameters", self.encoder.parameters)
        return chosen()


def _pairs_outside(known: Tensor, nodes: int, count: int) -> Tensor:
    """Draw pairs ``[2, count]`` of different nodes that are no known edge.

    Shapes depend on no value: each pair is the first of a few that will do, or the last.
    """
    drawn = torch.rand(_DRAWS, 2, count, dtype=torch.float64, device=known.device)
    pairs = (drawn * nodes).long()
    numbers = pairs[:, 0] * nodes + pairs[:, 1]
    place = torch.searchsorted(known, numbers).clamp(max=len(known) - 1)
    useless = (known[place] == numbers) | (pairs[:, 0] == pairs[:, 1])
    chosen = pairs[-1]
    for draw in reversed(range(_DRAWS - 1)):
        chosen = torch.where(useless[draw], chosen, pairs[draw])
    return chosen


def link_maker(
    make_encoder: Callable[[], torch.nn.Module], prepare: Prepare | None
) -> Callable[[], torch.nn.Module]:
    """Return a function that builds an encoder and puts it into a :class:`LinkPredictor`."""

    def make() -> torch.nn.Module:
        encoder = make_encoder()
        return LinkPredictor(encoder, prepare) if isinstance(encoder, torch.nn.Module) else encoder

    wrong = isinstance(make_encoder, torch.nn.Module) or not callable(make_encoder)
    return make_encoder if wrong else make
