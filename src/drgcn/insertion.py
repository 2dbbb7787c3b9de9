"""Insert a gate, by default a Dr block, in front of the graph convolutions of any PyG model."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import EdgeConv, GINConv, GINEConv, HeteroConv, MessagePassing
from torch_geometric.nn.module_dict import ModuleDict

from drgcn.errors import InputError
from drgcn.reweighting import GATES, Gate, scale_columns

log = logging.getLogger(__name__)

GateFactory = Callable[[int], torch.nn.Module]

# By thread, the calls of models in progress that were given a batch: model, batch, batch_size.
# Calls inside a compiled region are under zero. A plain dictionary, because torch.compile follows
# it; of context variables it knows nothing, and thread locals it gets wrong.
_CALLS: dict[int, tuple[tuple[int, Any, int | None], ...]] = {}


def insert_reweighting(
    model: torch.nn.Module,
    *,
    gate: Literal["dr", "static", "constant"] | torch.nn.Module | GateFactory = "dr",
    layers: Iterable[int | str] | int | str | None = None,
    **options: Any,
) -> torch.nn.Module:
    """Return a copy of ``model`` with a gate in front of every graph convolution.

    Works for :class:`~torch_geometric.nn.models.BasicGNN`, :class:`torch_geometric.nn.Sequential`,
    hand-written modules, and heterogeneous models built with
    :class:`~torch_geometric.nn.HeteroConv` or :func:`~torch_geometric.nn.to_hetero`, where
    every layer gets one gate per node type. Existing parameters keep their names and values.
    Propagation steps without parameters (``APPNP``, ``LGConv``) are left alone; a convolution
    whose gate could not be trained is left out, and a warning is logged.

    A gate pools over the nodes its convolution is called with. Where a model is called with
    ``batch``, or with a batch of graphs as one :class:`~torch_geometric.data.Data`, every graph
    has a vector of its own. A convolution made with one width has one vector for sources and
    targets, that of the sources; one made with a pair of widths has a gate for each.

    Args:
        model (torch.nn.Module): The model, which stays as it is.
        gate (str, torch.nn.Module or callable, optional): :obj:`"dr"`, the controls
            :obj:`"static"` and :obj:`"constant"`, a module to copy to every place, or a function
            that makes one for a width (:obj:`-1` where it depends on the data).
            (default: :obj:`"dr"`)
        layers (list, optional): The convolutions that get a gate: their numbers in the order of
            the model, or their names. (default: all)
        **options: Passed on to :class:`~drgcn.DimensionalReweighting`.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> model = insert_reweighting(GCN(16, 32, num_layers=2, out_channels=7))
        >>> reweighting_blocks(model)["convs.0.reweighting"]
        DimensionalReweighting(16, hidden_channels=4)
    """
    _reject_models(model)
    make = _gate_factory(gate, options)
    model = _copy(model)
    places = list({(id(place.host), place.layer): place for place in _places(model)}.values())
    before = reweighting_blocks(model).keys()
    for place in _chosen(model, places, layers):
        _attach(place, functools.partial(_make_gate, make, place.host))
    for name, block in reweighting_blocks(model).items():
        if name not in before:
            log.info("inserted %s: %r", name, block)
    _hand_over_batches(model)
    return model


def reweighting_blocks(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Return the gates of a model by name, such as ``convs.0.reweighting``, of whatever kind."""
    found: dict[str, torch.nn.Module] = {}
    for name, module in model.named_modules():
        inside = found and name.startswith(f"{next(reversed(found))}.")
        if not inside and (isinstance(module, Gate) or hasattr(module, "is_reweighting")):
            found[name] = module
    return found


# What is made


def _gate_factory(gate: Any, options: dict[str, Any]) -> GateFactory:
    if options and gate != "dr":
        raise InputError(
            f"Expected options ({', '.join(options)}) with gate='dr' alone; found gate={gate!r}. "
            f"Give a function that makes the gate with its options."
        )
    if isinstance(gate, str) and gate in GATES:
        return functools.partial(GATES[gate], **options)
    if isinstance(gate, torch.nn.Module):
        return lambda _: copy.deepcopy(gate)
    if callable(gate):
        return gate
    raise InputError(
        f"Expected gate to be one of {', '.join(map(repr, GATES))}, a module, or a function from "
        f"a width to a module; found {gate!r}. For another activation of the Dr block: "
        f"gate=lambda width: DimensionalReweighting(width, gate={gate!r})."
    )


