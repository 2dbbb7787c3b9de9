"""Layers and models that PyG lacks, or computes differently from the paper."""

from drgcn.nn.adjacency import normalized_adjacency
from drgcn.nn.asgcn import ASGCN
from drgcn.nn.chebyshev import ChebNet
from drgcn.nn.chebyshev_convolution import ChebyshevConvolution
from drgcn.nn.fastgcn import FastGCN
from drgcn.nn.gat import GAT
from drgcn.nn.gcn import GCN
from drgcn.nn.geniepath import GeniePath
from drgcn.nn.geniepath_layer import AdaptivePath
from drgcn.nn.graph_attention import GraphAttention
from drgcn.nn.graph_convolution import GraphConvolution
from drgcn.nn.graphsage import GraphSAGE
from drgcn.nn.laplacian import scaled_laplacian
from drgcn.nn.lgcn import LGCN
from drgcn.nn.lgcn_convolution import LearnableGraphConvolution
from drgcn.nn.mixhop import MixHop
from drgcn.nn.mixhop_convolution import MixHopConvolution
from drgcn.nn.mlp import MLP
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm

__all__ = [
    "ASGCN",
    "GAT",
    "GCN",
    "LGCN",
    "MLP",
    "AdaptivePath",
    "ChebNet",
    "ChebyshevConvolution",
    "FastGCN",
    "GeniePath",
    "GraphAttention",
    "GraphConvolution",
    "GraphSAGE",
    "LearnableGraphConvolution",
    "MixHop",
    "MixHopConvolution",
    "SparseMatrix",
    "normalized_adjacency",
    "scaled_laplacian",
    "spmm",
]
