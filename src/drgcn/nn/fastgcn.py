"""FastGCN and Dr-FastGCN."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from drgcn.nn.argument_checks import check_sizes
from drgcn.nn.layer_input import Norm, Reweight
from drgcn.nn.layer_sampled_gcn import LayerSampledGCN
from drgcn.sampling import CSRGraph, ImportanceSampler, LayerDependentSampler, LayerSample


class FastGCN(LayerSampledGCN):
    r"""The model of `"FastGCN: Fast Learning with Graph Convolutional Networks via Importance
    Sampling" <https://arxiv.org/abs/1801.10247>`_, in the form its published numbers come from:
    the first layer takes :math:`\tilde{\mathbf{A}} \mathbf{X}`, computed once, and every further
    layer draws its senders by importance. Plain or with dimensional reweighting.

    Train it with :func:`drgcn.fit` and a ``batch_size``, or in a loop of your own with
    :meth:`prepare_training` and :meth:`sampled`.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        count (int, optional): Nodes drawn for every sampled layer. (default: :obj:`400`)
        sampler (str, optional): :obj:`"importance"` as in FastGCN, or
            :obj:`"layer-dependent"` as in LADIES. (default: :obj:`"importance"`)
        candidates (str, optional): Draw among the nodes that send to the :obj:`"rows"` of the
            batch, or among :obj:`"all"`; for importance alone. (default: :obj:`"rows"`)
        power (int, optional): Draw by a column's norm (1) or squared norm (2); for importance
            alone. (default: :obj:`1`)
        replace (bool, optional): Draw with replacement. (default: :obj:`False`)
        renormalize (bool, optional): Exact weights; see
            :class:`~drgcn.sampling.ImportanceSampler`. (default: :obj:`True`)
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
        count: int = 400,
        sampler: Literal["importance", "layer-dependent"] = "importance",
        candidates: Literal["rows", "all"] = "rows",
        power: Literal[1, 2] = 1,
        replace: bool = False,
        renormalize: bool = True,
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
            dense_first=True,
        )
        check_sizes("FastGCN", count=count)
        if sampler not in ("importance", "layer-dependent"):
            raise ValueError(
                f"FastGCN expects sampler 'importance' or 'layer-dependent'; found {sampler!r}."
            )
        self.count, self.kind = count, sampler
        self.candidates, self.power = candidates, power
        self.replace, self.renormalize = replace, renormalize
        self.reset_parameters()

    def sampler(self, graph: CSRGraph) -> ImportanceSampler | LayerDependentSampler:
        """What draws the layers."""
        if self.kind == "layer-dependent":
            return LayerDependentSampler(graph, self.count, self.replace)
        return ImportanceSampler.of(
            graph,
            self.count,
            power=self.power,
            candidates=self.candidates,
            replace=self.replace,
            renormalize=self.renormalize,
        )

    def sample_layers(
        self, batch: Tensor, scores: None, sampler: ImportanceSampler | LayerDependentSampler
    ) -> list[LayerSample]:
        """The samples of all layers but the first, top layer first."""
        found: list[LayerSample] = []
        rows = batch
        for _ in self.weights[1:]:
            found.append(sampler.sample(rows, distinct=not found))
            rows = found[-1].nodes
        return found
