"""Grids: many settings in one call, each network as if it were alone."""

import math
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from torch_geometric.nn import models

from drgcn import fit
from drgcn.errors import InputError
from drgcn.nn import GCN, MixHop
from drgcn.streams import stream_key
from drgcn.training import BestValidation, Patience, RisingLoss, StepwiseDecay, load_fit
from drgcn.training.grid import Lane, LaneSettings, lane_blocks
from drgcn.training.randomness import LEVELS, SeededRandomness, dropout_factors, levels_of
from drgcn.training.stack import ModelStack
from drgcn.training.task import Task
from drgcn.training.trainer import (
    Trainer,
    restore,
    should_leave,
    some_lanes,
    state_tensors,
)

CPU = torch.device("cpu")


def ours(tiny):
    return lambda **options: GCN(24, options.pop("hidden", 8), 4, dropout=0.5, **options)


def of_pyg(tiny):
    return lambda hidden=8: models.GCN(24, hidden, num_layers=2, out_channels=4, dropout=0.5)


def same(one, other):
    assert one.test_accuracy == other.test_accuracy
    assert one.best_epoch == other.best_epoch
    for name, curves in one.curves.items():
        assert all(torch.equal(a, b) for a, b in zip(curves, other.curves[name], strict=True))


@pytest.mark.parametrize("make", [ours, of_pyg])
def test_a_network_of_a_grid_is_the_network_alone_to_the_bit(tiny, make):
    grid = {"lr": [0.01, 0.05], "weight_decay": [0.0, 1e-3]}
    found = fit(make(tiny), tiny, [5, 0], epochs=4, grid=grid)
    assert len(found.seeds) == 8
    assert found.seeds == (5, 0) * 4
    for lr, decay in ((0.01, 1e-3), (0.05, 0.0)):
        alone = fit(make(tiny), tiny, [5, 0], epochs=4, lr=lr, weight_decay=decay)
        same(found.where(lr=lr, weight_decay=decay), alone)


@pytest.mark.parametrize(
    ("rates", "decays", "seeds"),
    [
        ((0.003, 0.1), (0.0, 1e-2), 4),
        pytest.param(
            (0.003, 0.01, 0.03, 0.1), (0.0, 1e-4, 1e-3, 1e-2), 20, marks=pytest.mark.slow
        ),  # 320 networks
    ],
)
def test_networks_in_one_call_have_the_numbers_and_winner_of_separate_runs(
    tiny, rates, decays, seeds
):
    grid = {"lr": rates, "weight_decay": decays}
    found = fit(ours(tiny), tiny, range(seeds), epochs=3, grid=grid)
    assert len(found.seeds) == len(rates) * len(decays) * seeds
    means = {}
    for lr, decay in product(rates, decays):
        setting = {"lr": lr, "weight_decay": decay}
        alone = fit(ours(tiny), tiny, range(seeds), epochs=3, **setting)
        same(found.where(**setting), alone)
        means[lr, decay] = sum(alone.val_accuracy) / seeds
    winner = found.best_setting().settings[0]
    assert means[winner["lr"], winner["weight_decay"]] == max(means.values())


def test_dropout_of_a_grid_takes_the_place_of_the_models(tiny):
    found = fit(ours(tiny), tiny, [1], epochs=6, grid={"dropout": [0.0, 0.5, 0.8]})
    for rate in (0.5, 0.8):

        def make(rate=rate):
            return GCN(24, 8, 4, dropout=rate)

        same(found.where(dropout=rate), fit(make, tiny, [1], epochs=6))
    none = fit(lambda: GCN(24, 8, 4, dropout=0.0), tiny, [1], epochs=6)
    torch.testing.assert_close(
        found.where(dropout=0.0).curves["train_loss"][0], none.curves["train_loss"][0]
    )


def test_smoothed_labels_are_those_of_torch(tiny):
    found = fit(ours(tiny), tiny, [1], epochs=5, grid={"label_smoothing": [0.0, 0.2]})

    def smoothed(scores, labels):
        return torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.2)

    expected = fit(ours(tiny), tiny, [1], epochs=5, loss=smoothed)
    one = found.where(label_smoothing=0.2)
    torch.testing.assert_close(one.curves["train_loss"][0], expected.curves["train_loss"][0])
    same(found.where(label_smoothing=0.0), fit(ours(tiny), tiny, [1], epochs=5))


