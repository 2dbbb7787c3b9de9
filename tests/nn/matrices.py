"""Small sparse matrices, written as dense tensors."""

import torch


def random_matrix(rows, cols, seed=0, density=0.4):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    return x * (torch.rand(rows, cols, generator=generator) < density)


def with_empty_lines():
    """The first, a middle and the last row without entries; the first and last column too."""
    x = random_matrix(7, 6, density=0.8)
    x[[0, 3, 6]] = 0
    x[:, [0, 5]] = 0
    return x


MATRICES = {
    "square": random_matrix(5, 5),
    "wide": random_matrix(3, 8),
    "tall": random_matrix(8, 3),
    "full": random_matrix(4, 5, density=1.1),
    "empty lines": with_empty_lines(),
    "no entries": torch.zeros(4, 3, dtype=torch.float64),
    "one row": random_matrix(1, 6),
    "one column": random_matrix(6, 1),
    "no rows": torch.zeros(0, 3, dtype=torch.float64),
    "no columns": torch.zeros(3, 0, dtype=torch.float64),
}