def _make_gate(
    make: GateFactory, host: torch.nn.Module, width: int, node_type: str | None = None
) -> torch.nn.Module:
    """Return a gate that takes the graph of each node from the call it is part of."""
    try:
        gate = make(width)
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"Expected gate to make a module for width {width} (-1: taken from the first input); "
            f"it failed with: {error}"
        ) from error
    if not isinstance(gate, torch.nn.Module):
        raise InputError(f"Expected gate to make a module; found {type(gate).__name__}.")
    if not isinstance(gate, Gate):
        gate.is_reweighting = True  # type: ignore[assignment]
    if "batch" in inspect.signature(gate.forward).parameters:
        gate.register_forward_pre_hook(
            functools.partial(_add_batch, node_type=node_type), with_kwargs=True
        )
    example = next((p for p in host.parameters() if p.is_floating_point()), None)
    return gate if example is None else gate.to(example.device, example.dtype)


# Where it is put


@dataclass(frozen=True)
class _Place:
    """A convolution, a module of several for edge types, or a layer of a traced program.

    Attributes:
        name: Name in the model.
        host: Module that gets the gates.
        layer: Name in the traced program, where ``host`` is one.
        obstacle: Reason why a gate would not work here.
    """

    name: str
    host: torch.nn.Module
    layer: str = ""
    obstacle: str = ""


def _places(module: torch.nn.Module, name: str = "") -> Iterator[_Place]:
    """Yield the outermost places of a model: nothing is inserted into the parts of a host."""
    if isinstance(module, torch.fx.GraphModule):
        for _, target, part in _called_modules(module):
            if _is_convolution(part):
                layer, _ = _layer_and_types(module, target)
                blocks = getattr(module, "reweighting", {})
                done = any(key.startswith(f"{_key(layer)}__") for key in blocks.keys())  # noqa: SIM118
                yield _Place(_join(name, layer), module, layer, _obstacle(part, done=done))
            else:
                yield from _places(part, _join(name, target))
    elif _is_convolution(module):
        done = hasattr(module, "reweighting")
        yield _Place(name, module, obstacle=_obstacle(module, done=done))
    else:
        for child_name, child in module.named_children():
            yield from _places(child, _join(name, child_name))


def _chosen(
    model: torch.nn.Module, places: list[_Place], layers: Iterable[int | str] | int | str | None
) -> list[_Place]:
    """Return the places asked for, and log those that cannot be had; refuse to return none."""
    if layers is None:
        for place in places:
            if place.obstacle:
                kind = type(place.host).__name__
                log.warning("no gate for %s (%s): %s", place.name, kind, place.obstacle)
        free = [place for place in places if not place.obstacle]
        if free or reweighting_blocks(model):
            return free
        reasons = "".join(f" {place.name}: {place.obstacle}." for place in places)
        raise InputError(
            f"Expected a model with PyG convolutions (MessagePassing modules with parameters); "
            f"found none in {type(model).__name__}.{reasons} Call DimensionalReweighting in its "
            f"forward."
        )
    numbered: dict[int | str, _Place] = dict(enumerate(places))
    numbered.update({place.name: place for place in places})
    wanted = [layers] if isinstance(layers, int | str) else list(layers)
    wrong = [layer for layer in wanted if isinstance(layer, bool) or layer not in numbered]
    if wrong or not wanted:
        names = ", ".join(f"{number} {place.name!r}" for number, place in enumerate(places))
        raise InputError(
            f"Expected layers by number or name, from: {names or 'none'}; found {wrong or wanted}."
        )
    chosen = {id(numbered[layer]): numbered[layer] for layer in wanted}
    for place in chosen.values():
        if place.obstacle:
            raise InputError(
                f"Expected layers that can have a gate; {place.name!r} cannot: {place.obstacle}."
            )
    return [place for place in places if id(place) in chosen]


