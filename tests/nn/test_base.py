import pytest
import torch

from drgcn.nn import SparseMatrix
from drgcn.nn.base import LayerInput
from drgcn.reweighting import ConstantGate, StaticGate

from .matrices import random_matrix

# The input of a layer


X = random_matrix(6, 4).float()


def test_without_norm_and_gate_nothing_happens():
    x, s = LayerInput(4)(X)
    assert x is X
    assert s is None


@pytest.mark.parametrize("reweight", ["dr", "static", "constant"])
def test_the_gate_is_returned_and_not_applied(reweight):
    enter = LayerInput(4, reweight=reweight)
    x, s = enter(X)
    assert x is X
    torch.testing.assert_close(s, enter.gate.from_mean(X.mean(0)))


@pytest.mark.parametrize(
    ("norm", "kind"), [("batch", torch.nn.BatchNorm1d), ("layer", torch.nn.LayerNorm)]
)
def test_norm_is_that_of_torch(norm, kind):
    x, _ = LayerInput(4, norm=norm)(X)
    torch.testing.assert_close(x, kind(4)(X))


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_the_gate_pools_over_the_normalised_input(norm):
    enter = LayerInput(4, norm=norm, reweight="dr")
    torch.nn.init.normal_(enter.norm.bias)
    x, s = enter(X)
    torch.testing.assert_close(s, enter.gate.from_mean(x.mean(0)))


def test_sparse_features_stay_sparse_without_a_norm():
    sparse = SparseMatrix.from_tensor(X)
    enter = LayerInput(4, reweight="dr")
    x, s = enter(sparse)
    assert x is sparse
    torch.testing.assert_close(s, enter(X)[1])


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_sparse_features_are_normalised_as_dense_ones(norm):
    enter = LayerInput(4, norm=norm, reweight="dr").eval()
    torch.testing.assert_close(enter(SparseMatrix.from_tensor(X)), enter(X))


@pytest.mark.parametrize("norm", [None, "batch", "layer"])
def test_gate_parameters_leave_out_the_norm(norm):
    enter = LayerInput(4, norm=norm, reweight="dr")
    found = [id(p) for p in enter.gate_parameters()]
    assert found == [id(p) for p in enter.gate.parameters()]


@pytest.mark.parametrize("reweight", [None, "constant"])
def test_there_may_be_no_gate_parameters(reweight):
    assert list(LayerInput(4, norm="batch", reweight=reweight).gate_parameters()) == []


@pytest.mark.parametrize("reweight", [None, "dr", "static", "constant"])
def test_reset_restores_norm_and_gate(reweight):
    torch.manual_seed(1)
    enter = LayerInput(4, norm="batch", reweight=reweight)
    state = {name: value.clone() for name, value in enter.state_dict().items()}
    enter(X)
    for parameter in enter.parameters():
        torch.nn.init.normal_(parameter)
    torch.manual_seed(1)
    enter.reset_parameters()
    assert all(torch.equal(state[name], value) for name, value in enter.state_dict().items())


@pytest.mark.parametrize("argument", ["norm", "reweight"])
def test_unknown_names_are_refused(argument):
    with pytest.raises(ValueError, match=f"Expected {argument} to be one of .* found 'none'"):
        LayerInput(4, **{argument: "none"})


def test_rows_without_weight_count_neither_in_batch_norm_nor_in_the_gate():
    enter, other = (LayerInput(4, norm="batch", reweight="dr") for _ in range(2))
    other.load_state_dict(enter.state_dict())
    weight = torch.tensor([1, 1, 0, 1, 0, 1], dtype=torch.bool)
    x, s = enter(X, weight=weight)
    expected, expected_s = other(X[weight])
    torch.testing.assert_close(x[weight], expected)
    torch.testing.assert_close(s, expected_s)
    for name, value in enter.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name])


def test_in_evaluation_batch_norm_takes_what_it_has_learnt():
    enter = LayerInput(4, norm="batch")
    enter(X, weight=torch.tensor([1, 1, 0, 1, 0, 1]))
    enter.eval()
    torch.testing.assert_close(enter(X, weight=torch.ones(6))[0], enter(X)[0])


# Controls of the Dr block


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
