"""Blocks of seeds in threads of their own: the numbers of one after the other, and one end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch_geometric.nn import models

from drgcn import DimensionalReweighting, fit
from drgcn._processes import one_thread_each
from drgcn.nn import GCN
from drgcn.training import BestValidation, Metric, clear_checkpoint
from drgcn.training import stack as stacks
from drgcn.training.trainer import EpochLoop


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def every_epoch(monkeypatch):
    monkeypatch.setattr("drgcn.training.trainer._REPORT_EVERY", -1.0)


def ours(data):
    return lambda: GCN(data.num_features, 8, 4, reweight="dr", norm="batch")


def of_pyg(data):
    return lambda: models.GAT(
        data.num_features, 8, num_layers=2, out_channels=4, dropout=0.5, norm="batch"
    )


def equal(first, second):
    assert first.seeds == second.seeds
    assert first.test_accuracy == second.test_accuracy
    for name, curves in first.curves.items():
        assert all(map(torch.equal, curves, second.curves[name])), name


# Two blocks of four of ours; blocks of one of PyG's, recorded from 20 epochs on.
@pytest.mark.parametrize(
    ("make", "seeds", "epochs"), [(ours, range(7), 12), (of_pyg, range(3), 20)]
)
def test_blocks_side_by_side_are_those_one_after_the_other(
    tiny, monkeypatch, every_epoch, make, seeds, epochs
):
    seen, recorded = [], []
    true_record = stacks.record

    def record(*arguments):
        recorded.append(threading.current_thread())
        return true_record(*arguments)

    def progress(now):
        thread = threading.get_ident()
        seen.append((thread, torch.get_num_threads(), now.epochs_done, now.epochs_in_all))

    both = fit(make(tiny), tiny, seeds, epochs=epochs)
    monkeypatch.setattr(stacks, "record", record)
    found = fit(make(tiny), tiny, seeds, epochs=epochs, progress=progress)
    assert torch.get_num_threads() == 3
    assert len({thread for thread, *_ in seen}) > 1
    assert {taken for _, taken, *_ in seen} == {1}
    done = [epochs for *_, epochs, _ in seen]
    assert done == list(range(1, seen[0][-1] + 1))
    assert set(recorded) <= {threading.main_thread()}
    torch.set_num_threads(1)
    alone = fit(make(tiny), tiny, seeds, epochs=epochs)
    equal(found, alone)
    equal(both, alone)


def test_blocks_end_with_the_one_that_fails_and_go_on_from_their_checkpoints(
    tiny, tmp_path, every_epoch
):
    path, calls = tmp_path / "pass", []
    options = {"epochs": 40, "checkpoint": path, "checkpoint_every": 0}

    def cut(now):
        calls.append(now.epochs_done)
        if now.epochs_done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(ours(tiny), tiny, range(8), progress=cut, **options)
    assert torch.get_num_threads() == 3
    assert calls[-1] < 30
    resumed = fit(ours(tiny), tiny, range(8), **options)
    clear_checkpoint(path)
    equal(resumed, fit(ours(tiny), tiny, range(8), epochs=40))
    assert list(tmp_path.iterdir()) == []


def test_what_may_have_a_state_is_trained_in_the_thread_that_called(tiny):
    threads = set()

    def share(scores, labels):
        threads.add(threading.get_ident())
        return (scores.argmax(-1) == labels).float().mean()

    metric = Metric("own", share)
    fit(ours(tiny), tiny, range(8), epochs=2, metric=metric)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("of", ["gate", "rule"])
def test_gates_and_rules_of_ones_own_stay_in_the_thread_that_called(tiny, of):
    threads = set()

    class OwnGate(DimensionalReweighting):
        def from_mean(self, mean):
            threads.add(threading.get_ident())
            return super().from_mean(mean)

    class OwnRule(BestValidation):
        def update(self, *arguments):
            threads.add(threading.get_ident())
            return super().update(*arguments)

    gate, rule = (OwnGate, None) if of == "gate" else ("dr", OwnRule())
    make = lambda: GCN(tiny.num_features, 8, 4, reweight=gate)  # noqa: E731
    fit(make, tiny, range(8), epochs=2, **({} if rule is None else {"rule": rule}))
    assert threads == {threading.get_ident()}


# Three blocks of each, of which PyG's are recorded.
@pytest.mark.parametrize(("make", "seeds"), [(ours, range(9)), (of_pyg, range(3))])
def test_calls_of_several_threads_wait_for_each_other(tiny, make, seeds):
    """Each builds its models from the generators of the process, and records programs in it."""
    alone = fit(make(tiny), tiny, seeds, epochs=20)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(fit, make(tiny), tiny, seeds, epochs=20) for _ in range(2)]
    for call in calls:
        equal(call.result(), alone)


def test_a_model_may_be_trained_while_another_is_built(tiny):
    def pretrained():
        (found,) = fit(ours(tiny), tiny, [0], epochs=2).models
        return found

    assert fit(pretrained, tiny, range(8), epochs=2).seeds == tuple(range(8))


def test_training_has_gradients_in_inference_mode_too(tiny):
    alone = fit(ours(tiny), tiny, range(8), epochs=2)
    with torch.inference_mode():
        equal(fit(ours(tiny), tiny, range(8), epochs=2), alone)


def test_passes_of_two_threads_leave_the_number_of_threads_as_it_was():
    begun, other = threading.Event(), threading.Event()

    def first():
        with one_thread_each():
            begun.set()
            other.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(10)
    with one_thread_each():
        other.set()
        thread.join()
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("blocks", "seconds"), [(1, 6.0), (2, 6.0), (3, 12.0)])
def test_seconds_are_those_of_the_wall(tiny, monkeypatch, blocks, seconds):
    """Of three blocks on two threads the last is trained alone."""
    torch.set_num_threads(2)
    true_run = EpochLoop.run

    def run(loop, trainer):
        true_run(loop, trainer)
        return 6.0 / loop.at_once

    monkeypatch.setattr(EpochLoop, "run", run)
    assert fit(ours(tiny), tiny, range(4 * blocks), epochs=2).seconds == pytest.approx(seconds)


def test_large_graphs_keep_all_threads_for_one_operation(tiny, monkeypatch, every_epoch):
    monkeypatch.setattr("drgcn.training.fitting._ONE_THREAD", tiny.num_nodes - 1)
    seen = set()
    fit(
        ours(tiny),
        tiny,
        range(8),
        epochs=2,
        progress=lambda _: seen.add((threading.get_ident(), torch.get_num_threads())),
    )
    assert seen == {(threading.get_ident(), 3)}
