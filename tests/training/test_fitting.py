import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GAT, GCNConv, models

from drgcn import insert_reweighting
from drgcn.errors import DrgcnError, InputError
from drgcn.nn import GCN, MixHop
from drgcn.streams import stream_key
from drgcn.training import Patience, RisingLoss, StepwiseDecay, fit
from drgcn.training.grid import seed_blocks, seeds_that_fit

ONE_MODEL = GCN(24, 8, 4)


def gcn(data, **options):
    return lambda: GCN(data.num_features, 8, 4, **options)


@pytest.mark.parametrize(
    ("reweight", "norm"), [(None, None), ("dr", None), ("dr", "batch"), ("static", "layer")]
)
def test_a_seed_alone_equals_the_seed_among_others_to_the_bit(tiny, reweight, norm):
    make = gcn(tiny, reweight=reweight, norm=norm)
    alone = fit(make, tiny, [6], epochs=5)
    among = fit(make, tiny, [0, 5, 6], epochs=5)  # two blocks
    for name, curves in alone.curves.items():
        assert torch.equal(curves[0], among.curves[name][2])
    weights = zip(
        alone.models[0].state_dict().values(), among.models[2].state_dict().values(), strict=True
    )
    assert all(torch.equal(a, b) for a, b in weights)
    assert alone.test_accuracy == among.test_accuracy[2:]


def test_seeds_come_back_in_the_order_asked(tiny):
    result = fit(gcn(tiny), tiny, [5, 0, 2], epochs=5)
    assert result.seeds == (5, 0, 2)
    assert result.test_accuracy[2] == fit(gcn(tiny), tiny, [2], epochs=5).test_accuracy[0]


def test_different_seeds_differ(tiny):
    result = fit(gcn(tiny), tiny, [0, 1], epochs=5)
    assert not torch.equal(result.curves["train_loss"][0], result.curves["train_loss"][1])


def test_the_outside_generator_is_neither_read_nor_moved(tiny):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = fit(gcn(tiny), tiny, [0], epochs=5)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    assert first.curves["train_loss"][0].equal(
        fit(gcn(tiny), tiny, [0], epochs=5).curves["train_loss"][0]
    )


def test_one_pass_equals_a_plain_loop_over_seeds(tiny):
    """The literal protocol, without dropout so that random streams cannot hide a mistake."""
    result = fit(gcn(tiny, dropout=0.0, reweight="dr"), tiny, [0, 1], epochs=15)
    x, adj, _ = GCN.prepare(tiny)
    for place, seed in enumerate((0, 1)):
        torch.manual_seed(stream_key(seed, "initialisation"))
        model = GCN(tiny.num_features, 8, 4, dropout=0.0, reweight="dr")
        decayed = list(model.regularized_parameters())
        others = [p for p in model.parameters() if all(p is not d for d in decayed)]
        optimizer = torch.optim.Adam(
            [{"params": decayed, "weight_decay": 5e-4}, {"params": others}], lr=0.01
        )
        best, best_epoch, test = -1.0, 0, 0.0
        for epoch in range(1, 16):
            model.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x, adj)[tiny.train_mask], tiny.y[tiny.train_mask])
            loss.backward()
            optimizer.step()
            torch.testing.assert_close(
                loss.detach(), result.curves["train_loss"][place][epoch - 1], rtol=1e-4, atol=1e-5
            )
            model.eval()
            guess = model(x, adj).argmax(-1) == tiny.y
            accuracy = float(guess[tiny.val_mask].float().mean())
            if accuracy > best:
                best, best_epoch = accuracy, epoch
                test = float(guess[tiny.test_mask].float().mean())
        assert result.best_epoch[place] == best_epoch
        assert result.val_accuracy[place] == pytest.approx(best)
        assert result.test_accuracy[place] == pytest.approx(test)


def mixhop(data):
    rates = {"dropout": 0.0, "hidden_dropout": 0.0}
    return MixHop(data.num_features, (4, 3, 2), 4, binarize=False, reweight="dr", **rates)


