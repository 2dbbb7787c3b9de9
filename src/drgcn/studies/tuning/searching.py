"""Runs one search, or several turn by turn on the same budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drgcn.errors import InputError
from drgcn.studies.tuning.search import Search
from drgcn.training import Progress


@dataclass(frozen=True)
class SearchProgress:
    """Where the searches stand.

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
    """Trials until each search has as many as asked for; those of earlier calls count.

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
            show = None if progress is None else _shown(searches, search, trials, progress)
            search.step(show)
            if show is not None:
                show(None)
    return trials


def _shown(
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
