"""The forward pass of GCN and Dr-GCN without dropout, node by node.

Nodes are rows. In front of every layer, raw features included: norm, then Dr (pooled over the
clean input), then W, then A, then the activation; the last layer is linear and nothing has a
bias. Pre-activation: H' = A ReLU(S H) W. Legend: X features, A propagation matrix, W weights
[in, out], s reweighting vector, gamma and beta the affine map of a norm.
"""

import numpy as np

from .dr_block import mean, reweighted


def forward(X, A, weights, norms, gates, pre_activation=False):
    """``norms`` and ``gates`` hold one function per layer: X -> X, and mean -> s."""
    H = X
    last = len(weights) - 1
    for layer, (W, norm, gate) in enumerate(zip(weights, norms, gates, strict=True)):
        H = norm(H)
        H = reweighted(H, gate(mean(H)))
        if pre_activation:
            H = relu(H)
        H = propagate(A, transform(H, W))
        if not pre_activation and layer != last:
            H = relu(H)
    return H


def transform(X, W):
    Y = np.zeros((len(X), W.shape[1]))
    for v in range(len(X)):
        for i in range(W.shape[0]):
            Y[v] += X[v, i] * W[i]
    return Y


def propagate(A, X):
    Y = np.zeros_like(X)
    for v in range(len(X)):
        for u in range(len(X)):
            Y[v] += A[v, u] * X[u]
    return Y


def relu(X):
    return np.where(X > 0, X, 0.0)


def batch_norm(X, running_mean, running_var, gamma, beta, eps):
    Y = np.empty_like(X)
    for i in range(X.shape[1]):
        Y[:, i] = (X[:, i] - running_mean[i]) / np.sqrt(running_var[i] + eps)
    return Y * gamma + beta


def layer_norm(X, gamma, beta, eps):
    Y = np.empty_like(X)
    for v in range(len(X)):
        centred = X[v] - sum(X[v]) / X.shape[1]
        Y[v] = centred / np.sqrt(sum(centred**2) / X.shape[1] + eps)
    return Y * gamma + beta
