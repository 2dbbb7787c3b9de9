"""Training on several graphs: steps over graphs, and nothing of a part seen by another."""

import copy

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score

from drgcn.nn import GAT, GCN, LGCN, MLP, ChebNet, GeniePath, MixHop
from drgcn.streams import stream_key
from drgcn.training import Patience, clear_checkpoint, fit
from drgcn.training.trainer import Trainer

from .graphs import CLASSES, FEATURES, LABELS, several


@pytest.fixture(scope="module")
def data():
    return several()


@pytest.fixture(scope="module")
def table():
    return several(many_labels=True)


def dr_gcn(outputs=CLASSES, **options):
    return GCN(FEATURES, 6, outputs, reweight="dr", **options)


def scores_by_hand(model, data, graphs, part):
    """Scores of a part of some graphs, one after the other, each with its own vector."""
    out = []
    for g in graphs:
        nodes = (data.graph == g).nonzero().flatten()
        inside = torch.isin(data.edge_index[0], nodes)
        out.append(model(data.x[nodes], data.edge_index[:, inside] - nodes[0]))
    chosen = torch.cat([data[f"{part}_mask"][data.graph == g] for g in graphs])
    return torch.cat(out)[chosen], torch.cat([data.y[data.graph == g] for g in graphs])[chosen]


@pytest.mark.parametrize(
    ("graphs_per_step", "shared"), [(None, False), (1, False), (2, False), (2, True)]
)
def test_steps_over_graphs_equal_a_plain_loop_over_mini_batches(data, graphs_per_step, shared):
    """The literal protocol, without dropout, graph by graph: one s per graph. Parts have graphs
    of their own, or nodes of all graphs."""
    if shared:
        data = copy.copy(data)
        for place, part in enumerate(("train", "val", "test")):
            data[f"{part}_mask"] = torch.arange(data.num_nodes) % 3 == place
    make = lambda: dr_gcn(dropout=0.0)  # noqa: E731
    result = fit(make, data, [0, 1], epochs=5, lr=0.02, graphs_per_step=graphs_per_step)
    train, val, test_graphs = [range(9)] * 3 if shared else [range(5), (5, 6), (7, 8)]
    size = graphs_per_step or 5
    steps = [train[start : start + size] for start in range(0, len(train), size)]
    for place, seed in enumerate((0, 1)):
        torch.manual_seed(stream_key(seed, "initialisation"))
        model = make()
        decayed = list(model.regularized_parameters())
        others = [p for p in model.parameters() if all(p is not d for d in decayed)]
        optimizer = torch.optim.Adam(
            [{"params": decayed, "weight_decay": 5e-4}, {"params": others}], lr=0.02
        )
        best, best_epoch, test = -1.0, 0, 0.0
        for epoch in range(1, 6):
            losses = []
            for graphs in steps:
                optimizer.zero_grad()
                loss = F.cross_entropy(*scores_by_hand(model.train(), data, graphs, "train"))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            mean = sum(losses) / len(losses)
            found = float(result.curves["train_loss"][place][epoch - 1])
            assert found == pytest.approx(mean, rel=1e-4)
            scores, y = scores_by_hand(model.eval(), data, val, "val")
            val_loss = float(result.curves["val_loss"][place][epoch - 1])
            assert val_loss == pytest.approx(F.cross_entropy(scores, y).item(), rel=1e-4)
            accuracy = float((scores.argmax(-1) == y).float().mean())
            if accuracy > best:
                scores, y = scores_by_hand(model, data, test_graphs, "test")
                best, best_epoch = accuracy, epoch
                test = float((scores.argmax(-1) == y).float().mean())
        assert result.best_epoch[place] == best_epoch
        assert result.val_accuracy[place] == pytest.approx(best)
        assert result.test_accuracy[place] == pytest.approx(test)


