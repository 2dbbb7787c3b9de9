"""GeniePath as its paper has it, node by node, in float64 torch so that autograd can be compared.

h = X W_x. A layer: alpha_ij = softmax over j of v . tanh(W_s h_i + W_d h_j), neighbours and i
itself; b_i = tanh(W sum_j alpha_ij h_j); gates from b_i (lazy: from b_i beside the output before):
c_i = sigmoid(f) c_i + sigmoid(i) tanh(new), out_i = sigmoid(o) tanh(c_i). The next layer sees the
output, or b if lazy. In front of the embedding and every layer: Dr, pooled over the clean input.
"""

import torch
from torch_geometric.nn import GATConv


def breadth(H, neighbors, W_s, W_d, W, v):
    rows = []
    for i in range(len(H)):
        scores = [v @ torch.tanh(W_s.t() @ H[i] + W_d.t() @ H[j]) for j in neighbors[i]]
        exps = [score.exp() for score in scores]
        gathered = sum(e / sum(exps) * H[j] for e, j in zip(exps, neighbors[i], strict=True))
        rows.append(torch.tanh(W.t() @ gathered))
    return torch.stack(rows)


def depth(B, C, gates):
    W_i, W_f, W_o, W_c = gates
    outs, memories = [], []
    for b, c in zip(B, C, strict=True):
        c = sigmoid(W_f.t() @ b) * c + sigmoid(W_i.t() @ b) * torch.tanh(W_c.t() @ b)
        memories.append(c)
        outs.append(sigmoid(W_o.t() @ b) * torch.tanh(c))
    return torch.stack(outs), torch.stack(memories)


def forward(X, neighbors, model, gates, masks=None):
    """``gates`` holds one function X -> s per layer, the embedding first; ``masks`` what dropout
    multiplies each layer's input by."""
    masks = [1.0] * len(gates) if masks is None else masks
    H = (X * gates[0](X) * masks[0]) @ model.embedding
    out, C = H, torch.zeros_like(H)
    for path, gate, mask in zip(model.paths, gates[1:], masks[1:], strict=True):
        W_s, W_d, W = path.weight.unbind(1)
        B = breadth(H * gate(H) * mask, neighbors, W_s, W_d, W, path.att[:, 0])
        seen = torch.cat([B, out], dim=1) if model.lazy else B
        out, C = depth(seen, C, path.gates.unbind(1))
        H = B if model.lazy else out
    return out @ model.weight + model.bias


class Public(torch.nn.Module):
    """The form of public PyTorch code: PyG's GATConv, torch's LSTM cells without biases, linear
    maps with biases at both ends. Without ``lazy`` each convolution reads the last output; with
    it all of them read the first map's, and each cell reads a breadth beside the last output."""

    def __init__(self, in_channels, hidden_channels, out_channels, num_layers, lazy):
        super().__init__()
        self.lazy = lazy
        layers = range(num_layers)
        seen = (2 if lazy else 1) * hidden_channels
        self.enter = torch.nn.Linear(in_channels, hidden_channels)
        self.convs = torch.nn.ModuleList(GATConv(hidden_channels, hidden_channels) for _ in layers)
        self.cells = torch.nn.ModuleList(
            torch.nn.LSTM(seen, hidden_channels, bias=False) for _ in layers
        )
        self.leave = torch.nn.Linear(hidden_channels, out_channels)
        self.double()

    def forward(self, x, edge_index):
        first = out = self.enter(x)
        hidden = memory = torch.zeros_like(first)[None]
        for conv, cell in zip(self.convs, self.cells, strict=True):
            gathered = conv(first if self.lazy else out, edge_index).tanh()
            seen = torch.cat([gathered, out], dim=1) if self.lazy else gathered
            steps, (hidden, memory) = cell(seen[None], (hidden, memory))
            out = steps[0]
        return self.leave(out)

    @torch.no_grad()
    def load(self, model):
        """Take the parameters of ours."""
        self.enter.weight.copy_(model.embedding.t())
        self.enter.bias.copy_(model.embedding_bias)
        self.leave.weight.copy_(model.weight.t())
        self.leave.bias.copy_(model.bias)
        for path, conv, cell in zip(model.paths, self.convs, self.cells, strict=True):
            conv.lin.weight.copy_(path.weight[:, 0].t())
            conv.att_dst.copy_(path.att[:, 0])
            conv.att_src.copy_(path.att[:, 1])
            conv.bias.copy_(path.bias)
            order = path.gates[:, [0, 1, 3, 2]].flatten(1).t()  # input, forget, new, output
            own = cell.weight_ih_l0.size(1)
            cell.weight_ih_l0.copy_(order[:, :own])
            cell.weight_hh_l0.copy_(order[:, own:])
        return self


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))
