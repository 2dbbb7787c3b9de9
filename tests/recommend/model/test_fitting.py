"""The rule by which training stops, on a trainer whose validation is written down; what is held
out; and the refit."""

from dataclasses import replace

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.splits import hold_out
from drgcn.recommend.model import Exchange, ModelOptions, TrainSettings
from drgcn.recommend.model.fitting import (
    Fitting,
    Stopping,
    popular_recall,
    train_to_plateau,
)
from drgcn.recommend.retrieval import evaluate

from .clicks import planted


class Counter:
    """Counts its steps in a weight: the weights of a step can be told."""

    def __init__(self, steps, loss=1.0):
        self.steps, self.done = steps, 0
        self.model = torch.nn.Linear(1, 1, bias=False)
        self.model.weight.data.zero_()
        self.step = torch.zeros(1, dtype=torch.int64)
        self.losses = torch.full((steps,), loss)

    def run(self, steps):
        self.done += steps
        self.model.weight.data.fill_(self.done)

    def state(self):
        return {"step": torch.tensor([self.done])}

    def restore(self, state):
        self.run(int(state["step"]))


def run(recalls, steps=100, every=10, patience=2, **options):
    trainer, left = Counter(steps), iter(recalls)
    return trainer, train_to_plateau(
        trainer, lambda: next(left), every=every, patience=patience, **options
    )


def test_it_stops_when_nothing_has_risen_for_the_patience():
    trainer, found = run([0.1, 0.3, 0.2, 0.3, 0.9])
    assert (found.best_step, found.best_recall, found.steps) == (20, 0.3, 40)  # 0.3 is no rise
    assert found.stopped == "patience"
    assert float(trainer.model.weight.detach()) == 20
    assert [row["step"] for row in found.history] == [10, 20, 30, 40]


def test_it_stops_at_the_limit_and_says_so():
    trainer, found = run([0.1, 0.2, 0.3], steps=25)
    assert (found.best_step, found.steps, found.stopped) == (25, 25, "limit")
    assert float(trainer.model.weight.detach()) == 25


def test_a_rise_starts_the_patience_anew():
    _, found = run([0.1, 0.0, 0.2, 0.1, 0.3, 0.2, 0.1, 0.9])
    assert (found.best_step, found.steps) == (50, 70)


def test_a_finished_run_is_not_run_again(tmp_path):
    path = tmp_path / "choice.safetensors"
    _, first = run([0.1, 0.3, 0.2, 0.2], checkpoint=path)
    trainer, again = run([], checkpoint=path)
    assert again.history == first.history
    assert again.best_step == 20
    assert float(trainer.model.weight.detach()) == 20
    assert 0 < again.seconds < 10


def test_a_run_goes_on_with_history_and_best_weights(tmp_path):
    path = tmp_path / "choice.safetensors"

    def stop(step, loss, recall):
        if step == 40:
            raise KeyboardInterrupt

    recalls = [0.1, 0.5, 0.2, 0.3, 0.4, 0.1]
    with pytest.raises(KeyboardInterrupt):
        run(recalls, patience=4, checkpoint=path, checkpoint_every=0, progress=stop)
    trainer, found = run(recalls[3:], patience=4, checkpoint=path, checkpoint_every=0)
    _, whole = run(recalls, patience=4)
    assert found.history == whole.history
    assert float(trainer.model.weight.detach()) == whole.best_step == 20


def test_a_loss_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="lower learning rate"):
        train_to_plateau(Counter(10, float("nan")), lambda: 0.0, every=5, patience=1)


def test_ranks_go_by_their_mean():
    class Two(Exchange):
        def mean(self, x):
            return x / 2 + 0.25

    _, found = run([0.1, 0.3, 0.2, 0.2], exchange=Two())
    assert [row["recall"] for row in found.history] == [0.3, 0.4, 0.35, 0.35]


OPTIONS = ModelOptions(model="lightgcn", channels=8, temperature=0.2, normalize=True)
SETTINGS = TrainSettings(batch_size=128, lr=0.05, negatives=16)
STOPPING = Stopping(epochs_max=3, every=1, patience=1, n=5)


def fitting(folder=None, look=None, progress=None):
    files = {}
    if folder is not None:
        files = {"choice": folder / "choice", "checkpoint": folder / "all"}
    return Fitting(
        planted(),
        OPTIONS,
        SETTINGS,
        Exchange(),
        torch.device("cpu"),
        checkpoint_every=0.0,
        look=look,
        progress=progress,
        **files,
    )


class Interrupter:
    """Ends a run at its ``at``-th report."""

    def __init__(self, at):
        self.left = at

    def __call__(self, *facts):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_a_refit_is_a_training_of_known_length_on_all_clicks():
    clicks = planted().graph
    split = hold_out(clicks, 0.2)
    found = fitting().refitted(split, STOPPING, clicks)
    assert found.plateau.best_recall > 0
    assert found.steps == round(
        found.plateau.best_step * clicks.num_clicks / split.train.num_clicks
    )
    known = replace(fitting(), settings=replace(SETTINGS, steps=found.steps)).fixed(clicks)
    assert torch.equal(found.model.embeddings, known.model.embeddings)
    assert torch.equal(found.losses, known.losses)
    kept = fitting().validated(split, STOPPING)
    assert kept.losses.numel() == kept.steps == kept.plateau.best_step


@pytest.mark.parametrize("stage", ["look", "progress"])
def test_a_run_that_was_cut_off_comes_to_the_same_weights(tmp_path, stage):
    clicks = planted().graph
    split = hold_out(clicks, 0.2)
    whole = fitting().refitted(split, STOPPING, clicks)
    cut = fitting(tmp_path, **{stage: Interrupter(2 if stage == "look" else 1)})
    with pytest.raises(KeyboardInterrupt):
        cut.refitted(split, STOPPING, clicks)
    again = fitting(tmp_path).refitted(split, STOPPING, clicks)
    assert again.plateau.history == whole.plateau.history
    assert torch.equal(again.model.embeddings, whole.model.embeddings)
    with pytest.raises(InputError, match="belongs to one with other data or settings"):
        fitting(tmp_path).validated(hold_out(clicks, 0.1), STOPPING)


def test_popular_items_are_those_of_an_evaluation():
    clicks = planted().graph
    split = hold_out(clicks, 0.2)
    vectors = torch.zeros(clicks.num_users, 2), torch.zeros(clicks.num_items, 2)
    report = evaluate(*vectors, split, 5, exclude_seen=True)
    assert popular_recall(split, STOPPING) == report.popularity["all"]["recall"].mean


def test_a_half_life_is_chosen_by_lists_of_popular_items():
    """Items that were popular long ago, and others now: a short half-life finds the latter."""
    from drgcn.recommend.clicks import ClickData, ClickGraph
    from drgcn.recommend.model.fitting import choose_half_life

    number = torch.arange(400)
    old = number < 300
    items = torch.where(old, number % 3, 3 + number % 3)
    days = torch.where(old, number % 20, 20 + number % 5)
    graph = ClickGraph.from_pairs(number, items, 400, 9, days)
    data, split = ClickData(graph), hold_out(graph, day=23)
    stopping = replace(STOPPING, n=3, exclude_seen=False)
    best, recalls = choose_half_life(data, split, stopping, (1.0, 1000.0))
    assert (best, recalls) == (1.0, {"none": 0.0, "1": 1.0, "1000": 0.0})
    assert choose_half_life(data, split, stopping, (1000.0,))[0] is None  # of equals, the plain
