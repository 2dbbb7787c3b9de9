"""AS-GCN's sampler and its variance term, as its code computes them, node by node.

For rows V and candidates U, with a_vu the entries of the propagation matrix: t is the sum over V
of the rows' scores, k_u the score of a candidate, and p_u is proportional to
sqrt(sum_v a_vu^2) * (ReLU(t + k_u) + 1) / n * (ReLU(k_u) + 1), n the number of draws.
"""

import math

import numpy as np


def probabilities(A, rows, row_scores, candidate_scores, n):
    t = sum(row_scores[v] for v in rows)
    p = np.zeros(A.shape[1])
    for u in range(A.shape[1]):
        k = candidate_scores[u]
        attention = (max(t + k, 0.0) + 1) / n
        own = max(k, 0.0) + 1
        p[u] = math.sqrt(sum(A[v, u] ** 2 for v in rows)) * attention * own
    return p / p.sum()


def layer_weights(A, rows, nodes, p, row_scores, sender_scores, drop_duplicates=False):
    """Entries of the sampled matrix: a_vu (ReLU(row + sender) + 1) / (n p_u)."""
    n = len(nodes)
    M = np.zeros((len(rows), n))
    for i, v in enumerate(rows):
        for j, u in enumerate(nodes):
            if drop_duplicates and u in nodes[:j]:
                continue
            attention = max(row_scores[v] + sender_scores[u], 0.0) + 1
            M[i, j] = A[v, u] * attention / (n * p[u])
    return M


def variance(M, sent, divide=False):
    """Mean over draws and classes of (c m_u (h_u W)_k - mean_v out_vk)^2, m_u the mean of M's
    column; c is the number of draws, or 1 as in the code (``divide``)."""
    rows, n = M.shape
    classes = sent.shape[1]
    out = np.zeros((rows, classes))
    for v in range(rows):
        for u in range(n):
            out[v] += M[v, u] * sent[u]
    total = 0.0
    for u in range(n):
        m = sum(M[v, u] for v in range(rows)) / rows
        for k in range(classes):
            mean = sum(out[v, k] for v in range(rows)) / rows
            total += ((1 if divide else n) * m * sent[u, k] - mean) ** 2
    return total / (n * classes)