def test_several_labels_are_learnt_and_judged_by_micro_f1(table):
    make = lambda: dr_gcn(LABELS, dropout=0.2)  # noqa: E731
    result = fit(make, table, range(3), epochs=15, lr=0.06, graphs_per_step=2)
    assert result.metric == "micro-F1"
    for place, model in enumerate(result.models):
        curve = result.curves["val_accuracy"][place]
        assert curve[-5:].mean() > curve[:2].mean() + 0.2
        losses = result.curves["train_loss"][place]
        assert losses[-1] < 0.9 * losses[0]
        scores, y = scores_by_hand(model, table, (7, 8), "test")
        expected = f1_score(y, scores > 0, average="micro")
        assert result.test_accuracy[place] == pytest.approx(expected)


def test_several_labels_are_learnt_on_one_graph_too(table):
    one = table.clone()
    del one.graph
    result = fit(lambda: dr_gcn(LABELS), one, [0], epochs=5, lr=0.03)
    assert result.metric == "micro-F1"
    assert result.curves["train_loss"][0][-1] < result.curves["train_loss"][0][0]


def weights(result, place):
    return result.models[place].state_dict()


def assert_equal_to_the_bit(one, place, other, there):
    for name, curves in one.curves.items():
        assert torch.equal(curves[place], other.curves[name][there]), name
    assert one.best_epoch[place] == other.best_epoch[there]
    assert one.epochs_run[place] == other.epochs_run[there]
    assert one.val_accuracy[place] == other.val_accuracy[there]
    for name, value in weights(one, place).items():
        assert torch.equal(value, weights(other, there)[name]), name


@pytest.mark.parametrize("labels", ["data", "table"])
def test_a_seed_alone_equals_the_seed_among_others_to_the_bit(labels, request):
    graphs = request.getfixturevalue(labels)
    outputs = graphs.dataset.classes

    def make():
        return GAT(FEATURES, 8, outputs, heads=4, out_heads=2, dropout=0.4, reweight="dr")

    options = {"epochs": 4, "graphs_per_step": 2}
    alone = fit(make, graphs, [6], **options)
    among = fit(make, graphs, [0, 5, 6], **options)  # two blocks
    assert_equal_to_the_bit(alone, 0, among, 2)
    assert alone.test_accuracy[0] == among.test_accuracy[2]


def test_every_step_of_an_epoch_has_dropout_of_its_own(monkeypatch):
    """Two equal training graphs, and weights that stand still: only the masks can differ."""
    twins = several(((9, 9), (8,), (8,)))
    first, second = twins.graph == 0, twins.graph == 1
    twins.x[second], twins.y[second] = twins.x[first], twins.y[first]
    inside = first[twins.edge_index[0]]
    beyond = twins.graph[twins.edge_index[0]] > 1
    edges = twins.edge_index[:, inside]
    twins.edge_index = torch.cat([edges, edges + 9, twins.edge_index[:, beyond]], dim=1)
    seen = []
    step = Trainer._descend

    def noted(self, loss, penalty):
        seen.append(loss.detach())
        step(self, loss, penalty)

    monkeypatch.setattr(Trainer, "_descend", noted)
    options = {"epochs": 3, "lr": 0.0, "graphs_per_step": 1}
    fit(lambda: dr_gcn(dropout=0.0), twins, [0], **options)
    assert len({tuple(loss.tolist()) for loss in seen}) == 1
    seen.clear()
    fit(lambda: dr_gcn(dropout=0.5), twins, [0], **options)
    assert len({tuple(loss.tolist()) for loss in seen}) == 6


class CutOffError(Exception):
    pass


@pytest.mark.parametrize("when", ["between epochs", "between two steps of one"])
def test_a_pass_cut_off_goes_on_to_the_same_bits(table, tmp_path, monkeypatch, when):
    def run(**options):
        def make():
            return GAT(FEATURES, 8, LABELS, heads=2, dropout=0.3, reweight="dr")

        rule = Patience(patience=4)
        return fit(make, table, range(2), epochs=6, rule=rule, graphs_per_step=2, **options)

    whole = run()
    calls, step = [], Trainer._descend

    def cut(self, loss, penalty):
        calls.append(loss)
        if len(calls) == (10 if when == "between epochs" else 12):  # three steps an epoch
            raise CutOffError
        step(self, loss, penalty)

    path = tmp_path / "pass"
    monkeypatch.setattr(Trainer, "_descend", cut)
    with pytest.raises(CutOffError):
        run(checkpoint=path, checkpoint_every=0)
    assert list(tmp_path.iterdir())
    calls.clear()
    monkeypatch.setattr(Trainer, "_descend", step)
    resumed = run(checkpoint=path)
    for place in range(2):
        assert_equal_to_the_bit(whole, place, resumed, place)
    assert resumed.test_accuracy == whole.test_accuracy
    clear_checkpoint(path)


