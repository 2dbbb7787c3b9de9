"""Hyper-parameter search on validation nodes: trials one after another, each on record."""

from __future__ import annotations

import copy
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import optuna
import torch
from optuna.trial import FrozenTrial, TrialState
from torch_geometric.data import Data

from drgcn._io import LockedError, lock
from drgcn.errors import DrgcnError, InputError
from drgcn.studies.experiment import Experiment, with_settings
from drgcn.studies.records import RunRecord
from drgcn.studies.run import run
from drgcn.studies.tuning.space import SettingRange
from drgcn.training import Progress

SAMPLER: Final = "optuna TPESampler, seeded anew for every trial"
SUFFIX: Final = "without test"
_FIELDS = frozenset(field.name for field in fields(Experiment))
_QUESTION = "question"  # attribute of a study that holds what decides its trials


class Search:
    """Search for the settings of one experiment with the highest mean validation accuracy.

    The first trial is the experiment as it is, if its settings lie in the space; the rest are
    drawn. Every trial trains the same seeds, so that settings are compared and not luck. Labels of
    test nodes are not there during the search, see :func:`without_test`.

    Args:
        experiment: The untuned experiment.
        data: The graph it is run on, from :func:`drgcn.load`.
        space: Ranges of the settings.
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
        """Finished trials, in order."""
        return self._log.trials

    def step(self, progress: Callable[[Progress], None] | None = None) -> None:
        """Train one more trial, or the rest of one that was cut off."""
        settings = self._next_settings()
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                # Validation nodes are there in place of test nodes, see :func:`without_test`.
                warnings.filterwarnings("ignore", ".*data.val_mask and data.test_mask")
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
        """Return the trial with the highest mean validation accuracy, the earliest of equals.

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
        """Return the experiment with the best settings."""
        return with_settings(self.experiment, self.best(first).params)

    def spent(self, first: int | None = None) -> tuple[int, float]:
        """Return epochs, of all seeds together, and seconds that the trials were trained for.

        They are read from records, so that time before a kill counts. Trials with the same
        settings are trained once.
        """
        trials = self.trials[:first]
        content_hash = self._data.dataset.content_hash
        wanted = {self._trial(trial.params).identity(content_hash) for trial in trials}
        epochs, seconds = 0, sum(trial.user_attrs.get("seconds", 0.0) for trial in trials)
        for record in RunRecord.read_folder(self.folder).values():
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


@dataclass(frozen=True)
class SearchProgress:
    """Progress of the searches.

    Attributes:
        row: The experiment whose turn it is.
        done: Finished trials of all searches.
        in_all: How many there are to be.
        share: How much of the present trial is done, between 0 and 1.
        best: The highest mean validation accuracy of this search so far.
        finished: Whether a trial has just been finished.
    """

    row: str
    done: int
    in_all: int
    share: float
    best: float | None
    finished: bool


def run_searches(
    searches: Sequence[Search],
    trials: int,
    *,
    timeout: float | None = None,
    progress: Callable[[SearchProgress], None] | None = None,
) -> int:
    """Run trials until each search has as many as asked for; those of earlier calls count.

    Searches take turns, so that all have had as many trials when time is up.

    Args:
        searches: The searches.
        trials: Trials of each.
        timeout: Seconds after which no further round of trials is begun, counted over all calls;
            there is always one round.
        progress: Called a few times a second, and after every trial.

    Returns:
        How many trials each search has had in the end: fewer than asked for if time was up.
    """
    for search in searches:
        if len(search.trials) > trials:
            raise InputError(
                f"Expected --trials {len(search.trials)} or more: as many were spent on "
                f"{search.experiment.label} already. To spend fewer, choose another --out."
            )
    started = time.perf_counter()
    earlier = sum(search.spent()[1] for search in searches) if timeout is not None else 0.0
    for number in range(trials):
        waiting = [search for search in searches if len(search.trials) <= number]
        late = timeout is not None and earlier + time.perf_counter() - started >= timeout
        if waiting and late and number > 0:
            return number
        for search in waiting:
            show = (
                None if progress is None else _shown_progress(searches, search, trials, progress)
            )
            search.step(show)
            if show is not None:
                show(None)
    return trials