def _is_convolution(module: torch.nn.Module) -> bool:
    """Return whether a module passes messages and has parameters."""
    if isinstance(module, HeteroConv):
        return any(map(_is_convolution, module.convs.values()))
    return isinstance(module, MessagePassing) and any(True for _ in module.parameters())


def _obstacle(conv: torch.nn.Module, *, done: bool) -> str:
    """Return why a gate would not be trained in front of a convolution, or nothing."""
    if done:
        return "it has a gate already"
    if _first_argument(conv).startswith(("edge", "adj")):
        return "it takes edges and no features"
    if getattr(conv, "cached", False) and (
        hasattr(conv, "_cached_x") or hasattr(conv, "_cached_h")
    ):
        return (
            "it keeps the features of its first call (cached=True), so nothing would train a gate"
        )
    return ""


def _first_argument(conv: torch.nn.Module) -> str:
    return next(iter(inspect.signature(conv.forward).parameters))


def _widths_of(conv: torch.nn.Module) -> tuple[int, ...]:
    """Return the width of sources and targets, two if the convolution tells them apart; -1 where
    it depends on the data."""
    if isinstance(conv, GINConv | GINEConv | EdgeConv):
        linear = next((m for m in conv.nn.modules() if hasattr(m, "weight")), None)
        width = getattr(linear, "in_channels", getattr(linear, "in_features", -1))
        return (width // 2 if isinstance(conv, EdgeConv) else width,)
    width = getattr(conv, "in_channels", getattr(conv, "channels", -1))
    ends = width if isinstance(width, tuple | list) else (width,)
    return tuple(end or -1 for end in ends)


def _key(layer: str) -> str:
    return layer.replace(".", "_")


def _join(*names: str) -> str:
    return ".".join(filter(None, names))


# Gates of one convolution


def _attach(place: _Place, make: Callable[..., torch.nn.Module]) -> None:
    """Put gates, made for a width and perhaps a node type, in front of a place."""
    host = place.host
    if isinstance(host, torch.fx.GraphModule):
        _insert_into_program(host, place.layer, make)
    elif widths := _widths_by_type(host):
        blocks = {node_type: make(width, node_type) for node_type, width in widths.items()}
        host.add_module("reweighting", ModuleDict(blocks))
        host.register_forward_pre_hook(_reweight_types, with_kwargs=True)
    else:
        for name, width in zip(
            ("reweighting", "target_reweighting"), _widths_of(host), strict=False
        ):
            host.add_module(name, make(width))
        hook = functools.partial(_reweight_ends, layer=place.name, argument=_first_argument(host))
        host.register_forward_pre_hook(hook, with_kwargs=True)
    reset = getattr(host, "reset_parameters", None)
    if callable(reset):
        host.reset_parameters = functools.partial(_reset, reset, host)  # type: ignore[assignment]
    host.__prepare_scriptable__ = _refuse_scripting  # type: ignore[assignment]


def _reset(reset_host: Callable[[], None], host: torch.nn.Module) -> None:
    """Reset a host and its gates."""
    reset_host()
    for block in reweighting_blocks(host).values():
        if hasattr(block, "reset_parameters"):
            block.reset_parameters()  # type: ignore[operator]


def _refuse_scripting() -> None:
    raise InputError(
        "Expected torch.jit.script of a model without inserted gates, which are hooks that it "
        "cannot compile. Use torch.compile or torch.export, or script the plain model."
    )


def _reweight_ends(
    conv: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], layer: str, argument: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Forward pre-hook that reweights the first argument of a convolution."""
    x = args[0] if args else kwargs[argument]
    source = x[0] if isinstance(x, tuple | list) else x
    if not isinstance(source, Tensor) or not source.is_floating_point():
        raise InputError(
            f"Expected features for the gate of {layer or type(conv).__name__}; found "
            f"{source.dtype if isinstance(source, Tensor) else source}. Leave this layer out of "
            f"insert_reweighting(..., layers=...)."
        )
    gate, target_gate = (
        conv.get_submodule("reweighting"),
        getattr(conv, "target_reweighting", None),
    )
    if isinstance(x, tuple | list) or target_gate is not None:
        target = x[1] if isinstance(x, tuple | list) else x
        x = _reweighted_pair(gate, target_gate, source, target)
    else:
        x = gate(x)
    return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, argument: x})


def _reweighted_pair(
    gate: torch.nn.Module, target_gate: Any, source: Tensor, target: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    if target is None:
        return gate(source), None
    if target_gate is not None or not isinstance(gate, Gate):
        return gate(source), (target_gate or gate)(target)
    s = gate.vector(source, **_batch_of(source))
    batch = _batch_of(target).get("batch")
    # Targets of the same kind, often the same nodes, take the vector of the sources.
    return scale_columns(source, s, batch), scale_columns(target, s, batch)


# Gates by node type


def _widths_by_type(host: torch.nn.Module) -> dict[str, int]:
    """Return the widths of the node types of a heterogeneous convolution; nothing for others."""
    if not isinstance(host, HeteroConv):
        widths = getattr(host, "in_channels", None)
        return widths if isinstance(widths, dict) else {}
    found: dict[str, int] = {}
    for (source, _, target), conv in host.convs.items():
        if _is_convolution(conv):
            widths = _widths_of(conv)
            for node_type, width in ((source, widths[0]), (target, widths[-1])):
                found[node_type] = max(width, found.get(node_type, -1))
    return found


def _reweight_types(
    host: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Forward pre-hook that reweights every node type once, however many edge types it has."""
    x_dict = args[0] if args else kwargs["x_dict"]
    blocks: Any = host.reweighting
    x_dict = {t: blocks[t](x) if t in blocks and x is not None else x for t, x in x_dict.items()}
    return ((x_dict, *args[1:]), kwargs) if args else (args, {**kwargs, "x_dict": x_dict})


def _called_modules(
    program: torch.fx.GraphModule,
) -> Iterator[tuple[torch.fx.Node, str, torch.nn.Module]]:
    for node in list(program.graph.nodes):
        if node.op == "call_module":
            yield node, str(node.target), program.get_submodule(str(node.target))


def _insert_into_program(
    program: torch.fx.GraphModule, layer: str, make: Callable[..., torch.nn.Module]
) -> None:
    """Write one call per node type into a layer of a program that ``to_hetero`` traced."""
    if not hasattr(program, "reweighting"):
        program.add_module("reweighting", ModuleDict())
    blocks: Any = program.reweighting
    calls: dict[torch.fx.Node, torch.fx.Node] = {}
    graph = program.graph

    def reweighted(end: torch.fx.Node, node_type: str, width: int) -> torch.fx.Node:
        if end not in calls:
            name = f"{_key(layer)}__{node_type}"
            if name not in blocks:
                blocks[name] = make(width, node_type)
            calls[end] = graph.call_module(f"reweighting.{name}", (end,))
        return calls[end]

    for node, target, conv in _called_modules(program):
        found, types = _layer_and_types(program, target)
        if found != layer or not _is_convolution(conv):
            continue
        widths = _widths_of(conv)
        x: Any = node.args[0] if node.args else node.kwargs[_first_argument(conv)]
        with graph.inserting_before(node):
            if types[0] != types[1] and isinstance(x, torch.fx.Node):  # a pair, made at run time
                x = tuple(graph.call_function(operator.getitem, (x, end)) for end in (0, 1))
            if isinstance(x, tuple):
                ends = zip(x, types, (widths[0], widths[-1]), strict=True)
                new: Any = tuple(reweighted(*end) for end in ends)
            else:
                new = reweighted(x, types[0], widths[0])
        if node.args:
            node.args = (new, *node.args[1:])
        else:
            node.kwargs = {**node.kwargs, _first_argument(conv): new}
    program.recompile()


def _layer_and_types(program: torch.fx.GraphModule, target: str) -> tuple[str, tuple[str, str]]:
    """Return the layer of a traced convolution, and the types of its source and target nodes."""
    layer, _, edge_type = target.rpartition(".")
    if layer and isinstance(program.get_submodule(layer), torch.nn.ModuleDict):
        words = edge_type.split("__")
        return layer, (words[0], words[-1])
    return target, ("node", "node")


# The graph of each node


def _hand_over_batches(model: torch.nn.Module) -> None:
    """Make every part of a model tell the gates in it the batch that it is called with."""
    for module in model.modules():
        runs = type(module).forward is not torch.nn.Module.forward
        hooked = any(hook is _leave_call for hook in module._forward_hooks.values())
        if not runs or hooked or isinstance(module, Gate) or not reweighting_blocks(module):
            continue
        parameters = inspect.signature(module.forward).parameters.values()
        names = tuple(p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD)
        hook = functools.partial(_enter_call, names=names)
        module.register_forward_pre_hook(hook, prepend=True, with_kwargs=True)
        module.register_forward_hook(_leave_call, always_call=True)


def _enter_call(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...]
) -> None:
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    batch = given.get("batch", given.get("batch_dict"))
    for value in (*args, *kwargs.values()):
        if isinstance(value, Data):
            batch = value.batch
        elif isinstance(value, HeteroData):
            batch = value.collect("batch", allow_empty=True) or None
    if isinstance(batch, Tensor) and (batch.dim() != 1 or batch.is_floating_point()):
        return  # something else of that name
    if isinstance(batch, Tensor | dict | tuple):
        size = given.get("batch_size")
        call = (id(module), batch, size if isinstance(size, int) else None)
        _CALLS[_thread()] = (*_CALLS.get(_thread(), ()), call)


