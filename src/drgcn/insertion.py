"""Insert a Dr block in front of every graph convolution of any PyG model."""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import HeteroConv, MessagePassing
from torch_geometric.nn.module_dict import ModuleDict

from drgcn.errors import InputError
from drgcn.reweighting import DimensionalReweighting, scale_columns

log = logging.getLogger(__name__)


def insert_reweighting(model: torch.nn.Module, **options: Any) -> torch.nn.Module:
    """Return a copy of ``model`` with a Dr block in front of every graph convolution.

    Works for :class:`~torch_geometric.nn.models.BasicGNN`, :class:`torch_geometric.nn.Sequential`,
    hand-written modules, and heterogeneous models built with
    :class:`~torch_geometric.nn.HeteroConv` or :func:`~torch_geometric.nn.to_hetero`, where
    every layer gets one block per node type. Existing parameters keep their names and values.
    Propagation steps without parameters (``APPNP``, ``LGConv``) are left alone.

    A block pools over the nodes its convolution is called with. To give every graph of a batch
    a vector of its own, call :class:`~drgcn.DimensionalReweighting` with ``batch`` yourself.

    Args:
        model (torch.nn.Module): The model, which stays as it is.
        **options: Passed on to :class:`~drgcn.DimensionalReweighting`.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> model = insert_reweighting(GCN(16, 32, num_layers=2, out_channels=7))
        >>> reweighting_blocks(model)["convs.0.reweighting"]
        DimensionalReweighting(16, hidden_channels=4)
    """
    _reject_drgcn_models(model)
    model = copy.deepcopy(model)
    for part in {id(part): part for part in _hosts(model)}.values():
        if isinstance(part, torch.fx.GraphModule):
            _insert_into_graph(part, options)
        elif isinstance(part, HeteroConv):
            _attach_to_hetero(part, options)
        else:
            _attach(part, options)
    blocks = reweighting_blocks(model)
    if not blocks:
        raise InputError(
            f"Expected a model with PyG convolutions (MessagePassing modules with parameters); "
            f"found none in {type(model).__name__}. Call DimensionalReweighting in its forward."
        )
    for name, block in blocks.items():
        log.info("inserted %s: %r", name, block)
    return model


def reweighting_blocks(model: torch.nn.Module) -> dict[str, DimensionalReweighting]:
    """Return the Dr blocks of a model by name, such as ``convs.0.reweighting``."""
    return {n: m for n, m in model.named_modules() if isinstance(m, DimensionalReweighting)}


def _hosts(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the modules that get blocks and have none yet: traced programs, ``HeteroConv`` and
    convolutions. The outermost counts: nothing is inserted into the parts of a host."""
    if isinstance(module, torch.fx.GraphModule | HeteroConv) or _is_convolution(module):
        if not hasattr(module, "reweighting"):
            yield module
        return
    for child in module.children():
        yield from _hosts(child)


def _attach(conv: torch.nn.Module, options: dict[str, Any]) -> None:
    source, target = _widths_of(conv)
    conv.add_module("reweighting", DimensionalReweighting(source, **options))
    if target != source:
        conv.add_module("target_reweighting", DimensionalReweighting(target, **options))
    conv.register_forward_pre_hook(_reweight_input, with_kwargs=True)
    _reset_together(conv)


def _reset_together(host: torch.nn.Module) -> None:
    """Make ``host.reset_parameters()`` reset the blocks as well."""
    reset = getattr(host, "reset_parameters", None)
    if callable(reset):
        host.reset_parameters = functools.partial(_reset, reset, host)  # type: ignore[assignment]


def _reset(reset_host: Callable[[], None], host: torch.nn.Module) -> None:
    reset_host()
    for block in reweighting_blocks(host).values():
        block.reset_parameters()


def _reweight_input(
    conv: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Forward pre-hook that reweights the first argument of a convolution."""
    block = conv.get_submodule("reweighting")
    assert isinstance(block, DimensionalReweighting)
    x = args[0] if args else kwargs["x"]
    if isinstance(x, tuple | list):
        source, target = x
        s = block.vector(source)
        x = (scale_columns(source, s), _reweight_target(conv, target, s))
    elif isinstance(x, Tensor) and x.is_floating_point():
        x = block(x)
    # Anything else holds no features: indices into an embedding, or None.
    return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "x": x})


