"""The same plan on a Ray cluster of two nodes, also when a process or a node of it dies."""

import multiprocessing
import os
import signal
import time
import warnings
from dataclasses import replace

import pytest

from drgcn.errors import InputError
from drgcn.studies.records import load_records
from drgcn.studies.reproduce import backend
from drgcn.studies.reproduce import ray as ray_module
from drgcn.studies.reproduce.backend import run_suite
from drgcn.studies.reproduce.jobs import Job, failures_in
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.ray import RayRunner, run_on_node, store_record
from drgcn.studies.reproduce.status import plan_status
from drgcn.studies.run import run

from .small_plan import experiment, small_jobs, without_times

ray = pytest.importorskip("ray", reason="needs the extra cluster")
pytestmark = [
    pytest.mark.xdist_group("ray"),
    # Ray leaves sockets and pipes of its processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODE = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 1024**2}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the nodes keep what is their own."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def cluster(home):
    """A head that runs no jobs, and two nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("HOME", str(home))
        patch.delenv("DRGCN_DATA", raising=False)
        made = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
        try:
            for _ in range(2):
                made.add_node(**NODE)
            ray.init(made.address, log_to_driver=False, logging_level="ERROR")
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture(scope="module")
def runner(cluster):
    found = RayRunner.at(cluster.address, device="cpu")
    assert (found.workers, found.threads_each) == (2, 1)
    return found


def leftovers(*folders):
    """Files that should be gone when all is done; folders are kept."""
    hidden = [p for folder in folders for p in folder.rglob("*") if p.is_file()]
    return [p for p in hidden if not p.match("*-seeds-*.json") or p.name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["shared-folder", "folders-apart"])
def test_records_are_the_same_as_without_a_cluster(shared, runner, home, tmp_path, uninterrupted):
    jobs = small_jobs()
    reports = list(replace(runner, shared=shared)(jobs, tmp_path))
    assert [r.error for r in reports] == [None] * len(jobs)
    assert sorted(r.job.key for r in reports) == sorted(job.key for job in jobs)
    assert {r.trained for r in reports} == {jobs[0].seeds}
    assert without_times(tmp_path) == uninterrupted()
    assert leftovers(tmp_path, home / ".cache") == []
    again = list(replace(runner, shared=shared)(jobs[:2], tmp_path))
    assert [(r.error, r.trained) for r in again] == [(None, ())] * 2
    assert without_times(tmp_path) == uninterrupted()


@pytest.mark.slow
def test_only_missing_seeds_are_trained_on_nodes_with_folders_apart(runner, tmp_path):
    some, more = (Job(experiment(epochs=3), None, seeds) for seeds in ((0, 2), (0, 1, 2, 3)))
    apart = replace(runner, shared=False)
    assert [r.trained for r in apart([some], tmp_path)] == [(0, 2)]
    assert [r.trained for r in apart([more], tmp_path)] == [(1, 3)]
    assert sorted(seed for _, seed in without_times(tmp_path)) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_failing_job_is_recorded_and_the_rest_goes_on(runner, tmp_path):
    good = Job(experiment(epochs=2), None, (0,))
    bad = Job(experiment(epochs=2, options={"luck": 1}), None, (0, 1))
    nowhere = Job(experiment("cora", epochs=2), None, (0,))
    status = plan_status([bad, good], [])
    status = replace(status, todo=(*status.todo, replace(status.todo[0], job=nowhere)))
    with ProgressView(status.todo) as view:
        reports, ending = run_suite(status, tmp_path, runner, view=view)
    assert ending == "finished"
    assert len(reports) == 3
    assert len(load_records(tmp_path)) == 1
    failures = {failure.experiment["dataset"]: failure for failure in failures_in(tmp_path)}
    assert failures.keys() == {"wine", "cora"}
    assert "luck" in failures["wine"].error
    assert "run.py" in failures["wine"].traceback
    assert failures["wine"].attempts == 1
    assert "has no files of cora under" in failures["cora"].error
    assert "DRGCN_DATA" in failures["cora"].error


def dying(marker, deaths):
    """A task whose process kills itself in the middle of a job, a number of times in all."""
    # Sent as they are, and not found by name: nodes need not have these tests.
    whole, train, module = run_on_node, run, backend

    def task(remote, report_share):
        def die(now):
            if now.epochs_done * 2 >= now.epochs_in_all:
                for number in range(deaths):
                    try:
                        os.close(os.open(f"{marker}-{number}", os.O_CREAT | os.O_EXCL))
                    except FileExistsError:
                        continue
                    os.kill(os.getpid(), signal.SIGKILL)

        def train_and_die(*args, **kwargs):
            return train(*args, **{**kwargs, "progress": die}, checkpoint_every=0.0)

        module.run = train_and_die
        try:
            return whole(remote, report_share)
        finally:
            module.run = train

    return task


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["shared-folder", "folders-apart"])
def test_a_killed_process_changes_nothing(shared, runner, home, tmp_path, uninterrupted):
    out = tmp_path / "out"
    task = dying(tmp_path / "died", deaths=1)
    reports = list(replace(runner, shared=shared, task=task)(small_jobs(), out))
    assert (tmp_path / "died-0").exists()
    assert [r.error for r in reports] == [None] * len(reports)
    assert sorted(r.attempts for r in reports)[-2:] == [1, 2]
    assert without_times(out) == uninterrupted()
    assert leftovers(out, home / ".cache") == []


@pytest.mark.slow
def test_a_process_that_always_dies_is_a_failure(runner, tmp_path):
    task = dying(tmp_path / "died", deaths=100)
    job = Job(experiment(epochs=2), None, (0,))
    (report,) = replace(runner, task=task)([job], tmp_path)
    assert "killed" in report.error
    assert report.attempts == 4
    assert load_records(tmp_path) == []


@pytest.mark.slow
def test_a_lost_node_changes_nothing(cluster, runner, home, tmp_path, uninterrupted):
    out, marker = tmp_path / "out", tmp_path / "stuck"
    whole = run_on_node

    def sticking(remote, report_share):
        """The first job to come here stays until its node is gone."""
        import ray

        report_share(0.0)
        try:
            with open(marker, "x") as file:
                file.write(ray.get_runtime_context().get_node_id())
        except FileExistsError:
            return whole(remote, report_share)
        time.sleep(600)

    removed = []

    def remove(job, share):
        if marker.exists() and not removed:
            lost = marker.read_text()
            removed.extend(node for node in cluster.worker_nodes if node.node_id == lost)
            cluster.remove_node(removed[0], allow_graceful=False)

    try:
        reports = list(replace(runner, task=sticking)(small_jobs(), out, watch=remove))
    finally:
        if removed:
            cluster.add_node(**NODE)
    assert len(removed) == 1
    assert [r.error for r in reports] == [None] * len(reports)
    assert without_times(out) == uninterrupted()
    assert leftovers(out, home / ".cache") == []


@pytest.mark.slow
def test_a_job_keeps_its_cpu_while_it_notes_its_start(runner, tmp_path, monkeypatch):
    """Three jobs for two CPUs. Ray gives the CPU of a task that waits in ``ray.get`` to the next,
    and lets both run then: so the board is slow to answer here, and nobody may start meanwhile."""
    seen = tmp_path / "seen"
    seen.mkdir()

    def slow_board():
        class Board:
            def __init__(self):
                self.slow = True

            def note(self, key, share):
                end = time.monotonic() + 8.0 * self.slow
                while time.monotonic() < end and len(list(seen.iterdir())) < 3:
                    time.sleep(0.05)
                self.slow = False

            def read(self):
                return {}, {}

        return Board

    def timed(remote, report_share):
        from drgcn.studies.reproduce.jobs import JobReport
        from drgcn.studies.reproduce.ray import RemoteResult

        start = time.time()
        (seen / remote.job.key).touch()
        report_share(0.0)
        return RemoteResult(JobReport(remote.job, notes=(f"{start} {time.time()}",)))

    monkeypatch.setattr(ray_module, "_board_class", slow_board)
    monkeypatch.setattr(ray_module, "_ANSWER", 20.0)
    jobs = [Job(experiment(epochs=n), None, (0,)) for n in (1, 2, 3)]
    notes = [r.notes[0].split() for r in replace(runner, task=timed)(jobs, tmp_path / "out")]
    starts, ends = (sorted(map(float, times)) for times in zip(*notes, strict=True))
    assert starts[2] >= ends[0]
    assert ends[0] - starts[0] > 5.0  # so long the third could have started


@pytest.mark.slow
def test_an_interruption_cancels_what_runs_and_what_waits(runner, tmp_path):
    jobs = [Job(experiment(epochs=100_000 + n), None, (0,)) for n in range(4)]

    def interrupt(job, share):
        raise KeyboardInterrupt

    status = plan_status(jobs, [])
    view = ProgressView(status.todo)
    view.moved = interrupt
    assert run_suite(status, tmp_path, runner, view=view) == ([], "interrupted")
    assert list(tmp_path.rglob("*.partial")) == []
    # Both CPUs are free again: other jobs find room.
    (report,) = runner([Job(experiment(epochs=2), None, (0,))], tmp_path)
    assert report.error is None


def start_driver(address, out):
    """What a second driver does: the small plan, until somebody kills it."""
    for _ in RayRunner.at(address, device="cpu")(small_jobs(), out):
        pass


@pytest.mark.slow
def test_a_killed_driver_leaves_its_records_and_the_next_goes_on(
    cluster, runner, tmp_path, uninterrupted
):
    context = multiprocessing.get_context("spawn")
    driver = context.Process(target=start_driver, args=(cluster.address, tmp_path))
    driver.start()
    while not load_records(tmp_path) and driver.is_alive():
        time.sleep(0.05)
    driver.kill()
    driver.join()
    written = {path: path.read_bytes() for path in tmp_path.glob("*.json")}
    assert written
    list(runner(small_jobs(), tmp_path))
    assert without_times(tmp_path) == uninterrupted()
    assert {path: path.read_bytes() for path in written} == written


def test_another_device_is_refused():
    with pytest.raises(InputError, match="Expected --device cpu, cuda or auto on Ray"):
        RayRunner.at("local", device="mps")


# Records that nodes send


def test_a_record_arrives_as_it_was_sent_and_only_once(make_record, tmp_path):
    record = make_record([0.8, 0.9])
    path = store_record(record.dumps(), tmp_path)
    assert path == tmp_path / record.file_name
    assert path.read_text() == record.sealed()
    assert store_record(record.dumps(), tmp_path) is None
    assert list(tmp_path.glob("*.json")) == [path]


def test_only_seeds_that_no_record_has_are_added(make_record, tmp_path):
    first, more = make_record([0.8, 0.9], first_seed=1), make_record([0.1, 0.1, 0.1, 0.1])
    store_record(first.dumps(), tmp_path)
    store_record(more.dumps(), tmp_path)
    found = {seed: facts[-1].test_accuracy for (_, seed), facts in without_times(tmp_path).items()}
    assert found == {0: 0.1, 1: 0.8, 2: 0.9, 3: 0.1}


def test_a_damaged_file_of_the_same_name_is_left_alone(make_record, tmp_path):
    record = make_record([0.8])
    (tmp_path / record.file_name).write_text("half")
    with pytest.warns(match="damaged"):
        path = store_record(record.dumps(), tmp_path)
    assert path.name.endswith("-2.json")
    assert (tmp_path / record.file_name).read_text() == "half"


def test_what_is_no_record_is_refused(tmp_path):
    with pytest.raises(InputError, match="Expected a run record; what a node sent is none"):
        store_record("{}", tmp_path)
    assert load_records(tmp_path) == []