def _leave_call(module: torch.nn.Module, *_: Any) -> None:
    calls = _CALLS.get(_thread(), ())
    if calls and calls[-1][0] == id(module):
        if len(calls) > 1:
            _CALLS[_thread()] = calls[:-1]
        else:
            del _CALLS[_thread()]


def _thread() -> int:
    return 0 if torch.compiler.is_compiling() else threading.get_ident()


def _batch_of(x: Tensor, node_type: str | None = None) -> dict[str, Any]:
    """Return the arguments that tell a gate the graph of each node: nothing for one graph."""
    if torch.compiler.is_compiling():
        threads = list(_CALLS.values())
        if len(threads) > 1:
            raise InputError("Expected one call at a time of a compiled model with batch.")
        calls = threads[0] if threads else ()
    else:
        calls = _CALLS.get(threading.get_ident(), _CALLS.get(0, ()))
    if not calls:
        return {}
    _, batch, size = calls[-1]
    if isinstance(batch, dict):
        batch = batch.get(node_type)
    elif node_type is not None:
        batch = None
    if not isinstance(batch, Tensor) or batch.numel() != x.size(0):
        found = batch.numel() if isinstance(batch, Tensor) else "none"
        raise InputError(
            f"Expected batch to have the graph of each of the {x.size(0)} nodes of a layer"
            f"{f' ({node_type})' if node_type else ''}; found {found}. Behind a pooling of nodes, "
            f"leave the layer out (layers=...) and call DimensionalReweighting with its batch."
        )
    return {"batch": batch, "batch_size": size}


