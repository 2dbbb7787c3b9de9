"""The forward passes of FastGCN and AS-GCN, exact and on given samples, node by node.

In front of every layer: norm, then Dr (pooled over the clean rows that enter the layer), then W,
then the layer's matrix, then ReLU but for the last. Where the first layer is dense it has no
matrix, for it takes A X. AS-GCN weighs every entry a_vu by ReLU(x_v w_1 + x_u w_2) + 1, from the
model's input features whatever the layer. Legend: X features, A propagation matrix, W weights
[in, out], w scores [d, 2], s reweighting vector, M the matrix of a sampled layer.
"""

import numpy as np

from .dr_block import mean, reweighted
from .gcn import relu, transform


def product(M, X):
    Y = np.zeros((len(M), X.shape[1]))
    for v in range(len(M)):
        for u in range(len(X)):
            Y[v] += M[v, u] * X[u]
    return Y


def weighted(A, X, w, divide_by_nodes=False):
    """AS-GCN's matrix at inference."""
    P = np.zeros_like(A)
    for v in range(len(A)):
        for u in range(len(A)):
            P[v, u] = A[v, u] * (max(sum(X[v] * w[:, 0]) + sum(X[u] * w[:, 1]), 0.0) + 1)
            if divide_by_nodes:
                P[v, u] /= len(A)
    return P


def forward(X, A, weights, norms, gates, dense_first, w=None, divide_by_nodes=False):
    """``norms`` and ``gates`` hold one function per layer: X -> X, and mean -> s."""
    H = product(A, X) if dense_first else X
    P = A if w is None else weighted(A, H, w, divide_by_nodes)
    for layer, (W, norm, gate) in enumerate(zip(weights, norms, gates, strict=True)):
        H = norm(H)
        H = transform(reweighted(H, gate(mean(H))), W)
        if layer > 0 or not dense_first:
            H = product(P, H)
        if layer < len(weights) - 1:
            H = relu(H)
    return H


def sampled(X, batch, nodes, matrices, real, weights, norms, gates, dense_first):
    """Scores of a batch, and what the nodes of the top layer send.

    ``X`` holds what the model takes (A X if the first layer is dense); ``nodes``, ``matrices``
    and ``real`` (which of the nodes were drawn) have one entry per sampled layer, top first.
    """
    sets = [batch, *nodes]
    counted = [np.ones(len(batch)), *real]
    H = np.array([X[u] for u in sets[-1]])
    sent = None
    for layer, (W, norm, gate) in enumerate(zip(weights, norms, gates, strict=True)):
        output = len(weights) - 1 - layer  # which set the layer's output belongs to
        samples = layer > 0 or not dense_first
        w = counted[output + samples]
        H = norm(H, w)
        H = transform(reweighted(H, gate(mean(H, w))), W)
        if samples:
            sent = H
            H = product(matrices[output], H)
        if layer < len(weights) - 1:
            H = relu(H)
    return H, sent
