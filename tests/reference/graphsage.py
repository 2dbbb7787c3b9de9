"""The forward passes of GraphSAGE, exact and on a given tree of neighbours, place by place.

In front of every layer: norm, then Dr (pooled over the rows that enter the layer), then

concat: [x_v W_1 || mean(x_u) W_2], ReLU but for the last layer; rows of unit length, classifier
with a bias; simple: ReLU(mean(x_u) W), classifier without one. The mean of nothing is zero.
Legend: X features, W weights [in, out], in concat the two halves side by side, s reweighting
vector, C classifier, b its bias.
"""

import numpy as np

from .dr_block import mean, reweighted
from .gcn import relu, transform


def neighbours(edges, n):
    """Who sends to whom; repeated edges count again, loops do not count."""
    found = [[] for _ in range(n)]
    for u, v in edges:
        if u != v:
            found[v].append(u)
    return found


def average(rows, width):
    total = np.zeros(width)
    for row in rows:
        total += row / len(rows)
    return total


def layer(own, means, W, concat):
    """Outputs from a row of its own and a mean for each place."""
    if not concat:
        return transform(means, W)
    half = W.shape[1] // 2
    return np.concatenate([transform(own, W[:, :half]), transform(means, W[:, half:])], axis=1)


def classify(H, C, b, concat):
    if not concat:
        return transform(H, C)
    lengths = [max(np.sqrt(sum(row**2)), 1e-12) for row in H]
    return transform(np.array([row / a for row, a in zip(H, lengths, strict=True)]), C) + b


def forward(X, senders, weights, norms, gates, C, b=None):
    """By all neighbours; ``norms`` and ``gates`` hold one function per layer."""
    concat, H = b is not None, X
    for number, (W, norm, gate) in enumerate(zip(weights, norms, gates, strict=True), 1):
        H = norm(H)
        H = reweighted(H, gate(mean(H)))
        means = np.array([average([H[u] for u in senders[v]], H.shape[1]) for v in range(len(H))])
        H = layer(H, means, W, concat)
        if number < len(weights) or not concat:
            H = relu(H)
    return classify(H, C, b, concat)


def sampled(X, nodes, masks, weights, norms, gates, C, b=None):
    """By the places of a tree: nodes [B], [B, k1], ... and which of them are real.

    The rows of all levels that a layer needs enter it together; only real ones are counted by
    batch norms and gates.
    """
    concat, depth = b is not None, len(nodes) - 1
    levels = {
        level: {at: X[nodes[level][at]] for at in np.ndindex(nodes[level].shape)}
        for level in (range(depth + 1) if concat else [depth])
    }
    for number, (W, norm, gate) in enumerate(zip(weights, norms, gates, strict=True), 1):
        places = [(level, at) for level, found in levels.items() for at in found]
        counted = [float(masks[level][at]) for level, at in places]
        rows = norm(np.array([levels[level][at] for level, at in places]), counted)
        rows = reweighted(rows, gate(mean(rows, counted)))
        entering = dict(zip(places, rows, strict=True))
        levels = {}
        for level in sorted({level for level, _ in places if level > 0}):
            levels[level - 1] = {}
            for at in np.ndindex(nodes[level - 1].shape):
                below = [(*at, i) for i in range(nodes[level].shape[-1])]
                real = [entering[level, place] for place in below if masks[level][place]]
                means = average(real, W.shape[0])[None]
                own = entering[level - 1, at][None] if concat else None
                out = layer(own, means, W, concat)
                if number < len(weights) or not concat:
                    out = relu(out)
                levels[level - 1][at] = out[0]
    final = np.array([levels[0][at] for at in np.ndindex(nodes[0].shape)])
    return classify(final, C, b, concat)
