"""The rules against literal transcriptions of the loops they come from."""

import numpy as np
import pytest
import torch

from drgcn.training import BestValidation, Patience, RisingLoss


def run_rule(rule, losses, accuracies):
    """Epoch kept and epoch stopped (or the last) of each seed, as the trainer reads a rule."""
    seeds = losses.shape[1]
    state = rule.start(seeds, torch.device("cpu"))
    active = torch.ones(seeds, dtype=torch.bool)
    kept, last = torch.zeros(seeds, dtype=torch.int64), torch.zeros(seeds, dtype=torch.int64)
    for epoch, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True), 1):
        keep, stop = rule.update(state, torch.tensor(epoch), loss, accuracy)
        kept = torch.where(keep & active, epoch, kept)
        last = torch.where(active, epoch, last)
        active &= ~stop
    return kept.tolist(), last.tolist()


def best_validation_loop(losses, accuracies, patience=None):
    best, kept = -1.0, 0
    for epoch, accuracy in enumerate(accuracies, 1):
        if accuracy > best:
            best, kept = accuracy, epoch
        elif epoch - kept == patience:
            return kept, epoch
    return kept, len(losses)


def kipf_loop(losses, accuracies, window=10):
    history = []
    for epoch in range(len(losses)):
        history.append(losses[epoch])
        if epoch > window and history[-1] > np.mean(history[-(window + 1) : -1]):
            return epoch + 1, epoch + 1
    return len(losses), len(losses)


def gat_loop(losses, accuracies, patience=100, watch="both"):
    if watch == "accuracy":
        losses = -accuracies  # then the loss says what accuracy says, and the other way round
    if watch == "loss":
        accuracies = 10 - losses
    highest, lowest, waited, kept = 0.0, np.inf, 0, 0
    for epoch, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True), 1):
        if accuracy >= highest or loss <= lowest:
            if accuracy >= highest and loss <= lowest:
                kept = epoch
            highest, lowest, waited = max(accuracy, highest), min(loss, lowest), 0
        else:
            waited += 1
            if waited == patience:
                return kept, epoch
    return kept, len(losses)


@pytest.mark.parametrize(
    ("rule", "loop"),
    [
        (BestValidation(), best_validation_loop),
        (BestValidation(patience=1), lambda a, b: best_validation_loop(a, b, 1)),
        (BestValidation(patience=40), lambda a, b: best_validation_loop(a, b, 40)),
        (RisingLoss(), kipf_loop),
        (RisingLoss(window=3), lambda a, b: kipf_loop(a, b, 3)),
        (Patience(), gat_loop),
        (Patience(patience=7), lambda a, b: gat_loop(a, b, 7)),
        (Patience(7, watch="accuracy"), lambda a, b: gat_loop(a, b, 7, "accuracy")),
        (Patience(7, watch="loss"), lambda a, b: gat_loop(a, b, 7, "loss")),
    ],
)
def test_a_rule_decides_as_the_loop_it_comes_from(rule, loop):
    rng = np.random.default_rng(0)
    epochs, seeds = 300, 40
    trend = np.linspace(2, 0.5, epochs)[:, None] + 0.002 * np.arange(epochs)[:, None]
    losses = (trend + rng.normal(0, 0.05, (epochs, seeds))).astype(np.float32)
    accuracies = np.round(1 - losses / 3, 2).astype(np.float32)  # rounded: ties must occur
    kept, last = run_rule(rule, torch.tensor(losses), torch.tensor(accuracies))
    expected = [loop(losses[:, s], accuracies[:, s]) for s in range(seeds)]
    assert list(zip(kept, last, strict=True)) == expected


def test_only_kipfs_rule_looks_at_the_penalized_loss():
    assert RisingLoss().penalized_loss
    assert not BestValidation().penalized_loss
    assert not Patience().penalized_loss


# Curves short enough to follow with a finger


