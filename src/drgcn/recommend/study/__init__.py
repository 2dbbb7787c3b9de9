"""Gates compared on clicks: training to a plateau, one test, paired over seeds."""

from drgcn.recommend.clicks.splits import EvaluationSplit
from drgcn.recommend.study.run import compare
from drgcn.recommend.study.settings import StudyRecord, StudySettings, read_records, recipe

__all__ = [
    "EvaluationSplit",
    "StudyRecord",
    "StudySettings",
    "compare",
    "read_records",
    "recipe",
]
