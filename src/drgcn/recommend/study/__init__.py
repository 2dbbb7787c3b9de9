"""Gates compared on clicks: training to a plateau, one test, paired over seeds."""

from drgcn.recommend.study.compare import compare
from drgcn.recommend.study.recipes import recipe
from drgcn.recommend.study.study_record import StudyRecord, read_records
from drgcn.recommend.study.study_settings import StudySettings
from drgcn.recommend.study.three_parts import ThreeParts

__all__ = [
    "StudyRecord",
    "StudySettings",
    "ThreeParts",
    "compare",
    "read_records",
    "recipe",
]
