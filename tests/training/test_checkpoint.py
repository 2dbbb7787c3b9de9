import errno
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save

from drgcn.errors import DrgcnWarning, InputError
from drgcn.nn import GCN
from drgcn.training import BestValidation, Patience, StepwiseDecay, clear_checkpoint, fit
from drgcn.training.checkpoint import fingerprint_of, load_checkpoint, save_checkpoint
from drgcn.training.grid import LaneSettings
from drgcn.training.trainer import EpochLoop, Trainer

from .graphs import FEATURES, several


class CutOffError(Exception):
    pass


@pytest.mark.parametrize("rule", [None, Patience(patience=6)])
def test_a_pass_cut_off_goes_on_to_the_same_bits(tiny, tmp_path, rule):
    def make():
        return GCN(tiny.num_features, 8, 4, reweight="dr", norm="batch")

    options = {"epochs": 8, "rule": rule}
    whole = fit(make, tiny, range(6), **options)

    def cut(progress):
        if progress.epochs_done > 11:  # in the second block of seeds
            raise CutOffError

    path = tmp_path / "pass.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drgcn.training.trainer._REPORT_EVERY", -1.0)
        with pytest.raises(CutOffError):
            fit(make, tiny, range(6), progress=cut, checkpoint=path, checkpoint_every=0, **options)
    assert list(tmp_path.iterdir())
    resumed = fit(make, tiny, range(6), checkpoint=path, **options)
    assert resumed.test_accuracy == whole.test_accuracy
    assert resumed.best_epoch == whole.best_epoch
    for name in whole.curves:
        assert all(map(torch.equal, whole.curves[name], resumed.curves[name]))
    clear_checkpoint(path)
    assert list(tmp_path.iterdir()) == []


def test_a_finished_pass_is_kept_until_it_is_cleared(tiny, tmp_path, monkeypatch):
    path = tmp_path / "pass"

    def run():
        return fit(lambda: GCN(24, 8, 4), tiny, [0, 5], epochs=5, checkpoint=path)

    first = run()
    monkeypatch.setattr(Trainer, "run_epoch", lambda self: pytest.fail("trained again"))
    assert run().test_accuracy == first.test_accuracy


def test_saving_replaces_the_old_checkpoint_in_one_step(tmp_path):
    path = tmp_path / "c"
    save_checkpoint(path, {"a": torch.zeros(3)}, 1.0)
    save_checkpoint(path, {"a": torch.ones(3)}, 2.5)
    tensors, seconds = load_checkpoint(path)
    assert tensors["a"].tolist() == [1, 1, 1]
    assert seconds == 2.5
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_checkpoint_cut_off_while_it_is_written_leaves_the_old_one(tmp_path, monkeypatch):
    def cut_off(place, content):
        place.write_bytes(content[:10])
        raise OSError(errno.ENOSPC, "no room")

    path = tmp_path / "c"
    save_checkpoint(path, {"a": torch.zeros(3)}, 1.0)
    monkeypatch.setattr("drgcn._io._write", cut_off)
    with pytest.raises(OSError, match="no room"):
        save_checkpoint(path, {"a": torch.ones(3)}, 2.5)
    assert load_checkpoint(path)[0]["a"].tolist() == [0, 0, 0]
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_checkpoints_of_other_seeds_are_not_mistaken(tmp_path):
    class Stub:
        def __init__(self, seeds):
            self.stack = type("Stack", (), {"seeds": seeds})
            self.lanes = [LaneSettings()] * len(seeds)

    loop = EpochLoop(1, 1, checkpoint=tmp_path / "c")
    assert loop._path(Stub((0, 1, 5))) != loop._path(Stub((0, 2, 5)))


