"""Training on samples: batches, draws and parts of one graph that training does not see."""

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from drgcn.errors import InputError
from drgcn.nn import ASGCN, GCN, FastGCN, GraphSAGE
from drgcn.streams import step_key, stream_key
from drgcn.training import RisingLoss, clear_checkpoint, fit, task
from drgcn.training.randomness import SeededRandomness
from drgcn.training.stack import ModelStack
from drgcn.training.task import MiniBatches, Task, visible

from .graphs import CLASSES, FEATURES, LABELS, graph, several

KINDS = {
    "fastgcn": lambda d, c, **o: FastGCN(d, 8, c, count=12, **o),
    "adapt": lambda d, c, **o: ASGCN(d, 8, c, count=12, **o),
    "mix": lambda d, c, **o: ASGCN(d, 8, c, count=12, form="mix", **o),
    "concat": lambda d, c, **o: GraphSAGE(d, 8, c, fan_outs=(3, 2), **o),
    "simple": lambda d, c, **o: GraphSAGE(d, 8, c, fan_outs=(3, 2), form="simple", **o),
}
KIND = pytest.mark.parametrize("kind", KINDS)
ONE_OF_EACH = pytest.mark.parametrize("kind", ["fastgcn", "adapt", "concat"])
LAST = RisingLoss(window=100)  # keeps the last weights, and stops at the end alone


def maker(kind, data=None, **options):
    width, outputs = (24, 4) if data is None else (FEATURES, LABELS)
    return lambda: KINDS[kind](width, outputs, **options)


def one_graph(nodes, **options):
    """A graph that can be learnt, in three parts."""
    data = graph(nodes, 3, **options)
    part = torch.arange(nodes) * 5 // nodes
    data.train_mask, data.val_mask, data.test_mask = part < 2, part == 2, part > 2
    return data


@pytest.fixture(scope="module")
def table():
    """One graph with several labels a node."""
    return one_graph(60, many_labels=True)