def test_settings_that_change_shapes_or_parts_have_passes_of_their_own(tiny):
    data = with_splits(tiny)
    grid = {"hidden": [4, 6], "split": [0, 1], "lr": [0.01, 0.02]}
    seen = []
    found = fit(of_pyg(tiny), data, [0, 1], epochs=3, grid=grid, progress=seen.append)
    assert len(found.seeds) == 16
    one = found.where(hidden=6, split=1, lr=0.02)
    make = lambda: of_pyg(tiny)(hidden=6)  # noqa: E731
    same(one, fit(make, data, [0, 1], epochs=3, lr=0.02, split=1))
    assert one.models[0].convs[0].lin.weight.shape[0] == 6
    assert seen[-1].seeds == 16


def with_splits(data, shifts=(0, 7, 31)):
    """The data with masks of several splits of equal sizes."""
    data = data.clone()
    for part in ("train", "val", "test"):
        mask = data[f"{part}_mask"]
        data[f"{part}_mask"] = torch.stack([mask.roll(shift) for shift in shifts], 1)
    return data


def as_on_cuda(patch, *, leaving=False):
    """Lanes of all settings in one block, which those that stop may leave."""
    cuda = torch.device("cuda")
    patch.setattr(
        "drgcn.training.fitting.lane_blocks",
        lambda lanes, device, at_once, width, sizes: lane_blocks(lanes, cuda, None, 1, sizes),
    )
    patch.setattr(
        "drgcn.training.trainer.should_leave",
        lambda active, _: leaving and 0 < int(active.sum()) <= len(active) // 2,
    )


def close(one, other):
    assert one.seeds == other.seeds
    assert one.settings == other.settings
    assert one.best_epoch == other.best_epoch
    assert one.epochs_run == other.epochs_run
    torch.testing.assert_close(one.test_accuracy, other.test_accuracy)
    losses = zip(one.curves["val_loss"], other.curves["val_loss"], one.epochs_run, strict=True)
    for first, second, run in losses:
        torch.testing.assert_close(first[:run], second[:run], rtol=1e-3, atol=1e-4)


def labels_like(data, kind):
    data = data.clone()
    if kind == "labels":
        data.y = torch.nn.functional.one_hot(data.y % 3, 4)[:, :3] + (data.x[:, :3] > 0)
        data.y = data.y.clamp(max=1).float()
    elif kind == "values":
        data.y = data.x[:, :1] + data.y[:, None]
    return data


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        ("classes", None),
        ("classes", "ROC-AUC"),
        ("classes", lambda scores, y: (scores.argmax(-1) == y).float().mean()),
        ("labels", None),
        ("values", None),
    ],
)
def test_splits_are_lanes_of_one_pass(tiny, kind, metric, monkeypatch):
    data = labels_like(with_splits(tiny), kind)
    outputs = {"classes": 4, "labels": 3, "values": 1}[kind]
    options = {"epochs": 5, "grid": {"split": [2, 0], "lr": [0.01, 0.03]}, "metric": metric}

    def run():
        return fit(lambda: GCN(24, 8, outputs), data, [0, 1], **options)

    apart = run()
    alone = {**options, "grid": None, "lr": 0.03, "split": 2}
    same(apart.where(split=2, lr=0.03), fit(lambda: GCN(24, 8, outputs), data, [0, 1], **alone))
    as_on_cuda(monkeypatch)
    together = run()
    torch.testing.assert_close(together.test_accuracy, apart.test_accuracy, atol=0.02, rtol=0)
    for first, second in zip(together.curves["val_loss"], apart.curves["val_loss"], strict=True):
        torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-4)


def test_splits_of_other_sizes_are_in_blocks_of_their_own(tiny, monkeypatch):
    data = with_splits(tiny)
    data.val_mask[:, 1] &= torch.arange(data.num_nodes) % 2 == 0
    options = {"epochs": 4, "grid": {"split": [0, 1, 2]}}
    apart = fit(ours(tiny), data, [0], **options)
    as_on_cuda(monkeypatch)
    close(fit(ours(tiny), data, [0], **options), apart)


