"""The Dr block against numbers computed elsewhere, in a file that ``DRGCN_ORACLES`` points to."""

import json
import os
from pathlib import Path

import pytest
import torch

from drgcn import DimensionalReweighting
from drgcn.nn import normalized_adjacency, spmm
from drgcn.reweighting import fold

FILE = os.environ.get("DRGCN_ORACLES")
CASES = [c for c in json.loads(Path(FILE).read_text())["open"] if c["item"] == 7] if FILE else []
LAYERS = [case for case in CASES if "grad_Wg" in case["expected"]]
WIDTHS = [case for case in CASES if "params" in case["expected"]]
SLOPES = [case for case in CASES if "ds" in case["expected"]]

pytestmark = pytest.mark.skipif(not FILE, reason="set DRGCN_ORACLES to the file of oracles")


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def close(found, expected, case):
    torch.testing.assert_close(found, tensor(expected), rtol=case["rtol"], atol=1e-12)


def test_the_file_of_oracles_has_cases():
    assert len(LAYERS) >= 2
    assert len(WIDTHS) >= 3
    assert SLOPES


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


@pytest.mark.parametrize("case", [c for c in CASES if "relu_SX" in c["expected"]])
def test_relu_lets_a_positive_gate_through(case):
    x, s = tensor(case["inputs"]["X"]), tensor(case["inputs"]["s"])
    close(torch.relu(x * s), case["expected"]["relu_SX"], case)
    close(torch.relu(x) * s, case["expected"]["relu_SX"], case)
