"""The Dr block: r = sum_v w_v x_v, g = ELU(W_g r + b_g), s = sigmoid(W_s g + b_s), X' = X S.

Nodes are rows (columns in the paper). Legend: X features [n, d], w node weights, r mean,
W_g [g, d] and W_s [d, g] weights, b_g and b_s biases, s reweighting vector.
"""

import math

import numpy as np


def width(d):
    """The integer nearest to the square root of d."""
    return min(range(1, d + 1), key=lambda g: abs(g - math.sqrt(d)))


def mean(X, w=None):
    n, d = X.shape
    w = [1.0] * n if w is None else list(w)
    r = np.zeros(d)
    for v in range(n):
        if sum(w) != 0:
            r += w[v] / sum(w) * X[v]
    return r


def vector(X, W_g, b_g, W_s, b_s, w=None):
    return vector_of_mean(mean(X, w), W_g, b_g, W_s, b_s)


def vector_of_mean(r, W_g, b_g, W_s, b_s):
    g = [elu(sum(W_g[k, i] * r[i] for i in range(len(r))) + b_g[k]) for k in range(len(b_g))]
    return np.array(
        [sigmoid(sum(W_s[i, k] * g[k] for k in range(len(g))) + b_s[i]) for i in range(len(r))]
    )


def reweighted(X, s):
    Y = np.empty_like(X)
    for v in range(X.shape[0]):
        for i in range(X.shape[1]):
            Y[v, i] = s[i] * X[v, i]
    return Y


def elu(a):
    return a if a > 0 else math.exp(a) - 1


def sigmoid(a):
    return 1 / (1 + math.exp(-a))
