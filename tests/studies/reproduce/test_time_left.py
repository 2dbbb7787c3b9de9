import heapq
import random

import pytest

from drgcn._format import duration
from drgcn.studies.reproduce.jobs import Job
from drgcn.studies.reproduce.progress import JobClock, TimeLeft
from drgcn.studies.reproduce.status import CostEstimate, PlannedJob

from .small_plan import experiment


def planned(cost=1.0, **settings):
    return PlannedJob(Job(experiment(**settings), None, (0,)), "a", (0,), cost)


def test_nothing_is_said_before_anything_was_timed():
    gat = [planned(9.0, model="gat", rule="patience", epochs=n) for n in (10, 20)]
    left = TimeLeft(gat)
    assert left.forecast(5.0) is None
    left.moved(gat[0].job.key, 0.0, 0.0)
    for now in range(1, 50):  # a hundredth of the budget every ten seconds: it will stop early
        left.moved(gat[0].job.key, now / 1000, float(now))
        assert left.forecast(now) is None
    left.ended(gat[0].job.key, 50.0)
    assert left.forecast(51.0).words == "about 50 s left"
    left.ended(gat[1].job.key, 50.0)
    assert left.forecast(101.0) is None


def test_jobs_of_a_kind_go_by_cost():
    large, small, half = planned(8.0), planned(2.0, epochs=3), planned(4.0, epochs=4)
    left = TimeLeft([large, small, half])
    left.ended(large.job.key, 40.0)
    assert left.share == pytest.approx(8 / 14)
    assert left.forecast(40.0).seconds == pytest.approx(10.0 + 20.0)
    left.moved(half.job.key, 0.0, 40.0)
    left.moved(small.job.key, 0.0, 40.0)
    assert left.forecast(45.0).seconds == pytest.approx(15.0)  # both at once, five seconds each
    left.moved(half.job.key, None, 46.0)
    left.moved(half.job.key, 0.0, 50.0)
    assert left.forecast(50.0).seconds == pytest.approx(20.0)


def test_a_kind_that_was_not_timed_makes_it_more_than_so_much():
    gcn = [planned(1.0, epochs=n) for n in (10, 20)]
    mlp = planned(1.0, model="mlp")
    left = TimeLeft([*gcn, mlp])
    left.ended(gcn[0].job.key, 30.0)
    assert left.forecast(30.0).words == "more than 30 s left"
    left.ended(mlp.job.key, None)  # failed, or done by another run: nothing was learnt of its kind
    assert left.forecast(30.0).words == "about 30 s left"


def test_a_job_that_outlasts_its_like_is_not_called_done():
    first, second = (planned(1.0, model="gat", rule="patience", epochs=n) for n in (10, 20))
    left = TimeLeft([first, second])
    left.ended(first.job.key, 10.0)
    left.moved(second.job.key, 0.0, 10.0)
    assert left.forecast(18.0).seconds == pytest.approx(2.0)
    assert left.forecast(21.0) is None


def test_epochs_of_a_job_that_uses_all_of_them_are_timed():
    first, second = planned(1.0, epochs=10), planned(3.0, epochs=20)
    left = TimeLeft([first, second])
    left.moved(first.job.key, 0.0, 0.0)
    left.moved(first.job.key, 0.5, 60.0)  # a minute of imports; then on from a checkpoint
    assert left.forecast(60.0) is None
    left.moved(first.job.key, 0.7, 64.0)
    assert left.forecast(64.0).seconds == pytest.approx(0.3 * 20 + 3 * 20)


def test_the_pace_is_taken_between_two_looks():
    clock = JobClock(0.0)
    clock.moved(0.0, 5.0)
    assert clock.pace is None
    clock.moved(0.2, 30.0)
    clock.moved(0.205, 31.0)
    assert (clock.pace, clock.left) == (None, None)
    clock.moved(0.3, 40.0)
    assert clock.pace == pytest.approx(100.0)
    assert clock.left == pytest.approx(70.0)


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_said_of_a_long_plan_comes_true(workers):
    """Models that stop at a tenth of a large budget, and others, on graphs of several sizes.

    Played by the clock of a simulation: what was said is held against what was then left.
    """
    draw, costs = random.Random(7), CostEstimate([])
    kinds = {"gat": ("patience", 10_000, 0.02, 0.1), "gcn": ("best-validation", 800, 0.01, 1.0)}
    plan, takes = [], {}
    for number in range(24):
        model = draw.choice(list(kinds))
        rule, epochs, per_epoch, used = kinds[model]
        size = draw.choice([1, 2, 4])
        settings = experiment(model=model, rule=rule, epochs=epochs, hidden_channels=number + 1)
        job = Job(settings, None, (0,))
        plan.append(PlannedJob(job, "a", (0,), costs.of(settings, size, 1)))
        takes[job.key] = epochs * used * per_epoch * size * draw.uniform(0.9, 1.1)
    plan.sort(key=lambda p: -p.cost)
    left, said, now = TimeLeft(plan), [], 0.0
    waiting, running = [p.job.key for p in plan], []
    while waiting or running:
        while waiting and len(running) < workers:
            key = waiting.pop(0)
            left.moved(key, 0.0, now)
            heapq.heappush(running, (now + takes[key], key))
        now, key = heapq.heappop(running)
        left.ended(key, takes[key])
        said.append((now, left.forecast(now)))
    whole = [(at, f) for at, f in said if f is not None and f.whole]
    assert len(whole) >= 8
    for at, forecast in whole:
        assert forecast.seconds == pytest.approx(now - at, rel=0.35, abs=12.0)
    for at, forecast in said:
        assert forecast is None or forecast.seconds <= 1.35 * (now - at) + 12.0


def test_jobs_of_unknown_cost_count_like_any():
    first, second = planned(0.0, epochs=10), planned(0.0, epochs=20)
    left = TimeLeft([first, second])
    left.ended(first.job.key, 3.0)
    assert left.share == 0.5
    assert left.forecast(3.0).seconds == pytest.approx(3.0)
    assert TimeLeft([]).share == 1.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(4.4, "4.4 s"), (100, "1 min 40 s"), (5399, "1 h 29 min"), (7260, "2 h 1 min")],
)
def test_times_are_said_as_people_say_them(seconds, words):
    assert duration(seconds) == words
