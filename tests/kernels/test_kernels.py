import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from drgcn.kernels import triton_available

SCRIPT = Path(__file__).with_name("in_interpreter.py")


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton (a GPU is not needed)")
def test_kernels_equal_their_cpu_counterparts_in_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.stdout.endswith("all kernels agree\n"), done.stderr


def test_kernels_need_triton_and_a_compiler(monkeypatch):
    module = sys.modules["drgcn.kernels"]
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert triton_available()
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert not triton_available()
    monkeypatch.setenv("CC", "cc")
    assert triton_available()
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert not triton_available()
