import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.run_folder import ModelOptions, build_model, load_run, save_run
from drgcn.recommend.model.sampling import ClickTree, Positives
from drgcn.recommend.model.training import train
from drgcn.records import load_sealed

from .clicks import data, graph, new_model, planted

SETTINGS = TrainSettings(steps=12, batch_size=32, negatives=8, seed=3)
OPTIONS = {"channels": 8, "fan_outs": (3, 2)}


def weights(model):
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])


def trained(clicks, settings=SETTINGS, gate="dr", **options):
    model = new_model(clicks, seed=settings.seed, gate=gate, **OPTIONS)
    return model, train(model, clicks, settings=settings, **options)


def test_an_epoch_shows_every_click_once_and_batches_reach_over_its_end():
    clicks = graph()
    positives = Positives(clicks, 32, seed=1)
    steps = positives.steps(3)
    users, items = positives.window(0, steps)
    pairs = (users * clicks.num_items + items).flatten()
    user = torch.arange(clicks.num_users).repeat_interleave(clicks.by_user.degree)
    everything = user * clicks.num_items + clicks.by_user.col
    orders = []
    for epoch in range(3):
        shown = pairs[epoch * clicks.num_clicks : (epoch + 1) * clicks.num_clicks]
        assert torch.equal(shown.sort().values, everything)
        orders.append(shown)
    assert not torch.equal(orders[0], orders[1])
    later = positives.window(5, 2)
    assert torch.equal(later[0], users[5:7])
    assert torch.equal(later[1], items[5:7])


def test_drawing_users_is_uniform_over_users_with_clicks():
    clicks = graph(users=12, items=9, clicks=40)
    users, items = Positives(clicks, 1000, draw="users").window(0, 40)
    active = (clicks.by_user.degree > 0).nonzero().flatten()
    counts = torch.bincount(users.flatten(), minlength=12)[active].double()
    expected = 40_000 / active.numel()
    assert float(((counts - expected) ** 2 / expected).sum()) < 30
    row = users.flatten()[0]
    mine = items.flatten()[users.flatten() == row]
    known = clicks.by_user.col[slice(*clicks.by_user.rowptr[row : row + 2].tolist())].long()
    assert torch.equal(mine.unique(), known)


@pytest.mark.parametrize("gate", ["none", "constant", "static", "dr"])
def test_the_same_seed_gives_the_same_bits(gate):
    clicks = data()
    model, result = trained(clicks, gate=gate)
    again, repeated = trained(clicks, gate=gate)
    assert torch.equal(result.losses, repeated.losses)
    assert torch.equal(weights(model), weights(again))
    other, _ = trained(clicks, replace(SETTINGS, seed=4, steps=1), gate)
    assert not torch.equal(weights(model), weights(other))


@pytest.mark.parametrize("gate", ["none", "dr"])
def test_the_loss_falls_and_groups_are_found(gate):
    clicks = planted()
    model, result = trained(clicks, replace(SETTINGS, steps=50, lr=2e-2), gate)
    assert result.losses[-10:].mean() < result.losses[:10].mean() - 0.1
    users, items = embed_all(model, clicks, clicks.graph)
    # Users are near to the items of their group, clicked or not.
    same = torch.arange(80)[:, None] % 4 == torch.arange(40) % 4
    scores = users @ items.T
    assert scores[same].mean() > scores[~same].mean() + 0.15


@pytest.mark.parametrize("options", [{"loss": "bpr"}, {"negatives": 0}, {"logq": "refined"}])
def test_other_losses_train_too(options):
    _, result = trained(planted(), replace(SETTINGS, steps=40, lr=2e-2, **options))
    assert result.losses[-10:].mean() < result.losses[:10].mean()


@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_lightgcn_trains_and_ranks_what_was_clicked_first(loss):
    clicks = data()
    model = new_model(clicks, model="lightgcn", channels=16, layers=2)
    settings = TrainSettings(steps=150, batch_size=64, lr=1e-2, loss=loss, draw="users")
    result = train(model, clicks, settings=settings)
    assert result.losses[-20:].mean() < result.losses[:20].mean()
    users, items = embed_all(model, clicks, clicks.graph)
    first = (users @ items.T).argmax(1)[:40]
    rows = clicks.graph.by_user
    hits = [int(first[u]) in rows.col[rows.rowptr[u] : rows.rowptr[u + 1]] for u in range(40)]
    assert sum(hits) > 30


@pytest.mark.parametrize("hidden", [True, False])
def test_the_click_to_predict_is_taken_out_of_both_trees(monkeypatch, hidden):
    drawn, draw = {}, ClickTree.draw

    def watched(clicks, side, roots, *arguments, partners, first):
        drawn.setdefault(side, (roots, partners))  # items of the batch come before negatives
        return draw(clicks, side, roots, *arguments, partners=partners, first=first)

    monkeypatch.setattr(ClickTree, "draw", watched)
    trained(data(), replace(SETTINGS, steps=1, mask_target=hidden))
    (users, of_users), (items, of_items) = drawn["user"], drawn["item"]
    if hidden:
        assert torch.equal(of_users, items)
        assert torch.equal(of_items, users)
    else:
        assert of_users is of_items is None