@dataclass(frozen=True)
class OneAfterTheOther:
    """Stops a lane every second epoch, and keeps all epochs but every fourth."""

    penalized_loss: bool = False

    def start(self, seeds, device):
        until = 2 * torch.arange(seeds, device=device) + 2
        return {"until": until, "seen": torch.zeros(3, seeds)}

    def update(self, state, epoch, loss, accuracy):
        state["seen"].copy_(torch.cat([state["seen"][1:], loss[None]]))
        return state["seen"][0] + epoch % 4 > state["seen"][0], epoch >= state["until"]


@pytest.mark.parametrize(
    ("rule", "schedule"),
    [
        (OneAfterTheOther(), None),
        (RisingLoss(2), StepwiseDecay(4, 0.3)),
        (BestValidation(3), None),
    ],
)
def test_lanes_that_have_stopped_leave(tiny, rule, schedule, monkeypatch):
    data = with_splits(tiny)
    grid = {"lr": [0.003, 0.1], "dropout": [0.0, 0.5], "split": [0, 2]}
    options = {"epochs": 15, "grid": grid, "rule": rule, "schedule": schedule}
    make = lambda: GCN(24, 8, 4, dropout=0.5, norm="batch", reweight="dr")  # noqa: E731
    as_on_cuda(monkeypatch)
    staying = fit(make, data, [1], **options)
    left = []
    as_on_cuda(monkeypatch, leaving=True)
    monkeypatch.setattr(
        "drgcn.training.trainer.some_lanes",
        lambda trainer, lanes: left.append(len(lanes)) or some_lanes(trainer, lanes),
    )
    close(fit(make, data, [1], **options), staying)
    assert left
    assert left == sorted(left, reverse=True)


def test_a_pass_that_lanes_have_left_goes_on_from_its_checkpoint(tiny, tmp_path, monkeypatch):
    as_on_cuda(monkeypatch, leaving=True)
    monkeypatch.setattr("drgcn.training.trainer._REPORT_EVERY", -1.0)
    options = {"epochs": 20, "grid": {"lr": [0.003, 0.1]}, "rule": OneAfterTheOther()}
    whole = fit(ours(tiny), tiny, range(4), **options)
    assert whole.epochs_run == [2, 4, 6, 8, 10, 12, 14, 16]

    def stop(now):
        if now.epochs_done == 15:
            raise KeyboardInterrupt

    options |= {"checkpoint": tmp_path / "c", "checkpoint_every": -1.0}
    with pytest.raises(KeyboardInterrupt):
        fit(ours(tiny), tiny, range(4), progress=stop, **options)
    seen = []
    close(fit(ours(tiny), tiny, range(4), progress=seen.append, **options), whole)
    assert len(seen) == 2


def test_lanes_stay_on_cpu_and_for_a_short_rest():
    active = torch.tensor([True, False, False, False])
    assert not should_leave(active, 1e6)


def test_lists_of_settings_are_taken_as_they_are(tiny):
    grid = [{"lr": 0.01, "weight_decay": 0.0}, {"lr": 0.1, "weight_decay": 1e-2}]
    found = fit(ours(tiny), tiny, range(2), epochs=3, grid=grid)
    assert found.settings == [grid[0], grid[0], grid[1], grid[1]]


def mixed(tiny, make, lanes, seeds, rule, schedule=None, epochs=8):
    """All lanes in one stack, as on CUDA."""
    model = make()
    task = Task.from_data(tiny, model.prepare, CPU)
    rates = [lane.dropout for lane in lanes if lane.dropout is not None] or None
    stack = ModelStack(make, seeds, task.val.inputs, CPU, None, rates)
    options = {"epochs": epochs, "optimizer": torch.optim.Adam, "schedule": schedule}
    return Trainer(stack, task, rule, lanes=lanes, **options)


LANES = [
    LaneSettings(0.01, 5e-4, 0.5, 0.0),
    LaneSettings(0.01, 5e-4, 0.2, 0.1),
    LaneSettings(0.05, 0.0, 0.5, 0.0),
    LaneSettings(0.01, 1e-2, 0.0, 0.3),
]


