"""Models of many seeds, stacked along a first axis and run as one by ``torch.vmap``."""

from __future__ import annotations

import contextlib
import copy
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from drgcn.errors import InputError, was_interrupted
from drgcn.gates import measured_gates
from drgcn.streams import stream_key
from drgcn.training.calling import MakeModel, kept_generators
from drgcn.training.randomness import SeededRandomness, levels_of
from drgcn.training.tracing import Pass, record

# Parameters or buffers by name, with an axis for the models of a stack.
State = dict[str, Tensor]
# One number for each model.
Each = Tensor | None


@dataclass(frozen=True)
class Running:
    """The way in which the models of a stack are run, see :func:`choose_way`.

    Attributes:
        way: As one recorded program; as one by ``torch.vmap``; or one after the other.
        constants: Names of buffers that are the same for all seeds, and that no pass changes.
        reason: Why a faster way was not taken, if one was tried.
        programs: Recorded passes, shared by stacks of as many seeds.
    """

    way: Literal["traced", "stacked", "looped"] = "stacked"
    constants: frozenset[str] = frozenset()
    reason: str = ""
    programs: dict[tuple[Any, ...], tuple[tuple[Any, ...], Pass]] = field(
        default_factory=dict, repr=False, compare=False
    )


class ModelStack:
    """The parameters of one model per seed, stacked along a first axis.

    Args:
        make_model: Builds the model, or one function for each seed; initialisation draws from
            torch's generator, which is set from each seed in turn.
        seeds: One model is built for each.
        inputs: Arguments of the models; lazy parameters take their shapes from them.
        device: Device that they run on.
        running: The way in which they are run. (default: as one by ``torch.vmap``)
        dropout: Rates of dropout, one for each seed, in place of all rates of the models but zero.
            (default: their own)
    """

    def __init__(
        self,
        make_model: MakeModel | Sequence[MakeModel],
        seeds: Sequence[int],
        inputs: tuple[Any, ...],
        device: torch.device,
        running: Running | None = None,
        dropout: Sequence[float] | None = None,
    ) -> None:
        models = _build_all(make_model, seeds, inputs, device)
        self.seeds, self.device = tuple(seeds), device
        self.running = running or Running()
        self.levels = None if dropout is None else levels_of(dropout).to(device)
        # Functional calls change a module's buffers, and some layers keep what they computed:
        # the models that are handed out are copies of one that was never called.
        self.template, self.uncalled = (copy.deepcopy(models[0]) for _ in range(2))
        parameters, buffers = torch.func.stack_module_state(models)
        self.parameters = {
            name: value.detach().requires_grad_(models[0].get_parameter(name).requires_grad)
            for name, value in parameters.items()
        }
        self.buffers = buffers

    def __call__(self, inputs: tuple[Any, ...], keys: Tensor | None = None) -> Tensor:
        """Return outputs of all models ``[seeds, ...]``: in training mode with ``keys`` for their
        random numbers ``[seeds]``, in evaluation mode without."""
        self.template.train(keys is not None)
        match self.running.way:
            case "traced":
                return self._by_program(inputs, keys)
            case "stacked":
                return self._as_one(self.parameters, self.buffers, inputs, keys, self.levels)
            case "looped":
                return self._one_by_one(inputs, keys)

    def _as_one(
        self, parameters: State, buffers: State, inputs: tuple[Any, ...], keys: Each, levels: Each
    ) -> Tensor:
        if keys is None:
            return torch.vmap(lambda p, b: self._forward(p, b, inputs))(parameters, buffers)
        # Randomness other than dropout and torch.rand (AlphaDropout, say) differs between seeds,
        # but comes from torch's generator and so depends on which seeds run together.

        def run(parameters: State, buffers: State, key: Tensor, level: Each = None) -> Tensor:
            with SeededRandomness(key, level):
                return self._forward(parameters, buffers, inputs)

        drawn = (keys,) if levels is None else (keys, levels)
        return torch.vmap(run, randomness="different")(parameters, buffers, *drawn)

    def _one_by_one(self, inputs: tuple[Any, ...], keys: Tensor | None) -> Tensor:
        """Run one model after the other; all of their random numbers come from their keys."""
        outputs = []
        for lane, seed in enumerate(self.seeds):
            key = stream_key(seed, "evaluation") if keys is None else int(keys[lane])
            with _generators_from(key, self.device):
                state = (self.parameters, self.buffers)
                outputs.append(self._lane(lane, *state, inputs, keys, self.levels))
        return torch.stack(outputs)

    def _lane(
        self,
        lane: int,
        parameters: State,
        buffers: State,
        inputs: tuple[Any, ...],
        keys: Each,
        levels: Each,
    ) -> Tensor:
        # Views: a batch norm that updates its statistics updates those of its lane.
        parameters, buffers = ({n: v[lane] for n, v in d.items()} for d in (parameters, buffers))
        if keys is None:
            return self._forward(parameters, buffers, inputs)
        with SeededRandomness(keys[lane], None if levels is None else levels[lane]):
            return self._forward(parameters, buffers, inputs)

    def _by_program(self, inputs: tuple[Any, ...], keys: Tensor | None) -> Tensor:
        program, changing, given = self._program(inputs, keys)
        return program(self.parameters, changing, given)

    def record(self, inputs: tuple[Any, ...], *, training: bool) -> None:
        """Record the pass with these arguments now, if passes are recorded: it cannot be done
        while other threads run theirs."""
        self.template.train(training)
        if self.running.way == "traced":
            keys = torch.zeros(len(self.seeds), dtype=torch.int64, device=self.device)
            self._program(inputs, keys if training else None)

    def _program(self, inputs: tuple[Any, ...], keys: Tensor | None) -> tuple[Pass, State, Tensor]:
        """Return a program, recorded at the first call with these arguments and in this mode, and
        what it takes beside parameters."""
        constants, programs = self.running.constants, self.running.programs
        changing = {name: v for name, v in self.buffers.items() if name not in constants}
        drawn = [value for value in (keys, self.levels) if value is not None and keys is not None]
        given = torch.stack(drawn) if drawn else torch.empty(0, device=self.device)
        place = (id(inputs), len(drawn), len(self.seeds))
        if place not in programs:

            def run(parameters: Any, buffers: Any, given: Tensor) -> Tensor:
                keys, levels = (*given.unbind(), None, None)[:2] if drawn else (None, None)
                if len(self.seeds) > 1:
                    return self._as_one(parameters, buffers, inputs, keys, levels)
                return self._lane(0, parameters, buffers, inputs, keys, levels)[None]

            programs[place] = (inputs, record(run, self.parameters, changing, given))
        return programs[place][1], changing, given

    def sampled(
        self, batches: Tensor, inputs: tuple[Any, ...], keys: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return scores ``[seeds, batch, ...]`` of each seed's own batch ``[seeds, batch]``,
        estimated from samples, and a term ``[seeds]`` to add to each loss."""
        self.template.train()
        view = _Method(self.template, "sampled")

        def run(
            parameters: State, buffers: State, key: Tensor, batch: Tensor, level: Each = None
        ) -> tuple[Tensor, Tensor]:
            with SeededRandomness(key, level):
                return view.call(parameters, buffers, (batch, *inputs))

        lanes = (self.parameters, self.buffers, keys, batches)
        levels = () if self.levels is None else (self.levels,)
        return torch.vmap(run, randomness="different")(*lanes, *levels)

    def penalty(self, weight_decay: float | Tensor) -> Tensor | None:
        """Return the models' own regularisers ``[seeds]``, if they have one, for a coefficient or
        one for each seed."""
        if not hasattr(self.template, "penalty"):
            return None
        view = _Method(self.template, "penalty")
        each = (0, 0, 0 if isinstance(weight_decay, Tensor) else None)
        one = torch.vmap(lambda p, b, w: view.call(p, b, (w,)), in_dims=each)
        return one(self.parameters, self.buffers, weight_decay)

    def state(self) -> State:
        """Return parameters and buffers by name, stacked; the tensors themselves, not copies."""
        return {**self.parameters, **self.buffers}

    def of_lanes(self, lanes: Tensor) -> ModelStack:
        """Return a stack of copies of some of the models."""
        part = copy.copy(self)
        part.seeds = tuple(self.seeds[lane] for lane in lanes.tolist())
        part.levels = None if self.levels is None else self.levels[lanes]
        part.parameters = {
            name: value.detach()[lanes].requires_grad_(value.requires_grad)
            for name, value in self.parameters.items()
        }
        part.buffers = {name: value[lanes] for name, value in self.buffers.items()}
        return part

    def regularized_names(self) -> set[str]:
        """Return the names of the parameters under L2: all, unless the model names its own."""
        chosen = getattr(self.template, "regularized_parameters", self.template.parameters)
        identities = {id(parameter) for parameter in chosen()}
        named = self.template.named_parameters()
        return {name for name, parameter in named if id(parameter) in identities}

    def model(self, index: int) -> torch.nn.Module:
        """Return an ordinary module with the present weights of one seed."""
        model = copy.deepcopy(self.uncalled).eval()
        # By name, and not by state_dict: buffers may be left out of that, and tied weights twice
        # in it.
        with torch.no_grad():
            for name, value in (*model.named_parameters(), *model.named_buffers()):
                value.copy_(self.state()[name][index])
        return model

    def _forward(self, parameters: State, buffers: State, inputs: tuple[Any, ...]) -> Tensor:
        constants = {name: self.buffers[name][0] for name in self.running.constants}
        state = (parameters, {**constants, **buffers})
        return torch.func.functional_call(self.template, state, inputs)


def choose_way(
    make_model: Callable[[], torch.nn.Module],
    inputs: tuple[Any, ...],
    device: torch.device,
    *,
    tracing: bool,
) -> Running:
    """Return the fastest way to run a model that gives the numbers of the model by itself.

    Two networks are run in each way, in evaluation and in training mode, and held against what
    each says by itself, gradients included: a layer that a way follows to other numbers, or that
    keeps results between calls, is found here.

    Args:
        make_model: Builds the model.
        inputs: Its arguments.
        device: Their device.
        tracing: Record passes as programs, which takes a second, if the model is none of
            :mod:`drgcn.nn`, whose models do once what can be done once.

    Raises:
        InputError: If not even one after the other gives the numbers of each by itself.
    """
    truth = _Truth.of(make_model, inputs, device)
    ours = hasattr(truth.model, "prepare")
    ways: list[Any] = ["traced"] if tracing and not ours else []
    # Networks that torch.vmap runs as one are no faster on CPU, unless they are made for it.
    ways += ["stacked"] if ours or device.type == "cuda" else []
    reason, cause, found = "", None, ""
    for way in (*ways, "looped"):
        constants = truth.constants if way == "traced" else frozenset()
        running = Running(way, constants, reason)
        try:
            found = truth.reason if way == "traced" else ""
            found = found or truth.difference(make_model, running, gradients=not ours)
        except Exception as error:  # a model of anyone's may raise anything
            if was_interrupted(error):
                raise KeyboardInterrupt from error
            found, cause = str(error).splitlines()[0] if str(error) else repr(error), error
        if not found:
            return running
        reason = reason or f"{found} ({way})"
    raise InputError(
        f"Expected {type(truth.model).__name__} to give the same scores at every call in "
        f"evaluation mode, for each seed by itself; found otherwise ({found}). Layers that keep "
        f"results between calls (cached=True) or draw random numbers are the usual reason."
    ) from cause


@dataclass(frozen=True)
class _Truth:
    """Scores and gradients of two models, each by itself.

    Attributes:
        model: One of them.
        inputs: Their arguments.
        keys: Keys of their random numbers in training.
        scores: Outputs in evaluation mode, of both.
        trained: Outputs in training mode.
        gradients: Gradients of a weighted sum of these by the name of the parameter.
        constants: Buffers that both have and a pass in training mode does not change.
        reason: Why a program could not stand for it, if that was seen.
    """

    model: torch.nn.Module
    inputs: tuple[Any, ...]
    keys: Tensor
    scores: Tensor
    trained: Tensor
    gradients: State
    constants: frozenset[str]
    reason: str
    seeds: ClassVar[tuple[int, int]] = (0, 1)

    @classmethod
    def of(
        cls,
        make_model: Callable[[], torch.nn.Module],
        inputs: tuple[Any, ...],
        device: torch.device,
    ) -> _Truth:
        keys = torch.tensor([stream_key(seed, "dropout") for seed in cls.seeds], device=device)
        models = _build_all(make_model, cls.seeds, inputs, device)
        watch = _Watch()
        both = [
            _run_alone(model, seed, inputs, key, watch)
            for seed, key, model in zip(cls.seeds, keys, models, strict=True)
        ]
        first, second = (one.unchanged for one in both)
        same = {name for name in first.keys() & second.keys() if first[name].equal(second[name])}
        # Weights of measured gates are the same for these two, and not for all lanes of a grid.
        measured = tuple(name for name, _ in measured_gates(models[0]))
        return cls(
            models[0],
            inputs,
            keys,
            torch.stack([one.scores for one in both]),
            torch.stack([one.trained for one in both]).detach(),
            {n: torch.stack([one.gradients[n] for one in both]) for n in both[0].gradients},
            frozenset(name for name in same if not name.startswith(measured)),
            watch.reason,
        )

    def difference(
        self, make_model: Callable[[], torch.nn.Module], running: Running, *, gradients: bool
    ) -> str:
        """Return in words how networks run in a way differ from those by themselves, if so."""
        device = self.keys.device
        alone = device.type == "cpu" and running.way != "stacked"
        groups = [(0,), (1,)] if alone else [(0, 1)]  # as they will be run
        stacks = [ModelStack(make_model, group, self.inputs, device, running) for group in groups]
        for stack in stacks:
            for lane, seed in enumerate(stack.seeds):
                _move({n: value[lane] for n, value in stack.parameters.items()}, seed)

        def run(keys: Tensor | None = None) -> Tensor:
            parts = keys.split(len(groups[0])) if keys is not None else [None] * len(groups)
            with warnings.catch_warnings():  # of slow kernels, which is no news here
                warnings.simplefilter("ignore")
                return torch.cat([s(self.inputs, k) for s, k in zip(stacks, parts, strict=True)])

        with torch.no_grad():
            if not _close(run(), self.scores):
                return "its scores are others than by itself"
            # Networks that change places: what a layer keeps of the first call shows.
            _exchange(stacks)
            if not _close(run(), self.scores.flip(0)):
                return "it keeps results between calls"
            _exchange(stacks)
        if not gradients:
            with torch.no_grad():
                run(self.keys)
            return ""
        trained = run(self.keys)
        if not _close(trained, self.trained):
            return "its scores in training mode are others than by itself"
        parameters = {f"{i}/{n}": p for i, s in enumerate(stacks) for n, p in s.parameters.items()}
        found = _gradients(trained, parameters)
        largest = max(float(g.abs().max()) for g in self.gradients.values() if g.numel())
        for name, expected in self.gradients.items():
            own = torch.cat([found[f"{i}/{name}"] for i in range(len(stacks))])
            # What cancels out, as the gradient of a bias before a norm, is rounding.
            rounding = 1e-3 * float(expected.abs().max()) + 1e-5 * largest
            if not torch.allclose(own, expected, rtol=1e-2, atol=rounding, equal_nan=True):
                return f"the gradient of {name} is another than by itself"
        return ""


class _Alone(NamedTuple):
    """Scores in evaluation mode, scores in training with their gradients, and the buffers that
    training does not change, of one model."""

    scores: Tensor
    trained: Tensor
    gradients: State
    unchanged: State


def _run_alone(
    model: torch.nn.Module, seed: int, inputs: tuple[Any, ...], key: Tensor, watch: _Watch
) -> _Alone:
    """Run a model by itself, and refuse one with a state that is not in its buffers."""
    _move(dict(model.named_parameters()), seed)
    with torch.no_grad():
        scores = copy.deepcopy(model).eval()(*inputs)
    before = {name: value.clone() for name, value in model.named_buffers()}
    buffers = dict(model.named_buffers())
    with _generators_from(int(key), key.device), watch, SeededRandomness(key):
        trained = model(*inputs)
    gradients = _gradients(trained, dict(model.named_parameters()))
    after = dict(model.named_buffers())
    unchanged = {n: v for n, v in before.items() if torch.equal(v, after[n])}
    # What is set once, in the first pass, is no state: flags and caches.
    attributes = _attributes(model)
    with torch.no_grad(), _generators_from(int(key), key.device), SeededRandomness(key):
        again = model(*inputs)
    _expect_no_hidden_state(model, buffers, attributes)
    if len(unchanged) == len(before) and not _close(again, trained.detach()):
        raise InputError(
            f"Expected {type(model).__name__} to give the same scores in training for "
            f"the same weights and random numbers; a second call gave others. State "
            f"belongs in buffers that are changed in place."
        )
    return _Alone(scores, trained, gradients, unchanged)


class _Watch(TorchFunctionMode):
    """Context that notes what a recorded program would lose: gradients that are stopped by
    ``torch.no_grad``, and random numbers of Python and NumPy."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""

    def __enter__(self) -> _Watch:
        self.states = _outside_states()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if _outside_states() != self.states:
            self.reason = "it draws random numbers of Python or NumPy"

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Note changes of the mode of gradients, and pass everything on."""
        if getattr(func, "__name__", "") == "_set_grad_enabled":
            self.reason = "it stops gradients by torch.no_grad"
        return func(*args, **(kwargs or {}))


def _outside_states() -> tuple[Any, str]:
    return random.getstate(), repr(np.random.get_state(legacy=False))


def _move(parameters: State, seed: int) -> None:
    """Move weights a little from where they begin: some are zero there and hide others."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in parameters.values():
            if value.is_floating_point():
                noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
                value.add_(0.05 * noise.to(value.dtype).to(value.device))


def _attributes(model: torch.nn.Module) -> dict[str, Any]:
    """Return numbers and words that the modules of a model hold, by name."""
    return {
        f"{name}.{key}".lstrip("."): value
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, bool | int | float | str) and not key.startswith("_")
    }


