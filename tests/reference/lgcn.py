"""LGCN as its authors' code computes it, with dense tensors, node by node and value by value.

Everything is torch in float64, so that autograd gives the gradients to compare with. In front of
every layer: Dr (pooled over the clean input). First and last layer: A (X W + b). A layer between
them: for node i and feature c, the products A[i, j] X[j, c] with *every* node j of the graph are
sorted (zeros of those that are no neighbours take part), the k largest follow the node's own
X[i, c]; two 1-D convolutions over these k + 1 places, a bias after the first, batch norm over all
nodes; the result stands beside the layer's clean input. Masks are what dropout multiplies by.
"""

import torch


def ranked(X, A, k):
    rows = []
    for i in range(len(X)):
        columns = []
        for c in range(X.shape[1]):
            products = A[i] * X[:, c]
            known = products.tolist()
            order = sorted(range(len(X)), key=[-v for v in known].__getitem__)
            columns.append(torch.cat([X[i, c : c + 1], products[order[:k]]]))
        rows.append(torch.stack(columns, dim=1))
    return torch.stack(rows)  # [n, k + 1, d]


def convolution(rows, kernel):
    """Every window of places [n, L, d] meets the kernel [width, d, out]."""
    width = len(kernel)
    places = []
    for place in range(rows.shape[1] - width + 1):
        places.append(sum(rows[:, place + t] @ kernel[t] for t in range(width)))
    return torch.stack(places, dim=1)


def batch_norm(X, gamma, beta):
    columns = []
    for c in range(X.shape[1]):
        average = sum(X[:, c]) / len(X)
        variance = sum((X[:, c] - average) ** 2) / len(X)
        columns.append(gamma[c] * (X[:, c] - average) / (variance + 1e-3).sqrt() + beta[c])
    return torch.stack(columns, dim=1)


def lgcl(X, A, conv, masks=(1.0, 1.0)):
    Z = convolution(ranked(X, A, conv.k) * masks[0], conv.weight1) + conv.bias1
    Z = convolution(Z * masks[1], conv.weight2)
    assert Z.shape[1] == 1
    return batch_norm(Z[:, 0], conv.norm.weight, conv.norm.bias)


def forward(X, A, model, gates, masks=None):
    """``gates`` holds one function X -> s per layer; ``masks`` one mask for the first layer, two
    for each layer between, one for the last."""
    ones = [1.0, *[(1.0, 1.0)] * len(model.convs), 1.0]
    first, *between, last = ones if masks is None else masks
    H = A @ ((X * gates[0](X) * first) @ model.first.weight + model.first.bias)
    for conv, gate, mask in zip(model.convs, gates[1:-1], between, strict=True):
        H = torch.cat([H, lgcl(H * gate(H), A, conv, mask)], dim=1)
    return A @ ((H * gates[-1](H) * last) @ model.last.weight + model.last.bias)
