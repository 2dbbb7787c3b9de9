"""The Dr block against numbers computed elsewhere, in a file that ``DRGCN_ORACLES`` points to."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from drgcn import DimensionalReweighting
from drgcn.nn import normalized_adjacency, spmm
from drgcn.reweighting import fold, weighted_mean

from . import oracles


def expecting(name):
    return [case for case in oracles.CASES if name in case["expected"]]


LAYERS = expecting("grad_Wg")
WIDTHS = expecting("params")
SLOPES = expecting("ds")
COMMUTING = expecting("relu_SX")
COUNTS = expecting("fold_W")
ANSWERED = [*LAYERS, *WIDTHS, *SLOPES, *COMMUTING, *COUNTS]

pytestmark = pytest.mark.skipif(not oracles.FILE, reason=oracles.WITHOUT_FILE)


class Multiplications(TorchDispatchMode):
    """Counts the products of single numbers that are computed in its context."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket is torch.ops.aten.mul:
            self.count += result.numel()
        return result


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def close(found, expected, case):
    torch.testing.assert_close(found, tensor(expected), rtol=case["rtol"], atol=1e-12)


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: case["id"])
def test_a_reweighted_layer_and_all_its_gradients(case):
    given, expected = case["inputs"], case["expected"]
    x = tensor(given["X"]).requires_grad_()
    block = DimensionalReweighting(x.size(1), len(given["bg"]), dtype=torch.float64)
    with torch.no_grad():
        block.squeeze_weight.copy_(tensor(given["Wg"]).t())
        block.squeeze_bias.copy_(tensor(given["bg"]))
        block.excite_weight.copy_(tensor(given["Ws"]).t())
        block.excite_bias.copy_(tensor(given["bs"]))
    weight, bias = tensor(given["W"]).requires_grad_(), tensor(given["b"]).requires_grad_()
    one_way = torch.tensor(given["edges"]).t()
    edges = torch.cat([one_way, one_way.flip(0)], dim=1)
    adj = normalized_adjacency(edges, len(x), dtype=torch.float64)
    node_weights = None if given["node_weights"] is None else tensor(given["node_weights"])
    pooled = weighted_mean(x, node_weights)
    close(pooled, expected["pooled"], case)
    linear = torch.nn.functional.linear(pooled, block.squeeze_weight, block.squeeze_bias)
    close(block.act(linear), expected["g"], case)
    s = block.vector(x, node_weights)
    close(s, expected["s"], case)
    out = torch.relu(spmm(adj, x @ fold(weight, s, dim=0)) + bias)
    close(out, expected["out"], case)
    (out.square().sum() / 2).backward()
    close(x.grad, expected["grad_X"], case)
    close(block.squeeze_weight.grad.t(), expected["grad_Wg"], case)
    close(block.squeeze_bias.grad, expected["grad_bg"], case)
    close(block.excite_weight.grad.t(), expected["grad_Ws"], case)
    close(block.excite_bias.grad, expected["grad_bs"], case)
    close(weight.grad, expected["grad_W"], case)
    close(bias.grad, expected["grad_b"], case)


@pytest.mark.parametrize("case", WIDTHS, ids=lambda case: case["id"])
def test_width_and_number_of_parameters(case):
    block = DimensionalReweighting(case["inputs"]["a"])
    assert block.hidden_channels == case["expected"]["g"]
    assert sum(p.numel() for p in block.parameters()) == case["expected"]["params"]


@pytest.mark.parametrize("case", SLOPES, ids=lambda case: case["id"])
def test_slope_of_a_folded_gate(case):
    given = case["inputs"]
    propagated = tensor(given["AX"])
    s = torch.ones(propagated.size(1), dtype=torch.float64, requires_grad=True)
    out = propagated @ fold(tensor(given["W"]), s, dim=0)
    (found,) = torch.autograd.grad(out, s, tensor(given["dO"]))
    close(found, case["expected"]["ds"], case)


@pytest.mark.parametrize("case", COMMUTING, ids=lambda case: case["id"])
def test_relu_lets_a_positive_gate_through(case):
    x, s = tensor(case["inputs"]["X"]), tensor(case["inputs"]["s"])
    close(torch.relu(x * s), case["expected"]["relu_SX"], case)
    close(torch.relu(x) * s, case["expected"]["relu_SX"], case)


@pytest.mark.parametrize("case", COUNTS, ids=lambda case: case["id"])
def test_multiplications_of_a_folded_gate(case):
    n, a, b = (case["inputs"][name] for name in "nab")
    x, weight, s = torch.rand(n, a), torch.rand(a, b), torch.rand(a)
    with Multiplications() as scaled:
        x * s
    with Multiplications() as folded:
        fold(weight, s, dim=0)
    expected = case["expected"]
    assert (scaled.count, folded.count) == (expected["scale_X"], expected["fold_W"])
