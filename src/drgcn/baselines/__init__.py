"""Baselines without graph convolutions, which the paper quotes and does not run.

Each is a dataclass whose fields are its settings, with ``predict(data, seed)`` for scores of all
nodes. :func:`run_baseline` runs one over seeds and writes records.
"""

from drgcn.baselines.base import Baseline, Prediction
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.baselines.ica import IterativeClassification
from drgcn.baselines.laplacian import LabelPropagation, ManifoldRegularization
from drgcn.baselines.planetoid import Planetoid, PlanetoidI
from drgcn.baselines.run import METHODS, BaselineRecord, baseline_records, method, run_baseline
from drgcn.baselines.semiemb import SemiEmbedding

__all__ = [
    "METHODS",
    "Baseline",
    "BaselineRecord",
    "DeepWalk",
    "IterativeClassification",
    "LabelPropagation",
    "ManifoldRegularization",
    "Planetoid",
    "PlanetoidI",
    "Prediction",
    "SemiEmbedding",
    "baseline_records",
    "method",
    "run_baseline",
]
