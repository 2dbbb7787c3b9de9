from drgcn.studies.reproduce.jobs import Job
from drgcn.studies.reproduce.processes import JobQueue

from .small_plan import experiment


def jobs(number):
    return [Job(experiment(epochs=n + 1), None, (0,)) for n in range(number)]


def test_first_those_given_then_the_busy_then_the_unlucky_alone():
    a, b, c = jobs(3)
    queue = JobQueue([a, b, c])
    first = queue.next([])
    second = queue.next([first])
    assert (first.job, second.job) == (a, b)
    assert first.patience == 0
    queue.try_again(first)
    queue.put_back(second)
    third = queue.next([])
    assert third.job == c
    waiting = queue.next([third])
    assert waiting.job == b
    assert waiting.patience > 0
    assert queue.next([third]) is None
    assert len(queue) == 1
    last = queue.next([])
    assert (last.job, last.attempt, last.alone) == (a, 2, True)
    assert not queue
    queue.put_back(waiting)
    assert queue.next([last]) is None


def test_an_unlucky_job_that_is_busy_stays_alone():
    (a,) = jobs(1)
    queue = JobQueue([a])
    queue.try_again(queue.next([]))
    queue.put_back(queue.next([]))
    turn = queue.next([])
    assert (turn.attempt, turn.alone) == (2, True)
