import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kernels_in_interpreter.py")


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton (a GPU is not needed)")
def test_kernels_equal_torch_in_the_interpreter():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert done.stdout.endswith("all kernels agree\n"), done.stderr