KILLED = """
import sys
from pathlib import Path
from drgcn.data import load
from drgcn.studies.experiment import Experiment
from drgcn.studies.run import run
import torch; torch.set_num_threads(1)
data = load("planted", nodes=240, labels_per_class=8, val_per_class=15)
experiment = Experiment("planted", "random", reweight="dr", hidden_channels=8, epochs=250)
run(experiment, data, range(8), Path(sys.argv[1]), checkpoint_every=0.05)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.slow
def test_a_program_killed_at_any_instant_comes_to_the_same_record(tmp_path):
    def start(folder):
        return subprocess.Popen([sys.executable, "-c", KILLED, str(folder)])

    def results(folder):
        from drgcn.studies.records import load_records

        (record,) = load_records(folder)
        return record.seeds

    killed = tmp_path / "killed"
    process = start(killed)
    deadline = time.monotonic() + 60
    while not list(killed.glob(".checkpoints/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not list(killed.glob("*.json"))
    assert start(killed).wait() == 0
    whole = tmp_path / "whole"
    assert start(whole).wait() == 0
    assert results(killed) == results(whole)


def test_clearing_touches_nothing_but_checkpoints(tiny, tmp_path):
    path = tmp_path / "model"
    for name in ("model.py", "model.best.txt", "model"):
        (tmp_path / name).write_text("mine")
    fit(lambda: GCN(24, 8, 4), tiny, [0], epochs=2, checkpoint=path)
    clear_checkpoint(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "model.best.txt", "model.py"]


def test_a_checkpoint_of_another_run_is_refused(tiny, tmp_path):
    path = tmp_path / "c"
    fit(lambda: GCN(24, 8, 4), tiny, [0], epochs=3, checkpoint=path)
    other = tiny.clone()
    other.y = tiny.y.roll(1)
    for data, options in ((tiny, {"lr": 0.5}), (tiny, {"epochs": 4}), (other, {})):
        with pytest.raises(InputError, match="other data or settings"):
            fit(lambda: GCN(24, 8, 4), data, [0], **({"epochs": 3} | options), checkpoint=path)


@pytest.mark.parametrize("name", ["y", "train_mask", "val_mask", "edge_index", "x"])
def test_the_fingerprint_of_a_run_knows_all_of_its_data(tiny, name):
    other = tiny.clone()
    other[name] = other[name].flip(-1) if name == "edge_index" else other[name].roll(1, 0)
    made = [fingerprint_of((), [data], lambda: torch.nn.Linear(2, 2)) for data in (tiny, other)]
    assert made[0] != made[1]


def test_a_checkpoint_of_a_model_that_only_looks_the_same_is_refused(tiny, tmp_path):
    def run(**options):
        # None of these is printed by the model.
        fit(lambda: GCN(24, 8, 4, **options), tiny, [0], epochs=2, checkpoint=tmp_path / "c")

    run(dropout=0.5)
    run(dropout=0.5)
    for options in ({"dropout": 0.4}, {"dropout": 0.5, "pre_activation": True}):
        with pytest.raises(InputError, match="other data or settings"):
            run(**options)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    data = several()
    usual = {"schedule": StepwiseDecay(40), "graphs_per_step": 2}

    def run(**changes):
        options = usual | changes
        path = tmp_path / "c"
        fit(lambda: GCN(FEATURES, 4, 3), data, [0], epochs=2, checkpoint=path, **options)

    run()
    run()
    for change in (
        {"schedule": StepwiseDecay(1)},
        {"graphs_per_step": 3},
        {"rule": BestValidation(patience=5)},
        {"optimizer": torch.optim.SGD},
    ):
        with pytest.raises(InputError, match="other data or settings"):
            run(**change)


def test_a_damaged_checkpoint_is_started_anew(tiny, tmp_path):
    path = tmp_path / "c"
    first = fit(lambda: GCN(24, 8, 4), tiny, [0], epochs=3, checkpoint=path)
    (saved,) = tmp_path.iterdir()
    saved.write_bytes(saved.read_bytes()[:100])
    with pytest.warns(DrgcnWarning, match="damaged"):
        again = fit(lambda: GCN(24, 8, 4), tiny, [0], epochs=3, checkpoint=path)
    assert again.test_accuracy == first.test_accuracy


def test_no_flipped_bit_of_a_checkpoint_goes_unnoticed(tmp_path):
    path = tmp_path / "c"
    save_checkpoint(path, {"a": torch.arange(3.0), "b": torch.tensor([True])}, 1.5, "run")
    whole = path.read_bytes()
    for place in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.warns(DrgcnWarning, match="damaged"):
            assert load_checkpoint(path, "run") is None, place


@pytest.mark.parametrize("metadata", [None, {"run": ""}, {"run": "", "seconds": "1.0"}])
def test_a_checkpoint_without_its_digest_is_started_anew(tmp_path, metadata):
    path = tmp_path / "c"
    path.write_bytes(save({"a": torch.zeros(2)}, metadata=metadata))
    with pytest.warns(DrgcnWarning, match="older layout"):
        assert load_checkpoint(path) is None


def test_an_interruption_in_the_middle_of_an_epoch_costs_no_bit(tiny, tmp_path, monkeypatch):
    def run():
        make = lambda: GCN(24, 8, 4, reweight="dr")  # noqa: E731
        return fit(make, tiny, [0], epochs=8, checkpoint=tmp_path / "c", checkpoint_every=0)

    validate, calls = Trainer._validate, []

    def interrupted(self):
        calls.append(None)
        if len(calls) == 5:  # the step is made, its validation is not
            raise KeyboardInterrupt
        return validate(self)

    monkeypatch.setattr(Trainer, "_validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    resumed = run()
    clear_checkpoint(tmp_path / "c")
    whole = run()
    for name in whole.curves:
        assert torch.equal(resumed.curves[name][0], whole.curves[name][0])
    assert resumed.best_epoch == whole.best_epoch
