"""From a trained run to recommendations: export, batch lists, and a small endpoint."""

from drgcn.recommend.serving.export_folder import ExportFolder, ExportManifest
from drgcn.recommend.serving.exporting import ExportSettings, LoadedRun, export, model_hash
from drgcn.recommend.serving.recommender import ItemRules, Recommender, Visitors

__all__ = [
    "ExportFolder",
    "ExportManifest",
    "ExportSettings",
    "ItemRules",
    "LoadedRun",
    "Recommender",
    "Visitors",
    "export",
    "model_hash",
]
