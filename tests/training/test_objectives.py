"""Losses and metrics of many seeds at once, by name and as functions."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as sk
from sklearn.metrics import accuracy_score, f1_score, log_loss, mean_squared_error, r2_score
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from drgcn import fit
from drgcn.errors import DrgcnWarning, InputError
from drgcn.training import BestValidation, Metric, Patience, load_fit
from drgcn.training.objectives import is_share, objective_for

# Loss and score of many seeds against scikit-learn, seed by seed


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
    found = objective_for(classes).loss(scores, classes)
    for lane, value in zip(scores.double(), found, strict=True):
        expected = log_loss(classes, lane.softmax(-1), labels=range(CLASSES))
        assert float(value) == pytest.approx(expected, rel=1e-5)


def test_single_label_score_is_the_accuracy_of_scikit_learn(scores, classes):
    found = objective_for(classes).score(scores, classes)
    expected = [accuracy_score(classes, lane.argmax(-1)) for lane in scores]
    assert found.tolist() == pytest.approx(expected)
    assert len(set(expected)) > 1


def test_multi_label_loss_is_the_mean_log_loss_of_scikit_learn(scores, table):
    found = objective_for(table).loss(scores, table)
    for lane, value in zip(scores.double().sigmoid(), found, strict=True):
        columns = [log_loss(table[:, c], lane[:, c], labels=[0, 1]) for c in range(CLASSES)]
        assert float(value) == pytest.approx(np.mean(columns), rel=1e-5)


def test_multi_label_score_is_the_micro_f1_of_scikit_learn(scores, table):
    found = objective_for(table).score(scores, table)
    expected = [f1_score(table, lane.sigmoid() > 0.5, average="micro") for lane in scores]
    assert found.tolist() == pytest.approx(expected)
    assert len(set(expected)) == SEEDS


def test_regression_is_that_of_scikit_learn(scores):
    values = torch.randn(NODES, CLASSES)
    objective = objective_for(values)
    error = [mean_squared_error(values, lane) for lane in scores]
    assert objective.loss(scores, values).tolist() == pytest.approx(error, rel=1e-5)
    share = [r2_score(values, lane) for lane in scores]
    assert objective.score(scores, values).tolist() == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_tables_of_any_type_are_taken(scores, table, dtype):
    objective = objective_for(table)
    for judge in (objective.loss, objective.score):
        assert torch.equal(judge(scores, table.to(dtype)), judge(scores, table))


@pytest.mark.parametrize("wanted", [0, 1])
@pytest.mark.parametrize("found", [0, 1])
def test_micro_f1_without_any_positives_is_that_of_scikit_learn(wanted, found):
    scores = torch.full((2, NODES, CLASSES), 2.0 * found - 1)
    table = torch.full((NODES, CLASSES), float(wanted))
    expected = f1_score(table, scores[0] > 0, average="micro", zero_division=1.0)
    assert objective_for(table).score(scores, table).tolist() == [expected, expected]
    assert expected == float(wanted == found)


def test_seeds_do_not_mix(scores, classes, table):
    for objective, labels in ((objective_for(classes), classes), (objective_for(table), table)):
        for judge in (objective.loss, objective.score):
            alone = torch.cat([judge(lane[None], labels) for lane in scores])
            torch.testing.assert_close(judge(scores, labels), alone)


def test_gradients_of_a_seed_are_those_of_the_seed_alone(scores, classes, table):
    for objective, labels in ((objective_for(classes), classes), (objective_for(table), table)):
        leaf = scores.clone().requires_grad_()
        (found,) = torch.autograd.grad(objective.loss(leaf, labels).sum(), leaf)
        for number in range(SEEDS):
            alone = scores[number : number + 1].clone().requires_grad_()
            (expected,) = torch.autograd.grad(objective.loss(alone, labels).sum(), alone)
            torch.testing.assert_close(found[number], expected[0])


@pytest.fixture
def values():
    return torch.randn(NODES, CLASSES)


def test_labels_say_which_objective_is_meant(classes, table, values):
    found = [objective_for(labels) for labels in (classes, table, values)]
    assert [o.kind for o in found] == ["classes", "labels", "values"]
    assert [o.metric for o in found] == ["accuracy", "micro-F1", "R2"]
    assert all(o.width == CLASSES and o.higher_is_better for o in found)


def test_a_model_of_the_wrong_width_is_refused(table, values):
    objective = objective_for(torch.tensor([5, 1]))
    with pytest.raises(InputError, match=r"at least 6 outputs, one per class; found 5"):
        objective.expect_outputs(5)
    objective.expect_outputs(7)
    for width in (4, 6):
        for labels, kind in ((table, "label"), (values, "value")):
            with pytest.raises(InputError, match=f"5 outputs, one per {kind}.*found {width}"):
                objective_for(labels).expect_outputs(width)


# Metrics by name against scikit-learn, seed by seed; scores of few values tie


def rounded(scores):
    return scores.round(decimals=0)


def chances(scores):
    """Probabilities, in which rounding does not tell those apart that are equal."""
    return scores.double().softmax(-1).round(decimals=12)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("micro-F1", lambda y, s: f1_score(y, s.argmax(-1), average="micro")),
        ("macro_f1", lambda y, s: f1_score(y, s.argmax(-1), average="macro")),
        ("roc-auc", lambda y, s: sk.roc_auc_score(y, chances(s), multi_class="ovr")),
        (
            "Average Precision",
            lambda y, s: sk.average_precision_score(np.eye(CLASSES)[y], chances(s)),
        ),
    ],
)
def test_metrics_of_classes_are_those_of_scikit_learn(scores, classes, name, theirs, tied):
    scores = rounded(scores) if tied and "F1" not in name.upper() else scores
    classes[:CLASSES] = torch.arange(CLASSES)
    found = objective_for(classes, metric=name).score(scores.double(), classes)
    assert found.tolist() == pytest.approx([theirs(classes, lane) for lane in scores], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("ROC-AUC", sk.roc_auc_score), ("average precision", sk.average_precision_score)],
)
def test_of_two_classes_the_second_is_the_positive_one(name, theirs):
    scores, y = torch.randn(SEEDS, NODES, 2), torch.arange(NODES) % 3 // 2
    found = objective_for(y, metric=name).score(scores, y)
    expected = [theirs(y, lane[:, 1] - lane[:, 0]) for lane in scores]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)
    sure = scores + torch.tensor([0.0, 100.0])  # every p of the second is one, rounded
    found = objective_for(y, metric=name).score(sure.double(), y)
    assert found.tolist() == pytest.approx(expected, rel=1e-5)
    ruled_out = scores.masked_fill(torch.tensor([True, False]), -torch.inf)
    assert objective_for(y, metric=name).score(ruled_out, y).isfinite().all()


@pytest.mark.parametrize("form", ["random", "tied", "equal"])
@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("macro-F1", lambda y, s: f1_score(y, s > 0, average="macro", zero_division=0)),
        ("ROC-AUC", sk.roc_auc_score),
        ("average precision", sk.average_precision_score),
    ],
)
def test_metrics_of_tables_are_those_of_scikit_learn(scores, table, name, theirs, form):
    scores = {"random": scores, "tied": rounded(scores), "equal": torch.zeros_like(scores)}[form]
    found = objective_for(table, metric=name).score(scores, table)
    assert found.tolist() == pytest.approx([theirs(table, lane) for lane in scores], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("MAE", sk.mean_absolute_error),
        ("mse", sk.mean_squared_error),
        ("RMSE", sk.root_mean_squared_error),
    ],
)
def test_errors_are_those_of_scikit_learn(scores, values, name, theirs):
    objective = objective_for(values, metric=name)
    assert not objective.higher_is_better
    expected = [theirs(values, lane) for lane in scores]
    assert objective.score(scores, values).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("tied", [False, True])
def test_ranks_of_pairs_are_those_of_a_slow_count(tied):
    scores, pairs = torch.randn(SEEDS, NODES, 1), (torch.arange(NODES) % 3 == 0)[:, None]
    scores = rounded(scores) if tied else scores

    def rank(lane, place):
        others = [float(s) for s, yes in zip(lane, pairs, strict=True) if not yes]
        score = float(lane[place])
        return 1 + sum((other > score) + 0.5 * (other == score) for other in others)

    for lane, found in zip(
        scores, objective_for(pairs, metric="mrr", kind="links").score(scores, pairs), strict=True
    ):
        ranks = [rank(lane, place) for place in range(NODES) if pairs[place]]
        assert float(found) == pytest.approx(np.mean([1 / r for r in ranks]), rel=1e-5)
    for k in (1, 5, 20):
        found = objective_for(pairs, metric=f"hits@{k}", kind="links").score(scores, pairs)
        for lane, share in zip(scores[..., 0], found, strict=True):
            last = sorted(lane[~pairs[:, 0]].tolist(), reverse=True)[k - 1]
            assert float(share) == pytest.approx(float((lane[pairs[:, 0]] > last).float().mean()))


def test_labels_without_positives_do_not_count(scores, table):
    table[:, 0], table[:, 1] = 0, 1
    for name, theirs in (
        ("ROC-AUC", sk.roc_auc_score),
        ("average precision", sk.average_precision_score),
    ):
        found = objective_for(table, metric=name).score(scores, table)
        expected = [theirs(table[:, 2:], lane[:, 2:]) for lane in scores]
        assert found.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["ROC-AUC", "average precision"])
def test_scores_that_are_no_numbers_have_no_rank(scores, table, name):
    scores[1, 3, 2] = torch.nan
    found = objective_for(table, metric=name).score(scores, table)
    assert found.isnan().tolist() == [False, True, False, False]


def test_r2_is_that_of_sklearn_for_small_values_and_of_those_that_vary():
    generator = torch.Generator().manual_seed(0)
    labels = 1e-8 * torch.rand(9, 2, generator=generator)
    scores = labels + 1e-9 * torch.randn(3, 9, 2, generator=generator)
    objective = objective_for(labels)
    expected = [r2_score(labels, lane) for lane in scores]
    assert objective.score(scores, labels).tolist() == pytest.approx(expected)
    labels[:, 1] = 0.1 + 0.2  # whose mean is rounded
    expected = [r2_score(labels[:, 0], lane[:, 0]) for lane in scores]
    assert objective.score(scores, labels).tolist() == pytest.approx(expected)
    with pytest.raises(InputError, match="of one class or value"):
        objective.expect_defined(2, val=labels[:1])
    far, near = 1e6 + torch.randn(200, 1, generator=generator), torch.full((200, 1), 0.25)
    expected = r2_score(far.double(), (far + near).double())
    assert float(objective_for(far).score((far + near)[None], far)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "kind", "best"),
    [
        ("accuracy", "classes", 0.5),
        ("macro-F1", "classes", (2 / 3) / 3),
        ("ROC-AUC", "classes", 0.5),
        ("ROC-AUC", "links", 0.5),
        ("average precision", "links", 0.25),
        ("MAE", "values", 1.25),
        ("RMSE", "values", (4.75 / 2) ** 0.5),
        ("R2", "values", 0.0),
        (lambda scores, labels: scores.mean(), "values", 1.5),
    ],
)
def test_the_guess_is_the_best_constant_answer(metric, kind, best):
    labels = {
        "classes": torch.tensor([0, 1, 2, 2]),
        "links": torch.tensor([[1.0], [0], [0], [0]]),
        "values": torch.tensor([[0.0], [1], [1], [4]]),
    }[kind]
    if metric == "RMSE":
        best = float(labels.std(correction=0))
    if metric == "MAE":
        best = 1.0
    assert objective_for(labels, metric=metric, kind=kind).guess(labels) == pytest.approx(best)


# Functions


def test_functions_of_torch_take_class_weights_and_smoothing(scores, classes):
    weight = torch.rand(CLASSES) + 0.1
    for options in ({"weight": weight}, {"label_smoothing": 0.2}, {"reduction": "none"}):
        found = objective_for(classes, partial(F.cross_entropy, **options)).loss(scores, classes)
        expected = [F.cross_entropy(lane, classes, **options).mean() for lane in scores]
        torch.testing.assert_close(found, torch.stack(expected))
    module = torch.nn.CrossEntropyLoss(weight)
    found = objective_for(classes, module).loss(scores, classes)
    torch.testing.assert_close(found, torch.stack([module(lane, classes) for lane in scores]))


def test_tables_reach_a_loss_as_real_numbers(scores, table):
    found = objective_for(table.long(), F.binary_cross_entropy_with_logits)
    expected = objective_for(table).loss(scores, table)
    torch.testing.assert_close(found.loss(scores, table.long()), expected)


def test_labels_of_each_seed_reach_a_function(scores):
    own = torch.randint(CLASSES, (SEEDS, NODES))
    for function in (F.cross_entropy, lambda s, y: F.cross_entropy(s, torch.tensor(y.tolist()))):
        objective = objective_for(own[0], function)
        objective.loss(scores, own[0])
        torch.testing.assert_close(
            objective.loss(scores, own), objective_for(own[0]).loss(scores, own)
        )


def by_scikit_learn(scores, labels):
    return accuracy_score(labels.cpu(), scores.argmax(-1).cpu())


def by_torch(scores, labels):
    return (scores.argmax(-1) == labels).float().mean()


@pytest.mark.parametrize("function", [by_scikit_learn, by_torch])
def test_a_metric_may_be_a_function(scores, classes, function):
    objective = objective_for(classes, metric=function)
    assert objective.metric == function.__name__
    found = objective.score(scores, classes)
    torch.testing.assert_close(found, objective_for(classes).score(scores, classes))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"loss": "mse"}, "a loss for class numbers, cross_entropy, or a function"),
        ({"metric": "MAE"}, "a metric of class numbers, accuracy, micro-F1"),
        ({"metric": "hits@10"}, "a metric of class numbers"),
        ({"loss": 3}, "found int"),
        ({"metric": Metric("x", "accuracy")}, "found str"),
    ],
)
def test_what_is_no_loss_or_metric_is_refused(classes, arguments, words):
    with pytest.raises(InputError, match=words):
        objective_for(classes, **arguments, kind="classes")
    for metric in ("Hits@k", "Hits@0", "Hits@-1", "Hits@1.5"):
        with pytest.raises(InputError, match="a metric of pairs of nodes"):
            objective_for(classes[:, None], metric=metric, kind="links")


def test_functions_of_all_pairs_are_told():
    y = torch.randn(30, 1)
    pairs = objective_for(y, metric=lambda s, y: (s[:, 0] - y).square().mean())
    with pytest.warns(DrgcnWarning, match=r"is the same if labels are shuffled.* \[30, 1\]"):
        pairs.expect_defined(1, val=y, test=y)
    for metric in (sk.r2_score, lambda s, y: (s - y).abs().mean(), lambda s, y: (s > y).sum()):
        objective_for(y, F.l1_loss, Metric("own", metric)).expect_defined(1, val=y, test=y)
    same = torch.ones(30, 1)
    objective_for(same, metric=lambda s, y: (s - y).mean()).expect_defined(1, val=same)


def test_functions_that_raise_or_return_several_numbers_are_refused(scores, classes):
    with pytest.raises(InputError, match=r"labels \[30\] of torch.int64; mse_loss raised"):
        objective_for(classes, F.mse_loss).loss(scores, classes)
    with pytest.raises(InputError, match=r"one number for all nodes; found shape \[30, 5\]"):
        objective_for(classes, metric=lambda s, y: s).score(scores, classes)


# Training by them


@pytest.fixture(scope="module")
def graph():
    draw = torch.Generator().manual_seed(3)
    nodes, part = 40, torch.rand(40, generator=draw).argsort().argsort()
    x = torch.randn(nodes, 4, generator=draw)
    return Data(
        x=x,
        y=(x[:, 0] > 0).long(),
        edge_index=torch.randint(nodes, (2, 80), generator=draw),
        train_mask=part < 20,
        val_mask=(part >= 20) & (part < 30),
        test_mask=part >= 30,
    )


def changed(graph, y):
    made = graph.clone()
    made.y = y
    return made


def gcn(outputs=2):
    return lambda: GCN(4, 6, 2, out_channels=outputs)


def test_the_usual_loss_and_metric_by_name_change_nothing(graph):
    usual = fit(gcn(), graph, range(2), epochs=4)
    named = fit(gcn(), graph, range(2), epochs=4, loss="cross_entropy", metric="accuracy")
    assert usual.test_accuracy == named.test_accuracy
    for one, other in zip(usual.models, named.models, strict=True):
        assert all(map(torch.equal, one.parameters(), other.parameters()))


def test_the_kept_epoch_is_the_one_of_the_least_error(graph):
    data = changed(graph, graph.x[:, :1] + 0.5)
    result = fit(gcn(1), data, range(2), epochs=15, metric="MAE", lr=0.1)
    for place in range(2):
        curve = result.curves["val_accuracy"][place]
        assert result.best_epoch[place] == int(curve.argmin()) + 1
        assert result.val_accuracy[place] == pytest.approx(float(curve.min()))
        model, test = result.models[place], data.test_mask
        error = (model(data.x, data.edge_index) - data.y)[test].abs().mean()
        assert result.test_accuracy[place] == pytest.approx(error.item(), rel=1e-5)
    assert (result.metric, result.kind) == ("MAE", "values")
    best = result.best().val_accuracy[0]
    assert best == min(result.val_accuracy)
    assert "test MAE" in result.summary()


@pytest.mark.parametrize("rule", [BestValidation(3), Patience(3, "accuracy")])
def test_rules_stop_when_an_error_falls_no_more(graph, rule):
    data = changed(graph, graph.x[:, :1] + 0.5)
    errors = Metric("count", lambda s, y: (s - y).abs().sum() * 0 + 1, higher_is_better=False)
    result = fit(gcn(1), data, [0], epochs=15, metric=errors, rule=rule)
    assert result.epochs_run[0] == (4 if isinstance(rule, BestValidation) else 15)


@pytest.mark.parametrize("y", [lambda y: y.float(), lambda y: y, lambda y: y[:, None].float()])
def test_whole_numbers_are_a_regression_if_the_loss_says_so(graph, y):
    result = fit(gcn(1), changed(graph, y(graph.y) * 3), [0], epochs=2, loss="mae")
    assert (result.metric, result.kind) == ("R2", "values")


def test_whole_real_numbers_are_a_regression_if_the_metric_says_so(graph):
    assert (
        fit(gcn(1), changed(graph, graph.y.float()), [0], epochs=1, metric="rmse").metric == "RMSE"
    )


def test_two_classes_may_have_one_output(graph):
    result = fit(gcn(1), graph, [0], epochs=2, loss="bce", metric="ROC-AUC")
    test = graph.test_mask
    scores = result.models[0](graph.x, graph.edge_index)[test, 0].detach()
    assert result.test_accuracy[0] == pytest.approx(sk.roc_auc_score(graph.y[test], scores))
    assert result.predict(graph).mean.shape == (40, 1)


def test_a_metric_of_labels_of_one_class_is_refused(graph):
    y = graph.y.clone()
    y[graph.val_mask] = 1
    with pytest.raises(
        InputError, match="the val part for which the loss and ROC-AUC are defined"
    ):
        fit(gcn(), changed(graph, y), [0], epochs=1, metric="ROC-AUC")


def test_a_result_keeps_its_direction(graph, tmp_path):
    result = fit(gcn(1), changed(graph, graph.y), range(2), epochs=2, loss="mse", metric="MAE")
    again = load_fit(result.save(tmp_path / "fit"), gcn(1))
    assert (again.metric, again.kind, again.higher_is_better) == ("MAE", "values", False)
    assert again.best().seeds == result.best().seeds


def test_checkpoints_of_another_loss_are_not_resumed(graph, tmp_path):
    path = tmp_path / "state"
    options = {"epochs": 2, "checkpoint": path}
    fit(gcn(), graph, [0], loss=lambda s, y: F.cross_entropy(s, y), **options)
    with pytest.raises(InputError, match="checkpoint"):
        fit(gcn(), graph, [0], loss=lambda s, y: 2 * F.cross_entropy(s, y), **options)


def test_shares_are_told_from_errors():
    assert all(map(is_share, ("accuracy", "ROC-AUC", "Hits@20", "R2")))
    assert not any(map(is_share, ("MAE", "my function")))
