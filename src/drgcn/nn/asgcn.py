"""AS-GCN and Dr-ASGCN."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.nn.argument_checks import check_sizes
from drgcn.nn.features import Features
from drgcn.nn.layer_input import Norm, Reweight
from drgcn.nn.layer_sampled_gcn import LayerSampledGCN
from drgcn.nn.node_scores import NodeScores
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm
from drgcn.sampling import AdaptiveSampler, CSRGraph, LayerSample


class ASGCN(LayerSampledGCN):
    r"""The model of `"Adaptive Sampling Towards Fast Graph Representation Learning"
    <https://arxiv.org/abs/1809.05343>`_, as its code computes it: layers weighted by

    .. math::
        a_{vu} (\mathrm{ReLU}(\mathbf{x}_v^\top \mathbf{w}_1 + \mathbf{x}_u^\top \mathbf{w}_2)
        + 1),

    a sampler that draws by the same scores (:class:`~drgcn.sampling.AdaptiveSampler`), and the
    variance of the top layer in the loss, through which the scores are learnt. Plain or with
    dimensional reweighting.

    Train it with :func:`drgcn.fit` and a ``batch_size``, or in a loop of your own with
    :meth:`prepare_training` and :meth:`sampled`.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        form (str, optional): :obj:`"adapt"`: all layers are sampled; :obj:`"mix"`: the first one
            takes :math:`\tilde{\mathbf{A}} \mathbf{X}`, computed once. (default: :obj:`"adapt"`)
        count (int, optional): Nodes drawn for every sampled layer. (default: :obj:`128`)
        max_degree (int, optional): Entries per row of the training matrix, chosen once at
            random where there are more. (default: :obj:`32`)
        variance (float, optional): Coefficient of the variance in the loss.
            (default: :obj:`0.5`)
        extra_identity (bool, optional): Add :math:`\mathbf{I}` to the normalised matrix once
            more, as the original does on Pubmed. (default: :obj:`False`)
        drop_duplicates (bool, optional): A quirk of the original; see
            :class:`~drgcn.sampling.AdaptiveSampler`. (default: :obj:`False`)
        swap_scores (bool, optional): A quirk of the original: the sampler takes
            :math:`\mathbf{w}_2` for rows and :math:`\mathbf{w}_1` for senders.
            (default: :obj:`False`)
        divide_by_nodes (bool, optional): A quirk of the original: at inference each sampled
            layer is divided by the number of nodes. (default: :obj:`False`)
        divide_variance (bool, optional): A quirk of the original: what a draw contributes is
            compared with the mean after division by the number of draws.
            (default: :obj:`False`)
        dropout (float, optional): Dropout on the input of every layer. (default: :obj:`0.0`)
        norm (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        form: Literal["adapt", "mix"] = "adapt",
        count: int = 128,
        max_degree: int = 32,
        variance: float = 0.5,
        extra_identity: bool = False,
        drop_duplicates: bool = False,
        swap_scores: bool = False,
        divide_by_nodes: bool = False,
        divide_variance: bool = False,
        dropout: float = 0.0,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers=num_layers,
            dropout=dropout,
            norm=norm,
            reweight=reweight,
            dense_first=form == "mix",
        )
        check_sizes("ASGCN", count=count, max_degree=max_degree)
        if form not in ("adapt", "mix"):
            raise ValueError(f"ASGCN expects the form 'adapt' or 'mix'; found {form!r}.")
        self.count, self.max_degree, self.variance = count, max_degree, variance
        self.extra_identity = extra_identity
        self.drop_duplicates, self.swap_scores = drop_duplicates, swap_scores
        self.divide_by_nodes, self.divide_variance = divide_by_nodes, divide_variance
        self.scores = torch.nn.Parameter(torch.empty(in_channels, 2))  # of rows, of senders
        self.reset_parameters()

    def matrix(self, edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparseMatrix:
        """The propagation matrix."""
        matrix = super().matrix(edge_index, num_nodes, dtype)
        if not self.extra_identity:
            return matrix
        loop = matrix.pattern.row == matrix.pattern.col
        return matrix.with_values(matrix.values + loop.to(dtype))

    def sampler(self, graph: CSRGraph) -> AdaptiveSampler:
        """What draws the layers."""
        return AdaptiveSampler(graph.trimmed(self.max_degree), self.count, self.drop_duplicates)

    def node_scores(self, x: Tensor) -> NodeScores:
        """What decides who is drawn, and with what weight."""
        return NodeScores(x, self.scores)

    def sample_layers(
        self, batch: Tensor, scores: NodeScores, sampler: AdaptiveSampler
    ) -> list[LayerSample]:
        """The samples of all sampled layers, top layer first."""
        # NOTE[DIFF] Not swapped by default: in AS-GCN's code the two vectors change roles
        # between the sampler and the layer.
        of_rows, of_senders = (1, 0) if self.swap_scores else (0, 1)
        found: list[LayerSample] = []
        rows = batch
        for _ in self.weights[1:] if self.dense_first else self.weights:
            layer = sampler.sample(
                rows,
                scores(rows, of_rows).sum(),
                lambda nodes: scores(nodes, of_senders),
                distinct=not found,
            )
            found.append(layer)
            rows = layer.nodes
        return found

    def propagation(self, matrix: SparseMatrix, x: Features) -> SparseMatrix:
        """The matrix with every entry weighted by the scores of its ends."""
        scores = spmm(x, self.scores) if isinstance(x, SparseMatrix) else x @ self.scores
        pattern = matrix.pattern
        factor = F.relu(scores[pattern.row, 0] + scores[pattern.col.long(), 1]) + 1
        if self.divide_by_nodes:
            # NOTE[DIFF] Off by default: AS-GCN's code takes all nodes for as many draws of
            # probability one. Without Dr or norms only the loss notices.
            factor = factor / matrix.shape[1]
        return matrix.with_values(matrix.values * factor)

    def sampled_matrix(self, layer: LayerSample, rows: Tensor, scores: NodeScores) -> Tensor:
        """The same for a sample."""
        both = scores(rows, 0)[:, None] + scores(layer.nodes, 1)[None]
        return layer.matrix * (F.relu(both) + 1)

    def extra_loss(self, matrix: Tensor, h: Tensor, out: Tensor) -> Tensor:
        """The variance, over draws, of what one draw says of the batch's mean."""
        # NOTE[DIFF] AS-GCN's code leaves the factor of the number of draws out (an option here),
        # so that its term is not a variance but mostly the squared mean.
        draws = 1 if self.divide_variance else self.count
        each = draws * matrix.mean(0)[:, None] * h
        return self.variance * (each - out.mean(0)).square().mean()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        super().reset_parameters()
        glorot(self.scores)
