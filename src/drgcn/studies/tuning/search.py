"""Hyper-parameter search on validation nodes: random, by successive halving, or by optuna."""

from __future__ import annotations

import copy
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch_geometric.data import Data

from drgcn._io import LockedError, lock, sweep
from drgcn.errors import DrgcnError, InputError, came_of, was_interrupted
from drgcn.studies.experiment import Experiment, with_settings
from drgcn.studies.records import RunRecord
from drgcn.studies.run import Outcome, run, run_grid
from drgcn.studies.tuning.space import SettingRange, draw_settings
from drgcn.studies.tuning.trials import FileLog, StudyLog, Trial, TrialLog
from drgcn.training import Progress

Strategy = Literal["random", "halving", "tpe"]
SAMPLERS: Final[Mapping[Strategy, str]] = {
    "random": "drawn before the search",
    "halving": "drawn before the search",
    "tpe": "optuna TPESampler, seeded anew for every trial",
}
SUFFIX: Final = "without test"
_FILES: Final[Mapping[Strategy, str]] = {
    "random": "search.json",
    "halving": "search.json",
    "tpe": "study.db",
}
_FIELDS = frozenset(Experiment.__dataclass_fields__)
# Trials of a row that are trained together where time is limited.
_ROUND: Final = 8
# Of so many trials one goes on to the next rung, which is as many times longer.
_RATIO: Final = 3
# Fewest trials of the last rung, and fewest epochs of the first.
_LEAST_TRIALS, _LEAST_EPOCHS = 2, 3


