import pytest
import torch
import torch.nn.functional as F
from torch_geometric import nn as pyg

from drgcn import StabilityTracker, insert_reweighting, stability_k
from drgcn.errors import InputError
from drgcn.nn import GCN

from .graphs import CLASSES, FEATURES, graph


@pytest.fixture
def data():
    return graph(30, seed=0)


def test_k_follows_the_training_of_a_plain_loop(data):
    model = insert_reweighting(pyg.GCN(FEATURES, 8, num_layers=2, out_channels=CLASSES))
    tracker = StabilityTracker(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    wanted = []
    for _ in range(4):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()
        tracker.record(data.x, data.edge_index)
        wanted.append(stability_k(data.x, model.convs[0].reweighting.vector(data.x)))
    first = [state for state in tracker.history if state.block == "convs.0.reweighting"]
    assert [state.epoch for state in first] == [1, 2, 3, 4]
    assert [state.k for state in first] == pytest.approx(wanted, rel=1e-9)
    assert len(set(wanted)) == 4
    assert {state.block for state in tracker.history} == set(tracker.blocks)
    assert all(0 <= state.saturation <= 1 for state in tracker.history)


def test_recording_leaves_the_model_as_it_was(data):
    model = insert_reweighting(pyg.GCN(FEATURES, 8, num_layers=2, out_channels=CLASSES))
    model.convs[1].eval()
    modes = [module.training for module in model.modules()]
    hooks = [len(module._forward_hooks) for module in model.modules()]
    StabilityTracker(model).record(data.x, data.edge_index)
    assert [module.training for module in model.modules()] == modes
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert all(parameter.grad is None for parameter in model.parameters())


def test_hooks_go_even_if_the_model_fails(data):
    model = insert_reweighting(pyg.GCN(FEATURES, 8, num_layers=2, out_channels=CLASSES))
    hooks = [len(module._forward_hooks) for module in model.modules()]
    tracker = StabilityTracker(model)
    with pytest.raises(ValueError, match="feature dimensions"):
        tracker.record(data.x[:, :3], data.edge_index)
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert (model.training, tracker.history, tracker.epochs) == (True, [], 0)


@pytest.mark.parametrize("reweight", ["dr", "static"])
def test_models_of_this_package_are_followed_too(data, reweight):
    model = GCN(FEATURES, 8, CLASSES, reweight=reweight)
    found = StabilityTracker(model).record(data.x, data.edge_index)
    layers = list(model.eval().layers(data.x, data.edge_index))
    wanted = [stability_k(x, s) for x, s, _ in layers]
    assert [state.k for state in found] == pytest.approx(wanted, rel=1e-9)


def test_several_graphs_have_the_mean_of_their_k(data):
    model = GCN(FEATURES, 8, CLASSES, num_layers=1, reweight="dr").eval()
    batch = (torch.arange(30) >= 12).long()
    inside = batch[data.edge_index[0]] == batch[data.edge_index[1]]
    (found,) = StabilityTracker(model).record(data.x, data.edge_index[:, inside], batch)
    (_, s, _) = next(model.layers(data.x, data.edge_index[:, inside], batch))
    each = [stability_k(data.x[batch == g], s[g]) for g in (0, 1)]
    assert found.k == pytest.approx(sum(each) / 2, rel=1e-9)


def test_a_block_is_told_once_for_each_of_its_inputs(data):
    kinds = ["cites", "extends", "refutes"]
    edges = {("paper", kind, "paper"): data.edge_index for kind in kinds}
    typed = pyg.to_hetero(pyg.GraphSAGE(FEATURES, 8, 2, CLASSES), (["paper"], list(edges)))
    found = StabilityTracker(insert_reweighting(typed)).record({"paper": data.x}, edges)
    assert len(found) == len({state.block for state in found}) == 2

    twice = pyg.Sequential("x, e", [(conv := pyg.GCNConv(8, 8), "x, e -> x"), (conv, "x, e -> x")])
    found = StabilityTracker(insert_reweighting(twice)).record(data.x[:, :8], data.edge_index)
    assert len({state.block for state in found}) == 1
    assert len({state.k for state in found}) == 2


def test_where_k_is_undefined_there_is_none(data):
    model = insert_reweighting(pyg.GCN(FEATURES, 8, num_layers=1, out_channels=CLASSES))
    (found,) = StabilityTracker(model).record(torch.ones_like(data.x), data.edge_index)
    assert found.k is None


def test_models_without_blocks_are_refused():
    with pytest.raises(InputError, match="Dr blocks"):
        StabilityTracker(pyg.GCN(3, 4, num_layers=2))
