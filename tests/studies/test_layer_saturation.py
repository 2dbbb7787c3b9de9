import json

import pytest
import torch

from drgcn.nn import GCN
from drgcn.stability import gate_saturation, stability_k
from drgcn.studies.experiment import Experiment
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.run import layer_states, run


@pytest.mark.parametrize(("reweight", "layers"), [(None, 0), ("dr", 2), ("static", 2)])
def test_saturation_is_recorded_for_every_gated_layer(tiny, tmp_path, reweight, layers):
    experiment = Experiment("planted", "random", hidden_channels=8, epochs=10, reweight=reweight)
    outcome = run(experiment, tiny, [0], tmp_path)
    (record,) = load_records(tmp_path)
    assert record.seeds[0].saturation == outcome.seeds[0].saturation
    assert len(outcome.seeds[0].saturation) == layers
    assert all(0 <= share <= 1 for share in outcome.seeds[0].saturation)


def test_records_from_before_saturation_was_measured_are_read(make_record):
    record = make_record([0.8], reweight="dr")
    raw = json.loads(record.dumps())
    del raw["seeds"]["0"]["saturation"]
    assert RunRecord.loads(json.dumps(raw)) == record
    assert record.seeds[0].saturation == []


def test_one_forward_pass_gives_k_saturation_and_gate(tiny):
    model = GCN(64, 8, 4, reweight="dr").eval()
    inputs = model.prepare(tiny)
    passes = []
    model.inputs[0].register_forward_hook(lambda *_: passes.append(1))
    found = layer_states(model, inputs)
    assert len(passes) == 1
    layers = list(model.layers(tiny.x, tiny.edge_index))
    assert len(found) == len(layers) == 2
    for state, (x, s, _) in zip(found, layers, strict=True):
        assert state.k == pytest.approx(stability_k(x, s), abs=1e-4)
        assert state.saturation == pytest.approx(gate_saturation(s), abs=1e-4)
        torch.testing.assert_close(state.s, s.detach())
        assert not state.s.requires_grad
