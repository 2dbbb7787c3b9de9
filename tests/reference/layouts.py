"""The same matrix in every layout that features may come in."""

import torch


def dense(x):
    return x


def coo(x):
    return x.to_sparse_coo()


def uncoalesced_coo(x):
    """Every entry twice, a quarter and three quarters of it, not in order."""
    entries = x.to_sparse_coo()
    index = entries.indices()
    return torch.sparse_coo_tensor(
        torch.cat([index, index.flip(1)], 1),
        torch.cat([entries.values() * 0.25, entries.values().flip(0) * 0.75]),
        x.shape,
    )


def csr(x):
    return x.to_sparse_csr()


def narrow_csr(x):
    """CSR with 32-bit indices."""
    csr = x.to_sparse_csr()
    return torch.sparse_csr_tensor(
        csr.crow_indices().int(), csr.col_indices().int(), csr.values(), x.shape
    )


SPARSE = [coo, uncoalesced_coo, csr, narrow_csr]
ALL = [dense, *SPARSE]
