import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_two_ranks_with_half_the_batch_equal_one_with_all_of_it():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"},
        **{"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.recommend.model.two_ranks"]
    ranks = [
        subprocess.Popen(
            command,
            env={**environment, "RANK": str(rank)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert "two ranks agree with one" in outputs[0]
