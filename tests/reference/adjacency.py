"""The propagation matrices D^-1/2 (A + I) D^-1/2 and D^-1 (A + I), with dense loops.

Nodes are rows: A[v, u] is the weight of the edge from u to v. D holds the row sums.
"""

import numpy as np


def adjacency(edges, n, weights=None, self_loops=True):
    A = np.zeros((n, n))
    for number, (u, v) in enumerate(edges):
        if u != v:
            A[v, u] += 1.0 if weights is None else weights[number]
    return A + np.eye(n) if self_loops else A


def symmetric(A):
    n = len(A)
    D = [sum(A[v, u] for u in range(n)) for v in range(n)]
    B = np.zeros((n, n))
    for v in range(n):
        for u in range(n):
            if D[v] > 0 and D[u] > 0:
                B[v, u] = D[v] ** -0.5 * A[v, u] * D[u] ** -0.5
    return B


def row(A):
    n = len(A)
    B = np.zeros((n, n))
    for v in range(n):
        D = sum(A[v, u] for u in range(n))
        for u in range(n):
            if D > 0:
                B[v, u] = A[v, u] / D
    return B
