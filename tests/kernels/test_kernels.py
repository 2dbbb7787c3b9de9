import inspect
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from drgcn.kernels import LaneFunction, triton_available

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


class Cube(LaneFunction):
    """The third power, with a rule for vmap."""

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * Cube.apply(x) / x

    @staticmethod
    def vmap(info, in_dims, x):
        return Cube.apply(x), in_dims[0]


def test_a_function_of_lanes_starts_without_reading_its_signature(monkeypatch):
    monkeypatch.setattr(inspect, "signature", None)
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (grad,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    torch.testing.assert_close(grad, 3 * x**2)
    with torch.no_grad():
        torch.testing.assert_close(Cube.apply(x), x**3)


def test_a_function_of_lanes_takes_part_in_transforms():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    torch.testing.assert_close(torch.vmap(Cube.apply)(x), x**3)
    torch.testing.assert_close(torch.func.grad(lambda t: Cube.apply(t).sum())(x), 3 * x**2)
    # Called after its transform has ended, when what was saved belongs to no transform.
    _, backward = torch.func.vjp(Cube.apply, x)
    torch.testing.assert_close(backward(torch.ones_like(x))[0], 3 * x**2)
