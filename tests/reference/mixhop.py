"""The forward pass and the regulariser of MixHop, with dense matrices, node by node.

Features are binarised, dropped, and divided by the length of their row. A layer: Dr (pooled over
the clean input of the layer, its rows of length one), then for every power j first A^j, then W_j;
the results stand side by side. Hidden: batch norm of the nodes at hand with a shift only, ReLU.
Output: columns in segments of one per class, summed with the weights softmax(q). Legend: X
features, A propagation matrix, W weights [in, out] of each power, s reweighting vector, beta
shift, q segment logits.
"""

import numpy as np

from .dr_block import mean, reweighted
from .gcn import propagate, relu, transform


def binary(X):
    return np.array([[1.0 if value != 0 else 0.0 for value in row] for row in X])


def unit_rows(X):
    return np.array([row / np.sqrt(max(sum(row**2), 1e-12)) for row in X])


def batch_norm(X, beta):
    Y = np.empty_like(X)
    for i in range(X.shape[1]):
        average = sum(X[:, i]) / len(X)
        variance = sum((X[:, i] - average) ** 2) / len(X)
        Y[:, i] = (X[:, i] - average) / np.sqrt(variance + 1e-3) + beta[i]
    return Y


def convolution(X, A, weights):
    columns, reached = [], X
    for W in weights:
        columns.append(transform(reached, W))
        reached = propagate(A, reached)
    return np.concatenate(columns, axis=1)


def readout(Z, q, classes):
    share = [np.exp(a) / sum(np.exp(q)) for a in q]
    Y = np.zeros((len(Z), classes))
    for i in range(len(q)):
        Y += share[i] * Z[:, i * classes : (i + 1) * classes]
    return Y


def forward(X, A, layers, gates, shifts, q, classes, masks=None):
    """``layers`` holds the weights of every power, ``gates`` one function mean -> s, for each
    layer; ``masks`` what dropout multiplies the binary features and hidden inputs by."""
    masks = [1.0] * len(layers) if masks is None else masks
    clean, entering = unit_rows(X), unit_rows(X * masks[0])
    for layer, (weights, gate) in enumerate(zip(layers, gates, strict=True)):
        Z = convolution(reweighted(entering, gate(mean(clean))), A, weights)
        if layer < len(layers) - 1:
            clean = relu(batch_norm(Z, shifts[layer]))
            entering = clean * masks[layer + 1]
    return readout(Z, q, classes)


def penalty(layers, q, blocks, coefficient):
    total = 1e-3 * sum(a**2 for a in q) / len(q)
    for weights in layers:
        for W in weights:
            for k in range(W.shape[1]):
                square = sum(w**2 for w in W[:, k])
                total += coefficient * square + coefficient * square**0.5
    for block in blocks:
        total += coefficient / 2 * sum(w**2 for w in block.flatten())
    return total
