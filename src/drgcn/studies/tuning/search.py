"""A search: trials one after another, each an experiment on record."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from optuna.trial import FrozenTrial, TrialState
from torch_geometric.data import Data

from drgcn.errors import DrgcnError, InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.run_record import records_in
from drgcn.studies.runner import run
from drgcn.studies.tuning.applying import settings_inside, with_settings
from drgcn.studies.tuning.drawing import draw
from drgcn.studies.tuning.hidden_test import without_test
from drgcn.studies.tuning.setting_range import SettingRange
from drgcn.studies.tuning.trial_log import TrialLog
from drgcn.training import Progress


class Search:
    """Looks for the settings of one experiment with the highest mean validation accuracy.

    The first trial is the experiment as it is, if its settings lie in the space; the rest are
    drawn. Every trial trains the same seeds, so that settings are compared and not luck. Labels of
    test nodes are not there during the search, see :func:`without_test`.

    Args:
        experiment: The untuned experiment.
        data: The graph it is run on, from :func:`drgcn.load`.
        space: What may be chosen.
        out: Folder: ``study.db`` holds the trials, ``trials/`` their records and checkpoints.
        seeds: Seeds of every trial.
        seed: Seed of the sampler.
        device: Where to train.
        checkpoint_every: Seconds between checkpoints.
    """

    def __init__(
        self,
        experiment: Experiment,
        data: Data,
        space: Sequence[SettingRange],
        out: Path,
        *,
        seeds: Sequence[int],
        seed: int = 0,
        device: torch.device | str = "cpu",
        checkpoint_every: float = 10.0,
    ) -> None:
        self.experiment, self.space, self.seed = experiment, tuple(space), seed
        self.seeds, self.folder = tuple(seeds), out / "trials"
        self._data = without_test(data)
        self._device, self._checkpoint_every = device, checkpoint_every
        question = {
            "experiment": experiment.to_dict(),
            "data": data.dataset.content_hash,
            "space": {one.name: one.to_dict() for one in space},
            "seeds": list(seeds),
            "sampler seed": seed,
        }
        out.mkdir(parents=True, exist_ok=True)
        self._log = TrialLog(out / "study.db", experiment.label, json.loads(json.dumps(question)))

    @property
    def trials(self) -> list[FrozenTrial]:
        """The finished trials, in order."""
        return self._log.trials

    def step(self, progress: Callable[[Progress], None] | None = None) -> None:
        """One more trial, or the rest of one that was cut off."""
        settings = self._next_settings()
        start = time.perf_counter()
        try:
            outcome = run(
                self._trial(settings),
                self._data,
                self.seeds,
                self.folder,
                device=self._device,
                progress=progress,
                checkpoint_every=self._checkpoint_every,
            )
        except (DrgcnError, torch.OutOfMemoryError) as error:
            # Some settings do not go together, and some do not fit: that is an answer too.
            reason = str(error).strip().partition("\n")[0]
            self._log.add_failure(settings, self.space, reason, time.perf_counter() - start)
            return
        val_accuracy = [outcome.seeds[seed].val_accuracy for seed in self.seeds]
        self._log.add(settings, self.space, val_accuracy)

    def best(self, first: int | None = None) -> FrozenTrial:
        """The trial with the highest mean validation accuracy, the earliest of equals.

        Args:
            first: Look at so many trials only. (default: all)
        """
        trials = self.trials[:first]
        done = [trial for trial in trials if trial.state is TrialState.COMPLETE]
        if not done:
            reason = trials[-1].user_attrs["reason"] if trials else "there was none"
            raise InputError(
                f"Expected a trial of {self.experiment.label} that could be trained; found none "
                f"among {len(trials)}. The last one: {reason}"
            )
        return max(done, key=lambda trial: (trial.value or 0.0, -trial.number))

    def chosen(self, first: int | None = None) -> Experiment:
        """The experiment with the best settings."""
        return with_settings(self.experiment, self.best(first).params)

    def spent(self, first: int | None = None) -> tuple[int, float]:
        """Epochs, of all seeds together, and seconds that the trials were trained for.

        Out of their records, so that time before a kill counts. Trials with the same settings
        are trained once.
        """
        trials = self.trials[:first]
        content_hash = self._data.dataset.content_hash
        wanted = {self._trial(trial.params).identity(content_hash) for trial in trials}
        epochs, seconds = 0, sum(trial.user_attrs.get("seconds", 0.0) for trial in trials)
        for record in records_in(self.folder).values():
            if record.identity in wanted:
                epochs += sum(result.epochs for result in record.seeds.values())
                seconds += record.seconds
        return epochs, seconds

    def _next_settings(self) -> dict[str, Any]:
        before = self.trials
        usual = settings_inside(self.experiment, self.space)
        if not before and usual is not None:
            return usual
        return draw(before, self.space, self.seed)

    def _trial(self, settings: dict[str, Any]) -> Experiment:
        split = self._data.dataset.split  # says in every table that this was no test
        return replace(with_settings(self.experiment, settings), split=split)