@pytest.mark.parametrize("rule", [None, RisingLoss()])
def test_gradient_descent_by_a_schedule_equals_a_plain_loop(tiny, rule):
    """MixHop's protocol: its own penalty, plain gradient descent, a rate cut now and then."""
    lr, every, decay = 0.5, 4, 5e-3
    options = {"optimizer": torch.optim.SGD, "lr": lr, "weight_decay": decay, "rule": rule}
    schedule = StepwiseDecay(every, share=0.1)
    result = fit(lambda: mixhop(tiny), tiny, [0, 1], epochs=14, schedule=schedule, **options)
    inputs = mixhop(tiny).prepare(tiny)
    for place, seed in enumerate((0, 1)):
        torch.manual_seed(stream_key(seed, "initialisation"))
        model = mixhop(tiny)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for step in range(14):
            for group in optimizer.param_groups:
                group["lr"] = lr * (1 - 0.1 * (step // every))
            optimizer.zero_grad()
            out = model.train()(*inputs)
            loss = F.cross_entropy(out[tiny.train_mask], tiny.y[tiny.train_mask])
            (loss + model.penalty(decay)).backward()
            optimizer.step()
            with torch.no_grad():
                out = model.eval()(*inputs)
                val_loss = F.cross_entropy(out[tiny.val_mask], tiny.y[tiny.val_mask])
                if rule is not None:  # Kipf's rule looks at the loss with its penalty
                    val_loss = val_loss + model.penalty(decay)
            found = [result.curves[name][place][step] for name in ("train_loss", "val_loss")]
            expected = torch.stack([loss.detach(), val_loss])
            torch.testing.assert_close(torch.stack(found), expected, rtol=1e-4, atol=1e-5)
        if rule is not None:  # the last weights are kept
            torch.testing.assert_close(
                dict(result.models[place].named_parameters()),
                dict(model.named_parameters()),
                rtol=1e-3,
                atol=1e-4,
            )


def test_a_rate_cut_to_nothing_ends_the_learning(tiny):
    options = {"schedule": StepwiseDecay(5, share=1.0), "epochs": 8, "weight_decay": 0.0}
    curve = fit(gcn(tiny, dropout=0.0), tiny, [0], **options).curves["val_loss"][0]
    assert curve[4] < curve[3] < curve[0]
    assert torch.equal(curve[5:], curve[4].expand(3))


def test_a_model_with_a_penalty_of_its_own_is_not_decayed_beside_it(tiny):
    class Free(GCN):
        def penalty(self, weight_decay):
            return 0.0 * self.convs[0].weight.sum()

    def weights(make, **options):
        return fit(make, tiny, [0], epochs=5, **options).models[0].state_dict()

    free = weights(lambda: Free(24, 8, 4, dropout=0.0), weight_decay=1.0)
    plain = weights(lambda: GCN(24, 8, 4, dropout=0.0), weight_decay=0.0)
    torch.testing.assert_close(free, plain)


def test_kept_models_give_the_recorded_accuracy(tiny):
    result = fit(gcn(tiny, reweight="dr"), tiny, range(3), epochs=8)
    inputs = GCN.prepare(tiny)
    for model, accuracy in zip(result.models, result.test_accuracy, strict=True):
        right = model(*inputs).argmax(-1) == tiny.y
        assert float(right[tiny.test_mask].float().mean()) == pytest.approx(accuracy)
        assert not model.training


def test_labels_of_test_nodes_cannot_influence_training(tiny):
    other = tiny.clone()
    other.y = tiny.y.clone()
    other.y[tiny.test_mask] = 0
    a, b = (fit(gcn(tiny), data, [0], epochs=10) for data in (tiny, other))
    assert a.best_epoch == b.best_epoch
    assert all(torch.equal(a.curves[name][0], b.curves[name][0]) for name in a.curves)


def test_l2_acts_on_the_regularized_parameters_only(tiny):
    strong = fit(gcn(tiny, dropout=0.0), tiny, [0], epochs=30, lr=0.02, weight_decay=1.0).models[0]
    none = fit(gcn(tiny, dropout=0.0), tiny, [0], epochs=30, lr=0.02, weight_decay=0.0).models[0]
    assert strong.convs[0].weight.norm() < 0.2 * none.convs[0].weight.norm()
    assert strong.convs[1].weight.norm() > 0.2 * none.convs[1].weight.norm()


@pytest.mark.parametrize("rule", [RisingLoss(window=3), Patience(patience=4)])
def test_early_stopping_is_per_seed_and_ends_the_pass(tiny, rule):
    result = fit(gcn(tiny), tiny, range(4), epochs=400, lr=0.05, rule=rule)
    assert max(result.epochs_run) < 400
    assert len(set(result.epochs_run)) > 1
    for curves in result.curves.values():  # what others do afterwards is none of its own
        assert [len(curve) for curve in curves] == result.epochs_run
    latest = result.epochs_run.index(max(result.epochs_run))
    alone = fit(gcn(tiny), tiny, [latest], epochs=400, lr=0.05, rule=rule)
    assert alone.epochs_run[0] == result.epochs_run[latest]
    if isinstance(rule, RisingLoss):  # the last weights are tested
        assert result.best_epoch == result.epochs_run


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: models.GCN(24, 8, num_layers=2, out_channels=4, dropout=0.5),
        lambda: models.GCN(-1, 8, num_layers=2, out_channels=4, norm="batch_norm"),
        lambda: GAT(24, 8, num_layers=2, out_channels=4, heads=2, dropout=0.3),
        lambda: insert_reweighting(models.GCN(24, 8, num_layers=2, out_channels=4)),
    ],
)
def test_any_full_batch_pyg_model_trains(tiny, make):
    alone = fit(make, tiny, [1], epochs=5)
    among = fit(make, tiny, range(3), epochs=5)
    assert torch.equal(alone.curves["train_loss"][0], among.curves["train_loss"][1])
    assert among.curves["train_loss"][0][-1] < among.curves["train_loss"][0][0]


