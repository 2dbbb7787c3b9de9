"""The fused way from a mean to s: its gradients, and where it is taken."""

import pytest
import torch

from drgcn import DimensionalReweighting, fold
from drgcn.reweighting import fused_gate_vector, gate_gradients

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def weights(block):
    return block.squeeze_weight, block.squeeze_bias, block.excite_weight, block.excite_bias


def test_gradients_written_out_are_those_of_autograd():
    torch.manual_seed(0)
    block = DimensionalReweighting(30, dtype=torch.float64)
    for bias in (block.squeeze_bias, block.excite_bias):
        torch.nn.init.normal_(bias)
    mean = torch.randn(30, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(30, dtype=torch.float64)
    expected = torch.autograd.grad(block.from_mean(mean), (mean, *weights(block)), grad)
    torch.testing.assert_close(gate_gradients(grad, mean, *weights(block)), expected)


def test_on_cpu_the_plain_way_is_taken():
    block = DimensionalReweighting(30)
    assert fused_gate_vector(torch.rand(30), *weights(block)) is None


@pytest.mark.gpu
@cuda
@pytest.mark.parametrize("width", [1, 30, 602])
def test_on_cuda_s_and_all_gradients_follow_the_cpu(width):
    torch.manual_seed(0)
    block = DimensionalReweighting(width)
    mean = torch.randn(width, requires_grad=True)
    grad = torch.randn(width)
    s = block.from_mean(mean)
    expected = torch.autograd.grad(s, (mean, *weights(block)), grad)
    there = block.cuda()
    far = mean.detach().cuda().requires_grad_()
    assert fused_gate_vector(far, *weights(there)) is not None
    found = there.from_mean(far)
    torch.testing.assert_close(found.cpu(), s)
    for a, b in zip(
        torch.autograd.grad(found, (far, *weights(there)), grad.cuda()), expected, strict=True
    ):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.gpu
@cuda
def test_on_cuda_gradients_of_gradients_and_lanes_follow_the_cpu():
    torch.manual_seed(0)
    block = DimensionalReweighting(12).cuda()
    means = torch.randn(5, 12, device="cuda", requires_grad=True)

    def penalty(block, means):
        s = torch.vmap(block.from_mean)(means)
        (slope,) = torch.autograd.grad(s.sum(), means, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [means, *block.parameters()])

    found = penalty(block, means)
    here = DimensionalReweighting(12)
    here.load_state_dict(block.state_dict())
    expected = penalty(here, means.detach().cpu().requires_grad_())
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.gpu
@cuda
@pytest.mark.parametrize("lanes", [None, 3])
def test_on_cuda_folding_and_its_gradients_follow_the_cpu(lanes):
    torch.manual_seed(0)
    shape = () if lanes is None else (lanes,)
    weight, s, grad = torch.randn(*shape, 70, 30), torch.rand(*shape, 70), torch.randn(70, 30)
    found = {}
    for device in ("cpu", "cuda"):
        pair = [v.to(device).requires_grad_() for v in (weight, s)]
        both = lambda w, v: fold(w, v, dim=0)  # noqa: E731
        out = both(*pair) if lanes is None else torch.vmap(both)(*pair)
        slopes = torch.autograd.grad(out, pair, grad.to(device).expand_as(out))
        (again,) = (
            torch.autograd.grad(
                torch.autograd.grad(fold(*pair, dim=0).square().sum(), pair[0], create_graph=True)[
                    0
                ].sum(),
                pair[1],
            )
            if lanes is None
            else (torch.zeros(()),)
        )
        found[device] = [v.detach().cpu() for v in (out, *slopes, again)]
    torch.testing.assert_close(found["cuda"], found["cpu"])