def assert_equal_to_the_bit(one, place, other, there):
    for name, curves in one.curves.items():
        assert torch.equal(curves[place], other.curves[name][there]), name
    assert one.best_epoch[place] == other.best_epoch[there]
    assert one.test_accuracy[place] == other.test_accuracy[there]
    states = (one.models[place].state_dict(), other.models[there].state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


# One pass over many seeds


DR = {"reweight": "dr", "dropout": 0.4}


@pytest.mark.parametrize(
    ("kind", "options"), [*((kind, DR) for kind in KINDS), ("fastgcn", {"norm": "batch"})]
)
def test_a_seed_alone_equals_the_seed_among_others_to_the_bit(tiny, kind, options):
    settings = {"epochs": 3, "batch_size": 10, "inductive": "train"}
    alone = fit(maker(kind, **options), tiny, [6], **settings)
    among = fit(maker(kind, **options), tiny, [0, 6, 7], **settings)  # two blocks
    assert_equal_to_the_bit(alone, 0, among, 1)
    assert not torch.equal(among.curves["train_loss"][0], among.curves["train_loss"][1])


@ONE_OF_EACH
def test_the_outside_generator_is_neither_read_nor_moved(tiny, kind):
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        found.append(fit(maker(kind, dropout=0.3), tiny, [0], epochs=2, batch_size=10))
        assert torch.equal(before, torch.random.get_rng_state())
    assert_equal_to_the_bit(found[0], 0, found[1], 0)


def plain_loop(make, data, training, seed, *, epochs, batch_size, lr, decay, loss_of):
    """The literal protocol for one seed; yields loss, validation loss and model by epoch."""
    torch.manual_seed(stream_key(seed, "initialisation"))
    model = make()
    inputs = model.prepare_training(training)
    nodes = training.train_mask.nonzero().flatten()
    decayed = list(model.regularized_parameters())
    others = [p for p in model.parameters() if all(p is not d for d in decayed)]
    optimizer = torch.optim.Adam(
        [{"params": decayed, "weight_decay": decay}, {"params": others}], lr=lr
    )
    batches = MiniBatches(len(nodes), batch_size)
    draws = torch.tensor(stream_key(seed, "dropout"))
    step = 0
    for epoch in range(1, epochs + 1):
        order = batches.order(torch.tensor([stream_key(seed, "batches")]), torch.tensor(epoch))
        losses = []
        for places in order[:, 0]:
            step += 1
            batch = nodes[places]
            optimizer.zero_grad()
            with SeededRandomness(step_key(draws, torch.tensor(step))):
                scores, extra = model.train().sampled(batch, *inputs)
            loss = loss_of(scores, training.y[batch])
            (loss + extra).backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            out = model.eval()(data.x, data.edge_index)[data.val_mask]
        yield sum(losses) / len(losses), loss_of(out, data.y[data.val_mask]).item(), model


@pytest.mark.parametrize(
    ("kind", "inductive"), [*((kind, "train") for kind in KINDS), ("adapt", None)]
)
def test_one_pass_equals_a_plain_loop_over_seeds_and_steps(tiny, kind, inductive):
    make = maker(kind, reweight="dr", dropout=0.2)
    settings = {"epochs": 3, "batch_size": 10, "lr": 0.02}
    result = fit(make, tiny, [0, 1], inductive=inductive, rule=LAST, **settings)
    training = tiny
    if inductive:
        nodes = tiny.train_mask
        edges, _ = subgraph(nodes, tiny.edge_index, relabel_nodes=True)
        training = Data(x=tiny.x[nodes], y=tiny.y[nodes], edge_index=edges)
        training.train_mask = torch.ones(len(training.y), dtype=torch.bool)
    for place, seed in enumerate((0, 1)):
        loop = plain_loop(
            make, tiny, training, seed, decay=5e-4, loss_of=F.cross_entropy, **settings
        )
        for epoch, (loss, val_loss, model) in enumerate(loop):
            found = float(result.curves["train_loss"][place][epoch])
            assert found == pytest.approx(loss, rel=1e-3)
            # Kipf's rule looks at the loss with its penalty.
            decayed = sum(p.square().sum().item() for p in model.regularized_parameters())
            found = float(result.curves["val_loss"][place][epoch])
            assert found == pytest.approx(val_loss + 0.5 * 5e-4 * decayed, rel=1e-3)
        for name, value in model.named_parameters():
            kept = dict(result.models[place].named_parameters())[name]
            torch.testing.assert_close(kept, value, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("kind", ["fastgcn", "concat"])
def test_several_labels_a_node_are_those_of_each_seeds_own_batch(table, kind):
    make = maker(kind, table)
    settings = {"epochs": 3, "batch_size": 7, "lr": 0.02}
    result = fit(make, table, [0, 1, 2], rule=LAST, **settings)
    assert result.metric == "micro-F1"
    loss_of = F.binary_cross_entropy_with_logits
    for place, seed in enumerate((0, 1, 2)):
        loop = plain_loop(make, table, table, seed, decay=5e-4, loss_of=loss_of, **settings)
        expected = [loss for loss, _, _ in loop]
        assert result.curves["train_loss"][place].tolist() == pytest.approx(expected, rel=1e-3)


@KIND
@pytest.mark.slow
def test_models_learn_from_samples(kind):
    data = one_graph(150)
    make = lambda: KINDS[kind](FEATURES, CLASSES, reweight="dr")  # noqa: E731
    options = {"epochs": 10, "batch_size": 20, "lr": 0.06, "inductive": "train"}
    result = fit(make, data, range(3), **options)
    assert sum(result.test_accuracy) / 3 > 0.6  # of three classes


def test_every_step_has_a_batch_and_draws_of_its_own(tiny, monkeypatch):
    seen, step = [], ModelStack.sampled

    def noted(self, batches, inputs, keys):
        seen.append((batches.clone(), keys.clone()))
        return step(self, batches, inputs, keys)

    monkeypatch.setattr(ModelStack, "sampled", noted)
    fit(maker("fastgcn"), tiny, range(4), epochs=4, batch_size=10)
    assert len(seen) == 4 * 3  # 32 training nodes: three whole batches an epoch
    assert len({tuple(batches.flatten().tolist()) for batches, _ in seen}) == 12
    every = torch.cat([keys for _, keys in seen]).tolist()
    assert len(set(every)) == len(every)


def test_without_a_batch_size_samplers_are_trained_exactly(tiny):
    """On whole graphs, as any other model: what is tested is what was trained."""
    make = maker("fastgcn")
    result = fit(make, tiny, [0], epochs=5, rule=LAST)
    torch.manual_seed(stream_key(0, "initialisation"))
    model = make()
    optimizer = torch.optim.Adam(
        [{"params": [model.weights[0]], "weight_decay": 5e-4}, {"params": [model.weights[1]]}],
        lr=0.01,
    )
    for epoch in range(5):
        optimizer.zero_grad()
        out = model(tiny.x, tiny.edge_index)
        loss = F.cross_entropy(out[tiny.train_mask], tiny.y[tiny.train_mask])
        loss.backward()
        optimizer.step()
        found = float(result.curves["train_loss"][0][epoch])
        assert found == pytest.approx(loss.item(), rel=1e-4)


def test_a_penalty_of_the_models_own_is_in_sampled_steps_too(tiny):
    class Penalised(FastGCN):
        def penalty(self, weight_decay):
            return 0.5 * weight_decay * self.weights[0].square().sum()

    def run(make):
        options = {"epochs": 4, "batch_size": 10, "weight_decay": 0.5}
        return fit(make, tiny, [0], optimizer=torch.optim.SGD, lr=0.1, rule=LAST, **options)

    own = run(lambda: Penalised(24, 8, 4, count=12)).models[0]
    usual = run(lambda: FastGCN(24, 8, 4, count=12)).models[0]
    torch.testing.assert_close(own.state_dict(), usual.state_dict())


# What training does not see


def poisoned(data, *parts, labels=False):
    """Other features for the nodes of some parts, and other edges at them."""
    other = data.clone()
    hit = torch.stack([data[f"{part}_mask"] for part in parts]).any(0)
    other.x = torch.where(hit[:, None], 100 * torch.randn(data.x.shape), data.x)
    kept = ~(hit[data.edge_index[0]] | hit[data.edge_index[1]])
    other.edge_index = data.edge_index[:, kept]
    if labels:
        other.y = torch.where(hit, (data.y + 1) % 4, data.y)
    return other


@pytest.mark.parametrize(
    ("kind", "inductive"), [*((kind, "train") for kind in KINDS), ("fastgcn", "apart")]
)
def test_training_sees_nothing_of_other_nodes(tiny, kind, inductive):
    bad = poisoned(tiny, "val", "test", labels=True)
    settings = {"epochs": 2, "batch_size": 10, "inductive": inductive, "rule": LAST}
    clean, other = (fit(maker(kind, reweight="dr"), d, [0, 1], **settings) for d in (tiny, bad))
    for place in range(2):
        assert torch.equal(*(r.curves["train_loss"][place] for r in (clean, other)))
        assert not torch.equal(*(r.curves["val_loss"][place] for r in (clean, other)))
        for a, b in zip(
            clean.models[place].parameters(), other.models[place].parameters(), strict=True
        ):
            assert torch.equal(a, b)


@ONE_OF_EACH
def test_by_default_training_sees_the_whole_graph(tiny, kind):
    settings = {"epochs": 2, "batch_size": 10}
    bad = poisoned(tiny, "val", "test")
    clean, other = (fit(maker(kind), d, [0], **settings) for d in (tiny, bad))
    assert not torch.equal(clean.curves["train_loss"][0], other.curves["train_loss"][0])


@ONE_OF_EACH
def test_apart_validation_sees_nothing_of_test_nodes(tiny, kind):
    settings = {"epochs": 3, "batch_size": 10, "inductive": "apart"}
    bad = poisoned(tiny, "test", labels=True)
    clean, other = (fit(maker(kind, reweight="dr"), d, [0], **settings) for d in (tiny, bad))
    for name in clean.curves:
        assert torch.equal(clean.curves[name][0], other.curves[name][0])
    assert clean.best_epoch == other.best_epoch
    assert clean.test_accuracy != other.test_accuracy
    settings["inductive"] = "train"  # there validation does see them
    clean, other = (fit(maker(kind, reweight="dr"), d, [0], **settings) for d in (tiny, bad))
    assert torch.equal(clean.curves["train_loss"][0], other.curves["train_loss"][0])
    assert not torch.equal(clean.curves["val_loss"][0], other.curves["val_loss"][0])


@pytest.mark.parametrize(
    ("kind", "inductive"), [*((kind, "apart") for kind in KINDS), ("concat", "train")]
)
def test_kept_models_give_the_recorded_accuracy_where_they_are_tested(tiny, kind, inductive):
    settings = {"epochs": 3, "batch_size": 10, "inductive": inductive}
    result = fit(maker(kind), tiny, [0], **settings)
    seen = tiny
    if inductive == "apart":
        kept = tiny.train_mask | tiny.test_mask
        edges, _ = subgraph(kept, tiny.edge_index, relabel_nodes=True)
        seen = Data(x=tiny.x[kept], y=tiny.y[kept], edge_index=edges)
        seen.test_mask = tiny.test_mask[kept]
    out = result.models[0](seen.x, seen.edge_index)
    right = (out.argmax(1) == seen.y)[seen.test_mask].float().mean()
    assert result.test_accuracy[0] == pytest.approx(right.item())
    prepared = task.tested_inputs(tiny, result.models[0].prepare, torch.device("cpu"), inductive)
    torch.testing.assert_close(result.models[0](*prepared), out)


@pytest.mark.parametrize("inductive", ["train", "apart"])
@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_part_is_the_graph_of_the_nodes_it_may_see(tiny, part, inductive):
    data = tiny.clone()
    data.x = torch.cat([torch.arange(tiny.num_nodes)[:, None].float(), tiny.x], dim=1)
    found = visible(data, part, inductive)
    if inductive == "train" and part != "train":
        assert found is data
        return
    allowed = {v for v in range(240) if tiny.train_mask[v] or tiny[f"{part}_mask"][v]}
    names = found.x[:, 0].long().tolist()
    assert names == sorted(allowed)
    edges = {(names[a], names[b]) for a, b in found.edge_index.T.tolist()}
    assert edges == {(a, b) for a, b in tiny.edge_index.T.tolist() if {a, b} <= allowed}
    assert torch.equal(found.y, tiny.y[names])
    for name in ("train", "val", "test"):
        assert torch.equal(found[f"{name}_mask"], tiny[f"{name}_mask"][names])


def test_parts_that_see_the_same_are_prepared_once(tiny):
    calls = []

    def prepare(data):
        calls.append(data)
        return (data,)

    cpu = torch.device("cpu")
    found = Task.from_data(tiny, prepare, cpu, inductive="train")
    assert len(calls) == 2
    assert found.val.inputs is found.test.inputs
    calls.clear()
    Task.from_data(tiny, prepare, cpu, inductive="apart")
    assert len(calls) == 3
    calls.clear()
    found = Task.from_data(tiny, prepare, cpu, prepare_training=lambda data: ("training",))
    assert len(calls) == 1
    assert found.train[0].inputs == ("training",)


def test_full_batch_models_train_on_the_training_graph_too(tiny):
    make = lambda: GCN(24, 8, 4, dropout=0.0)  # noqa: E731
    result = fit(make, tiny, [0], epochs=5, inductive="train")
    edges, _ = subgraph(tiny.train_mask, tiny.edge_index, relabel_nodes=True)
    inputs = (tiny.x[tiny.train_mask], edges)
    torch.manual_seed(stream_key(0, "initialisation"))
    model = make()
    optimizer = torch.optim.Adam(
        [
            {"params": [model.convs[0].weight], "weight_decay": 5e-4},
            {"params": [model.convs[1].weight]},
        ],
        lr=0.01,
    )
    for epoch in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*inputs), tiny.y[tiny.train_mask])
        loss.backward()
        optimizer.step()
        assert float(result.curves["train_loss"][0][epoch]) == pytest.approx(loss.item(), rel=1e-4)
        with torch.no_grad():
            out = model(tiny.x, tiny.edge_index)[tiny.val_mask]  # evaluation sees all
        expected = F.cross_entropy(out, tiny.y[tiny.val_mask]).item()
        assert float(result.curves["val_loss"][0][epoch]) == pytest.approx(expected, rel=1e-4)