# What is tested on is not looked at before the end

MODELS = {
    "gcn": lambda d, c: GCN(d, 6, c, reweight="dr"),
    "gcn + graph norm": lambda d, c: GCN(d, 6, c, norm="graph", reweight="dr"),
    "gat": lambda d, c: GAT(d, 8, c, heads=2, reweight="dr"),
    "mixhop": lambda d, c: MixHop(d, (3, 3, 3), c, hidden_dropout=0.5, binarize=False),
    "chebyshev": lambda d, c: ChebNet(d, 6, c, K=2, reweight="dr"),
    "mlp": lambda d, c: MLP(d, 6, c, reweight="dr"),
    "lgcn": lambda d, c: LGCN(d, 6, c, num_layers=1, k=3, growth=4, dropout=0.5, reweight="dr"),
    "geniepath": lambda d, c: GeniePath(d, 6, c, reweight="dr"),
}


def assert_blind(data, poisoned, make, **options):
    clean, other = (fit(make, d, [0, 1], epochs=2, **options) for d in (data, poisoned))
    for place in range(2):
        assert_equal_to_the_bit(clean, place, other, place)
    return clean, other


def with_permuted_test_labels(data):
    poisoned, mask = data.clone(), data.test_mask
    poisoned.y = data.y.clone()
    if data.y.dim() == 1:
        poisoned.y[mask] = (data.y[mask] + 1) % (int(data.y.max()) + 1)
    else:
        poisoned.y[mask] = data.y[mask].roll(1, 1)
    return poisoned


@pytest.mark.parametrize("name", MODELS)
def test_test_labels_are_not_read_before_the_end_on_one_graph(tiny, name):
    make = lambda: MODELS[name](tiny.num_features, 4)  # noqa: E731
    clean, other = assert_blind(tiny, with_permuted_test_labels(tiny), make)
    assert clean.test_accuracy != other.test_accuracy  # the poison was there


@pytest.mark.parametrize(
    ("name", "labels"), [*((name, "data") for name in MODELS), ("gcn", "table"), ("gat", "table")]
)
def test_test_graphs_and_their_labels_are_not_read_before_the_end(name, labels, request):
    graphs = request.getfixturevalue(labels)
    make = lambda: MODELS[name](FEATURES, graphs.dataset.classes)  # noqa: E731
    poisoned = with_permuted_test_labels(graphs)
    poisoned.x = graphs.x.clone()
    poisoned.x[graphs.test_mask] = 100 * torch.randn(int(graphs.test_mask.sum()), FEATURES)
    clean, other = assert_blind(graphs, poisoned, make, graphs_per_step=2)
    assert clean.test_accuracy != other.test_accuracy


@pytest.mark.parametrize("name", MODELS)
def test_validation_graphs_choose_but_do_not_teach(data, name):
    make = lambda: MODELS[name](FEATURES, CLASSES)  # noqa: E731
    poisoned = data.clone()
    poisoned.y = data.y.clone()
    poisoned.y[data.val_mask] = data.y[data.val_mask].roll(1)
    poisoned.x = data.x.clone()
    poisoned.x[data.val_mask] += 3
    clean, other = (fit(make, d, [0], epochs=2) for d in (data, poisoned))
    assert torch.equal(clean.curves["train_loss"][0], other.curves["train_loss"][0])
    assert not torch.equal(clean.curves["val_loss"][0], other.curves["val_loss"][0])
