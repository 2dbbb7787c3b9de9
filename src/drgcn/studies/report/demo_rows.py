"""The experiments of the demo."""

from __future__ import annotations

from drgcn.data import DatasetInfo
from drgcn.studies.experiment import Experiment

DEMO_DATASETS = ("digits", "planted")


def demo_experiments(info: DatasetInfo, epochs: int) -> list[Experiment]:
    """GCN without a gate, with Dr, and with both control gates."""
    return [
        Experiment(info.name, info.split, reweight=gate, hidden_channels=32, epochs=epochs)
        for gate in (None, "dr", "static", "constant")
    ]
