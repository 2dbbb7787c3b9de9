"""Who is nearest: exact search, faiss indexes for serving, and how good a ranking is."""

from drgcn.recommend.retrieval.exact_top import exact_top
from drgcn.recommend.retrieval.item_blocks import ItemBlocks
from drgcn.recommend.retrieval.tiling import Tiling
from drgcn.recommend.retrieval.top_items import TopItems

__all__ = ["ItemBlocks", "Tiling", "TopItems", "exact_top"]