# Cut off and gone on


class CutOffError(Exception):
    pass


@KIND
def test_a_pass_cut_off_between_two_steps_goes_on_to_the_same_bits(
    tiny, tmp_path, monkeypatch, kind
):
    def run(**options):
        settings = {"epochs": 4, "batch_size": 10, "inductive": "train"}
        make = maker(kind, reweight="dr", norm="batch", dropout=0.3)
        return fit(make, tiny, range(2), **settings, **options)

    whole = run()
    calls, step = [], ModelStack.sampled

    def cut(self, *arguments):
        calls.append(None)
        if len(calls) == 8:  # three steps an epoch
            raise CutOffError
        return step(self, *arguments)

    path = tmp_path / "pass"
    monkeypatch.setattr(ModelStack, "sampled", cut)
    with pytest.raises(CutOffError):
        run(checkpoint=path, checkpoint_every=0)
    assert list(tmp_path.iterdir())
    calls.clear()
    monkeypatch.setattr(ModelStack, "sampled", step)
    resumed = run(checkpoint=path)
    for place in range(2):
        assert_equal_to_the_bit(whole, place, resumed, place)
    clear_checkpoint(path)


def test_a_checkpoint_of_another_way_to_sample_is_refused(tiny, tmp_path):
    def run(model=None, **changes):
        make = model or (lambda: GraphSAGE(24, 8, 4, fan_outs=(3, 2)))
        options = {"batch_size": 10, "inductive": "train"} | changes
        fit(make, tiny, [0], epochs=2, checkpoint=tmp_path / "c", **options)

    run()
    run()
    for change in (
        {"batch_size": 11},
        {"inductive": "apart"},
        {"inductive": None},
        {"model": lambda: GraphSAGE(24, 8, 4, fan_outs=(2, 3))},
        {"model": lambda: GraphSAGE(24, 8, 4, fan_outs=(3, 2), replace=True)},
    ):
        with pytest.raises(InputError, match="other data or settings"):
            run(**change)


# Mistakes


def test_models_that_take_whole_graphs_take_no_batch_size(tiny):
    with pytest.raises(InputError, match="such as FastGCN, with batch_size; found GCN"):
        fit(lambda: GCN(24, 8, 4), tiny, [0], epochs=1, batch_size=10)


@pytest.mark.parametrize("options", [{"batch_size": 10}, {"inductive": "train"}])
def test_several_graphs_take_neither_batch_size_nor_inductive(options):
    make = lambda: FastGCN(FEATURES, 8, 3)  # noqa: E731
    with pytest.raises(InputError, match="neither inductive nor batch_size"):
        fit(make, several(), [0], epochs=1, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size to be a whole number from 1 on; found 0"),
        ({"batch_size": 2.5}, "batch_size to be a whole number from 1 on; found 2.5"),
        ({"inductive": "test"}, "'train' or 'apart'; found 'test'"),
    ],
)
def test_impossible_settings_are_refused(tiny, options, words):
    with pytest.raises(InputError, match=words):
        fit(maker("fastgcn"), tiny, [0], epochs=1, **options)
