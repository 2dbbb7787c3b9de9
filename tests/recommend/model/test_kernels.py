import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton (a GPU is not needed)")
def test_kernels_equal_their_cpu_counterparts_in_the_interpreter():
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.recommend.model.kernels_in_interpreter"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path},
    )
    assert done.stdout.endswith("all kernels agree\n"), done.stderr
