import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from drgcn.baselines import LabelPropagation, Prediction, baseline_records, run_baseline
from drgcn.baselines.run import BaselineRecord, accuracies
from drgcn.data import load
from drgcn.errors import DrgcnWarning, InputError


@dataclass(frozen=True)
class Guess:
    """Draws classes."""

    name = "guess"
    row = "Guess"
    scaling = "none"
    deterministic = False

    sizes: tuple[float, ...] = (1.0, 2.0)

    def predict(self, data, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return Prediction(torch.rand(data.num_nodes, 3, generator=generator), {"size": seed})


@pytest.fixture
def wine():
    return load("wine")


def test_accuracies_are_shares_of_each_part(tmp_path, wine):
    results = run_baseline(LabelPropagation(), wine, range(5), tmp_path)
    assert list(results) == [0]  # nothing is drawn
    labels = LabelPropagation().predict(wine).scores.argmax(dim=1)
    for mask, found in (
        (wine.test_mask, results[0].test_accuracy),
        (wine.val_mask, results[0].val_accuracy),
    ):
        nodes = mask.nonzero().flatten().tolist()
        right = sum(int(labels[node]) == int(wine.y[node]) for node in nodes)
        assert found == pytest.approx(right / len(nodes), abs=1e-6)


def test_only_missing_seeds_are_run_and_all_are_recorded(tmp_path, wine):
    calls = []

    def run(seeds):
        return run_baseline(
            Guess(), wine, seeds, tmp_path, progress=lambda *now: calls.append(now)
        )

    first = run(range(2))
    second = run(range(4))
    assert calls == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert {seed: second[seed] for seed in first} == first
    records = baseline_records(tmp_path)
    assert sorted(seed for one in records.values() for seed in one.seeds) == [0, 1, 2, 3]


def test_a_record_reads_back_as_it_was(tmp_path, wine):
    run_baseline(LabelPropagation(class_mass=False), wine, [3], tmp_path)
    ((path, record),) = baseline_records(tmp_path).items()
    assert BaselineRecord.loads(record.dumps()) == record
    assert path.name == record.file_name
    assert record.settings == {"class_mass": False}
    assert record.data["content_hash"] == wine.dataset.content_hash
    assert record.environment["torch"] == torch.__version__
    assert json.loads(path.read_text())["format"] == "drgcn baseline"
    with pytest.raises(InputError, match="never overwritten"):
        record.save(tmp_path)


def test_settings_and_data_tell_records_apart(tmp_path, wine):
    run_baseline(LabelPropagation(), wine, [0], tmp_path)
    run_baseline(LabelPropagation(class_mass=False), wine, [0], tmp_path)
    run_baseline(LabelPropagation(), load("wine", split_seed=1), [0], tmp_path)
    assert len({one.identity for one in baseline_records(tmp_path).values()}) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "drgcn baseline", "seeds": {}}'])
def test_damaged_records_are_set_aside_with_a_warning(tmp_path, text):
    (tmp_path / "x-seeds-0-1.json").write_text(text)
    with pytest.warns(DrgcnWarning, match="left out a damaged record"):
        assert baseline_records(tmp_path) == {}


def test_no_seeds_are_refused(tmp_path, wine):
    with pytest.raises(InputError, match="Expected at least one seed"):
        run_baseline(LabelPropagation(), wine, [], tmp_path)


def test_the_summary_is_that_of_the_seeds(tmp_path, wine):
    results = run_baseline(Guess(), wine, range(4), tmp_path)
    test = torch.tensor([100 * one.test_accuracy for one in results.values()])
    summary, val = accuracies(results)
    assert summary.mean == pytest.approx(float(test.mean()))
    assert summary.std == pytest.approx(float(test.std()), rel=1e-5)
    assert summary.words(1) == f"{test.mean():.1f} ± {test.std():.1f}"
    assert val.mean == pytest.approx(np.mean([100 * r.val_accuracy for r in results.values()]))
    assert accuracies({0: results[0]})[0].words(1) == f"{test[0]:.1f}"
