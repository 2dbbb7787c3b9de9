import pytest
import torch

from drgcn.nn.base import ConstantGate, StaticGate

MEAN = torch.tensor([3.0, -2.0, 0.0, 9.0])


@pytest.mark.parametrize("gate", [StaticGate(4), ConstantGate(4)])
def test_gates_start_at_one_half(gate):
    assert torch.equal(gate.from_mean(MEAN), torch.full((4,), 0.5))


def test_static_gate_is_the_sigmoid_of_its_logits():
    gate = StaticGate(4)
    torch.nn.init.normal_(gate.logits)
    torch.testing.assert_close(gate.from_mean(MEAN), 1 / (1 + torch.exp(-gate.logits)))


def test_static_gate_ignores_the_data():
    gate = StaticGate(4)
    torch.nn.init.normal_(gate.logits)
    assert torch.equal(gate.from_mean(MEAN), gate.from_mean(MEAN * 5 + 1))


def test_static_gate_has_one_parameter_per_dimension():
    assert [tuple(p.shape) for p in StaticGate(4).parameters()] == [(4,)]


def test_static_gate_learns():
    gate = StaticGate(4)
    gate.from_mean(MEAN).sum().backward()
    torch.testing.assert_close(gate.logits.grad, torch.full((4,), 0.25))


def test_static_gate_resets_to_one_half():
    gate = StaticGate(4)
    torch.nn.init.normal_(gate.logits)
    gate.reset_parameters()
    assert torch.equal(gate.from_mean(MEAN), torch.full((4,), 0.5))


def test_constant_gate_has_no_parameters():
    assert list(ConstantGate(4).parameters()) == []


@pytest.mark.parametrize("gate", [StaticGate(4), ConstantGate(4)])
def test_gates_take_the_dtype_of_the_mean(gate):
    assert gate.from_mean(MEAN.double()).dtype == torch.float64
