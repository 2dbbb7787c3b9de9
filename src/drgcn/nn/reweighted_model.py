"""What all our models share: gates in front of their layers, and what is decayed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from drgcn.nn.features import Features

# A layer's input before its gate, the gate, and the layer's output.
Layer = tuple[Features, Tensor | None, Tensor]


class ReweightedModel(torch.nn.Module, ABC):
    """A model that keeps its :class:`~drgcn.nn.layer_input.LayerInput` modules in ``inputs``."""

    inputs: torch.nn.ModuleList

    @abstractmethod
    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """The parameters under L2, those of gates apart."""

    def regularized_parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters under L2, and everything in the gates; norms are never decayed."""
        # NOTE[PAPER] "The same coefficient as the original GCNs" leaves open which blocks are
        # decayed when the host decays its first layer only; here all of them are. Dr for
        # Chebyshev networks, MixHop and MLP is not in the paper, and decayed likewise.
        yield from self.decayed()
        yield from self.gate_parameters()

    def gate_parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters of all gates."""
        for module in self.inputs:
            yield from module.gate_parameters()  # type: ignore[operator]

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for children in self.children():
            for module in children if isinstance(children, torch.nn.ModuleList) else [children]:
                module.reset_parameters()  # type: ignore[operator]
