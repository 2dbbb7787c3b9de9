"""Stability tracker: K and gate saturation of every Dr block in a training loop of your own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.insertion import reweighting_blocks
from drgcn.nn.base import LayerInput
from drgcn.nn.graph import NodeGroups
from drgcn.nn.sparse import SparseMatrix
from drgcn.stability import gate_saturation, graph_stability


@dataclass(frozen=True)
class BlockState:
    """K and saturation of one block after one epoch.

    Attributes:
        epoch: Number of the call of :meth:`StabilityTracker.record`, from 1.
        block: Name of the block in the model.
        k: Stability measure; the mean over graphs where there are several, ``None`` where it is
            undefined.
        saturation: Share of gate entries at either end.
    """

    epoch: int
    block: str
    k: float | None
    saturation: float


class StabilityTracker:
    """Records K and saturation of every Dr block, for each of its inputs, once a :meth:`record`.

    Hooks live only while it records: training itself runs as it would without. A call is one
    forward pass in evaluation mode; :func:`drgcn.fit`, whose epochs are one CUDA graph, has K
    in its run records instead. Blocks called with a pair of source and target features are not
    seen.

    Args:
        model (torch.nn.Module): A model with Dr blocks: from :func:`drgcn.insert_reweighting`,
            of :mod:`drgcn.nn`, or with :class:`drgcn.DimensionalReweighting` in it.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> from drgcn import insert_reweighting
        >>> model = insert_reweighting(GCN(8, 16, num_layers=2, out_channels=3))
        >>> tracker = StabilityTracker(model)
        >>> x, edge_index = torch.randn(10, 8), torch.randint(10, (2, 30))
        >>> for epoch in range(3):  # after each step of an optimiser
        ...     _ = tracker.record(x, edge_index)
        >>> len(tracker.history)
        6
    """

    def __init__(self, model: torch.nn.Module) -> None:
        own = {name: m for name, m in model.named_modules() if isinstance(m, LayerInput)}
        gated = {name: m for name, m in own.items() if m.gate is not None}
        inside = {f"{name}.gate" for name in gated}
        blocks = reweighting_blocks(model).items()  # those of a user's own kind may have no vector
        free = {n: block for n, block in blocks if n not in inside and hasattr(block, "vector")}
        self.model = model
        self.blocks: dict[str, torch.nn.Module] = {**gated, **free}
        self.history: list[BlockState] = []
        self.epochs = 0
        if not self.blocks:
            raise InputError(
                f"Expected a model with Dr blocks; {type(model).__name__} has none. Make it with "
                f"insert_reweighting."
            )

    @torch.no_grad()
    def record(self, *args: Any, **kwargs: Any) -> list[BlockState]:
        """Run the model once on these arguments and return the states of its blocks."""
        found: list[BlockState] = []
        asked: list[tuple[str, Any]] = []
        epoch = self.epochs + 1

        def add(name: str, x: Any, s: Tensor, batch: Tensor | None) -> None:
            if any(other == name and seen is x for other, seen in asked):
                return  # models of to_hetero call a gate once for each edge type
            asked.append((name, x))
            plain = x.to_csr() if isinstance(x, SparseMatrix) else x
            found.append(
                BlockState(epoch, name, graph_stability(plain, s, batch), gate_saturation(s))
            )

        def hook(name: str) -> Any:
            def record_block(module: torch.nn.Module, args: Any, kwargs: Any, out: Any) -> None:
                if isinstance(module, LayerInput):
                    groups = kwargs.get("groups", args[1] if len(args) > 1 else None)
                    graph = groups.graph if isinstance(groups, NodeGroups) else groups
                    add(name, out[0], out[1], graph)
                else:
                    s = module.vector(*args, **kwargs)  # type: ignore[operator]
                    batch = kwargs.get("batch", args[2] if len(args) > 2 else None)
                    add(name, args[0] if args else kwargs["x"], s, batch)

            return record_block

        training = [module for module in self.model.modules() if module.training]
        handles = [
            block.register_forward_hook(hook(name), with_kwargs=True)
            for name, block in self.blocks.items()
        ]
        try:
            self.model.eval()(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
            for module in training:  # each by itself: some may be frozen in evaluation mode
                module.training = True
        self.epochs = epoch
        self.history += found
        return found
