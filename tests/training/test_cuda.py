"""What holds on a CUDA device; run with ``pytest -m gpu``."""

import pytest
import torch

from drgcn.data import load
from drgcn.nn import GCN, normalized_adjacency, spmm
from drgcn.training import fit
from drgcn.training.epoch_runner import EpochRunner

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def data():
    return load("planted", nodes=600, labels_per_class=10, val_per_class=40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_product_and_its_gradient_equal_those_on_cpu(data, dtype):
    adj = normalized_adjacency(data.edge_index, data.num_nodes, dtype=dtype)
    x = torch.randn(data.num_nodes, 5, dtype=dtype, requires_grad=True)
    there = x.detach().cuda().requires_grad_()
    here_out, there_out = spmm(adj, x), spmm(adj.to("cuda"), there)
    torch.testing.assert_close(there_out.cpu(), here_out)
    here_out.square().sum().backward()
    there_out.square().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), x.grad)


@pytest.mark.parametrize("reweight", [None, "dr", "static"])
@pytest.mark.parametrize("norm", [None, "batch", "layer"])
def test_a_pass_is_recorded_as_a_graph_and_follows_the_cpu(data, reweight, norm, caplog):
    def make():
        return GCN(data.num_features, 16, 4, reweight=reweight, norm=norm)

    here = fit(make, data, range(3), epochs=60)
    there = fit(make, data, range(3), epochs=60, device="cuda")
    assert "cannot be recorded" not in caplog.text
    # The same random numbers on both: curves part only by rounding, slowly.
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a[:10], b[:10], rtol=1e-3, atol=1e-3)
    for a, b in zip(here.val_accuracy, there.val_accuracy, strict=True):
        assert abs(a - b) < 0.05


def test_replayed_epochs_equal_eager_epochs(data, monkeypatch):
    def run():
        make = lambda: GCN(data.num_features, 16, 4, reweight="dr")  # noqa: E731
        return fit(make, data, range(4), epochs=50, device="cuda")

    replayed = run()
    monkeypatch.setattr(EpochRunner, "_record", lambda self: setattr(self, "recordable", False))
    eager = run()
    for a, b in zip(replayed.curves["train_loss"], eager.curves["train_loss"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_models_that_wait_for_the_host_still_train(data):
    class Waiting(GCN):
        def forward(self, x, adj):
            out = super().forward(x, adj)
            torch.cuda.synchronize()
            return out

    result = fit(lambda: Waiting(data.num_features, 16, 4), data, [0], epochs=10, device="cuda")
    assert result.epochs_run == [10]


def test_the_same_pass_twice_gives_the_same_bits(data):
    make = lambda: GCN(data.num_features, 16, 4, reweight="dr")  # noqa: E731
    first, second = (fit(make, data, range(5), epochs=40, device="cuda") for _ in range(2))
    for a, b in zip(first.models, second.models, strict=True):
        assert all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))