@pytest.mark.parametrize("rule", [Patience(), RisingLoss()])
@pytest.mark.parametrize("schedule", [None, StepwiseDecay(2, 0.2)])
def test_networks_with_settings_of_their_own_in_one_stack_are_those_alone(tiny, rule, schedule):
    make = lambda: GCN(24, 8, 4, dropout=0.5, reweight="dr", norm="batch")  # noqa: E731
    seeds = [0, 3, 3, 1]
    together = mixed(tiny, make, LANES, seeds, rule, schedule)
    for _ in range(8):
        together.run_epoch()
    for place, (lane, seed) in enumerate(zip(LANES, seeds, strict=True)):
        alone = mixed(tiny, make, [lane], [seed], rule, schedule)
        for _ in range(8):
            alone.run_epoch()
        torch.testing.assert_close(
            together.curves[:, :, place], alone.curves[:, :, 0], rtol=1e-3, atol=1e-4
        )


def test_a_penalty_of_the_models_own_has_the_coefficient_of_each(tiny):
    make = lambda: MixHop(24, (4, 3, 2), 4, binarize=False)  # noqa: E731
    lanes = [LaneSettings(0.01, decay, 0.5) for decay in (0.0, 0.1)]
    together = mixed(tiny, make, lanes, [0, 0], RisingLoss())
    together.run_epoch()
    loss = together.curve("val_loss")[0]
    for place, lane in enumerate(lanes):
        alone = mixed(tiny, make, [lane], [0], RisingLoss())
        alone.run_epoch()
        assert float(loss[place]) == pytest.approx(float(alone.curve("val_loss")[0, 0]), rel=1e-4)
    assert loss[1] > loss[0] + 0.01


def test_a_mixed_stack_goes_on_from_its_state(tiny):
    make = lambda: GCN(24, 8, 4, dropout=0.5)  # noqa: E731
    whole = mixed(tiny, make, LANES, [0, 1, 2, 3], Patience())
    for _ in range(8):
        whole.run_epoch()
    first, second = (mixed(tiny, make, LANES, [0, 1, 2, 3], Patience()) for _ in range(2))
    for _ in range(4):
        first.run_epoch()
    restore(second, {name: value.clone() for name, value in state_tensors(first).items()})
    for _ in range(4):
        second.run_epoch()
    assert torch.equal(whole.curves, second.curves)


def test_rates_per_key_are_those_of_one_rate(tiny):
    keys = torch.tensor([stream_key(seed, "dropout") for seed in range(3)])
    rates = [0.0, 0.5, 0.25]
    with SeededRandomness(keys[1], levels_of(rates)[1]) as randomness:
        torch.nn.functional.dropout(torch.ones(40), 0.9)
    assert randomness.calls == 1
    found = torch.vmap(lambda key, level: _dropped(key, level), randomness="different")(
        keys, levels_of(rates)
    )
    for place, rate in enumerate(rates):
        with SeededRandomness(keys[place]):
            expected = torch.nn.functional.dropout(torch.ones(40), rate)
        assert torch.equal(found[place], expected)
    assert dropout_factors(keys[:1], 4, 0.5, torch.float32).shape == (1, 4)
    assert int(levels_of([0.5])[0]) * 2 == LEVELS


def _dropped(key, level):
    with SeededRandomness(key, level):
        return torch.nn.functional.dropout(torch.ones(40), 0.9)


def test_blocks_on_a_device_mix_settings_and_on_cpu_do_not():
    lanes = [Lane(seed, LANES[i], {"i": i}) for i in range(3) for seed in (0, 5)]
    cuda, sizes = torch.device("cuda"), {None: (2, 1, 1)}
    (one,) = lane_blocks(lanes, cuda, None, 1, sizes)
    assert one == lanes
    assert [len(block) for block in lane_blocks(lanes, cuda, 4, 1, sizes)] == [3, 3]
    for block in lane_blocks(lanes, CPU, None, 4, {}):
        assert len({repr(lane.chosen) for lane in block}) == 1
        assert [lane.seed % 4 for lane in block] == [0, 1, 2, 3]
    assert len(lane_blocks(lanes, CPU, None, 4, {})) == 6


def test_the_best_is_chosen_by_validation(tiny):
    found = fit(ours(tiny), tiny, range(3), epochs=8, grid={"lr": [1e-6, 0.05]})
    assert found.best_setting().settings == [{"lr": 0.05}] * 3
    assert found.best().val_accuracy == [max(found.val_accuracy)]
    text = found.summary()
    assert text.index("lr=0.05") < text.index("lr=1e-06")
    assert "6" in found.summary(by=[])
    assert found.summary(by="lr") == text
    for result in (found, fit(ours(tiny), tiny, [0], epochs=2)):
        with pytest.raises(InputError, match="names of the grid; found 'nonsense'"):
            result.summary(by=["nonsense"])
    with pytest.raises(InputError, match="which it has not"):
        found.where(lr=7)


