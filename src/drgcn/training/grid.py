"""Settings that networks are trained with: grids of them, and the passes and blocks of networks
that are trained together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

import torch

from drgcn.errors import InputError
from drgcn.training.inputs import checked_rate, shown

# Seeds that are trained together on CPU, see :func:`seed_blocks`.
CPU_LANES: Final = 4
# A recorded epoch keeps a memory pool of its own beside that of the epochs before it, and
# allocators round up.
_PEAKS_PER_PASS: Final = 2.0
_SHARE_OF_FREE_MEMORY: Final = 0.9


@dataclass(frozen=True)
class LaneSettings:
    """Settings that the networks of a pass may have each for itself.

    Attributes:
        lr: Learning rate.
        weight_decay: L2 coefficient of the regularised parameters, or the coefficient of the
            model's own penalty.
        dropout: Rate in place of all rates of dropout of the model but zero; ``None`` for its own.
        label_smoothing: Share of a label that goes to all classes alike.
        split: Column of masks of several splits.
        exponent: Exponent of gates that are measured on training data; ``None`` for their own.
    """

    lr: float = 0.01
    weight_decay: float = 5e-4
    dropout: float | None = None
    label_smoothing: float = 0.0
    split: int | None = None
    exponent: float | None = None


# Settings of a grid that are not arguments of the function that makes the model.
LANE_SETTINGS: Final = tuple(field.name for field in fields(LaneSettings))


class Lane(NamedTuple):
    """One network of a pass: its seed, what it is trained with, and what of that a grid says."""

    seed: int
    trained: LaneSettings
    chosen: dict[str, Any]

    @property
    def key(self) -> tuple[int, str]:
        """Seed and setting, which no other network of the call shares."""
        return self.seed, repr(self.chosen)


_GRID_FORMS: Final = (
    'grid to be lists of values by name, such as {"lr": [0.01, 0.05]}, or a list of settings, '
    'such as [{"lr": 0.01}, {"lr": 0.05}]'
)
# Lists of values by name, or a list of settings.
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class GridPass:
    """Settings of a grid whose networks have the same shapes and the same parts.

    Attributes:
        arguments: Arguments of the function that makes the model.
        settings: What each lane is trained with, and what of it the grid says.
    """

    arguments: dict[str, Any]
    settings: list[tuple[LaneSettings, dict[str, Any]]]

    @property
    def splits(self) -> list[int | None]:
        """Splits that it has, each once."""
        return list(dict.fromkeys(lane.split for lane, _ in self.settings))


def passes_of(grid: Grid | None, usual: LaneSettings, *, splits_together: bool) -> list[GridPass]:
    """Cut a grid into passes."""
    if grid is None:
        return [GridPass({}, [(usual, {})])]
    passes: list[GridPass] = []
    for settings in _listed(grid):
        lane = replace(usual, **{n: v for n, v in settings.items() if n in LANE_SETTINGS})
        _check_lane(lane)
        arguments = {n: v for n, v in settings.items() if n not in LANE_SETTINGS}
        for one in passes:
            if one.arguments == arguments and (splits_together or one.splits == [lane.split]):
                break
        else:
            one = GridPass(arguments, [])
            passes.append(one)
        one.settings.append((lane, settings))
    return passes


def _listed(grid: Grid) -> list[dict[str, Any]]:
    """Return the settings of a grid one by one."""
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise InputError(
                    f"Expected a list of values for {name}, at least one; found {shown(values)}."
                )
        listed = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    elif isinstance(grid, str) or not isinstance(grid, Sequence):
        raise InputError(f"Expected {_GRID_FORMS}; found {shown(grid)}.")
    else:
        for one in grid:
            if not isinstance(one, Mapping):
                raise InputError(f"Expected {_GRID_FORMS}; found {shown(one)} in the list.")
        listed = [dict(settings) for settings in grid]
    if not grid or any(listed.count(settings) > 1 for settings in listed):
        raise InputError(f"Expected different settings in the grid, at least one; found {grid}.")
    return listed


def expect_arguments(make_model: Callable[..., torch.nn.Module], passes: list[GridPass]) -> None:
    """Refuse names that are neither settings nor arguments of the function that makes models."""
    asked = [name for one in passes for name in one.arguments]
    try:
        known = inspect.signature(make_model).parameters.values()
    except (TypeError, ValueError):  # no function, which is told later; or one of C
        return
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known):
        return
    named = {p.name for p in known if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    unknown = [name for name in asked if name not in named]
    if unknown:
        raise InputError(
            f"Expected names of settings in the grid ({', '.join(LANE_SETTINGS)}), or arguments "
            f"of the function that makes the model ({', '.join(sorted(named)) or 'it has none'}); "
            f"found {shown(unknown[0])}."
        )


def _check_lane(lane: LaneSettings) -> None:
    checked_rate(lane.lr, "lr")
    checked_rate(lane.weight_decay, "weight_decay")
    for name, value in (("dropout", lane.dropout), ("label_smoothing", lane.label_smoothing)):
        if value is not None and checked_rate(value, name) >= 1:
            raise InputError(f"Expected {name} from 0 to below 1 in the grid; found {value}.")


def seeds_that_fit(
    make_trainer: Callable[[Sequence[Any]], Any],
    seeds: Sequence[Any],
    device: torch.device,
) -> int:
    """Number of seeds that can be trained at once in the free memory of a CUDA device.

    One epoch of one seed and one epoch of two are run and thrown away; their difference is the
    memory that each further seed needs.
    """
    if len(seeds) < 3:
        return len(seeds)
    torch.cuda.empty_cache()
    one, two = (_peak(make_trainer, seeds[:count], device) for count in (1, 2))
    free, _ = torch.cuda.mem_get_info(device)
    each = max(two - one, 1)
    shared = max(one - each, 0)
    room = int((_SHARE_OF_FREE_MEMORY * free / _PEAKS_PER_PASS - shared) // each)
    if room < 1:
        raise InputError(
            f"Expected room for one seed, about {one * _PEAKS_PER_PASS / 2**30:.1f} GiB; found "
            f"{free / 2**30:.1f} GiB free on {device}. Free memory, or use a smaller model."
        )
    return min(room, len(seeds))


def _peak(
    make_trainer: Callable[[Sequence[Any]], Any],
    seeds: Sequence[Any],
    device: torch.device,
) -> int:
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    trainer = make_trainer(seeds)
    trainer.run_epoch()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    del trainer
    torch.cuda.empty_cache()
    return peak


def seed_blocks(
    seeds: tuple[int, ...],
    device: torch.device,
    at_once: int | None = None,
    lanes: int = CPU_LANES,
) -> list[tuple[int, ...]]:
    """Group the seeds into blocks that are trained together.

    On CPU a seed always trains in the same lane of the same block, whether its neighbours were
    asked for or not: of four for models that are made to be stacked, else of one. Vectorised
    kernels round the last elements of an array differently from the others, so only this makes a
    seed's numbers the same to the bit. More lanes would be faster for many seeds, fewer for one:
    docs/decisions.md has the figures. Elsewhere all seeds form one block, or several of nearly
    equal size.
    """
    if device.type == "cpu":
        starts = sorted({seed - seed % lanes for seed in seeds})
        return [tuple(range(start, start + lanes)) for start in starts]
    passes = -(-len(seeds) // min(at_once or len(seeds), len(seeds)))
    ends = [len(seeds) * number // passes for number in range(passes + 1)]
    return [seeds[start:end] for start, end in pairwise(ends)]


def lane_blocks(
    lanes: Sequence[Lane],
    device: torch.device,
    at_once: int | None,
    width: int,
    sizes: Mapping[int | None, tuple[int, ...]],
) -> list[list[Lane]]:
    """Group lanes into blocks like their seeds; on CPU all of a block have the same settings, and
    elsewhere splits with as many nodes in each part."""
    alike: dict[Any, list[Lane]] = {}
    for lane in lanes:
        own = repr(lane.chosen) if device.type == "cpu" else sizes[lane.trained.split]
        alike.setdefault(own, []).append(lane)
    if device.type != "cpu":
        return [
            [group[place] for place in block]
            for group in alike.values()
            for block in seed_blocks(tuple(range(len(group))), device, at_once)
        ]
    return [
        [group[0]._replace(seed=seed) for seed in block]
        for group in alike.values()
        for block in seed_blocks(tuple(lane.seed for lane in group), device, None, width)
    ]
