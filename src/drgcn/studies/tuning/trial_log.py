"""The finished trials of a search, in a file that a killed process cannot damage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from drgcn.errors import InputError
from drgcn.studies.tuning.setting_range import SettingRange

_QUESTION = "question"


class TrialLog:
    """An optuna study in an SQLite file, to which only finished trials are added.

    A trial that is cut off leaves nothing here: the same one is drawn again, and goes on from its
    own checkpoint or record. Any tool for optuna's studies can open the file.

    Args:
        path: The file.
        name: Name of the study, for a file may hold several.
        question: What decides the trials. A study of the same name that asked something else is
            refused.
    """

    def __init__(self, path: Path, name: str, question: Mapping[str, Any]) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            self._study = optuna.create_study(
                storage=f"sqlite:///{path.resolve()}",
                study_name=name,
                direction="maximize",
                load_if_exists=True,
            )
            asked = self._study.user_attrs.get(_QUESTION)
        except Exception as error:  # a damaged file can raise nearly anything
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise InputError(
                f"Expected {path} to be a study of this program; it cannot be read ({reason}). "
                f"Remove it, or choose another --out."
            ) from None
        if asked is None:
            self._study.set_user_attr(_QUESTION, dict(question))
        elif asked != question:
            changed = sorted(k for k in {**asked, **question} if asked.get(k) != question.get(k))
            raise InputError(
                f"Expected the search that {path.parent} holds already for {name}; found another "
                f"{', '.join(changed)}. Choose another --out."
            )

    @property
    def trials(self) -> list[FrozenTrial]:
        """The trials so far, in order."""
        return self._study.get_trials(deepcopy=False)

    def add(
        self,
        settings: Mapping[str, Any],
        space: Sequence[SettingRange],
        val_accuracy: Sequence[float],
    ) -> None:
        """Adds a trial that was trained, with the validation accuracy of each seed."""
        self._study.add_trial(
            optuna.create_trial(
                value=sum(val_accuracy) / len(val_accuracy),
                params=dict(settings),
                distributions={one.name: one.distribution() for one in space},
                user_attrs={"val_accuracy": list(val_accuracy)},
            )
        )

    def add_failure(
        self,
        settings: Mapping[str, Any],
        space: Sequence[SettingRange],
        reason: str,
        seconds: float,
    ) -> None:
        """Adds a trial that could not be trained. It counts: time was spent on it."""
        self._study.add_trial(
            optuna.create_trial(
                state=TrialState.FAIL,
                params=dict(settings),
                distributions={one.name: one.distribution() for one in space},
                user_attrs={"reason": reason, "seconds": round(seconds, 3)},
            )
        )