def test_a_setting_that_diverges_does_not_stop_the_others(tiny):
    found = fit(ours(tiny), tiny, [0], epochs=5, grid={"lr": [0.01, 1e30]})
    assert math.isnan(found.where(lr=1e30).test_accuracy[0])
    assert found.best().settings == [{"lr": 0.01}]
    assert found.best_setting().settings == [{"lr": 0.01}]
    assert "nan" in found.summary()


def test_results_of_a_grid_are_saved_and_loaded(tiny, tmp_path):
    found = fit(of_pyg(tiny), tiny, [0, 1], epochs=3, grid={"hidden": [4, 6], "lr": [0.01]})
    again = load_fit(found.save(tmp_path / "grid"), of_pyg(tiny))
    same(found, again)
    assert again.settings == found.settings
    assert again.where(hidden=6).models[0].convs[0].lin.weight.shape[0] == 6


def test_a_grid_goes_on_from_its_checkpoints(tiny, tmp_path):
    grid = {"lr": [0.01, 0.05], "dropout": [0.2, 0.5]}
    whole = fit(ours(tiny), tiny, [0], epochs=6, grid=grid)
    done = []

    def stop(now):
        done.append(now)
        if now.epochs_done > 15:  # in the third of four settings
            raise KeyboardInterrupt

    options = {"epochs": 6, "grid": grid, "checkpoint": tmp_path / "c", "checkpoint_every": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drgcn.training.trainer._REPORT_EVERY", -1.0)
        with pytest.raises(KeyboardInterrupt):
            fit(ours(tiny), tiny, [0], progress=stop, **options)
        seen = []
        again = fit(ours(tiny), tiny, [0], progress=seen.append, **options)
    assert len(seen) < 15  # the first two settings were done
    same(whole, again)


def test_passes_of_a_grid_have_checkpoints_of_their_own(tiny, tmp_path):
    options = {"epochs": 2, "grid": {"hidden": [4, 6]}, "checkpoint": tmp_path / "c"}
    first, again = (fit(of_pyg(tiny), tiny, [0], **options) for _ in range(2))
    same(first, again)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({}, "at least one"),
        ([], "at least one"),
        ({"lr": 0.1}, "list of values for lr"),
        ({"lr": []}, "list of values for lr, at least one"),
        ("lr", "grid to be lists of values by name"),
        (5, "grid to be lists of values by name"),
        ([{"lr": 0.1}, 5], "found 5 in the list"),
        ([{"lr": 0.1}, {"layers": 3}], r"names of settings in the grid \(lr.*found 'layers'"),
        ({1: [2]}, "names of settings in the grid"),
        ({"dropout": ["x"]}, "dropout to be a finite number"),
        ({"lr": "0.1"}, "list of values for lr"),
        ({"lr": [0.1, 0.1]}, "different settings"),
        ({"lr": [math.nan]}, "lr to be a finite number"),
        ({"dropout": [1.5]}, "dropout from 0 to below 1"),
        ([{"dropout": 0.5}, {"lr": 0.1}], "in all settings"),
        ({"split": [0, 3]}, "split"),
    ],
)
def test_grids_that_cannot_be_are_refused(tiny, grid, words):
    def make(hidden=8):
        return GCN(24, hidden, 4, dropout=0.5)

    with pytest.raises(InputError, match=words):
        fit(make, tiny, [0], epochs=1, grid=grid)


def test_rates_for_a_model_that_drops_nothing_are_refused(tiny):
    make = lambda: GCN(24, 8, 4, dropout=0.0)  # noqa: E731
    with pytest.raises(InputError, match="drops nothing"):
        fit(make, tiny, [0], epochs=1, grid={"dropout": [0.1, 0.2]})


def test_smoothing_without_classes_is_refused(tiny):
    data = tiny.clone()
    data.y = tiny.x[:, :1]
    with pytest.raises(InputError, match="label smoothing with classes"):
        fit(lambda: GCN(24, 8, 1), data, [0], epochs=1, grid={"label_smoothing": [0.1]})
