"""Models of many seeds, stacked along a first axis and run as one by ``torch.vmap``."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from drgcn.errors import InputError
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
        looped: Run one model after the other, for models that ``torch.vmap`` cannot follow, see
            :func:`why_looped`.
    """

    def __init__(
        self,
        make_model: Callable[[], torch.nn.Module],
        seeds: Sequence[int],
        inputs: tuple[Any, ...],
        device: torch.device,
        *,
        looped: bool = False,
    ) -> None:
        models = [_build(make_model, seed, inputs, device) for seed in seeds]
        if len(models) > 1 and models[0] is models[1]:
            raise InputError(
                "Expected make_model to build a new model at every call; it returned one twice."
            )
        self.seeds, self.looped = tuple(seeds), looped
        # Functional calls change a module's buffers, and some layers keep what they computed:
        # the models that are handed out are copies of one that was never called.
        self.template, self.uncalled = (copy.deepcopy(models[0]) for _ in range(2))
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
        if self.looped:
            return self._one_by_one(inputs, keys)
        if keys is None:
            return torch.vmap(lambda p, b: self._forward(p, b, inputs))(*self._lanes())
        # Randomness other than dropout and torch.rand (AlphaDropout, say) differs between seeds,
        # but comes from torch's generator and so depends on which seeds run together.

        def run(parameters: dict[str, Tensor], buffers: dict[str, Tensor], key: Tensor) -> Tensor:
            with SeededRandomness(key):
                return self._forward(parameters, buffers, inputs)

        return torch.vmap(run, randomness="different")(*self._lanes(), keys)

    def _one_by_one(self, inputs: tuple[Any, ...], keys: Tensor | None) -> Tensor:
        """Run one model after the other; all of their random numbers come from their keys."""
        outputs = []
        for lane, seed in enumerate(self.seeds):
            # Views: a batch norm that updates its statistics updates those of its lane.
            parameters, buffers = ({n: v[lane] for n, v in d.items()} for d in self._lanes())
            key = torch.tensor(stream_key(seed, "evaluation")) if keys is None else keys[lane]
            with _generators_from(int(key), next(iter(self.parameters.values())).device):
                if keys is None:
                    outputs.append(self._forward(parameters, buffers, inputs))
                else:
                    with SeededRandomness(key):
                        outputs.append(self._forward(parameters, buffers, inputs))
        return torch.stack(outputs)

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
        model = copy.deepcopy(self.uncalled).eval()
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
        return torch.func.functional_call(self.template, (parameters, buffers), inputs)


@torch.no_grad()
def why_looped(
    make_model: Callable[[], torch.nn.Module], inputs: tuple[Any, ...], device: torch.device
) -> str | None:
    """Return why two models cannot be run as one, if they cannot.

    Both are run stacked and held against what each says by itself: a layer that ``torch.vmap``
    follows to other numbers, or that keeps results between calls, is found here.

    Raises:
        InputError: If not even one after the other gives the numbers of each by itself.
    """
    seeds = (0, 1)
    alone = torch.stack(
        [_build(make_model, seed, inputs, device).eval()(*inputs) for seed in seeds]
    )
    keys = torch.tensor([stream_key(seed, "dropout") for seed in seeds], device=device)
    reason, cause = "", None
    for looped in (False, True):
        try:
            with warnings.catch_warnings():  # of slow kernels, which is no news here
                warnings.simplefilter("ignore")
                stack = ModelStack(make_model, seeds, inputs, device, looped=looped)
                same = _close(stack(inputs), alone)
                # Networks that change places: what a layer keeps of the first call shows.
                stack.parameters = {n: value.flip(0) for n, value in stack.parameters.items()}
                stack.buffers = {n: value.flip(0) for n, value in stack.buffers.items()}
                same = same and _close(stack(inputs), alone.flip(0))
                stack(inputs, keys)
        except Exception as error:  # a model of anyone's may raise anything
            same, cause = False, error
            found = str(error).splitlines()[0] if str(error) else type(error).__name__
        else:
            found = "it gives other numbers stacked than alone"
        if same:
            return reason or None
        reason = reason or found
    raise InputError(
        f"Expected {type(make_model()).__name__} to give the same scores at every call in "
        f"evaluation mode, for each seed by itself; found otherwise ({found}). Layers that keep "
        f"results between calls (cached=True) or draw random numbers are the usual reason."
    ) from cause


def _close(first: Tensor, second: Tensor) -> bool:
    scale = float(second.abs().max()) + 1e-6
    return bool(torch.allclose(first, second, rtol=1e-3, atol=1e-4 * scale, equal_nan=True))


@contextlib.contextmanager
def _generators_from(key: int, device: torch.device) -> Iterator[None]:
    """Context in which torch's generators start from a key; afterwards they are as before."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(key)
        yield


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
