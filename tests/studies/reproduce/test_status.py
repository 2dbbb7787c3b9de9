"""Jobs of a plan: done, to do, lacking data; and their costs."""

import json
from dataclasses import replace

import pytest

from drgcn.data import load
from drgcn.errors import InputError
from drgcn.studies.records import load_records
from drgcn.studies.reproduce.backend import run_job
from drgcn.studies.reproduce.jobs import Failure, Job, SuiteRecord
from drgcn.studies.reproduce.status import CostEstimate, plan_status, results_of

from .small_plan import experiment


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """Records of seeds 0 and 2 of one experiment."""
    out = tmp_path_factory.mktemp("some")
    run_job(Job(experiment(epochs=3), "standard", (0, 2)), out)
    return load_records(out)


def test_seeds_on_record_are_counted_and_not_missing(some):
    job = Job(experiment(epochs=3), "standard", (0, 1, 2, 3))
    status = plan_status([job], some)
    (planned,) = status.todo
    assert planned.missing == (1, 3)
    assert (status.recorded_seeds, status.missing_seeds) == (2, 2)
    whole = plan_status([replace(job, seeds=(0, 2))], some)
    assert (whole.todo, len(whole.done)) == ((), 1)


def test_records_of_another_setting_scaling_or_content_do_not_count(some):
    job = Job(experiment(epochs=3), "standard", (0,))
    assert not plan_status([job], some).todo
    for other in (
        replace(job, experiment=experiment(epochs=4)),
        replace(job, experiment=experiment(epochs=3, options={"bias": True})),
        replace(job, normalize="row"),
    ):
        assert plan_status([other], some).todo[0].missing == (0,)
    changed = [replace(r, data={**r.data, "content_hash": "other"}) for r in some]
    assert plan_status([job], changed).todo[0].missing == (0,)


def test_results_are_those_of_the_very_experiment_data_and_seeds(some):
    job = Job(experiment(epochs=3), "standard", (0, 1))
    changed = [replace(r, data={**r.data, "content_hash": "other"}) for r in some]
    status = plan_status([job], some)
    row = (some[0], {0: some[0].seeds[0]})
    assert results_of(status.todo, [*changed, *some]) == {job.key: row}
    assert results_of(status.todo, changed) == {}


def test_data_that_is_not_at_hand_is_named_with_the_way_to_get_it(tmp_path):
    jobs = [Job(experiment("wine"), None, (0,))]
    jobs += [Job(replace(experiment("reddit"), split="full"), "row", (0,))]
    status = plan_status(jobs, [], data_root=tmp_path, offline=True)
    assert [p.job for p in status.todo] == jobs[:1]
    assert [p.job for p in status.lacking_data] == jobs[1:]
    assert "https://github.com/GraphSAINT" in status.reasons["reddit"]
    assert status.missing_seeds == 1


def test_other_trouble_with_data_is_left_to_the_job():
    job = Job(replace(experiment(), split="odd"), None, (0, 1))
    (planned,) = plan_status([job], []).todo
    assert (planned.identity, planned.missing) == (None, (0, 1))


def test_the_costly_come_first():
    small, large = experiment("wine", epochs=10), experiment("planted", epochs=10)
    longer = experiment("wine", epochs=1000)
    jobs = [Job(e, None, (0, 1)) for e in (small, large, longer)]
    found = [p.job.experiment for p in plan_status(jobs, []).todo]
    facts = {e.dataset: load(e.dataset).dataset for e in (small, large)}
    sizes = {name: info.nodes + info.edges for name, info in facts.items()}
    assert found == sorted((small, large, longer), key=lambda e: -e.epochs * sizes[e.dataset])


def test_a_cost_is_what_the_nearest_records_say(make_record):
    known = make_record([0.8] * 4, epochs=100)  # 1.25 seconds for four seeds
    costs = CostEstimate([known])
    assert costs.of(known.experiment, 0, 20) == pytest.approx(20 * 1.25 / 4)
    size = 2708 + 5278
    twice = replace(known.experiment, epochs=200)
    assert costs.of(twice, size, 4) == pytest.approx(2 * 1.25)
    elsewhere = replace(known.experiment, dataset="pubmed")
    assert costs.of(elsewhere, 3 * size, 4) == pytest.approx(3 * 1.25)
    other_model = replace(elsewhere, model="gat")
    assert costs.of(other_model, size, 4) == pytest.approx(1.25)
    assert CostEstimate([]).of(twice, 10, 3) == 3 * 200 * 10


SUITE = SuiteRecord(
    *("2026-01-02T03:04:05+00:00", "finished", ["main"], {"row": ["GCN"]}, False, 2, 1, 3.5, 6.0),
    *(4, 1, 2, 20, 0, {"torch": "2"}),
)
FAILURE = Failure("cora", {}, None, [0, 1], "lost", "", 2, "today", {})


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"ending": "well"}, "has 'well' as ending"),
        ({"workers": True}, "has True as workers"),
        ({"job_seconds": -1.0}, "it has -1.0 as job_seconds"),
        ({"started": "soon"}, "soon"),
        ({"own": 1}, "unknown own"),
        ({"attempts": "2"}, "has '2' as attempts"),
        ({"seeds": ["0"]}, "as seeds"),
    ],
)
def test_suites_and_failures_are_checked_by_digest_and_by_values(tmp_path, facts, words):
    failure = {"attempts", "seeds"} & facts.keys()
    saved = FAILURE.save(tmp_path / "f.json") if failure else SUITE.save(tmp_path)
    read = Failure.read if failure else SuiteRecord.read
    assert read(saved) == (FAILURE if failure else SUITE)
    changed = json.loads(saved.read_text()) | facts
    saved.write_text(json.dumps(changed))
    with pytest.raises(InputError, match="was changed since"):
        read(saved)
    del changed["sha256"]  # as files were before there were digests
    saved.write_text(json.dumps(changed))
    with pytest.raises(InputError, match=words):
        read(saved)
