"""Methods that the paper quotes and does not run: no graph convolutions.

Each is a dataclass whose fields are its settings, with ``predict(data, seed)`` for scores of all
nodes. :func:`run_baseline` runs one over seeds and writes records.
"""

from drgcn.baselines.baseline import Baseline
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.baselines.iterative_classification import IterativeClassification
from drgcn.baselines.label_propagation import LabelPropagation
from drgcn.baselines.manifold_regularization import ManifoldRegularization
from drgcn.baselines.methods import METHODS, method
from drgcn.baselines.planetoid import Planetoid, PlanetoidI
from drgcn.baselines.prediction import Prediction
from drgcn.baselines.record import BaselineRecord, baseline_records
from drgcn.baselines.running import run_baseline
from drgcn.baselines.semi_embedding import SemiEmbedding

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