class Search:
    """Search for the settings of one experiment with the highest mean validation accuracy.

    The first trial is the experiment as it is, if its settings lie in the space; the rest are
    drawn. Every trial trains the same seeds, so that settings are compared and not luck. Labels of
    test nodes are not there during the search, see :func:`without_test`.

    Args:
        experiment: The untuned experiment.
        data: The graph it is run on, from :func:`drgcn.load`.
        space: Ranges of the settings.
        out: Folder: ``search.json`` or ``study.db`` holds the trials, ``trials/`` their records
            and checkpoints.
        seeds: Seeds of every trial.
        seed: Seed of the sampler.
        strategy: See :func:`run_searches`.
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
        strategy: Strategy = "random",
        device: torch.device | str = "cpu",
        checkpoint_every: float = 10.0,
    ) -> None:
        self.experiment, self.space, self.seed = experiment, tuple(space), seed
        self.seeds, self.folder, self.strategy = tuple(seeds), out / "trials", strategy
        self._data = without_test(data)
        self._device, self._checkpoint_every = device, checkpoint_every
        question = {
            "experiment": experiment.to_dict(),
            "data": data.dataset.content_hash,
            "space": {one.name: one.to_dict() for one in space},
            "seeds": list(seeds),
            "sampler seed": seed,
        }
        if strategy != "tpe":  # which had no name in its first searches
            question["strategy"] = strategy
        out.mkdir(parents=True, exist_ok=True)
        sweep(out)
        _expect_strategy(out, strategy)
        path = out / _FILES[strategy]
        known = json.loads(json.dumps(question))
        self._log: TrialLog
        if strategy == "tpe":
            self._log = StudyLog(path, experiment.label, known, self.space, experiment.epochs)
        else:
            self._log = FileLog(path, experiment.label, known)

    @property
    def trials(self) -> list[Trial]:
        """Trials so far, in order, each as it was trained for longest."""
        longest: dict[int, Trial] = {}
        for trial in sorted(self._log.trials, key=lambda trial: trial.epochs):
            longest[trial.number] = trial
        return [longest[number] for number in sorted(longest)]

    @property
    def usual(self) -> dict[str, Any] | None:
        """Settings of the untuned experiment, if the search could draw them."""
        return settings_inside(self.experiment, self.space)

    def step(self, progress: Callable[[Progress], None] | None = None) -> None:
        """Draw one more trial from what is known of those before, and train it."""
        assert isinstance(self._log, StudyLog)
        number = len(self._log.trials)
        settings = None if number else self.usual
        if settings is None:
            settings = self._log.draw(self.seed)
        start = time.perf_counter()
        try:
            with _validation_in_place_of_test():
                outcome = run(
                    self._trial(settings, self.experiment.epochs),
                    self._data,
                    self.seeds,
                    self.folder,
                    device=self._device,
                    progress=progress,
                    checkpoint_every=self._checkpoint_every,
                )
        except (DrgcnError, torch.OutOfMemoryError) as error:
            # What the system refused once is no answer about the settings.
            if was_interrupted(error) or came_of(error, OSError):
                raise
            # Some settings do not go together, and some do not fit: that is an answer too.
            reason = str(error).strip().partition("\n")[0]
            outcome = Outcome(self.experiment, {}, (), (), reason=reason)
        seconds = time.perf_counter() - start
        self._log.add([self._tried(number, settings, self.experiment.epochs, outcome, seconds)])

    def train(
        self,
        numbers: Sequence[int],
        epochs: int,
        progress: Callable[[Progress], None] | None = None,
    ) -> list[Trial]:
        """Train trials that are drawn beforehand, those of the same shapes in one pass.

        Args:
            numbers: The trials.
            epochs: Budget of epochs.
            progress: See :func:`drgcn.studies.run.run_grid`.

        Returns:
            The trials, those of earlier calls among them.
        """
        if waiting := self.waiting(numbers, epochs):
            drawn = draw_settings(self.space, max(waiting) + 1, self.seed, self.usual)
            start = time.perf_counter()
            with _validation_in_place_of_test():
                outcomes = run_grid(
                    [self._trial(drawn[number], epochs) for number in waiting],
                    self._data,
                    self.seeds,
                    self.folder,
                    device=self._device,
                    progress=progress,
                    checkpoint_every=self._checkpoint_every,
                )
            each = (time.perf_counter() - start) / len(waiting)
            tried = [
                self._tried(number, drawn[number], epochs, outcome, each)
                for number, outcome in zip(waiting, outcomes, strict=True)
            ]
            self._log.add(tried)
        known = {trial.number: trial for trial in self._log.trials if trial.epochs == epochs}
        return [known[number] for number in numbers]

    def waiting(self, numbers: Sequence[int], epochs: int) -> list[int]:
        """Return the trials that have not been trained for so many epochs."""
        known = {trial.number for trial in self._log.trials if trial.epochs == epochs}
        return [number for number in numbers if number not in known]

    def best(self, first: int | None = None) -> Trial:
        """Return the trial with the highest mean validation accuracy, the earliest of equals.

        Trials that were not trained for all epochs do not count.

        Args:
            first: Look at so many trials only. (default: all)
        """
        trials = self.trials[:first]
        whole = [trial for trial in trials if trial.epochs == self.experiment.epochs]
        done = [trial for trial in whole if trial.value is not None]
        if not done:
            reasons = [trial.reason for trial in trials if trial.reason] or ["there was none"]
            raise InputError(
                f"Expected a trial of {self.experiment.label} that could be trained; found none "
                f"among {len(trials)}. The last one: {reasons[-1]}"
            )
        return max(done, key=lambda trial: (trial.value or 0.0, -trial.number))

    def chosen(self, first: int | None = None) -> Experiment:
        """Return the experiment with the best settings."""
        return with_settings(self.experiment, self.best(first).settings)

    def spent(self, first: int | None = None) -> tuple[int, float]:
        """Return epochs, of all seeds together, and seconds that the trials were trained for.

        They are read from records, so that time before a kill counts. Trials with the same
        settings are trained once.
        """
        counted = {trial.number for trial in self.trials[:first]}
        trials = [trial for trial in self._log.trials if trial.number in counted]
        content_hash = self._data.dataset.content_hash
        wanted = {
            self._trial(trial.settings, trial.epochs).identity(content_hash) for trial in trials
        }
        epochs, seconds = 0, sum(trial.seconds for trial in trials)
        for record in RunRecord.read_all(self.folder):
            if record.identity in wanted:
                epochs += sum(result.epochs for result in record.seeds.values())
                seconds += record.seconds
        return epochs, seconds

    def _tried(
        self,
        number: int,
        settings: dict[str, Any],
        epochs: int,
        outcome: Outcome,
        seconds: float,
    ) -> Trial:
        if outcome.reason:
            return Trial(number, settings, epochs, [], outcome.reason, round(seconds, 3))
        return Trial(
            number, settings, epochs, [outcome.seeds[seed].val_accuracy for seed in self.seeds]
        )

    def _trial(self, settings: dict[str, Any], epochs: int) -> Experiment:
        split = self._data.dataset.split  # says in every table that this was no test
        return replace(with_settings(self.experiment, settings), split=split, epochs=epochs)


def _expect_strategy(out: Path, strategy: Strategy) -> None:
    """Refuse a folder with a search of the other kind."""
    for other, name in (("tpe", "study.db"), ("random", "search.json")):
        if name != _FILES[strategy] and (out / name).exists():
            raise InputError(
                f"Expected a folder without a search of another strategy; found {out / name}. Go "
                f"on with it by --strategy {other}, or choose another --out."
            )


@contextmanager
def _validation_in_place_of_test() -> Iterator[None]:
    """Silence the warning that two parts share nodes, see :func:`without_test`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*data.val_mask and data.test_mask")
        yield


@dataclass(frozen=True)
class SearchProgress:
    """Progress of the searches; a run is a trial, or one rung of it.

    Attributes:
        row: The experiment whose turn it is.
        done: Finished runs of all searches.
        trained: Those of this call.
        in_all: How many there are to be.
        share: How much of the present ones is done, in runs.
        best: The highest mean validation accuracy of this search so far.
        finished: Whether runs have just been finished.
    """

    row: str
    done: int
    trained: int
    in_all: int
    share: float
    best: float | None
    finished: bool


