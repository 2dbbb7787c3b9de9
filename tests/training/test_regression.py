"""Regression on nodes: scikit-learn's diabetes as a graph of nearest neighbours."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.neighbors import kneighbors_graph
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from drgcn import fit
from drgcn.training import RisingLoss


@pytest.fixture(scope="module")
def diabetes():
    x, y = load_diabetes(return_X_y=True)
    x, part = x / x.std(0), np.random.default_rng(0).permutation(len(x))
    train, val, test = part < 265, (part >= 265) & (part < 353), part >= 353
    y = (y - y[train].mean()) / y[train].std()
    edges = np.stack(kneighbors_graph(x, 5).nonzero()).astype(np.int64)
    data = Data(x=torch.tensor(x).float(), y=torch.tensor(y), edge_index=torch.tensor(edges))
    data.train_mask, data.val_mask, data.test_mask = map(torch.tensor, (train, val, test))
    return data


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(10, 1)

    def forward(self, x, edge_index):
        return self.lin(x)

    def regularized_parameters(self):
        return [self.lin.weight]


def ridge(data, penalty):
    """Predictions of a linear model with a penalty on the mean squared error."""
    train = data.train_mask
    model = Ridge(penalty * int(train.sum())).fit(data.x[train], data.y[train])
    return model.predict(data.x)


def test_a_linear_model_becomes_ridge_regression(diabetes):
    """The optimum of squared errors with L2, which scikit-learn has in closed form."""
    last = RisingLoss(window=600)
    result = fit(Linear, diabetes, range(2), epochs=600, lr=0.02, weight_decay=0.2, rule=last)
    expected = ridge(diabetes, 0.1)  # torch's L2 is half the coefficient times the squares
    for model in result.models:
        scores = model(diabetes.x, diabetes.edge_index)[:, 0].detach().numpy()
        np.testing.assert_allclose(scores, expected, atol=1e-2)
    test = diabetes.test_mask
    share = r2_score(diabetes.y[test], expected[test])
    assert result.test_accuracy == pytest.approx([share] * 2, abs=1e-3)


@pytest.mark.slow
def test_neighbours_do_not_hurt(diabetes):
    result = fit(
        lambda: GraphSAGE(10, 16, 2, out_channels=1, dropout=0.3),
        diabetes,
        range(2),
        epochs=100,
        loss="huber",
        metric="MAE",
    )
    test = diabetes.test_mask
    linear = mean_absolute_error(diabetes.y[test], ridge(diabetes, 0.01)[test])
    assert np.mean(result.test_accuracy) < 1.1 * linear
