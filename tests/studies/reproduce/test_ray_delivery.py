import pytest

from drgcn.errors import InputError
from drgcn.studies.records import load_records
from drgcn.studies.reproduce.ray import deliver

from .small_plan import without_times


def test_a_record_arrives_as_it_was_sent_and_only_once(make_record, tmp_path):
    record = make_record([0.8, 0.9])
    path = deliver(record.dumps(), tmp_path)
    assert path == tmp_path / record.file_name
    assert path.read_text() == record.dumps()
    assert deliver(record.dumps(), tmp_path) is None
    assert list(tmp_path.glob("*.json")) == [path]


def test_only_seeds_that_no_record_has_are_added(make_record, tmp_path):
    first, more = make_record([0.8, 0.9], first_seed=1), make_record([0.1, 0.1, 0.1, 0.1])
    deliver(first.dumps(), tmp_path)
    deliver(more.dumps(), tmp_path)
    found = {seed: facts[-1].test_accuracy for (_, seed), facts in without_times(tmp_path).items()}
    assert found == {0: 0.1, 1: 0.8, 2: 0.9, 3: 0.1}


def test_a_damaged_file_of_the_same_name_is_left_alone(make_record, tmp_path):
    record = make_record([0.8])
    (tmp_path / record.file_name).write_text("half")
    with pytest.warns(match="damaged"):
        path = deliver(record.dumps(), tmp_path)
    assert path.name.endswith("-2.json")
    assert (tmp_path / record.file_name).read_text() == "half"


def test_what_is_no_record_is_refused(tmp_path):
    with pytest.raises(InputError, match="Expected a run record; what a node sent is none"):
        deliver("{}", tmp_path)
    assert load_records(tmp_path) == []
