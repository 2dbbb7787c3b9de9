"""What holds on a CUDA device; run with ``pytest -m gpu``."""

from dataclasses import replace

import pytest
import torch

from drgcn.recommend.model import sampling as systematic_draw
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.model.encoder import encode_means
from drgcn.recommend.model.losses import column_lse
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.sampling import Positives
from drgcn.recommend.model.training import train

from .clicks import data, graph, new_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SETTINGS = TrainSettings(steps=30, batch_size=64, negatives=16, seed=2)
OPTIONS = {"channels": 16, "fan_outs": (4, 3)}


def test_batches_and_draws_are_those_of_the_cpu():
    clicks = graph()
    there = clicks.to("cuda")
    for draw in ("clicks", "users"):
        here = Positives(clicks, 50, 1, draw).window(3, 20)
        assert all(
            torch.equal(a, b.cpu())
            for a, b in zip(here, Positives(there, 50, 1, draw).window(3, 20), strict=True)
        )
    nodes = torch.randint(61, (40, 6))
    key = torch.tensor(-77)
    expected = systematic_draw.draw_systematic(clicks.by_user, nodes, 5, key, 9)
    found = systematic_draw.draw_systematic(there.by_user, nodes.cuda(), 5, key.cuda(), 9)
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("ids", [0, 16])
def test_encoded_means_and_gradients_equal_those_on_cpu(ids):
    clicks = data()
    model = new_model(clicks, item_ids=ids)
    drawn = torch.randint(41, (500, 5))
    results = []
    for device in ("cpu", "cuda"):
        encoder = model.to(device).encoder("item")
        ready = encoder.prepare(clicks.items)
        out = encode_means(encoder, ready, drawn.to(device))
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(device)
        tables = [t for t in (encoder.table, encoder.id_table) if t is not None]
        results.append([out, *torch.autograd.grad((out * weight).sum(), tables)])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [48, 64])  # through torch, and through our own kernels
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_sums_over_columns_and_gradients_equal_those_on_cpu(width, dtype):
    u, v = torch.randn(300, width) / 4, torch.randn(777, width) / 4
    bias, labels = torch.randn(777), (torch.randint(99, (300,)), torch.randint(99, (777,)))
    grad = torch.randn(300)
    results = []
    for device in ("cpu", "cuda"):
        leaves = [t.to(device).requires_grad_() for t in (u, v)]
        others = [t.to(device) for t in (bias, *labels)]
        out = column_lse(*leaves, *others, dtype=dtype)
        results.append([out, *torch.autograd.grad(out, leaves, grad.to(device))])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(there.cpu(), here, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("gate", "ids"), [("none", 0), ("constant", 0), ("static", 0), ("dr", 0), ("dr", 16)]
)
def test_a_step_is_recorded_as_a_graph_and_follows_the_cpu(gate, ids, caplog):
    clicks = data()
    losses = []
    for device in ("cpu", "cuda"):
        model = new_model(clicks, gate=gate, item_ids=ids, **OPTIONS)
        losses.append(train(model, clicks, settings=SETTINGS, device=device).losses)
        vectors = embed_all(model, clicks, clicks.graph.to(device))
        assert all(v.isfinite().all() for v in vectors)
    assert "cannot be recorded" not in caplog.text
    torch.testing.assert_close(losses[1][:10], losses[0][:10], rtol=5e-3, atol=5e-3)
    rough = new_model(clicks, gate=gate, item_ids=ids, **OPTIONS)
    settings = replace(SETTINGS, bfloat16=True)
    found = train(rough, clicks, settings=settings, device="cuda").losses
    torch.testing.assert_close(found[:10], losses[0][:10], rtol=5e-2, atol=0.2)
    assert "cannot be recorded" not in caplog.text


@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_lightgcn_is_recorded_and_follows_the_cpu(loss, caplog):
    clicks = data()
    settings = replace(SETTINGS, loss=loss, draw="users", weight_decay=1e-4)
    losses = []
    for device in ("cpu", "cuda"):
        model = new_model(clicks, model="lightgcn", channels=16)
        losses.append(train(model, clicks, settings=settings, device=device).losses)
    assert "cannot be recorded" not in caplog.text
    torch.testing.assert_close(losses[1], losses[0], rtol=5e-3, atol=5e-3)


def test_a_resumed_run_stays_near_the_unbroken_one(tmp_path):
    clicks = data()
    model = new_model(clicks, gate="dr", **OPTIONS)
    whole = train(model, clicks, settings=SETTINGS, device="cuda").losses

    class StopError(Exception):
        pass

    def stop(progress):
        raise StopError

    path = tmp_path / "checkpoint"
    first = new_model(clicks, gate="dr", **OPTIONS)
    with pytest.raises(StopError):  # at the last step, whose checkpoint is then complete
        train(first, clicks, settings=SETTINGS, device="cuda", checkpoint=path, progress=stop)
    again = new_model(clicks, gate="dr", **OPTIONS)
    found = train(again, clicks, settings=SETTINGS, device="cuda", checkpoint=path).losses
    torch.testing.assert_close(found, whole, rtol=1e-2, atol=1e-2)