def decided(rule, losses=None, accuracies=None):
    """The epoch kept and the last epoch of one seed."""
    losses = losses if losses is not None else [1.0] * len(accuracies)
    accuracies = accuracies if accuracies is not None else [0.5] * len(losses)
    (kept,), (last,) = run_rule(
        rule, torch.tensor(losses)[:, None], torch.tensor(accuracies)[:, None]
    )
    return kept, last


@pytest.mark.parametrize(
    ("accuracies", "kept", "last"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5], 5, 5),  # always better
        ([0.5, 0.4, 0.4, 0.4, 0.9], 1, 4),  # the best comes too late
        ([0.5, 0.4, 0.4, 0.9, 0.1, 0.1, 0.1, 0.1], 4, 7),  # just in time, then never
        ([0.5, 0.5, 0.5, 0.5, 0.6], 1, 4),  # equal is no better
        ([0.0, 0.0, 0.0, 0.0], 1, 4),  # nothing learnt: the first epoch is kept
        ([0.5, 0.4], 1, 2),  # the budget ends first
    ],
)
def test_best_validation_waits_for_something_better(accuracies, kept, last):
    assert decided(BestValidation(patience=3), accuracies=accuracies) == (kept, last)


def test_best_validation_without_patience_never_stops():
    assert decided(BestValidation(), accuracies=[0.5, *[0.1] * 300, 0.6]) == (302, 302)


@pytest.mark.parametrize(
    ("losses", "accuracies", "kept", "last"),
    [
        ([3, 2, 1, 1, 1], [0.1, 0.2, 0.3, 0.3, 0.3], 5, 5),  # equal counts as good
        ([1, 2, 2, 2], [0.5, 0.6, 0.4, 0.4], 1, 4),  # better in one only: waits, keeps nothing
        ([1, 2, 0.5, 2, 2, 2], [0.5, 0.4, 0.4, 0.4, 0.4, 0.6], 1, 5),  # loss renews patience
        ([2, 3, 3, 1], [0.5, 0.4, 0.4, 0.6], 1, 3),  # patience ends before the best
        ([1, 2, 3, 4], [0.0, 0.0, 0.0, 0.0], 1, 4),  # accuracy zero equals the start
    ],
)
def test_gats_patience_is_renewed_by_either_and_keeps_both(losses, accuracies, kept, last):
    found = decided(Patience(patience=2), [float(value) for value in losses], accuracies)
    assert found == (kept, last)


@pytest.mark.parametrize(
    ("watch", "kept", "last"), [("both", 2, 6), ("accuracy", 3, 5), ("loss", 4, 6)]
)
def test_gats_patience_looks_at_what_it_is_told_to(watch, kept, last):
    losses = [3.0, 2.0, 2.5, 1.0, 1.5, 1.5, 0.5]
    accuracies = [0.1, 0.2, 0.3, 0.2, 0.2, 0.2, 0.9]
    assert decided(Patience(2, watch=watch), losses, accuracies) == (kept, last)


@pytest.mark.parametrize(
    ("losses", "last"),
    [
        ([5, 4, 3, 2, 1], 5),  # falling
        ([1, 2, 3, 4, 5], 5),  # rising: the fifth is the first that is looked at
        ([1, 9, 9, 1, 5, 1], 6),  # below the mean of 9, 9, 1
        ([1, 1, 1, 1, 1, 1, 2], 7),  # equal is no rise
        ([1, 1, 1, 1, 1, 2, 1, 9], 6),
    ],
)
def test_kipfs_rule_compares_with_the_mean_before_and_keeps_the_last(losses, last):
    found = decided(RisingLoss(window=3), [float(value) for value in losses])
    assert found == (last, last)


def test_seeds_are_judged_apart():
    accuracies = torch.tensor([[0.5, 0.1], [0.4, 0.2], [0.4, 0.3], [0.9, 0.2]])
    found = run_rule(BestValidation(patience=2), torch.ones(4, 2), accuracies)
    assert found == ([1, 3], [3, 4])
