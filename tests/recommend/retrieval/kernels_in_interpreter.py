"""Both kernels of the exact search against torch, in Triton's interpreter: needs no GPU.

Run by test_retrieval_kernels.py in a process of its own, for the interpreter is chosen at import.
"""

import torch
import torch.nn.functional as F

from drgcn.recommend.retrieval.blocks import ItemBlocks, RoundedVectors, Tiling
from drgcn.recommend.retrieval.exact import keys_by_torch, maxima_by_torch
from drgcn.recommend.retrieval.kernels import keys_by_kernel, maxima_by_kernel

TILINGS = (
    Tiling(users=16, items=16, chunk=4, fold=4, columns=1),
    Tiling(users=16, items=32, chunk=2, fold=1, columns=32),
    Tiling(users=32, items=32, chunk=4, fold=2, columns=8),
)


def whole(*shape):
    """Small whole numbers: their products and sums are exact in any order."""
    return torch.randint(-4, 5, shape).float()


def padded(blocks):
    """The columns as they are on CUDA."""
    width = max(16, 2 ** (blocks.dim - 1).bit_length())
    object.__setattr__(blocks, "rounded", F.pad(blocks.rounded, (0, width - blocks.dim)))
    return blocks


def main():
    torch.manual_seed(0)
    for tiling in TILINGS:
        for metric in ("ip", "l2"):
            for dim in (16, 24) if metric == "ip" else (24,):
                for number in (1, 100):
                    compare(tiling, metric, dim, number)
    print("all kernels agree")


def compare(tiling, metric, dim, number):
    queries, items = whole(9, dim), whole(number, dim)
    blocks = padded(ItemBlocks.of(items, metric, tiling))
    rounded = RoundedVectors.of(queries, getattr(torch, tiling.dtype), by_row=metric == "ip")
    expected, found = maxima_by_torch(rounded, blocks), maxima_by_kernel(rounded, blocks)
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one, other), (tiling, metric, dim, number)
    count = min(5, blocks.num_blocks)
    listed = torch.stack([torch.randperm(blocks.num_blocks)[:count] for _ in queries])
    for least in (-torch.inf, -3.0, 1e9):
        floor = torch.full((len(queries),), least)
        for capacity in (4, count * tiling.block):
            arguments = (queries, blocks, listed, floor, capacity)
            keys, complete = keys_by_kernel(*arguments)
            expected_keys, expected_complete = keys_by_torch(*arguments)
            assert torch.equal(complete, expected_complete)
            keys, expected_keys = (k[complete].sort().values for k in (keys, expected_keys))
            assert torch.equal(keys, expected_keys), (tiling, metric, dim, number, least)


if __name__ == "__main__":
    main()
