"""GAT as its authors compute it, node by node and head by head, with dense tensors.

Everything is torch in float64, so that autograd gives the gradients to compare with. Masks are
given: ``masks[layer]`` holds, per head, what multiplies the input [n, d], the coefficients
[n, n] and the transformed features [n, f] (ones: no dropout).
"""

import torch


def head(X, neighbors, W, a_src, b_src, a_dst, b_dst, bias, masks, residual=None):
    """One head: X is the layer's input, already reweighted."""
    drop_input, drop_alpha, drop_features = masks
    X = X * drop_input
    Z = X @ W
    rows = []
    for i in range(len(X)):
        scores = torch.stack(
            [leaky(Z[i] @ a_dst + b_dst + Z[j] @ a_src + b_src) for j in neighbors[i]]
        )
        exps = (scores - scores.max()).exp()
        alpha = exps / exps.sum()
        row = bias
        for a, j in zip(alpha, neighbors[i], strict=True):
            row = row + a * drop_alpha[i, j] * (Z[j] * drop_features[j])
        if residual is not None:
            row = row + X[i] @ residual[0] + residual[1]
        rows.append(row)
    return torch.stack(rows)


def forward(X, neighbors, model, gates, masks=None):
    """The whole network. ``gates[layer]`` maps the layer's input [n, d] to s, [d] or [n, d]."""
    for layer, (conv, gate) in enumerate(zip(model.convs, gates, strict=True)):
        X = X * gate(X)
        outs = []
        for h in range(conv.heads):
            ones = (torch.ones_like(X), X.new_ones(len(X), len(X)), X.new_ones(len(X), 1))
            residual = None
            if conv.res_weight is not None:
                residual = conv.res_weight[h], conv.res_bias[h]
            outs.append(
                head(
                    X,
                    neighbors,
                    conv.weight[h],
                    conv.att_src[h, :, 0],
                    conv.att_src_bias[h, 0],
                    conv.att_dst[h, :, 0],
                    conv.att_dst_bias[h, 0],
                    conv.bias[h],
                    ones if masks is None else masks[layer][h],
                    residual,
                )
            )
        last = layer == len(model.convs) - 1
        X = sum(outs) / len(outs) if last else elu(torch.cat(outs, dim=1))
    return X


def leaky(x):
    return torch.where(x > 0, x, 0.2 * x)


def elu(x):
    return torch.where(x > 0, x, x.clamp(max=0).exp() - 1)
