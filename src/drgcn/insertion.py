"""Insert a gate, by default a Dr block, in front of the graph convolutions of any PyG model."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import operator
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn.module_dict import ModuleDict

from drgcn.errors import InputError
from drgcn.gates import MeasuredGate, gate_factory, measured_gates
from drgcn.reweighting import Gate, scale_columns

log = logging.getLogger(__name__)

Layers = Iterable[int | str] | int | str | None
_Args = tuple[Any, ...]
_Kwargs = dict[str, Any]

# By thread, the calls in progress that were given a batch: the module and its parts by identity,
# batch, batch_size. Those in a compiled region are under zero. A plain dictionary of plain values,
# because torch.compile follows it; it refuses context variables, and gets thread locals wrong.
_CALLS: dict[int, tuple[tuple[int, frozenset[int], Any, int | None], ...]] = {}
# Gates whose last call was part of one with a batch.
_BATCHED: WeakSet[Module] = WeakSet()


def insert_reweighting(
    model: Module,
    *,
    gate: str | Module | Callable[[int], Module] = "dr",
    layers: Layers = None,
    **options: Any,
) -> Module:
    """Return a copy of ``model`` with a gate in front of every graph convolution.

    Works for PyG's own models, hand-written ones, and heterogeneous ones built with
    :class:`~torch_geometric.nn.HeteroConv` or :func:`~torch_geometric.nn.to_hetero`, where
    every layer gets one gate per node type. Existing parameters keep their names and values.
    Propagation steps without parameters (``APPNP``, ``LGConv``) are left alone; a convolution
    whose gate could not be trained is left out, and a warning is logged.

    A gate pools over the nodes its convolution is called with. Where the model is called with
    ``batch``, or with a batch of graphs as one :class:`~torch_geometric.data.Data`, every graph
    has a vector of its own. A convolution made with one width has one vector for sources and
    targets, that of the sources; one made with a pair of widths has a gate for each end.

    Args:
        model (torch.nn.Module): The model, which stays as it is.
        gate (str, torch.nn.Module or callable, optional): A name of :data:`drgcn.gates.GATES`, a
            module to copy to every place, or a function that makes one for a width, -1 where that
            is unknown. (default: :obj:`"dr"`)
        layers (list, optional): The convolutions that get a gate: their numbers in the order of
            the model, or their names. (default: all; the first for a gate that is measured on
            features)
        **options: Arguments of the gate of that name, such as ``hidden_channels`` of
            :class:`~drgcn.DimensionalReweighting`.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> model = insert_reweighting(GCN(16, 32, num_layers=2, out_channels=7))
        >>> reweighting_blocks(model)["convs.0.reweighting"]
        DimensionalReweighting(16, hidden_channels=4)
    """
    if not isinstance(model, Module):
        name = getattr(model, "__name__", type(model).__name__)
        what = f"the class {name}" if isinstance(model, type) else name
        raise InputError(
            f"Expected a model, a torch.nn.Module; found {what}. Build it first, as in GCN(...)."
        )
    _reject_models(model)
    make = gate_factory(gate, **options)
    model = _copy(model)
    places = {(id(place.host), place.layer): place for place in _places(model)}
    before = reweighting_blocks(model)
    for place in _chosen(model, list(places.values()), layers):
        _attach(place, functools.partial(_make_gate, make, place.host))
        if layers is None and any(measured_gates(place.host)):
            break  # it speaks about features, which hidden layers do not see
    for name, block in reweighting_blocks(model).items():
        if name not in before:
            log.info("inserted %s: %r", name, block)
    _hand_over_batches(model)
    return model


def reweighting_blocks(model: Module) -> dict[str, Module]:
    """Return the gates of a model by name, such as ``convs.0.reweighting``, of whatever kind."""
    found: dict[str, Module] = {}
    for name, module in model.named_modules():
        inside = found and name.startswith(f"{next(reversed(found))}.")
        if not inside and (isinstance(module, Gate) or hasattr(module, "is_reweighting")):
            found[name] = module
    return found


def _make_gate(
    make: Callable[[int], Module], host: Module, width: int, node_type: str | None = None
) -> Module:
    """Return a gate that learns the graph of each node from the call it is part of."""
    try:
        gate = make(width)
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"Expected gate to make a module of width {width}: {error}") from error
    if not isinstance(gate, Module):
        raise InputError(f"Expected gate to make a module; found {type(gate).__name__}.")
    hook = functools.partial(_add_batch, node_type)
    for part in gate.modules():
        if isinstance(part, Gate) or (part is gate and "batch" in _arguments(gate)):
            part.register_forward_pre_hook(hook, with_kwargs=True)
    if not isinstance(gate, Gate):
        gate.is_reweighting = True  # type: ignore[assignment]
    if isinstance(gate, MeasuredGate) and node_type is not None:
        gate.node_type = node_type
    example = next((p for p in host.parameters() if p.is_floating_point()), None)
    return gate if example is None else gate.to(example.device, example.dtype)


# Places for gates


@dataclass(frozen=True)
class _Place:
    """A convolution, or a layer of a traced program, and why a gate would not work there."""

    name: str
    host: Module
    layer: str
    obstacle: str


def _places(module: Module, name: str = "") -> Iterator[_Place]:
    """Yield the outermost places: nothing is inserted into the parts of a host."""
    if isinstance(module, torch.fx.GraphModule):
        blocks = list(getattr(module, "reweighting", ModuleDict()).keys())
        for _, target, part in _called_modules(module):
            if _is_convolution(part):
                layer, _ = _layer_and_types(module, target)
                done = any(block.startswith(_block_name(layer, "")) for block in blocks)
                yield _Place(f"{name}{layer}", module, layer, _obstacle(part, done=done))
            else:
                yield from _places(part, f"{name}{target}.")
    elif _is_convolution(module):
        done = hasattr(module, "reweighting")
        yield _Place(name.rstrip("."), module, "", _obstacle(module, done=done))
    else:
        for child_name, child in module.named_children():
            yield from _places(child, f"{name}{child_name}.")


def _is_convolution(module: Module) -> bool:
    """Return whether a module passes messages and has parameters."""
    if isinstance(module, pyg.HeteroConv):
        return any(map(_is_convolution, module.convs.values()))
    return isinstance(module, pyg.MessagePassing) and any(True for _ in module.parameters())


def _obstacle(conv: Module, *, done: bool) -> str:
    if done:
        return "it has a gate already"
    if _arguments(conv)[0].startswith(("edge", "adj")):
        return "it takes edges and no features"
    if getattr(conv, "cached", False) and isinstance(conv, pyg.SGConv | pyg.SSGConv):
        return "it keeps the features of its first call (cached=True), so no gate would be trained"
    return ""


def _arguments(module: Module) -> tuple[str, ...]:
    if isinstance(module, pyg.Sequential):  # whose forward may be one of any arguments
        return tuple(module.signature.param_dict)
    return tuple(inspect.signature(module.forward).parameters)


def _chosen(model: Module, places: list[_Place], layers: Layers) -> list[_Place]:
    """Return the places asked for; refuse those that cannot be had, or log them by default."""
    if layers is None:
        free = [place for place in places if not place.obstacle]
        refused = [(p.name, type(p.host).__name__, p.obstacle) for p in places if p.obstacle]
        if not free and not reweighting_blocks(model):
            reasons = "".join(f" {name} ({kind}): {reason}." for name, kind, reason in refused)
            raise InputError(
                "Expected a model with PyG convolutions (MessagePassing modules with parameters); "
                f"found none in {type(model).__name__}.{reasons} Call the block in its forward."
            )
        for reason in refused:
            log.warning("no gate for %s (%s): %s", *reason)
        return free
    known: dict[int | str, _Place] = {place.name: place for place in places}
    known.update(enumerate(places))
    wanted: list[Any] = [layers]
    if isinstance(layers, Iterable) and not isinstance(layers, str):
        wanted = list(layers)
    wrong = [
        layer
        for layer in wanted
        if isinstance(layer, bool) or not isinstance(layer, Hashable) or layer not in known
    ]
    if wrong or not wanted:
        names = ", ".join(f"{number} {place.name!r}" for number, place in enumerate(places))
        raise InputError(f"Expected layers from {names or 'none'}; found {wrong or wanted}.")
    chosen = [place for place in places if any(place is known[layer] for layer in wanted)]
    for place in chosen:
        if place.obstacle:
            raise InputError(f"Expected other layers than {place.name!r}: {place.obstacle}.")
    return chosen


# Gates in front of a convolution


def _attach(place: _Place, make: Callable[..., Module]) -> None:
    """Put gates in front of a place; ``make`` takes a width, and a node type if there are some."""
    host = place.host
    if isinstance(host, torch.fx.GraphModule):
        _insert_into_program(host, place.layer, make)
    elif widths := _widths_by_type(host):
        blocks = {node_type: make(width, node_type) for node_type, width in widths.items()}
        host.add_module("reweighting", ModuleDict(blocks))
        host.register_forward_pre_hook(_reweight_types, with_kwargs=True)
    else:
        ends = ("reweighting", "target_reweighting")
        for name, width in zip(ends, _widths_of(host), strict=False):
            host.add_module(name, make(width))
        hook = functools.partial(_reweight_ends, place.name, _arguments(host)[0])
        host.register_forward_pre_hook(hook, with_kwargs=True)
    reset = getattr(host, "reset_parameters", None)
    if callable(reset):
        host.reset_parameters = functools.partial(_reset, reset, host)  # type: ignore[assignment]
    host.__prepare_scriptable__ = _refuse_scripting  # type: ignore[assignment]


def _reset(reset_host: Callable[[], None], host: Module) -> None:
    """Reset a host and its gates."""
    reset_host()
    for block in reweighting_blocks(host).values():
        if hasattr(block, "reset_parameters"):
            block.reset_parameters()  # type: ignore[operator]


def _refuse_scripting() -> None:
    raise InputError("Expected no hooks of gates in torch.jit.script. Use torch.compile instead.")


def _widths_of(conv: Module) -> tuple[int, ...]:
    """Return the width of a convolution, or those of its sources and targets if it was made with
    two; -1 where they depend on the data."""
    if isinstance(conv, pyg.GINConv | pyg.GINEConv | pyg.EdgeConv | pyg.DynamicEdgeConv):
        first: Any = next((part for part in conv.nn.modules() if hasattr(part, "weight")), None)
        width = getattr(first, "in_channels", getattr(first, "in_features", -1))
        # Edge convolutions put two nodes side by side.
        return (width if isinstance(conv, pyg.GINConv | pyg.GINEConv) else width // 2,)
    width = getattr(conv, "in_channels", getattr(conv, "channels", -1))
    return tuple(end or -1 for end in (width if isinstance(width, tuple | list) else [width]))


def _reweight_ends(layer: str, argument: str, conv: Module, args: _Args, kwargs: _Kwargs) -> Any:
    """Forward pre-hook that reweights the features of sources and targets."""
    x = args[0] if args else kwargs[argument]
    source, target = x if isinstance(x, tuple | list) else (x, x)
    if not isinstance(source, Tensor) or not source.is_floating_point():
        raise InputError(
            f"Expected features for the gate of {layer or type(conv).__name__}; found "
            f"{getattr(source, 'dtype', source)}. Leave this layer out (layers=...)."
        )
    gate: Any = conv.reweighting
    target_gate: Any = getattr(conv, "target_reweighting", gate)
    if x is source and target_gate is gate:
        new: Any = gate(x)
    elif target is None:
        new = (gate(source), None)
    elif target_gate is gate and isinstance(gate, Gate):
        # Targets of the same kind, often the same nodes, take the vector of the sources.
        s = gate.vector(source, **_batch_of(gate, source))
        batch = _batch_of(gate, target).get("batch")
        new = (scale_columns(source, s, batch), scale_columns(target, s, batch))
    else:
        new = (gate(source), target_gate(target))
    return _with_features(args, kwargs, argument, new)


def _with_features(args: Any, kwargs: Any, argument: str, x: Any) -> tuple[_Args, _Kwargs]:
    return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, argument: x})


# Gates by node type


def _widths_by_type(host: Module) -> dict[str, int]:
    """Return the widths of the node types of a heterogeneous convolution; nothing for others."""
    if not isinstance(host, pyg.HeteroConv):
        width = getattr(host, "in_channels", None)
        return width if isinstance(width, dict) else {}
    found: dict[str, int] = {}
    for (source, _, target), conv in host.convs.items():
        if _is_convolution(conv):
            widths = _widths_of(conv)
            for node_type, width in ((source, widths[0]), (target, widths[-1])):
                found[node_type] = max(width, found.get(node_type, -1))
    return found


def _reweight_types(host: Module, args: _Args, kwargs: _Kwargs) -> Any:
    """Forward pre-hook that reweights every node type once, however many edge types it has."""
    blocks: Any = host.reweighting
    x_dict = args[0] if args else kwargs["x_dict"]
    x_dict = {t: blocks[t](x) if t in blocks and x is not None else x for t, x in x_dict.items()}
    return _with_features(args, kwargs, "x_dict", x_dict)


def _called_modules(program: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, str, Module]]:
    for node in list(program.graph.nodes):
        if node.op == "call_module":
            yield node, str(node.target), program.get_submodule(str(node.target))


def _layer_and_types(program: torch.fx.GraphModule, target: str) -> tuple[str, tuple[str, ...]]:
    """Return the layer of a traced convolution, and the types of its sources and targets."""
    layer, _, edge_type = target.rpartition(".")
    if layer and isinstance(program.get_submodule(layer), torch.nn.ModuleDict):
        words = edge_type.split("__")
        return layer, (words[0], words[-1])
    return target, ()


def _block_name(layer: str, node_type: str) -> str:
    return f"{layer.replace('.', '_')}__{node_type}"


def _insert_into_program(
    program: torch.fx.GraphModule, layer: str, make: Callable[..., Module]
) -> None:
    """Write one call per node type into a layer of a program that ``to_hetero`` traced."""
    graph = program.graph
    calls: dict[torch.fx.Node, torch.fx.Node] = {}
    if not hasattr(program, "reweighting"):
        program.add_module("reweighting", ModuleDict())
    blocks: Any = program.reweighting
    for node, target, conv in _called_modules(program):
        found, types = _layer_and_types(program, target)
        if found != layer or not _is_convolution(conv):
            continue
        argument, widths = _arguments(conv)[0], _widths_of(conv)
        x: Any = node.args[0] if node.args else node.kwargs[argument]
        with graph.inserting_before(node):
            if len(set(types)) == 2 and isinstance(x, torch.fx.Node):  # a pair, made at run time
                x = tuple(graph.call_function(operator.getitem, (x, end)) for end in (0, 1))
            for end, place in zip(x if isinstance(x, tuple) else [x], (0, -1), strict=False):
                name = _block_name(layer, types[place] if types else ("source", "target")[place])
                if name not in blocks:
                    blocks[name] = make(widths[place], types[place] if types else None)
                if end not in calls:
                    calls[end] = graph.call_module(f"reweighting.{name}", (end,))
        new = tuple(calls[end] for end in x) if isinstance(x, tuple) else calls[x]
        node.args, node.kwargs = _with_features(node.args, node.kwargs, argument, new)
    program.recompile()


# The graph of each node


def _hand_over_batches(model: Module) -> None:
    """Make every part of a model tell the gates in it the batch that it is called with."""
    for module in model.modules():
        hooked = _leave_call in module._forward_hooks.values()
        if hooked or isinstance(module, Gate) or not reweighting_blocks(module):
            continue
        hook = functools.partial(_enter_call, _arguments(module))
        module.register_forward_pre_hook(hook, prepend=True, with_kwargs=True)
        module.register_forward_hook(_leave_call, always_call=True)


def _enter_call(names: tuple[str, ...], module: Module, args: _Args, kwargs: _Kwargs) -> None:
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    batch = given.get("batch", given.get("batch_dict"))
    for value in given.values():
        if isinstance(value, Data):
            batch = value.batch
        elif isinstance(value, HeteroData):
            batch = value.collect("batch", allow_empty=True) or None
    # A call that was interrupted has left its batch behind.
    calls = tuple(call for call in _CALLS.pop(_thread(), ()) if call[0] != id(module))
    if isinstance(batch, dict | tuple) or _is_batch(batch):
        parts = () if torch.compiler.is_compiling() else map(id, module.modules())
        calls = (*calls, (id(module), frozenset(parts), batch, given.get("batch_size")))
    if calls:
        _CALLS[_thread()] = calls


def _is_batch(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 1 and not value.is_floating_point()


def _leave_call(module: Module, *_: Any) -> None:
    calls = _CALLS.pop(_thread(), ())
    calls = calls[:-1] if calls and calls[-1][0] == id(module) else calls
    if calls:
        _CALLS[_thread()] = calls


def _thread() -> int:
    return 0 if torch.compiler.is_compiling() else threading.get_ident()


def _batch_of(gate: Module, x: Tensor, node_type: str | None = None) -> dict[str, Any]:
    """Return arguments of a gate: the batch of the innermost call that it is part of, if any."""
    calls = _CALLS.get(_thread(), _CALLS.get(0, ()))
    if torch.compiler.is_compiling():
        if not calls and _CALLS:  # a part is compiled, and the call began outside, in one thread
            (calls,) = _CALLS.values()
    else:
        calls = tuple(call for call in calls if not call[1] or id(gate) in call[1])
        _expect_batch_again(gate, given=bool(calls))
    if not calls:
        return {}
    *_, batch, size = calls[-1]
    if isinstance(batch, dict):
        batch = batch.get(node_type)
    elif node_type is not None:
        batch = None
    found = batch.numel() if _is_batch(batch) else "none"
    if found != x.size(0):
        raise InputError(
            f"Expected batch to have the graph of each of the {x.size(0)} nodes of a layer"
            f"{f' ({node_type})' if node_type else ''}; found {found}. Behind a pooling of nodes, "
            f"leave the layer out (layers=...) and call DimensionalReweighting with its batch."
        )
    return {"batch": batch, "batch_size": size}


def _expect_batch_again(gate: Module, *, given: bool) -> None:
    """Refuse a gate that a backward pass calls again without the batch that it had."""
    if given:
        _BATCHED.add(gate)
    elif torch._C._current_graph_task_id() == -1:  # no backward pass
        _BATCHED.discard(gate)
    elif gate in _BATCHED:
        raise InputError(
            "Expected the batch where activations are recomputed; found none, as "
            "torch.utils.checkpoint calls a part again outside of the call that had it. Hand "
            "batch to the module that is checkpointed."
        )


def _add_batch(node_type: str | None, gate: Module, args: _Args, kwargs: _Kwargs) -> Any:
    """Forward pre-hook of a gate that is not told the batch already."""
    told = len(args) > 2 or "batch" in kwargs
    return args, kwargs if told else {**kwargs, **_batch_of(gate, args[0], node_type)}


def _reject_models(model: Module) -> None:
    """Refuse models of :mod:`drgcn.nn`, which fold gates of their own into weights, and models
    whose parameters are counted already."""
    for module in model.modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise InputError(
                "Expected a model before DistributedDataParallel. Insert gates first."
            )
        # By name, so that inserting blocks does not import the models.
        ours = any(base.__module__.startswith("drgcn.nn.") for base in type(module).__mro__)
        if ours and hasattr(module, "regularized_parameters"):
            name = type(module).__name__
            raise InputError(
                f"Expected a model of PyG convolutions; found {name} of drgcn.nn, which has Dr "
                f"blocks of its own. Build it with {name}(..., reweight='dr')."
            )


def _copy(model: Module) -> Module:
    """Return a deep copy, in which results of the last call that a layer keeps (the attention of
    ``SuperGATConv``) are constants: torch copies no tensor with a history."""
    kept = (value for module in model.modules() for value in vars(module).values())
    history = [value for value in kept if isinstance(value, Tensor) and not value.is_leaf]
    return copy.deepcopy(model, {id(value): value.detach().clone() for value in history})
