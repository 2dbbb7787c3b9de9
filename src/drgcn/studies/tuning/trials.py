"""Trials of a search, and the files that hold them: JSON, or a study of optuna."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from drgcn._io import write_whole
from drgcn.errors import InputError
from drgcn.records import (
    UNSOUND,
    expect_fields,
    expect_object,
    identity_of,
    load_sealed,
    reason_of,
    sealed,
)
from drgcn.studies.records import ERRORS
from drgcn.studies.tuning.space import SettingRange

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_QUESTION = "question"  # attribute of a study that holds what decides its trials
_DIGEST = "sha256"  # attribute of a trial


@dataclass(frozen=True)
class Trial:
    """Settings that were tried.

    Attributes:
        number: Place among the trials of its search.
        settings: The settings.
        epochs: Budget of epochs that they were trained with.
        val_accuracy: Validation accuracy of each seed; empty if they could not be trained.
        reason: Why not.
        seconds: Time that was spent on a trial without a record.
    """

    number: int
    settings: dict[str, Any]
    epochs: int
    val_accuracy: list[float]
    reason: str = ""
    seconds: float = 0.0

    @property
    def value(self) -> float | None:
        """Mean validation accuracy."""
        return sum(self.val_accuracy) / len(self.val_accuracy) if self.val_accuracy else None


class TrialLog(Protocol):
    """Finished trials of a search. One that is cut off leaves nothing here: it is drawn again, and
    goes on from its own checkpoint or record."""

    @property
    def trials(self) -> list[Trial]:
        """Trials so far; of halving, one for each rung."""

    def add(self, trials: Sequence[Trial]) -> None:
        """Add trials."""


class FileLog:
    """Trials in a JSON file, which may hold several searches.

    Args:
        path: The file.
        name: Name of the search.
        question: Everything that decides its trials. A search of the same name with another
            question is refused.
    """

    def __init__(self, path: Path, name: str, question: Mapping[str, Any]) -> None:
        self.path, self.name = path, name
        searches = self._read()
        if name not in searches:
            self._write(searches | {name: {"question": dict(question), "trials": []}})
        else:
            _expect_same(path, name, searches[name]["question"], question)

    @property
    def trials(self) -> list[Trial]:
        """Trials so far; of halving, one for each rung."""
        return [Trial(**facts) for facts in self._read()[self.name]["trials"]]

    def add(self, trials: Sequence[Trial]) -> None:
        """Add trials."""
        searches = self._read()
        searches[self.name]["trials"] += [asdict(trial) for trial in trials]
        self._write(searches)

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        try:
            found = load_sealed(self.path)
            for name, search in found.items():
                expect_object(search["question"], f"the question of {name}")
                for facts in search["trials"]:
                    _check_trial(facts, search["question"])
        except (OSError, *UNSOUND) as error:
            raise _damaged(self.path, error) from None
        return found

    def _write(self, searches: dict[str, Any]) -> None:
        write_whole(self.path, json.dumps(sealed(searches), indent=1, allow_nan=False) + "\n")


def _check_trial(facts: Any, question: Mapping[str, Any]) -> None:
    expect_fields(Trial, facts, "a trial")
    if facts["number"] < 0 or facts["epochs"] < 1 or facts.get("seconds", 0.0) < 0:
        raise ValueError(f"trial {facts['number']} has a negative number, or no epochs")
    if not facts["val_accuracy"] and not facts.get("reason"):
        raise ValueError(f"trial {facts['number']} has no val_accuracy, and no reason for it")
    experiment = question.get("experiment")
    metric = experiment.get("metric") if isinstance(experiment, dict) else None
    # All but errors end at one; R2 alone may lie below zero, and is no part of a question.
    if metric not in ERRORS and max(facts["val_accuracy"], default=0.0) > 1:
        raise ValueError(f"trial {facts['number']} has a val_accuracy above 1")


def _damaged(path: Path, error: Exception) -> InputError:
    reason = reason_of(error)
    return InputError(
        f"Expected {path} to be a study of this program; it cannot be read ({reason}). Remove it, "
        f"or choose another --out."
    )


def _expect_same(
    path: Path, name: str, asked: Mapping[str, Any], question: Mapping[str, Any]
) -> None:
    if asked != question:
        changed = sorted(k for k in {**asked, **question} if asked.get(k) != question.get(k))
        raise InputError(
            f"Expected the search that {path.parent} holds already for {name}; found another "
            f"{', '.join(changed)}. Choose another --out."
        )


def _digest(number: int, trial: FrozenTrial) -> str:
    return identity_of([number, trial.params, trial.value, _told(trial)])


def _told(trial: FrozenTrial) -> dict[str, Any]:
    return {name: value for name, value in trial.user_attrs.items() if name != _DIGEST}


class StudyLog:
    """An optuna study in an SQLite file. Any tool for optuna's studies can open it.

    Args:
        path: The file.
        name: Name of the study, for a file may hold several.
        question: See :class:`FileLog`.
        space: Ranges of the settings.
        epochs: Budget of epochs of every trial.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        question: Mapping[str, Any],
        space: Sequence[SettingRange],
        epochs: int,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.path, self.space, self.epochs = path, tuple(space), epochs
        try:
            self._study = optuna.create_study(
                storage=f"sqlite:///{path.resolve()}",
                study_name=name,
                direction="maximize",
                load_if_exists=True,
            )
            facts = self._study.user_attrs
            asked = facts.get(_QUESTION)
            if _QUESTION in facts:
                expect_object(asked, "its question")
        except Exception as error:  # a damaged file can raise nearly anything
            raise _damaged(path, error) from None
        if asked is None:
            self._study.set_user_attr(_QUESTION, dict(question))
        else:
            _expect_same(path, name, asked, question)

    @property
    def _frozen(self) -> list[FrozenTrial]:
        try:
            found = self._study.get_trials(deepcopy=False)
            for place, trial in enumerate(found):
                if trial.number != place:
                    raise ValueError(f"it has no trial {place}")
                # Earlier versions wrote none, or one without the number.
                digest = _digest(place, trial)
                earlier = identity_of([trial.params, trial.value, _told(trial)])
                if trial.user_attrs.get(_DIGEST, digest) not in (digest, earlier):
                    raise ValueError(f"trial {place} was changed since")
                _check_trial(asdict(self._trial(trial)), self._study.user_attrs[_QUESTION])
        except Exception as error:  # a damaged file can raise nearly anything
            raise _damaged(self.path, error) from None
        return found

    @property
    def trials(self) -> list[Trial]:
        """Trials so far, in order."""
        return [self._trial(trial) for trial in self._frozen]

    def _trial(self, trial: FrozenTrial) -> Trial:
        facts = {"val_accuracy": [], **_told(trial)}
        return Trial(trial.number, trial.params, self.epochs, **facts)

    def add(self, trials: Sequence[Trial]) -> None:
        """Add trials. One that could not be trained counts: time was spent on it."""
        import optuna

        for trial in trials:
            failed = {"reason": trial.reason, "seconds": trial.seconds}
            frozen = optuna.create_trial(
                state=optuna.trial.TrialState["FAIL" if trial.reason else "COMPLETE"],
                value=trial.value,
                params=dict(trial.settings),
                distributions={one.name: one.distribution() for one in self.space},
                user_attrs=failed if trial.reason else {"val_accuracy": trial.val_accuracy},
            )
            frozen.set_user_attr(_DIGEST, _digest(trial.number, frozen))
            self._study.add_trial(frozen)

    def draw(self, seed: int) -> dict[str, Any]:
        """Draw the settings of one more trial.

        They depend on the seed, the number of trials before and their validation accuracies, and
        on nothing else: a sampler that lives through a search would have a state that a killed
        process takes with it.
        """
        import optuna

        before = self._frozen
        own = int(np.random.SeedSequence([seed, len(before)]).generate_state(1)[0])
        study = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=own),
            # Seeds train together in one pass, so there is nothing to cut short.
            pruner=optuna.pruners.NopPruner(),
        )
        study.add_trials(before)
        drawn = study.ask({one.name: one.distribution() for one in self.space}).params
        return {one.name: one.tidy(drawn[one.name]) for one in self.space}