def test_inputs_can_be_given(tiny):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(24, 4)

        def forward(self, edge_index, x):
            return self.conv(x, edge_index)

    def swapped(data):
        return data.edge_index, data.x

    assert fit(Net, tiny, [0], epochs=3, prepare=swapped).epochs_run == [3]


def test_progress_is_told(tiny, monkeypatch):
    monkeypatch.setattr("drgcn.training.trainer._REPORT_EVERY", 0.0)
    seen = []
    fit(gcn(tiny), tiny, range(8), epochs=5, progress=seen.append)
    assert [p.epochs_done for p in seen] == list(range(1, 11))
    assert {(p.epochs_in_all, p.seeds_at_once, p.seeds) for p in seen} == {(10, 4, 8)}


def test_the_last_words_of_progress_are_of_the_last_epoch(tiny, monkeypatch):
    monkeypatch.setattr("drgcn.training.trainer._REPORT_EVERY", math.inf)
    seen = []
    fit(gcn(tiny), tiny, range(8), epochs=5, progress=seen.append)
    assert [p.epochs_done for p in seen] == [5, 10]
    seen.clear()
    found = fit(gcn(tiny), tiny, [0], epochs=50, rule=Patience(patience=1), progress=seen.append)
    assert len(seen) == 1
    assert seen[0].epochs_done >= found.epochs_run[0]


def test_a_pass_that_never_had_a_finite_loss_says_so(tiny):
    with pytest.raises(DrgcnError, match="diverged"):
        fit(gcn(tiny), tiny, [0], epochs=3, rule=Patience(), lr=1e30)


def test_divergence_is_said_under_every_rule(tiny):
    with pytest.raises(DrgcnError, match="diverged"):
        fit(gcn(tiny), tiny, [0], epochs=5, lr=1e30)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"make_model": GCN(24, 8, 4)}, "function that builds a model"),
        ({"make_model": lambda: None}, "return a module; it returned NoneType"),
        ({"make_model": lambda: GCN(24, 8, 3)}, "at least 4 outputs"),
        ({"make_model": lambda: ONE_MODEL}, "new model at every call"),
        ({"data": []}, "one PyG Data; found list"),
        ({"epochs": 2.5}, "whole number from 1 on"),
        ({"seeds": 5}, r"range\(5\)"),
        ({"seeds": [1.5]}, "distinct seeds"),
        ({"seeds": [1, 1]}, "distinct seeds"),
        ({"seeds": [-1]}, "distinct seeds"),
        ({"seeds": []}, "distinct seeds"),
        ({"seeds_at_once": 0}, "seeds_at_once .* found 0"),
        ({"weight_decay": float("inf")}, "a finite number"),
    ],
)
def test_what_cannot_be_trained_is_refused(tiny, arguments, words):
    given = {"make_model": gcn(tiny), "data": tiny, "seeds": [0], "epochs": 2, **arguments}
    with pytest.raises(InputError, match=words):
        fit(given.pop("make_model"), given.pop("data"), given.pop("seeds"), **given)


# Learning-rate schedule


@pytest.mark.parametrize(("every", "lr"), [(40, 0.25), (1, 0.1), (7, 2.0)])
def test_the_rate_is_that_of_the_literal_rule(every, lr):
    schedule = StepwiseDecay(every)
    for epoch in (*range(1, 100), *range(395, 405)):
        step = epoch - 1  # steps made before this one
        expected = max(lr * (1 - 0.01 * math.floor(step / every)), 0)
        found = lr * schedule.factor(torch.tensor(epoch))
        assert float(found) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_first_cut_comes_after_so_many_epochs():
    factors = [float(StepwiseDecay(3, share=0.25).factor(torch.tensor(e))) for e in range(1, 15)]
    assert factors == [1, 1, 1, 0.75, 0.75, 0.75, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0, 0]


def test_the_rate_never_becomes_negative():
    assert float(StepwiseDecay(1, share=0.3).factor(torch.tensor(100))) == 0


