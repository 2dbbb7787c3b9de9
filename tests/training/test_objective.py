"""Loss and score of many seeds against scikit-learn, seed by seed."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss

from drgcn.errors import InputError
from drgcn.training.task import MultiLabel, SingleLabel, l2_penalty, objective_for

SEEDS, NODES, CLASSES = 4, 30, 5


@pytest.fixture
def scores():
    return 2 * torch.randn(SEEDS, NODES, CLASSES)


@pytest.fixture
def classes():
    return torch.randint(CLASSES, (NODES,))


@pytest.fixture
def table():
    return (torch.rand(NODES, CLASSES) < 0.3).float()


def test_single_label_loss_is_the_log_loss_of_scikit_learn(scores, classes):
    found = SingleLabel().loss(scores, classes)
    for lane, value in zip(scores.double(), found, strict=True):
        expected = log_loss(classes, lane.softmax(-1), labels=range(CLASSES))
        assert float(value) == pytest.approx(expected, rel=1e-5)


def test_single_label_score_is_the_accuracy_of_scikit_learn(scores, classes):
    found = SingleLabel().score(scores, classes)
    expected = [accuracy_score(classes, lane.argmax(-1)) for lane in scores]
    assert found.tolist() == pytest.approx(expected)
    assert len(set(expected)) > 1


def test_multi_label_loss_is_the_mean_log_loss_of_scikit_learn(scores, table):
    found = MultiLabel().loss(scores, table)
    for lane, value in zip(scores.double().sigmoid(), found, strict=True):
        columns = [log_loss(table[:, c], lane[:, c], labels=[0, 1]) for c in range(CLASSES)]
        assert float(value) == pytest.approx(np.mean(columns), rel=1e-5)


def test_multi_label_score_is_the_micro_f1_of_scikit_learn(scores, table):
    found = MultiLabel().score(scores, table)
    expected = [f1_score(table, lane.sigmoid() > 0.5, average="micro") for lane in scores]
    assert found.tolist() == pytest.approx(expected)
    assert len(set(expected)) == SEEDS


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64])
def test_tables_of_any_type_are_taken(scores, table, dtype):
    objective = MultiLabel()
    for judge in (objective.loss, objective.score):
        assert torch.equal(judge(scores, table.to(dtype)), judge(scores, table))


@pytest.mark.parametrize("wanted", [0, 1])
@pytest.mark.parametrize("found", [0, 1])
def test_micro_f1_without_any_positives_is_that_of_scikit_learn(wanted, found):
    scores = torch.full((2, NODES, CLASSES), 2.0 * found - 1)
    table = torch.full((NODES, CLASSES), float(wanted))
    expected = f1_score(table, scores[0] > 0, average="micro", zero_division=1.0)
    assert MultiLabel().score(scores, table).tolist() == [expected, expected]
    assert expected == float(wanted == found)


def test_seeds_do_not_mix(scores, classes, table):
    for objective, labels in ((SingleLabel(), classes), (MultiLabel(), table)):
        for judge in (objective.loss, objective.score):
            alone = torch.cat([judge(lane[None], labels) for lane in scores])
            torch.testing.assert_close(judge(scores, labels), alone)


def test_gradients_of_a_seed_are_those_of_the_seed_alone(scores, classes, table):
    for objective, labels in ((SingleLabel(), classes), (MultiLabel(), table)):
        leaf = scores.clone().requires_grad_()
        (found,) = torch.autograd.grad(objective.loss(leaf, labels).sum(), leaf)
        for number in range(SEEDS):
            alone = scores[number : number + 1].clone().requires_grad_()
            (expected,) = torch.autograd.grad(objective.loss(alone, labels).sum(), alone)
            torch.testing.assert_close(found[number], expected[0])


def test_labels_say_which_objective_is_meant(classes, table):
    assert isinstance(objective_for(classes), SingleLabel)
    assert isinstance(objective_for(table), MultiLabel)
    assert (SingleLabel().metric, MultiLabel().metric) == ("accuracy", "micro-F1")


def test_a_model_of_the_wrong_width_is_refused(scores, table):
    with pytest.raises(InputError, match=r"at least 6 outputs, one per class; found 5"):
        SingleLabel().loss(scores, torch.full((NODES,), CLASSES))
    for width in (4, 6):
        wrong = torch.zeros(SEEDS, NODES, width)
        with pytest.raises(InputError, match=f"5 outputs, one per label; found {width}"):
            MultiLabel().loss(wrong, table)


def test_l2_is_half_the_squares_of_each_seed():
    parameters = [torch.randn(SEEDS, 3, 2), torch.randn(SEEDS, 4)]
    found = l2_penalty(parameters, 0.1)
    for seed in range(SEEDS):
        squares = sum(float((p[seed] ** 2).sum()) for p in parameters)
        assert float(found[seed]) == pytest.approx(0.05 * squares)
    assert l2_penalty([], 0.1) == 0
