"""The next settings to try, drawn by TPE from the trials before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import optuna

from drgcn.studies.tuning.setting_range import SettingRange

SAMPLER: Final = "optuna TPESampler, seeded anew for every trial"


def draw(
    before: Sequence[optuna.trial.FrozenTrial], space: Sequence[SettingRange], seed: int
) -> dict[str, Any]:
    """Settings for one more trial.

    They depend on the seed, the number of trials before and their validation accuracies, and on
    nothing else: a sampler that lives through a search would have a state that a killed process
    takes with it.

    Args:
        before: The finished trials, in order.
        space: What may be chosen.
        seed: Seed of the search.
    """
    own = int(np.random.SeedSequence([seed, len(before)]).generate_state(1)[0])
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=own),
        # Seeds train together in one pass, so there is nothing to cut short.
        pruner=optuna.pruners.NopPruner(),
    )
    study.add_trials(before)
    drawn = study.ask({one.name: one.distribution() for one in space}).params
    return {one.name: one.tidy(drawn[one.name]) for one in space}
