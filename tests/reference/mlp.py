"""The forward pass of a perceptron without dropout, node by node.

In front of every layer: Dr (pooled over the clean input), then W, then ReLU; the last layer is
linear and nothing has a bias. Legend: X features, W weights [in, out], s reweighting vector.
"""

import numpy as np

from .dr_block import mean


def forward(X, weights, gates):
    """``gates`` holds one function mean -> s per layer."""
    H = X
    for layer, (W, gate) in enumerate(zip(weights, gates, strict=True)):
        s = gate(mean(H))
        Y = np.zeros((len(H), W.shape[1]))
        for v in range(len(H)):
            for k in range(W.shape[1]):
                y = sum(s[i] * H[v, i] * W[i, k] for i in range(W.shape[0]))
                Y[v, k] = max(y, 0.0) if layer < len(weights) - 1 else y
        H = Y
    return H
