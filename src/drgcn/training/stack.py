"""Models of many seeds, stacked along a first axis and run as one by ``torch.vmap``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from drgcn.errors import DrgcnError, InputError
from drgcn.streams import stream_key
from drgcn.training.randomness import SeededRandomness


class ModelStack:
    """The parameters of one model per seed, stacked along a first axis.

    Args:
        make_model: Builds the model; its initialisation draws from torch's generator, which
            is set from each seed in turn.
        seeds: One model is built for each.
        inputs: Arguments of the models; lazy parameters take their shapes from them.
        device: Device that they run on.
    """

    def __init__(
        self,
        make_model: Callable[[], torch.nn.Module],
        seeds: Sequence[int],
        inputs: tuple[Any, ...],
        device: torch.device,
    ) -> None:
        models = [_build(make_model, seed, inputs, device) for seed in seeds]
        if len(models) > 1 and models[0] is models[1]:
            raise InputError(
                "Expected make_model to build a new model at every call; it returned one twice."
            )
        self.seeds = tuple(seeds)
        # Functional calls change a module's buffers; the stack keeps its own.
        self.template = copy.deepcopy(models[0])
        parameters, buffers = torch.func.stack_module_state(models)
        self.parameters: dict[str, Tensor] = {
            name: value.detach().requires_grad_(models[0].get_parameter(name).requires_grad)
            for name, value in parameters.items()
        }
        self.buffers: dict[str, Tensor] = buffers

    def __call__(self, inputs: tuple[Any, ...], keys: Tensor | None = None) -> Tensor:
        """Return outputs of all models ``[seeds, ...]``: in training mode with ``keys`` for their
        random numbers ``[seeds]``, in evaluation mode without."""
        self.template.train(keys is not None)
        if keys is None:
            return torch.vmap(lambda p, b: self._forward(p, b, inputs))(*self._lanes())
        # Randomness other than dropout and torch.rand (AlphaDropout, say) differs between seeds,
        # but comes from torch's generator and so depends on which seeds run together.

        def run(parameters: dict[str, Tensor], buffers: dict[str, Tensor], key: Tensor) -> Tensor:
            with SeededRandomness(key):
                return self._forward(parameters, buffers, inputs)

        return torch.vmap(run, randomness="different")(*self._lanes(), keys)

    def sampled(
        self, batches: Tensor, inputs: tuple[Any, ...], keys: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return scores ``[seeds, batch, ...]`` of each seed's own batch ``[seeds, batch]``,
        estimated from samples, and a term ``[seeds]`` to add to each loss."""
        self.template.train()
        view = _Method(self.template, "sampled")

        def run(
            parameters: dict[str, Tensor], buffers: dict[str, Tensor], key: Tensor, batch: Tensor
        ) -> tuple[Tensor, Tensor]:
            with SeededRandomness(key):
                return view.call(parameters, buffers, (batch, *inputs))

        return torch.vmap(run, randomness="different")(*self._lanes(), keys, batches)

    def penalty(self, weight_decay: float) -> Tensor | None:
        """Return the models' own regularisers ``[seeds]``, if they have one."""
        if not hasattr(self.template, "penalty"):
            return None
        view = _Method(self.template, "penalty")
        return torch.vmap(lambda p, b: view.call(p, b, (weight_decay,)))(*self._lanes())

    def state(self) -> dict[str, Tensor]:
        """Return parameters and buffers by name, stacked; the tensors themselves, not copies."""
        return {**self.parameters, **self.buffers}

    def regularized_names(self) -> set[str]:
        """Return the names of the parameters under L2: all, unless the model names its own."""
        chosen = getattr(self.template, "regularized_parameters", self.template.parameters)
        identities = {id(parameter) for parameter in chosen()}
        named = self.template.named_parameters()
        return {name for name, parameter in named if id(parameter) in identities}

    def model(self, index: int) -> torch.nn.Module:
        """Return an ordinary module with the present weights of one seed."""
        model = copy.deepcopy(self.template).eval()
        state = model.state_dict()
        model.load_state_dict({k: v[index] for k, v in self.state().items() if k in state})
        return model

    def _lanes(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return self.parameters, self.buffers

    def _forward(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        inputs: tuple[Any, ...],
    ) -> Tensor:
        try:
            return torch.func.functional_call(self.template, (parameters, buffers), inputs)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            raise DrgcnError(
                f"{type(self.template).__name__} cannot be trained for many seeds at once: "
                f"torch.vmap cannot follow it. Shapes or branches that depend on values, as in "
                f"dropout_edge, are the usual reason ({str(error).splitlines()[0]})"
            ) from error


class _Method(torch.nn.Module):
    """A model whose ``forward`` is another of its methods, for functional calls."""

    def __init__(self, model: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *arguments: Any) -> Any:
        return getattr(self.model, self.name)(*arguments)

    def call(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        arguments: tuple[Any, ...],
    ) -> Any:
        """Call the method with other parameters and buffers than the model's own."""
        state = {f"model.{name}": value for name, value in {**parameters, **buffers}.items()}
        return torch.func.functional_call(self, state, arguments)


def _build(
    make_model: Callable[[], torch.nn.Module],
    seed: int,
    inputs: tuple[Any, ...],
    device: torch.device,
) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "initialisation"))
        model = make_model()
        if any(is_lazy(parameter) for parameter in model.parameters()):
            cpu_inputs = tuple(v.to("cpu") if hasattr(v, "to") else v for v in inputs)
            with torch.no_grad():
                model.eval()(*cpu_inputs)
    return model.train().to(device)
