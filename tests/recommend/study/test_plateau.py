"""The rule by which training stops, on a trainer whose validation is written down."""

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.study.run import train_to_plateau


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