def _expect_no_hidden_state(
    model: torch.nn.Module, buffers: State, attributes: dict[str, Any]
) -> None:
    """Refuse state that cannot belong to one network of many, or be kept with its weights."""
    now = _attributes(model)
    changed = [name for name, value in attributes.items() if now.get(name) != value]
    replaced = [n for n, value in model.named_buffers() if buffers.get(n) is not value]
    if changed or replaced:
        what = f"changes {changed[0]}" if changed else f"assigns another tensor to {replaced[0]}"
        raise InputError(
            f"Expected a model whose state is in buffers that are changed in place "
            f"(buffer.add_(1)); {type(model).__name__} {what} in a pass. Such state is lost or "
            f"shared between networks."
        )


def _gradients(scores: Tensor, parameters: State) -> State:
    """Gradients of a sum of scores with unequal weights; zeros where there is none."""
    trained = {name: p for name, p in parameters.items() if p.requires_grad}
    nodes, outputs = scores.shape[-2:]
    weights = torch.linspace(-1, 1, nodes * outputs, dtype=scores.dtype, device=scores.device)
    total = (scores * weights.view(nodes, outputs)).sum()
    found = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    return {
        name: torch.zeros_like(p) if g is None else g
        for (name, p), g in zip(trained.items(), found, strict=True)
    }


