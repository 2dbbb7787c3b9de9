"""Nearest items: exact search, faiss indexes for serving, and measures of rankings."""

from drgcn.recommend.retrieval.blocks import ItemBlocks, Tiling
from drgcn.recommend.retrieval.evaluation import Estimate, RankingReport, UserValues, evaluate
from drgcn.recommend.retrieval.exact import exact_top
from drgcn.recommend.retrieval.index import (
    AnnIndex,
    FaissIndex,
    RecallTuning,
    read_index,
    tune,
    write_index,
)
from drgcn.recommend.retrieval.ranking import TopItems

__all__ = [
    "AnnIndex",
    "Estimate",
    "FaissIndex",
    "ItemBlocks",
    "RankingReport",
    "RecallTuning",
    "Tiling",
    "TopItems",
    "UserValues",
    "evaluate",
    "exact_top",
    "read_index",
    "tune",
    "write_index",
]
