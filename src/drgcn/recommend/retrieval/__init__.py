"""Who is nearest: exact search, faiss indexes for serving, and how good a ranking is."""

from drgcn.recommend.retrieval.ann_index import AnnIndex
from drgcn.recommend.retrieval.estimate import Estimate
from drgcn.recommend.retrieval.evaluation import evaluate
from drgcn.recommend.retrieval.exact_top import exact_top
from drgcn.recommend.retrieval.faiss_index import FaissIndex
from drgcn.recommend.retrieval.index_files import read_index, write_index
from drgcn.recommend.retrieval.item_blocks import ItemBlocks
from drgcn.recommend.retrieval.ranking_report import RankingReport
from drgcn.recommend.retrieval.recall_tuning import RecallTuning, tune
from drgcn.recommend.retrieval.tiling import Tiling
from drgcn.recommend.retrieval.top_items import TopItems
from drgcn.recommend.retrieval.user_values import UserValues

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