def _exchange(stacks: Sequence[ModelStack]) -> None:
    """Let the two networks change places."""
    if len(stacks) == 2:
        first, second = stacks
        first.parameters, second.parameters = second.parameters, first.parameters
        first.buffers, second.buffers = second.buffers, first.buffers
        return
    (both,) = stacks
    both.parameters = {
        name: value.detach().flip(0).requires_grad_(value.requires_grad)
        for name, value in both.parameters.items()
    }
    both.buffers = {name: value.flip(0) for name, value in both.buffers.items()}


def _close(first: Tensor, second: Tensor) -> bool:
    scale = float(second.abs().nan_to_num(0, 0).max()) + 1e-6
    return bool(torch.allclose(first, second, rtol=1e-3, atol=1e-4 * scale, equal_nan=True))


@contextlib.contextmanager
def _generators_from(key: int, device: torch.device) -> Iterator[None]:
    """Context in which the generators of torch, Python and NumPy start from a key; afterwards
    they are as before."""
    with kept_generators(device):
        torch.manual_seed(key)
        random.seed(key)
        np.random.seed(key % 2**32)
        yield


class _Method(torch.nn.Module):
    """A model whose ``forward`` is another of its methods, for functional calls."""

    def __init__(self, model: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *arguments: Any) -> Any:
        return getattr(self.model, self.name)(*arguments)

    def call(self, parameters: State, buffers: State, arguments: tuple[Any, ...]) -> Any:
        """Call the method with other parameters and buffers than the model's own."""
        state = {f"model.{name}": value for name, value in {**parameters, **buffers}.items()}
        return torch.func.functional_call(self, state, arguments)


def _build_all(
    make_model: MakeModel | Sequence[MakeModel],
    seeds: Sequence[int],
    inputs: tuple[Any, ...],
    device: torch.device,
) -> list[torch.nn.Module]:
    makers = [make_model] * len(seeds) if callable(make_model) else make_model
    pairs = zip(makers, seeds, strict=True)
    models = [_build(make, seed, inputs, device) for make, seed in pairs]
    if len(models) > 1 and models[0] is models[1]:
        raise InputError(
            "Expected make_model to build a new model at every call; it returned one twice."
        )
    return models


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
