"""From a trained run to recommendations: export, batch lists, and a small endpoint."""

from drgcn.recommend.serving.export_folder import ExportFolder
from drgcn.recommend.serving.export_manifest import ExportManifest
from drgcn.recommend.serving.exporting import ExportSettings, export
from drgcn.recommend.serving.loaded_run import LoadedRun
from drgcn.recommend.serving.model_hash import model_hash
from drgcn.recommend.serving.recommender import Recommender

__all__ = [
    "ExportFolder",
    "ExportManifest",
    "ExportSettings",
    "LoadedRun",
    "Recommender",
    "export",
    "model_hash",
]
