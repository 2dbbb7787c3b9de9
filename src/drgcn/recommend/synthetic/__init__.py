"""Synthetic clicks: drawn by counting, the same bits on every device."""

from drgcn.recommend.synthetic.astar import checksum, generate_astar
from drgcn.recommend.synthetic.clicks import AstarParameters, AstarSizes

__all__ = ["AstarParameters", "AstarSizes", "checksum", "generate_astar"]
