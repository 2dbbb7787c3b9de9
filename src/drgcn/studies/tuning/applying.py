"""An experiment with other settings, and the settings of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from drgcn.studies.experiment import Experiment
from drgcn.studies.tuning.setting_range import SettingRange

_FIELDS = frozenset(field.name for field in fields(Experiment))


def with_settings(experiment: Experiment, settings: Mapping[str, Any]) -> Experiment:
    """The experiment with some settings changed; what is no setting of it goes to the model."""
    own = {name: value for name, value in settings.items() if name in _FIELDS}
    options = {name: value for name, value in settings.items() if name not in _FIELDS}
    return replace(experiment, **own, options={**experiment.options, **options})


def settings_inside(
    experiment: Experiment, space: Sequence[SettingRange]
) -> dict[str, Any] | None:
    """The settings that an experiment has already, if the search could draw them."""
    found: dict[str, Any] = {}
    for one in space:
        known = experiment.to_dict() if one.name in _FIELDS else experiment.options
        if one.name not in known or not one.contains(known[one.name]):
            return None
        found[one.name] = known[one.name]
    return found


def corners(experiment: Experiment, space: Sequence[SettingRange]) -> Iterator[Experiment]:
    """The experiment with each setting at its ends, one at a time: to be tried before a search."""
    for one in space:
        for value in one.ends:
            yield with_settings(experiment, {one.name: value})
