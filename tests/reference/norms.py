"""The function X -> X of a norm module, from its parameters alone."""

import torch

from .gcn import batch_norm, layer_norm


def norm(module):
    """Batch norm takes the statistics of the rows at hand that count (those of weight one) in
    training, its own in evaluation."""
    if module is None:
        return lambda X, w=None: X
    state = {name: value.detach().numpy().copy() for name, value in module.state_dict().items()}
    gamma, beta, eps = state["weight"], state["bias"], module.eps
    if isinstance(module, torch.nn.LayerNorm):
        return lambda X, w=None: layer_norm(X, gamma, beta, eps)
    if not module.training:
        mean, var = state["running_mean"], state["running_var"]
        return lambda X, w=None: batch_norm(X, mean, var, gamma, beta, eps)
    return lambda X, w=None: _of_rows_that_count(X, w, gamma, beta, eps)


def _of_rows_that_count(X, w, gamma, beta, eps):
    counted = [row for v, row in enumerate(X) if w is None or w[v]]
    average = sum(counted) / len(counted)
    variance = sum((row - average) ** 2 for row in counted) / len(counted)
    return batch_norm(X, average, variance, gamma, beta, eps)
