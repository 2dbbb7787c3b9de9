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


def best_validation_loop(losses, accuracies):
    best, kept = -1.0, 0
    for epoch, accuracy in enumerate(accuracies, 1):
        if accuracy > best:
            best, kept = accuracy, epoch
    return kept, len(losses)


def kipf_loop(losses, accuracies, window=10):
    history = []
    for epoch in range(len(losses)):
        history.append(losses[epoch])
        if epoch > window and history[-1] > np.mean(history[-(window + 1) : -1]):
            return epoch + 1, epoch + 1
    return len(losses), len(losses)


def gat_loop(losses, accuracies, patience=100):
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
        (RisingLoss(), kipf_loop),
        (RisingLoss(window=3), lambda a, b: kipf_loop(a, b, 3)),
        (Patience(), gat_loop),
        (Patience(patience=7), lambda a, b: gat_loop(a, b, 7)),
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
