"""The command line in processes of its own, on small clicks, and what it leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from drgcn.recommend.distributed.group import read_attempts, saved_step
from drgcn.recommend.model.run_folder import CHECKPOINT, WEIGHTS

STEPS = 150
_CODE = "from drgcn.cli import main; main()"
_OPTIONS = (
    *("--channels", "8", "--fan-outs", "3,2", "--batch-size", "32", "--negatives", "8"),
    *("--steps", str(STEPS), "--checkpoint-every", "0", "--device", "cpu", "--threads", "1"),
)
#: What a finished run of several ranks leaves.
FILES = [
    *("attempts.jsonl", "config.toml", "history.json", "record.json"),
    *("settings.json", "weights.safetensors"),
]


def start(clicks, out, *more, by=(sys.executable, "-c", _CODE)):
    """Begins a run; checkpoints are written after every step."""
    command = [*map(str, by), "recommend", "train", str(clicks), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.Popen(
        [*command, *_OPTIONS, *map(str, more)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process, timeout=200):
    """Waits for the end of a run, which must be a good one."""
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
        raise AssertionError(output) from None
    assert process.returncode == 0, output
    return output


def weights(out):
    return (out / WEIGHTS).read_bytes()


def under_way(process, out, step=20, timeout=150):
    """Waits until so many steps are saved; returns where the ranks are."""
    end = time.monotonic() + timeout
    while saved_step(out / CHECKPOINT) < step:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, "nothing was saved in time"
        time.sleep(0.05)
    return read_attempts(out)[-1]["ranks"]


def wait_for_the_end_of(ranks, timeout=60):
    end = time.monotonic() + timeout
    for rank in ranks:
        while alive(rank["pid"]):
            assert time.monotonic() < end, f"process {rank['pid']} lives on"
            time.sleep(0.1)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def check_restart(out, ranks_before):
    """The run was started a second time, by other processes, and went on from a checkpoint."""
    first, second = read_attempts(out)
    assert first["step"] == 0
    assert first["ranks"] == ranks_before
    assert 20 <= second["step"] < STEPS
    pids = {rank["pid"] for rank in ranks_before}
    assert pids.isdisjoint({rank["pid"] for rank in second["ranks"]})
    return second["ranks"]
