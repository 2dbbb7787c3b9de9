"""Puts a Dr block in front of every convolution of a model that somebody else wrote."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import HeteroConv, MessagePassing

from drgcn.pooling import scale_columns
from drgcn.reweighting import DimensionalReweighting

log = logging.getLogger(__name__)


def insert_reweighting(model: torch.nn.Module, **options: Any) -> torch.nn.Module:
    """A copy of ``model`` with a Dr block in front of every graph convolution.

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
    model = copy.deepcopy(model)
    if isinstance(model, torch.fx.GraphModule):
        _insert_into_graph(model, options)
    for conv in _convolutions(model):
        if isinstance(conv, HeteroConv):
            _attach_to_hetero(conv, options)
        elif not isinstance(model, torch.fx.GraphModule):
            _attach(conv, options)
    blocks = reweighting_blocks(model)
    if not blocks:
        raise ValueError(
            f"Expected a model with PyG convolutions (MessagePassing modules with parameters); "
            f"found none in {type(model).__name__}. Call DimensionalReweighting in its forward."
        )
    for name, block in blocks.items():
        log.info("inserted %s: %r", name, block)
    return model


def reweighting_blocks(model: torch.nn.Module) -> dict[str, DimensionalReweighting]:
    """The Dr blocks of a model by name: what :func:`insert_reweighting` inserted."""
    return {n: m for n, m in model.named_modules() if isinstance(m, DimensionalReweighting)}


def _convolutions(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The outermost convolutions: what they contain is their own business."""
    if isinstance(module, HeteroConv) or _is_convolution(module):
        yield module
        return
    for child in module.children():
        yield from _convolutions(child)


def _is_convolution(module: torch.nn.Module) -> bool:
    return isinstance(module, MessagePassing) and any(True for _ in module.parameters())


def _widths(conv: torch.nn.Module) -> tuple[int, int]:
    """Feature dimensions of source and target nodes; -1 where only the data can tell."""
    width = getattr(conv, "in_channels", -1)
    source, target = width if isinstance(width, (tuple, list)) else (width, width)
    return source or -1, target or -1


def _attach(conv: torch.nn.Module, options: dict[str, Any]) -> None:
    source, target = _widths(conv)
    conv.add_module("reweighting", DimensionalReweighting(source, **options))
    if target != source:
        conv.add_module("target_reweighting", DimensionalReweighting(target, **options))
    conv.register_forward_pre_hook(_reweight_input, with_kwargs=True)


def _reweight_input(
    conv: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Hook: the convolution sees its first argument reweighted."""
    block = conv.get_submodule("reweighting")
    assert isinstance(block, DimensionalReweighting)
    x = args[0] if args else kwargs["x"]
    if isinstance(x, Tensor):
        x = block(x)
    else:
        source, target = x
        s = block.vector(source)
        if hasattr(conv, "target_reweighting") and target is not None:
            target = conv.get_submodule("target_reweighting")(target)
        elif target is not None:
            target = scale_columns(target, s)  # the same kind of nodes, often the same nodes
        x = (scale_columns(source, s), target)
    return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "x": x})


def _attach_to_hetero(hetero: HeteroConv, options: dict[str, Any]) -> None:
    widths: dict[str, int] = {}
    for (source, _, target), conv in hetero.convs.items():
        for node_type, width in zip((source, target), _widths(conv), strict=True):
            widths[node_type] = max(width, widths.get(node_type, -1))
    blocks = {t: DimensionalReweighting(width, **options) for t, width in widths.items()}
    hetero.add_module("reweighting", torch.nn.ModuleDict(blocks))
    hetero.register_forward_pre_hook(_reweight_types, with_kwargs=True)


def _reweight_types(
    hetero: HeteroConv, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Hook: every node type is reweighted once, whatever the number of its edge types."""
    x_dict = args[0] if args else kwargs["x_dict"]
    blocks = hetero.reweighting
    x_dict = {t: blocks[t](x) if t in blocks and x is not None else x for t, x in x_dict.items()}
    return ((x_dict, *args[1:]), kwargs) if args else (args, {**kwargs, "x_dict": x_dict})


def _insert_into_graph(model: torch.fx.GraphModule, options: dict[str, Any]) -> None:
    """For ``to_hetero``: one call per layer and node type, written into the traced program."""
    blocks = torch.nn.ModuleDict()
    model.add_module("reweighting", blocks)
    calls: dict[tuple[str, torch.fx.Node], torch.fx.Node] = {}
    for node in list(model.graph.nodes):
        if node.op != "call_module" or not _is_convolution(model.get_submodule(node.target)):
            continue
        layer, _, edge_type = node.target.rpartition(".")
        ends = edge_type.split("__")
        x = node.args[0]
        sources = x if isinstance(x, tuple) else (x,)
        reweighted = []
        widths = _widths(model.get_submodule(node.target))
        for source, node_type, width in zip(sources, (ends[0], ends[-1]), widths, strict=False):
            if (layer, source) not in calls:
                name = f"{layer.replace('.', '_')}__{node_type}"
                blocks[name] = DimensionalReweighting(width, **options)
                with model.graph.inserting_before(node):
                    calls[layer, source] = model.graph.call_module(
                        f"reweighting.{name}", (source,)
                    )
            reweighted.append(calls[layer, source])
        new = tuple(reweighted) if isinstance(x, tuple) else reweighted[0]
        node.args = (new, *node.args[1:])
    model.recompile()
