"""The measure K, with the covariance matrix and its double sum written out.

Nodes are rows. Legend: X features [n, d], C covariance of the dimensions over nodes,
s reweighting vector, G = I - 11'/d.
"""

import numpy as np


def covariance(X):
    n, d = X.shape
    m = X.sum(0) / n
    C = np.zeros((d, d))
    for v in range(n):
        for i in range(d):
            for j in range(d):
                C[i, j] += (X[v, i] - m[i]) * (X[v, j] - m[j]) / n
    return C


def k(C, s):
    d = len(s)
    after = sum(C[i, i] * s[i] ** 2 for i in range(d))
    before = sum(C[i, i] for i in range(d))
    for i in range(d):
        for j in range(d):
            after -= C[i, j] * s[i] * s[j] / d
            before -= C[i, j] / d
    return after / (before * sum(s[i] ** 2 for i in range(d)) / d)


def rayleigh_quotient(C, s):
    """d s'Ms / (1'M1 s's) with M = C o G."""
    d = len(s)
    M = C * (np.eye(d) - np.ones((d, d)) / d)
    return d * (s @ M @ s) / (M.sum() * (s @ s))


def features_of_covariance(C):
    """Rows of mean zero whose covariance is C: the columns of C^1/2, with both signs."""
    values, vectors = np.linalg.eigh(C)
    root = vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T
    return np.sqrt(len(C)) * np.concatenate([root, -root])
