import math

import pytest
import torch

from drgcn.training import StepwiseDecay


@pytest.mark.parametrize(("every", "lr"), [(40, 1.0), (40, 0.25), (20, 0.5), (1, 0.1), (7, 2.0)])
def test_the_rate_is_that_of_the_literal_rule(every, lr):
    schedule = StepwiseDecay(every)
    for epoch in range(1, 400):
        step = epoch - 1  # steps made before this one
        expected = max(lr * (1 - 0.01 * math.floor(step / every)), 0)
        found = lr * schedule.factor(torch.tensor(epoch))
        assert float(found) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_first_cut_comes_after_so_many_epochs():
    factors = [float(StepwiseDecay(3, share=0.25).factor(torch.tensor(e))) for e in range(1, 15)]
    assert factors == [1, 1, 1, 0.75, 0.75, 0.75, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0, 0]


def test_the_rate_never_becomes_negative():
    assert float(StepwiseDecay(1, share=0.3).factor(torch.tensor(100))) == 0
