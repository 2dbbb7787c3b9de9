import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from drgcn.baselines.base import logistic_regression
from drgcn.errors import DrgcnWarning


@pytest.mark.parametrize("present", [(0, 1), (0, 2), (0, 1, 2, 4)])
def test_scores_are_those_of_scikit_learn(present):
    rng = np.random.default_rng(0)
    y = np.array(present)[np.arange(40) % len(present)]
    x = rng.normal(size=(40, 3)) + y[:, None]
    weight, bias = logistic_regression(x, y, 0.5, 5)
    theirs = LogisticRegression(C=0.5, max_iter=1000).fit(x, y)
    scores = (x @ weight + bias)[:, list(present)]
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances, theirs.predict_proba(x), atol=1e-9)
    absent = sorted({*range(5)} - {*present})
    assert np.isneginf(bias[absent]).all()


def test_a_fit_without_an_end_is_warned_of():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 20)) * 10.0 ** rng.uniform(-4, 4, size=20)
    with pytest.warns(DrgcnWarning, match="has not come to an end in 1,000 steps"):
        logistic_regression(x, rng.integers(3, size=60), 1e6, 3)
