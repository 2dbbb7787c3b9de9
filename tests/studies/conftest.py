import pytest

from drgcn.data import load
from drgcn.studies.experiment import Experiment
from drgcn.studies.records import RunRecord, SeedResult


@pytest.fixture(scope="session")
def tiny():
    return load("planted", nodes=200, labels_per_class=6, val_per_class=12)


@pytest.fixture
def make_record():
    """A record with the test accuracies given."""

    def make(accuracies, *, first_seed=0, content_hash="abc", **experiment):
        seeds = {
            first_seed + i: SeedResult(
                test_accuracy=accuracy,
                val_accuracy=0.8,
                best_epoch=5 + i,
                epochs=10,
                k=[0.5, 1.0] if experiment.get("reweight") else [],
                curve_val_accuracy=[0.3, 0.8],
                curve_train_loss=[1.5, 0.4],
            )
            for i, accuracy in enumerate(accuracies)
        }
        return RunRecord(
            experiment=Experiment("cora", "full", **experiment),
            data={
                **{"name": "cora", "split": "full", "content_hash": content_hash},
                **{"nodes": 2708, "edges": 5278, "features": 1433, "classes": 7},
                **{"train": 1208, "val": 500, "test": 1000},
            },
            environment={
                **{"device": "a machine", "torch": "2", "torch_geometric": "2"},
                **{"drgcn": "0", "source": "f00"},
            },
            started="2026-01-01T00:00:00+00:00",
            seconds=1.25,
            curve_epochs=[1, 10],
            seeds=seeds,
        )

    return make
