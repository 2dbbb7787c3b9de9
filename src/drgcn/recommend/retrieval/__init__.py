"""Nearest items: exact search, faiss indexes for serving, and measures of rankings."""

from drgcn.recommend.retrieval.blocks import ItemBlocks, Tiling
from drgcn.recommend.retrieval.evaluation import (
    Estimate,
    MeasuredLists,
    RankingReport,
    UserValues,
    evaluate,
    evaluate_lengths,
)
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
    "MeasuredLists",
    "RankingReport",
    "RecallTuning",
    "Tiling",
    "TopItems",
    "UserValues",
    "evaluate",
    "evaluate_lengths",
    "exact_top",
    "read_index",
    "tune",
    "write_index",
]