def test_a_later_days_clicks_can_be_the_targets():
    clicks = data(days=4)
    before, targets = clicks.graph.until(3), clicks.graph.on(3)
    model = build_model(clicks, before, ModelOptions(**OPTIONS))
    result = train(model, clicks, before, SETTINGS, targets=targets)
    assert result.losses.isfinite().all()


def test_bfloat16_stays_near_single_precision():
    clicks = data()
    exact = trained(clicks)[1].losses
    rough = trained(clicks, replace(SETTINGS, bfloat16=True))[1].losses
    assert not torch.equal(exact, rough)
    torch.testing.assert_close(rough, exact, atol=0.1, rtol=0.02)


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    clicks = data()
    model, result = trained(clicks)

    class StopError(Exception):
        pass

    def stop(progress):
        if progress.step >= 5:
            raise StopError

    import importlib

    module = importlib.import_module("drgcn.recommend.model.training")
    path = tmp_path / "checkpoint"
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.0)
    with pytest.raises(StopError):
        trained(clicks, checkpoint=path, checkpoint_every=0, progress=stop)
    seen = []
    resumed, repeated = trained(clicks, checkpoint=path, progress=seen.append)
    assert torch.equal(weights(resumed), weights(model))
    assert torch.equal(repeated.losses, result.losses)
    assert seen[-1].step == 12
    assert seen[-1].seconds_left == 0
    with pytest.raises(InputError, match="other data or settings"):
        trained(clicks, replace(SETTINGS, lr=0.1), checkpoint=path)
    with pytest.raises(InputError, match="other data or settings"):
        trained(replace(clicks, graph=graph(seed=1)), checkpoint=path)


SCRIPT = """
import sys, torch
sys.path.insert(0, sys.argv[1])
torch.set_num_threads(1)
from tests.recommend.model.test_training import SETTINGS, data, trained, weights
from dataclasses import replace
long = replace(SETTINGS, steps=150)
model, result = trained(data(), long, checkpoint=sys.argv[2], checkpoint_every=0)
torch.save((weights(model), result.losses), sys.argv[3])
"""


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_weights_of_the_unbroken_run(tmp_path):
    root = str(Path(__file__).parents[3])
    path, out = tmp_path / "checkpoint", tmp_path / "out"
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, root, str(path), str(out)]
    kills = 0
    while kills < 2:
        run = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
        before = path.stat().st_mtime_ns if path.exists() else 0
        while run.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
            time.sleep(0.01)
        time.sleep(0.1)  # somewhere in the middle of a step, or of a checkpoint
        run.send_signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL, "the run was over before it could be killed"
        kills += 1
    subprocess.run(command, check=True)
    found = torch.load(out)
    model, result = trained(data(), replace(SETTINGS, steps=150))
    assert torch.equal(found[0], weights(model))
    assert torch.equal(found[1], result.losses)


def test_a_run_is_a_folder_that_gives_the_model_back(tmp_path):
    clicks = data()
    model, result = trained(clicks)
    save_run(tmp_path / "run", model, {"seed": 3}, result.losses, {"seconds": result.seconds})
    loaded, facts = load_run(tmp_path / "run")
    assert torch.equal(weights(loaded), weights(model))
    expected = embed_all(model, clicks, clicks.graph)
    torch.testing.assert_close(embed_all(loaded, clicks, clicks.graph), expected)
    history = load_sealed(tmp_path / "run" / "history.json")["losses"]
    assert [point["step"] for point in history] == list(range(1, 13))
    assert facts["training"] == {"seed": 3}
    light = new_model(clicks, model="lightgcn", channels=4)
    save_run(tmp_path / "light", light, {}, torch.zeros(0), {})
    assert torch.equal(weights(load_run(tmp_path / "light")[0]), weights(light))
    path = tmp_path / "run" / "weights.safetensors"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    for content in (changed, b"cut"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="wrote to the end"):
            load_run(tmp_path / "run")


def test_bad_settings_are_refused():
    for wrong in ({"loss": "hinge"}, {"epochs": 0}, {"steps": 0}, {"lr": 0}, {"negatives": -1}):
        with pytest.raises(InputError):
            TrainSettings(**wrong)
    with pytest.raises(InputError, match="negatives for the loss bpr"):
        trained(data(), replace(SETTINGS, loss="bpr", negatives=0))
    with pytest.raises(InputError, match="found none"):
        Positives(graph(days=2).until(0), 4)
    with pytest.raises(InputError, match="clicks or users"):
        Positives(graph(), 4, draw="items")
