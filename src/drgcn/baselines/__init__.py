"""Baselines that the paper quotes and does not run.

Each is a dataclass whose fields are its settings, with ``predict(data, seed)`` for scores of all
nodes. :func:`run_baseline` runs one over seeds and writes records.
"""

from drgcn.baselines.base import Baseline, Prediction
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.baselines.ica import IterativeClassification
from drgcn.baselines.laplacian import (
    InductiveManifoldRegularization,
    InductiveSemiEmbedding,
    LabelPropagation,
    ManifoldRegularization,
    SemiEmbedding,
)
from drgcn.baselines.networks import DualPrimal, GraphSGAN, MoNet
from drgcn.baselines.planetoid import Planetoid, PlanetoidI, PlanetoidScript
from drgcn.baselines.run import METHODS, baseline_records, method, run_baseline
from drgcn.records import BaselineRecord

__all__ = [
    "METHODS",
    "Baseline",
    "BaselineRecord",
    "DeepWalk",
    "DualPrimal",
    "GraphSGAN",
    "InductiveManifoldRegularization",
    "InductiveSemiEmbedding",
    "IterativeClassification",
    "LabelPropagation",
    "ManifoldRegularization",
    "MoNet",
    "Planetoid",
    "PlanetoidI",
    "PlanetoidScript",
    "Prediction",
    "SemiEmbedding",
    "baseline_records",
    "method",
    "run_baseline",
]