CPU, CUDA = torch.device("cpu"), torch.device("cuda")  # needs no such device
GIB = 2**30


# Blocks


@pytest.mark.parametrize(
    ("seeds", "blocks"),
    [
        ((6,), [(4, 5, 6, 7)]),
        ((3, 4), [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ((9, 1, 8, 0), [(0, 1, 2, 3), (8, 9, 10, 11)]),
    ],
)
def test_on_cpu_a_seed_has_its_place_in_a_block_of_four(seeds, blocks):
    assert seed_blocks(seeds, CPU) == blocks
    assert seed_blocks(seeds, CPU, at_once=1) == blocks  # whatever the memory


def test_elsewhere_all_seeds_are_one_block_if_they_fit():
    seeds = (5, 0, 7, 2, 1)
    for at_once in (None, 5, 6, 1000):
        assert seed_blocks(seeds, CUDA, at_once) == [seeds]


def test_blocks_are_few_and_nearly_equal_and_keep_the_order():
    for at_once, count in product(range(1, 12), range(1, 40)):
        seeds = tuple(torch.randperm(count).tolist())
        blocks = seed_blocks(seeds, CUDA, at_once)
        assert tuple(seed for block in blocks for seed in block) == seeds
        sizes = [len(block) for block in blocks]
        assert max(sizes) <= at_once
        assert max(sizes) - min(sizes) <= 1
        assert len(blocks) == next(n for n in range(1, 99) if n * at_once >= count)


# Free memory


class Device:
    """A CUDA device on paper: shared memory, and so much for every seed."""

    def __init__(self, monkeypatch, *, free, shared, each, beside=7 * GIB):
        self.shared, self.each, self.beside = shared, each, beside
        self.allocated = self.peak = beside  # what others hold is not a seed's need
        self.tried = []
        found = {
            "mem_get_info": lambda device: (free, 140 * GIB),
            "memory_allocated": lambda device: self.allocated,
            "max_memory_allocated": lambda device: self.peak,
            "reset_peak_memory_stats": lambda device: setattr(self, "peak", self.allocated),
            "synchronize": lambda device=None: None,
            "empty_cache": lambda: None,
        }
        for name, function in found.items():
            monkeypatch.setattr(torch.cuda, name, function)

    def make_trainer(self, seeds):
        self.tried.append(seeds)
        device = self

        class Trainer:
            def run_epoch(self):
                device.peak = max(
                    device.peak, device.beside + device.shared + len(seeds) * device.each
                )

        return Trainer()


def room(free, shared, each):
    """Nine tenths of the free memory, for two peaks: one of the recording, one of its replays."""
    count = 0
    while 2 * (shared + (count + 1) * each) <= 0.9 * free:
        count += 1
    return count


@pytest.mark.parametrize(
    ("free", "shared", "each"),
    [
        (100 * GIB, 1 * GIB, 4 * GIB),
        (100 * GIB, 30 * GIB, 1 * GIB),
        (16 * GIB, 3 * GIB, GIB // 2),
    ],
)
def test_as_many_seeds_fit_as_free_memory_holds(monkeypatch, free, shared, each):
    device = Device(monkeypatch, free=free, shared=shared, each=each)
    seeds = tuple(range(20))
    expected = room(free, shared, each)
    assert 1 <= expected < 20
    assert seeds_that_fit(device.make_trainer, seeds, CUDA) == expected
    assert device.tried == [seeds[:1], seeds[:2]]


def test_no_more_seeds_fit_than_are_asked_for(monkeypatch):
    device = Device(monkeypatch, free=100 * GIB, shared=GIB, each=2**20)
    assert seeds_that_fit(device.make_trainer, (4, 2, 9), CUDA) == 3


def test_a_further_seed_that_needs_nothing_measurable_is_no_error(monkeypatch):
    device = Device(monkeypatch, free=100 * GIB, shared=GIB, each=0)
    assert seeds_that_fit(device.make_trainer, tuple(range(20)), CUDA) == 20


def test_one_or_two_seeds_are_not_measured(monkeypatch):
    device = Device(monkeypatch, free=0, shared=GIB, each=GIB)
    for count in (1, 2):
        assert seeds_that_fit(device.make_trainer, tuple(range(count)), CUDA) == count
    assert device.tried == []


def test_too_little_memory_for_one_seed_is_said(monkeypatch):
    device = Device(monkeypatch, free=4 * GIB, shared=2 * GIB, each=1 * GIB)
    with pytest.raises(InputError, match=r"about 6\.0 GiB; found 4\.0 GiB free on cuda"):
        seeds_that_fit(device.make_trainer, tuple(range(20)), CUDA)
