"""A logistic regression as weights and biases for all classes."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from drgcn.errors import DrgcnWarning

_STEPS = 1000
Numbers = npt.NDArray[np.float64]


def logistic_regression(
    x: sparse.csr_array | Numbers,
    y: npt.NDArray[np.int64],
    inverse_penalty: float,
    classes: int,
) -> tuple[Numbers, Numbers]:
    """Fits scikit-learn's regression with an L2 penalty.

    Args:
        x: One row per labelled node.
        y: Their classes.
        inverse_penalty: scikit-learn's ``C``.
        classes: Number of classes; those that no node has get a score of minus infinity.

    Returns:
        Weights ``[features, classes]`` and biases ``[classes]``.
    """
    model = LogisticRegression(C=inverse_penalty, max_iter=_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(x, y)
        except ConvergenceWarning:
            warnings.warn(
                f"a logistic regression has not come to an end in {_STEPS:,} steps; scale the "
                f"features (normalize='standard') for one that does",
                DrgcnWarning,
                stacklevel=3,
            )
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x, y)
    weight = np.zeros((x.shape[1], classes))
    bias = np.full(classes, -np.inf)
    if len(model.classes_) == 2:  # scikit-learn keeps one row of weights for two classes
        weight[:, model.classes_[1]] = model.coef_[0]
        bias[model.classes_] = 0.0, model.intercept_[0]
    else:
        weight[:, model.classes_] = model.coef_.T
        bias[model.classes_] = model.intercept_
    return weight, bias