def _shown_progress(
    searches: Sequence[Search],
    search: Search,
    trials: int,
    progress: Callable[[SearchProgress], None],
) -> Callable[[Progress | None], None]:
    done = sum(len(one.trials) for one in searches)
    values = [trial.value for trial in search.trials if trial.value is not None]

    def show(now: Progress | None) -> None:
        best = max(values, default=None)
        if now is None:
            last = search.trials[-1].value
            best = max([*values, last] if last is not None else values, default=None)
        progress(
            SearchProgress(
                row=search.experiment.label,
                done=done + (now is None),
                in_all=trials * len(searches),
                share=0.0 if now is None else now.epochs_done / now.epochs_in_all,
                best=best,
                finished=now is None,
            )
        )

    return show


def without_test(data: Data) -> Data:
    """Return a graph whose labels outside training and validation are hidden.

    The validation nodes take the place of the test nodes.

    Training and validation are what they were, to the last digit: features and edges of all nodes
    stay. What a record of it calls test accuracy is the validation accuracy again, and its split
    is called "... without test"; its content hash is another, so that no record made on it is ever
    taken for one of the dataset itself.

    Args:
        data: A graph from :func:`drgcn.load`.
    """
    hidden = copy.copy(data)
    hidden.y = data.y.clone()
    hidden.y[~(data.train_mask | data.val_mask)] = -1
    hidden.test_mask = data.val_mask.clone()
    info = data.dataset
    missing = hidden.y < 0 if hidden.y.dim() == 1 else (hidden.y < 0).any(dim=1)
    hidden.dataset = replace(
        info,
        split=f"{info.split} {SUFFIX}",
        test=info.val,
        unlabelled=int(missing.sum()),
        content_hash=hashlib.sha256(f"{info.content_hash} {SUFFIX}".encode()).hexdigest()[:16],
    )
    return hidden


class TrialLog:
    """An optuna study in an SQLite file, to which only finished trials are added.

    A trial that is cut off leaves nothing here: the same one is drawn again, and goes on from its
    own checkpoint or record. Any tool for optuna's studies can open the file.

    Args:
        path: The file.
        name: Name of the study, for a file may hold several.
        question: Everything that decides the trials. A study of the same name with another
            question is refused.
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
        """Trials so far, in order."""
        return self._study.get_trials(deepcopy=False)

    def add(
        self,
        settings: Mapping[str, Any],
        space: Sequence[SettingRange],
        val_accuracy: Sequence[float],
    ) -> None:
        """Add a trial that was trained, with the validation accuracy of each seed."""
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
        """Add a trial that could not be trained. It counts: time was spent on it."""
        self._study.add_trial(
            optuna.create_trial(
                state=TrialState.FAIL,
                params=dict(settings),
                distributions={one.name: one.distribution() for one in space},
                user_attrs={"reason": reason, "seconds": round(seconds, 3)},
            )
        )


def draw(
    before: Sequence[optuna.trial.FrozenTrial], space: Sequence[SettingRange], seed: int
) -> dict[str, Any]:
    """Draw the settings of one more trial.

    They depend on the seed, the number of trials before and their validation accuracies, and on
    nothing else: a sampler that lives through a search would have a state that a killed process
    takes with it.

    Args:
        before: The finished trials, in order.
        space: Ranges of the settings.
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


def settings_inside(
    experiment: Experiment, space: Sequence[SettingRange]
) -> dict[str, Any] | None:
    """Return the settings that an experiment has already, if the search could draw them."""
    found: dict[str, Any] = {}
    for one in space:
        known = experiment.to_dict() if one.name in _FIELDS else experiment.options
        if one.name not in known or not one.contains(known[one.name]):
            return None
        found[one.name] = known[one.name]
    return found


def corners(experiment: Experiment, space: Sequence[SettingRange]) -> Iterator[Experiment]:
    """Yield the experiment with each setting at its ends, one at a time, to check a space."""
    for one in space:
        for value in one.ends:
            yield with_settings(experiment, {one.name: value})


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a folder against other searches."""
    try:
        with lock(folder / ".lock", patience=0):
            yield
    except LockedError:
        raise InputError(
            f"Expected {folder} to be free; another search is running in it. Wait for it, or "
            f"choose another --out."
        ) from None
