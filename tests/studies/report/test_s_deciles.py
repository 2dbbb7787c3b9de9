"""The spread of learnt vectors in records."""

import json

import numpy as np
import pytest
import torch

from drgcn.studies.experiment import Experiment
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.run import LayerState, run


def test_deciles_are_those_of_numpy():
    s = torch.rand(303)
    wanted = np.quantile(s.double().numpy(), np.arange(11) / 10)
    assert LayerState(1.0, 0.0, s).deciles == pytest.approx(wanted, abs=5.1e-5)


@pytest.mark.parametrize(("reweight", "layers"), [(None, 0), ("dr", 2), ("constant", 2)])
def test_they_are_recorded_for_every_gated_layer(tiny, tmp_path, reweight, layers):
    experiment = Experiment("planted", "random", hidden_channels=8, epochs=5, reweight=reweight)
    outcome = run(experiment, tiny, [0, 1], tmp_path)
    (record,) = load_records(tmp_path)
    for seed, result in record.seeds.items():
        assert result.s_deciles == outcome.seeds[seed].s_deciles
        assert [len(layer) for layer in result.s_deciles] == [11] * layers
        assert all(layer == sorted(layer) for layer in result.s_deciles)
        if reweight == "constant":
            assert result.s_deciles == [[0.5] * 11] * 2
    if reweight == "dr":
        assert record.seeds[0].s_deciles != record.seeds[1].s_deciles


def test_records_from_before_they_were_kept_are_read(make_record):
    record = make_record([0.8], reweight="dr")
    raw = json.loads(record.dumps())
    del raw["seeds"]["0"]["s_deciles"]
    assert RunRecord.loads(json.dumps(raw)) == record
    assert record.seeds[0].s_deciles == []