def _reweight_target(conv: torch.nn.Module, target: Tensor | None, s: Tensor) -> Tensor | None:
    if target is None:
        return None
    if target.size(1) == s.numel() and not hasattr(conv, "target_reweighting"):
        return scale_columns(target, s)  # the same kind of nodes, often the same nodes
    if not hasattr(conv, "target_reweighting"):  # both widths were unknown until now
        conv.add_module("target_reweighting", DimensionalReweighting(-1).to(target.device))
    return conv.get_submodule("target_reweighting")(target)


def _attach_to_hetero(hetero: HeteroConv, options: dict[str, Any]) -> None:
    widths: dict[str, int] = {}
    for (source, _, target), conv in hetero.convs.items():
        if not _is_convolution(conv):
            continue
        for node_type, width in zip((source, target), _widths_of(conv), strict=True):
            widths[node_type] = max(width, widths.get(node_type, -1))
    if not widths:
        return
    blocks = {t: DimensionalReweighting(width, **options) for t, width in widths.items()}
    hetero.add_module("reweighting", ModuleDict(blocks))
    hetero.register_forward_pre_hook(_reweight_types, with_kwargs=True)
    _reset_together(hetero)


def _reweight_types(
    hetero: HeteroConv, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Forward pre-hook that reweights every node type once, however many edge types it has."""
    x_dict = args[0] if args else kwargs["x_dict"]
    blocks = hetero.reweighting
    x_dict = {t: blocks[t](x) if t in blocks and x is not None else x for t, x in x_dict.items()}
    return ((x_dict, *args[1:]), kwargs) if args else (args, {**kwargs, "x_dict": x_dict})


def _insert_into_graph(model: torch.fx.GraphModule, options: dict[str, Any]) -> None:
    """Write one call per layer and node type into a program that ``to_hetero`` traced."""
    blocks = ModuleDict()
    model.add_module("reweighting", blocks)
    calls: dict[tuple[str, torch.fx.Node], torch.fx.Node] = {}
    for node in list(model.graph.nodes):
        if node.op != "call_module" or not _is_convolution(model.get_submodule(node.target)):
            continue
        layer, types = _layer_and_types(model, node.target)
        x = node.args[0] if node.args else node.kwargs["x"]
        ends = x if isinstance(x, tuple) else (x,)
        widths = _widths_of(model.get_submodule(node.target))
        for end, node_type, width in zip(ends, types, widths, strict=False):
            if (layer, end) not in calls:
                name = f"{layer.replace('.', '_')}__{node_type}"
                blocks[name] = DimensionalReweighting(width, **options)
                with model.graph.inserting_before(node):
                    call = model.graph.call_module(f"reweighting.{name}", (end,))
                calls[layer, end] = call
        new = tuple(calls[layer, end] for end in ends) if isinstance(x, tuple) else calls[layer, x]
        if node.args:
            node.args = (new, *node.args[1:])
        else:
            node.kwargs = {**node.kwargs, "x": new}
    model.recompile()


def _layer_and_types(model: torch.fx.GraphModule, target: str) -> tuple[str, tuple[str, str]]:
    """Return the layer of a traced convolution, and the types of its source and target nodes."""
    layer, _, edge_type = target.rpartition(".")
    if layer and isinstance(model.get_submodule(layer), torch.nn.ModuleDict):
        words = edge_type.split("__")
        return layer, (words[0], words[-1])
    return target, ("source", "target")


def _is_convolution(module: torch.nn.Module) -> bool:
    """Return whether a module passes messages and has parameters."""
    return isinstance(module, MessagePassing) and any(True for _ in module.parameters())


def _widths_of(conv: torch.nn.Module) -> tuple[int, int]:
    """Return the widths of source and target nodes; -1 where they depend on the data."""
    width = getattr(conv, "in_channels", -1)
    if isinstance(width, dict):
        raise InputError(
            f"Expected one width per convolution; {type(conv).__name__} takes a width per node "
            f"type in one module. Call DimensionalReweighting per type instead."
        )
    source, target = width if isinstance(width, tuple | list) else (width, width)
    return source or -1, target or -1


def _reject_drgcn_models(model: torch.nn.Module) -> None:
    """Refuse models of :mod:`drgcn.nn`, whose layers fold gates of their own into weights."""
    for module in model.modules():
        # By name, so that inserting blocks does not import the models.
        bases = (base.__module__ for base in type(module).__mro__)
        ours = any(name.startswith("drgcn.nn.") for name in bases)
        if ours and hasattr(module, "regularized_parameters"):
            name = type(module).__name__
            raise InputError(
                f"Expected a model of PyG convolutions; found {name} of drgcn.nn, which has Dr "
                f"blocks of its own. Build it with {name}(..., reweight='dr')."
            )
