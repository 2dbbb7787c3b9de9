import pytest
import torch

from drgcn.studies.experiment import MODELS, Experiment, recipe
from drgcn.studies.run import run
from drgcn.studies.tuning.search import without_test

from ...training.graphs import several


def test_no_label_of_a_test_node_is_left(tiny):
    hidden = without_test(tiny)
    assert (hidden.y[tiny.test_mask] == -1).all()
    kept = tiny.train_mask | tiny.val_mask
    assert torch.equal(hidden.y[kept], tiny.y[kept])
    assert torch.equal(hidden.test_mask, tiny.val_mask)
    assert hidden.dataset.unlabelled == int((hidden.y < 0).sum()) > tiny.dataset.unlabelled


def test_the_graph_itself_is_left_alone(tiny):
    labels, mask, info = tiny.y.clone(), tiny.test_mask.clone(), tiny.dataset
    without_test(tiny)
    assert torch.equal(tiny.y, labels)
    assert torch.equal(tiny.test_mask, mask)
    assert tiny.dataset is info


@pytest.mark.parametrize("model", MODELS)
def test_training_and_validation_are_the_same_to_the_last_digit(tiny, tmp_path, model):
    e = recipe("planted", "random", model, reweight="dr", epochs=6)
    seen = run(e, tiny, [0, 1], tmp_path / "seen")
    hidden = run(e, without_test(tiny), [0, 1], tmp_path / "hidden")
    assert hidden.trained == (0, 1)
    for seed in (0, 1):
        assert hidden.seeds[seed].curve_val_accuracy == seen.seeds[seed].curve_val_accuracy
        assert hidden.seeds[seed].curve_train_loss == seen.seeds[seed].curve_train_loss
        assert hidden.seeds[seed].test_accuracy == hidden.seeds[seed].val_accuracy


@pytest.mark.parametrize("many_labels", [False, True])
def test_several_graphs(tmp_path, many_labels):
    data = several(many_labels=many_labels)
    e = Experiment("union", "given", hidden_channels=6, epochs=5)
    seen = run(e, data, [0], tmp_path / "seen").seeds[0]
    hidden = run(e, without_test(data), [0], tmp_path / "hidden").seeds[0]
    assert hidden.val_accuracy == seen.val_accuracy == hidden.test_accuracy
    assert hidden.curve_train_loss == seen.curve_train_loss


def test_records_of_either_are_never_mixed(tiny, tmp_path):
    e = Experiment("planted", "random", hidden_channels=4, epochs=3)
    run(e, without_test(tiny), [0], tmp_path)
    outcome = run(e, tiny, [0], tmp_path)
    assert outcome.trained == (0,)
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert len(list(tmp_path.glob("*without-test*.json"))) == 1