def rungs_of(strategy: Strategy, trials: int, epochs: int) -> list[tuple[int, int]]:
    """Return trials and epochs of each rung of a search; the last has all epochs.

    Args:
        strategy: See :func:`run_searches`; all but ``halving`` have one rung.
        trials: Trials of the first rung.
        epochs: Epochs of the last.
    """
    rungs = 1
    while (
        strategy == "halving"
        and trials // _RATIO**rungs >= _LEAST_TRIALS
        and epochs // _RATIO**rungs >= _LEAST_EPOCHS
    ):
        rungs += 1
    if strategy == "halving" and rungs == 1:
        raise InputError(
            f"Expected at least {_LEAST_TRIALS * _RATIO} trials in the space and "
            f"{_LEAST_EPOCHS * _RATIO} epochs for successive halving; found {trials} and "
            f"{epochs}. Use --strategy random."
        )
    return [
        (trials // _RATIO**rung, epochs // _RATIO ** (rungs - 1 - rung)) for rung in range(rungs)
    ]


def trials_in_space(search: Search, trials: int) -> int:
    """Return how many different trials a search can draw, up to so many."""
    if search.strategy == "tpe":
        return trials
    return len(draw_settings(search.space, trials, search.seed, search.usual))


def run_searches(
    searches: Sequence[Search],
    trials: int,
    *,
    timeout: float | None = None,
    progress: Callable[[SearchProgress], None] | None = None,
) -> int:
    """Run trials until each search has as many as asked for; those of earlier calls count.

    ``random`` searches draw all trials beforehand and train those of the same shapes in one pass.
    ``halving`` does so with a fraction of the epochs; the best third is trained anew with three
    times as many, until few are left that are trained with all. ``tpe`` draws each trial from what
    is known of those before.

    All searches have had as many trials when time is up.

    Args:
        searches: The searches, of one strategy.
        trials: Trials of each.
        timeout: Seconds after which no further round of trials is begun, counted over all calls;
            there is always one round.
        progress: Called a few times a second, and after every trial or pass.

    Returns:
        How many trials each search has had in the end: fewer than asked for if time was up, or if
        the space has no more.
    """
    for search in searches:
        if len(search.trials) > trials:
            raise InputError(
                f"Expected --trials {len(search.trials)} or more: as many were spent on "
                f"{search.experiment.label} already. To spend fewer, choose another --out."
            )
    strategy, epochs = searches[0].strategy, searches[0].experiment.epochs
    trials = trials_in_space(searches[0], trials)
    rungs = rungs_of(strategy, trials, epochs)
    in_all = sum(count for count, _ in rungs) * len(searches)
    watch = _Watch(in_all, progress)
    if strategy == "halving":
        _run_rungs(searches, rungs, watch)
        return trials
    size = 1 if strategy == "tpe" else trials if timeout is None else _ROUND
    started = time.perf_counter()
    earlier = sum(search.spent()[1] for search in searches) if timeout is not None else 0.0
    for start in range(0, trials, size):
        numbers = range(start, min(start + size, trials))
        waiting = [search for search in searches if len(search.trials) <= numbers[-1]]
        late = timeout is not None and earlier + time.perf_counter() - started >= timeout
        if waiting and late and start > 0:
            return start
        for search in searches:
            with watch.over(search, numbers, epochs) as show:
                if strategy != "tpe":
                    search.train(numbers, epochs, show)
                elif search in waiting:
                    search.step(show)
    return trials


def _run_rungs(
    searches: Sequence[Search], rungs: Sequence[tuple[int, int]], watch: _Watch
) -> None:
    """Train rung after rung; of each the best trials go on, the earliest of equals first.

    They are trained anew, and not from where they were: a checkpoint belongs to one set of
    networks and one number of epochs. That costs half as much again at most, and every rung leaves
    ordinary records, from which a search that was cut off goes on.
    """
    numbers: dict[str, Sequence[int]] = {
        search.experiment.label: range(rungs[0][0]) for search in searches
    }
    for count, epochs in rungs:
        for search in searches:
            label = search.experiment.label
            going = numbers[label][:count]
            with watch.over(search, going, epochs) as show:
                found = search.train(going, epochs, show)
            good = [trial for trial in found if trial.value is not None]
            good.sort(key=lambda trial: (-(trial.value or 0.0), trial.number))
            numbers[label] = [trial.number for trial in good]


class _Watch:
    """Reports of what the searches do."""

    def __init__(
        self, in_all: int, progress: Callable[[SearchProgress], None] | None = None
    ) -> None:
        self.in_all, self.progress, self.done, self.trained = in_all, progress, 0, 0

    @contextmanager
    def over(
        self, search: Search, numbers: Sequence[int], epochs: int
    ) -> Iterator[Callable[[Progress], None]]:
        """Report on trials of a search while they are trained, and when they are done."""
        waiting = len(search.waiting(numbers, epochs))
        self.done += len(numbers) - waiting

        def tell(share: float, *, finished: bool = False) -> None:
            if self.progress is None:
                return
            values = [trial.value for trial in search.trials if trial.value is not None]
            counts = (self.done, self.trained, self.in_all)
            best = max(values, default=None)
            self.progress(SearchProgress(search.experiment.label, *counts, share, best, finished))

        yield lambda now: tell(waiting * now.epochs_done / now.epochs_in_all)
        self.done += waiting
        self.trained += waiting
        if waiting:
            tell(0.0, finished=True)


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
