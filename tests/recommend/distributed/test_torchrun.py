"""Ranks on one host: the run ends with the weights of the unbroken run, whoever is killed."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load
from typer.testing import CliRunner

from drgcn.cli.verbs import app
from drgcn.errors import InputError
from drgcn.recommend.distributed.launch import torchrun_command, torchrun_environment
from drgcn.recommend.model.run_folder import load_run

from .commands import STEPS, check_restart, finish, start, under_way, wait_for_the_end_of, weights

pytestmark = pytest.mark.xdist_group("ranks")


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_changes_nothing(victim, clicks, model, unbroken, tmp_path):
    out = tmp_path / "run"
    # One restart must do: see docs/recommend_inside.md on what goes wrong without our setting.
    process = start(clicks, out, *model, "--workers", 2, "--restarts", 1)
    ranks = under_way(process, out)
    os.kill(ranks[victim]["pid"], signal.SIGKILL)
    finish(process)
    check_restart(out, ranks)
    assert weights(out) == unbroken
    record = json.loads((out / "record.json").read_text())
    assert (record["ranks"], record["attempts"], record["steps"]) == (2, 2, STEPS)


@pytest.mark.slow
def test_a_killed_command_goes_on_with_another_number_of_ranks(clicks, model, unbroken, tmp_path):
    out = tmp_path / "run"
    process = start(clicks, out, *model, "--workers", 2)
    ranks = under_way(process, out)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.count("run the same command again") == 1
    assert not (out / "settings.json").exists()
    wait_for_the_end_of(ranks)
    finish(start(clicks, out, *model))
    trained, _ = load_run(out)
    expected = load(unbroken)
    for name, found in trained.named_parameters():
        torch.testing.assert_close(found.detach(), expected[name], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_ranks_end_with_a_killed_command_which_then_goes_on(clicks, model, unbroken, tmp_path):
    out = tmp_path / "run"
    process = start(clicks, out, *model, "--workers", 2)
    ranks = under_way(process, out)
    process.kill()
    process.communicate(timeout=60)  # pipes are closed when the last of them is gone
    wait_for_the_end_of(ranks)
    finish(start(clicks, out, *model, "--workers", 2))
    check_restart(out, ranks)
    assert weights(out) == unbroken


@pytest.mark.slow
def test_the_command_under_somebody_elses_torchrun(clicks, model, unbroken, tmp_path):
    script = Path(sys.executable).parent / "drgcn"
    launcher = (
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr"),
        *("127.0.0.1", "--nproc-per-node=2", "--max-restarts=1", "--no-python", script),
    )
    output = finish(start(clicks, tmp_path / "run", *model, by=launcher))
    assert weights(tmp_path / "run") == unbroken
    assert output.count("set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1") == 1
    assert output.count("written to") == 1


@pytest.mark.slow
def test_what_ranks_refuse_is_one_sentence(clicks, tmp_path):
    process = start(clicks, tmp_path / "run", "--workers", 2, "--day", 0)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 2
    assert output.startswith("error: Expected clicks before day 0"), output
    assert output.count("\n") == 1
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--batch-size divisible by --workers 3", ("--batch-size", 32)),
        ("--negatives divisible by --workers 3", ("--batch-size", 33, "--negatives", 8)),
    ],
)
def test_batches_that_cannot_be_shared_are_refused_at_once(words, options, clicks, tmp_path):
    command = ["recommend", "train", str(clicks), "--out", str(tmp_path / "run"), "--workers", "3"]
    done = CliRunner().invoke(app, [*command, *map(str, options)])
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)


def test_the_setting_against_the_restart_trap_is_there(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = torchrun_environment(2)
    assert found["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert int(found["OMP_NUM_THREADS"]) >= 1
    assert torchrun_environment(2, threads=5)["OMP_NUM_THREADS"] == "5"
    assert "--max-restarts=7" in torchrun_command("m", [], 2, 7)
