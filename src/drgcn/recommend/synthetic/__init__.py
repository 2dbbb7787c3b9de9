"""Synthetic clicks: drawn by counting, the same bits on every device."""

from drgcn.recommend.synthetic.astar import generate_astar
from drgcn.recommend.synthetic.astar_parameters import AstarParameters, AstarSizes
from drgcn.recommend.synthetic.checksum import checksum

__all__ = ["AstarParameters", "AstarSizes", "checksum", "generate_astar"]
