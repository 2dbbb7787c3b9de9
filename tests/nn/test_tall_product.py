import importlib

import pytest
import torch

from drgcn.nn.products import tall_product

module = importlib.import_module("drgcn.nn.products")


class OnDevice(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def test_product_is_the_plain_one():
    x, weight = draw(9, 4), draw(4, 3, seed=1)
    torch.testing.assert_close(tall_product(x, weight), x @ weight)


def test_gradients_equal_finite_differences():
    assert torch.autograd.gradcheck(tall_product, (draw(9, 4), draw(4, 3, seed=1)))


def test_second_gradients_equal_finite_differences():
    assert torch.autograd.gradgradcheck(tall_product, (draw(5, 4), draw(4, 3, seed=1)))


@pytest.mark.parametrize("in_dims", [(0, 0), (None, 0), (0, None)])
def test_vmap_equals_a_loop_with_its_gradients(in_dims):
    x = draw(*([] if in_dims[0] is None else [5]), 9, 4)
    weight = draw(*([] if in_dims[1] is None else [5]), 4, 3, seed=1)
    found, expected = torch.vmap(tall_product, in_dims)(x, weight), x @ weight
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), (x, weight)),
        torch.autograd.grad(expected.square().sum(), (x, weight)),
    )


@pytest.mark.parametrize("rows", [0, 3, 4, 7, 8, 9, 15, 16])
def test_pieces_on_a_device_sum_to_the_plain_product(monkeypatch, rows):
    monkeypatch.setattr(module, "_ROWS", 4)
    x, grad = draw(rows, 5).detach(), draw(rows, 3, seed=1).detach()
    found = module._sum_over_rows(x.as_subclass(OnDevice), grad)
    torch.testing.assert_close(found.as_subclass(torch.Tensor), x.t() @ grad)


def test_pieces_are_multiplied_side_by_side(monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 4)
    shapes = []

    class Recording(OnDevice):
        def __matmul__(self, other):
            shapes.append(tuple(self.shape))
            return super().__matmul__(other)

    module._sum_over_rows(draw(11, 5).detach().as_subclass(Recording), draw(11, 3).detach())
    assert shapes == [(2, 5, 4), (5, 3)]