def _add_batch(
    _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], node_type: str | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Forward pre-hook of a gate."""
    return args, {**_batch_of(args[0], node_type), **kwargs}


# What is refused, and copies


def _reject_models(model: torch.nn.Module) -> None:
    """Refuse models of :mod:`drgcn.nn`, whose layers fold gates of their own into weights, and
    models that were wrapped for several processes."""
    for module in model.modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise InputError(
                "Expected a model that is not wrapped yet; found DistributedDataParallel, which "
                "knows its parameters already. Insert gates first, then wrap."
            )
        # By name, so that inserting blocks does not import the models.
        bases = (base.__module__ for base in type(module).__mro__)
        ours = any(name.startswith("drgcn.nn.") for name in bases)
        if ours and hasattr(module, "regularized_parameters"):
            name = type(module).__name__
            raise InputError(
                f"Expected a model of PyG convolutions; found {name} of drgcn.nn, which has Dr "
                f"blocks of its own. Build it with {name}(..., reweight='dr')."
            )


def _copy(model: torch.nn.Module) -> torch.nn.Module:
    """Return a deep copy, in which results of the last call that a layer keeps (the attention of
    ``SuperGATConv``) are constants: torch copies no tensors with a history."""
    kept = (value for module in model.modules() for value in vars(module).values())
    history = [value for value in kept if isinstance(value, Tensor) and not value.is_leaf]
    return copy.deepcopy(model, {id(value): value.detach().clone() for value in history})
