"""The graph Laplacian, scaled so that Chebyshev polynomials of it stay bounded."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy.sparse import csr_array, identity
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor

from drgcn.errors import DrgcnWarning
from drgcn.nn.adjacency import normalized_adjacency
from drgcn.nn.sparse_matrix import SparseMatrix

_LARGEST_DENSE = 256  # up to here the exact eigenvalues of a dense matrix cost nothing
_BOUND = 2.0  # no eigenvalue of the normalised Laplacian is larger


def scaled_laplacian(
    edge_index: Tensor,
    num_nodes: int,
    *,
    lambda_max: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> SparseMatrix:
    r"""The matrix :math:`\tilde{\mathbf{L}} = 2 \mathbf{L} / \lambda_{\max} - \mathbf{I}` with
    :math:`\mathbf{L} = \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}`, whose
    eigenvalues lie in :math:`[-1, 1]`.

    No self-loops are added, and those of the input are dropped. A node without neighbours keeps
    the row of :math:`\mathbf{I}` in :math:`\mathbf{L}`, as in Kipf's code and in PyG.

    Args:
        edge_index (Tensor): Edges ``[2, E]``.
        num_nodes (int): Number of nodes.
        lambda_max (float, optional): Largest eigenvalue of :math:`\mathbf{L}`. (default:
            computed; for edges without their reverse, the bound 2)
        dtype (torch.dtype, optional): Data type of the result.
    """
    # NOTE[DIFF] Kipf's code keeps the few self-loops that Citeseer lists; here, as in every
    # matrix of this package, they are dropped.
    adj = normalized_adjacency(edge_index, num_nodes, self_loops=False, dtype=torch.float64)
    lambda_max = _largest_eigenvalue(adj) if lambda_max is None else lambda_max
    if not lambda_max > 0:
        raise ValueError(f"scaled_laplacian expects lambda_max > 0; found {lambda_max}.")
    nodes = torch.arange(num_nodes, device=adj.values.device)
    diagonal = adj.values.new_full((num_nodes,), 2 / lambda_max - 1)
    return SparseMatrix.from_coordinates(
        torch.cat([adj.pattern.row, nodes]),
        torch.cat([adj.pattern.col.long(), nodes]),
        torch.cat([adj.values * (-2 / lambda_max), diagonal]).to(dtype),
        (num_nodes, num_nodes),
    )


def _largest_eigenvalue(adj: SparseMatrix) -> float:
    """Of ``I - adj``; the same number at every call."""
    nodes = adj.shape[0]
    entries = (t.cpu().numpy() for t in (adj.values, adj.pattern.col, adj.pattern.crow))
    normalized = csr_array(tuple(entries), shape=adj.shape)
    if not nodes or abs(normalized - normalized.T).max() > 1e-9:
        return _BOUND
    if nodes <= _LARGEST_DENSE:
        return float(1 - np.linalg.eigvalsh(normalized.toarray())[0])
    # A constant vector would not do: on a regular graph it is an eigenvector already, and the
    # solver would go on from random numbers of its own.
    start = np.random.default_rng(0).standard_normal(nodes)
    try:
        laplacian = identity(nodes, format="csr") - normalized
        return float(eigsh(laplacian, k=1, v0=start, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        warnings.warn(
            f"The largest eigenvalue of the Laplacian of {nodes} nodes was not found; the bound "
            f"{_BOUND} stands in for it.",
            DrgcnWarning,
            stacklevel=3,
        )
        return _BOUND
