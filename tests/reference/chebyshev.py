"""The forward pass of a Chebyshev network without dropout, with dense matrices, node by node.

L = I - D^-1/2 A D^-1/2 without self-loops, scaled to 2 L / lambda - I; T_0 = I, T_1 = L,
T_k = 2 L T_{k-1} - T_{k-2}. In front of every layer: Dr (pooled over the clean input), then W_k
of every order k, then T_k, summed, then ReLU; the last layer is linear and nothing has a bias.
Legend: X features, L scaled Laplacian, W weights [K + 1, in, out], s reweighting vector.
"""

import numpy as np

from .adjacency import adjacency, symmetric
from .dr_block import mean, reweighted
from .gcn import propagate, relu, transform


def laplacian(edges, n):
    return np.eye(n) - symmetric(adjacency(edges, n, self_loops=False))


def scaled(L, lambda_max=None):
    lambda_max = max(np.linalg.eigvals(L).real) if lambda_max is None else lambda_max
    return 2 * L / lambda_max - np.eye(len(L))


def polynomials(L, K):
    T = [np.eye(len(L)), L]
    for _ in range(2, K + 1):
        T.append(2 * L @ T[-1] - T[-2])
    return T[: K + 1]


def forward(X, L, weights, gates):
    """``gates`` holds one function mean -> s per layer."""
    H = X
    for layer, (W, gate) in enumerate(zip(weights, gates, strict=True)):
        H = reweighted(H, gate(mean(H)))
        T = polynomials(L, len(W) - 1)
        H = sum(propagate(T[k], transform(H, W[k])) for k in range(len(W)))
        if layer < len(weights) - 1:
            H = relu(H)
    return H
