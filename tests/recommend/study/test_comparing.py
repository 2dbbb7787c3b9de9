import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from drgcn.errors import DrgcnWarning, InputError
from drgcn.recommend.study import compare, read_records
from drgcn.recommend.study.run import RUNNING, SEARCH_SEED
from drgcn.recommend.study.settings import file_name, identity

from .small import SMALL, settled, timed


def files(folder):
    return sorted(path.name for path in folder.glob("*.json"))


def facts(folder):
    return {record.file_name: settled(record) for record in read_records(folder)}


@pytest.mark.slow
def test_at_once_or_in_two_goes(tmp_path):
    data = timed()
    compare(data, SMALL, tmp_path / "a", gates=("none", "dr"), seeds=(0, 1))
    compare(data, SMALL, tmp_path / "b", gates=("dr",), seeds=(1,))
    compare(data, SMALL, tmp_path / "b", gates=("none", "dr"), seeds=(0, 1))
    assert len(facts(tmp_path / "a")) == 4
    assert facts(tmp_path / "a") == facts(tmp_path / "b")


@pytest.mark.slow
def test_side_by_side_or_one_after_the_other(tmp_path):
    options = {"gates": ("none", "dr"), "seeds": (0, 1), "search_lr": (0.01, 0.05)}
    found = compare(timed(), SMALL, tmp_path / "a", **options)
    beside = compare(timed(), SMALL, tmp_path / "b", jobs=3, load=timed, **options)
    assert [one.file_name for one in found] == [one.file_name for one in beside]
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert facts(tmp_path / "a") == facts(tmp_path / "b")
    assert {one.environment["jobs_on_device"] for one in beside} == {3}


def broken():
    """Clicks whose process is gone before it has read them."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_dies_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="Give fewer --jobs"):
        compare(timed(), SMALL, tmp_path, gates=("none",), seeds=(0,), jobs=2, load=broken)


def test_what_is_on_record_is_not_run_again(tmp_path):
    told = []

    def begin(settings, record):
        told.append((settings.gate, settings.seed, record is not None))

    options = {"gates": ("none", "static"), "begin": begin}
    compare(timed(), SMALL, tmp_path, seeds=(0,), **options)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.json")}
    told.clear()
    found = compare(timed(), SMALL, tmp_path, seeds=(0, 1), **options)
    assert told == [
        *(("none", 0, True), ("static", 0, True)),
        *(("none", 1, False), ("static", 1, False)),
    ]
    assert all(path.read_bytes() == text for path, text in before.items())
    assert [(r.settings.gate, r.settings.seed) for r in found] == [row[:2] for row in told]
    assert not list((tmp_path / RUNNING).iterdir())


@pytest.mark.parametrize("change", [{"lr": 0.02}, {"patience": 2}, {"protocol": "refit"}])
def test_other_settings_or_data_are_other_runs(change):
    assert identity(SMALL, "a") != identity(replace(SMALL, **change), "a")
    assert identity(SMALL, "a") != identity(SMALL, "b")
    assert identity(SMALL, "a") != identity(SMALL, "a", "search")


@pytest.mark.parametrize("protocol", ["kept", "refit"])
def test_interrupted_runs_go_on_and_come_to_the_same(tmp_path, protocol):
    settings, seen = replace(SMALL, protocol=protocol, gate="dr"), []

    def begin(one, record):
        def look(step, loss, recall):
            seen.append(step)
            if len(seen) == 3:
                raise KeyboardInterrupt

        return look

    options = {"gates": ("dr",), "seeds": (0,), "checkpoint_every": 0.0, "begin": begin}
    with pytest.raises(KeyboardInterrupt):
        compare(timed(), settings, tmp_path / "cut", **options)
    assert files(tmp_path / "cut") == []
    compare(timed(), settings, tmp_path / "cut", **options)
    assert seen[3] == seen[2]  # the second look was saved, the third was not
    compare(timed(), settings, tmp_path / "whole", gates=("dr",), seeds=(0,))
    assert facts(tmp_path / "cut") == facts(tmp_path / "whole")


_CHILD = """
import sys, time
sys.path.insert(0, sys.argv[2])
import torch
torch.set_num_threads(1)
from dataclasses import replace
from pathlib import Path
from drgcn.recommend.study import compare
from tests.recommend.study.small import SMALL, timed

def begin(settings, record):
    return lambda step, loss, recall: time.sleep(float(sys.argv[3]))

compare(timed(), replace(SMALL, protocol=sys.argv[4]), Path(sys.argv[1]), gates=("none", "dr"),
        seeds=(0,), checkpoint_every=0.0, begin=begin)
"""


def child(out, sleep, protocol):
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 3))
    arguments = [str(out), root, str(sleep), protocol]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", _CHILD, *arguments], env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["kept", "refit"])
def test_killed_runs_go_on_and_come_to_the_same(tmp_path, protocol):
    settings = replace(SMALL, protocol=protocol)
    out, data = tmp_path / "killed", timed()
    folder = out / RUNNING / identity(replace(settings, gate="dr"), data.content_hash)[:16]
    process = child(out, 0.3, protocol)
    for _ in range(600):  # until the second run, with Dr, is under way
        if (folder / "choice.safetensors").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert len(files(out)) == 1  # the first is whole, the second is not there
    assert child(out, 0.0, protocol).wait() == 0
    compare(data, settings, tmp_path / "whole", gates=("none", "dr"), seeds=(0,))
    assert facts(out) == facts(tmp_path / "whole")
    assert not folder.exists()


def test_a_search_looks_at_validation_of_the_plain_model_alone(tmp_path):
    rates = (1e-5, 0.01)
    found = compare(
        timed(), SMALL, tmp_path, gates=("dr",), seeds=(0,), search_lr=rates, environment={}
    )
    tried = read_records(tmp_path, "search")
    assert {record.settings.lr for record in tried} == set(rates)
    for record in tried:
        assert record.settings.gate == "none"
        assert record.settings.seed == SEARCH_SEED
        assert record.test == {}
        assert record.user_recall == ""
    best = max(tried, key=lambda record: record.choice["best_recall"])
    assert [record.settings.lr for record in found] == [best.settings.lr] == [0.01]
    assert len(read_records(tmp_path)) == 1


def test_a_damaged_record_is_named_and_left_out(tmp_path):
    data = timed()
    compare(data, SMALL, tmp_path, gates=("none",), seeds=(0, 1))
    name = file_name(SMALL, data.name, identity(SMALL, data.content_hash))
    path = tmp_path / name
    path.write_text(path.read_text()[:200])
    with pytest.warns(DrgcnWarning, match=name):
        assert len(read_records(tmp_path)) == 1
    with pytest.raises(InputError, match="Remove or repair"):
        compare(data, SMALL, tmp_path, gates=("none",), seeds=(0,))


def test_nothing_to_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="at least one gate"):
        compare(timed(), SMALL, tmp_path, gates=())
