"""The published numbers, from scratch: ``pytest -m slow`` with DRGCN_DATA set."""

import os
from pathlib import Path

import pytest
import torch

from drgcn.data import load
from drgcn.data.readers import read_pickle
from drgcn.errors import MissingDataError
from drgcn.nn import ChebNet, SparseMatrix
from drgcn.nn.base import compress
from drgcn.studies.comparison import summarize
from drgcn.studies.experiment import Experiment, recipe
from drgcn.studies.paper.page import published
from drgcn.studies.records import load_records
from drgcn.studies.run import run
from drgcn.training import RisingLoss, fit

pytestmark = [pytest.mark.slow, pytest.mark.data, pytest.mark.timeout(1200)]


def real(name, split):
    if not os.environ.get("DRGCN_DATA"):
        pytest.skip("DRGCN_DATA is not set: no real datasets here")
    try:
        return load(name, split=split, offline=True)
    except MissingDataError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("model", ["gat", "mixhop", "chebyshev", "mlp"])
def test_other_models_on_cora_reach_the_published_accuracy(model, tmp_path):
    data = real("cora", "public")
    experiment = recipe("cora", "public", model)
    mean = summarize(run(experiment, data, range(4), tmp_path).seeds).mean
    assert mean > published(experiment).mean - 1.5  # four seeds of a model that varies


# In the paper's table of full supervision on Cora.
SAMPLED = [
    ("fastgcn", None, 100, 83.9),
    ("fastgcn", "dr", 100, 84.0),
    ("asgcn", None, 300, 87.2),
    ("asgcn", "dr", 300, 87.1),
]


@pytest.mark.parametrize(("model", "reweight", "epochs", "paper"), SAMPLED)
def test_models_that_sample_come_near_the_paper_on_cora(model, reweight, epochs, paper, tmp_path):
    """In half of their epochs and less, which costs FastGCN with Dr most."""
    data = real("cora", "full")
    experiment = recipe("cora", "full", model, reweight=reweight, epochs=epochs)
    mean = summarize(run(experiment, data, range(4), tmp_path).seeds).mean
    assert abs(mean - paper) < 2.5


def test_chebyshev_on_citeseer_needs_the_loops_of_the_raw_graph():
    """Kipf's matrices keep them: 69.6 over 20 seeds, against 68.9 without; 69.8 is published."""
    data = real("citeseer", "public")
    graph = read_pickle(Path(os.environ["DRGCN_DATA"]) / "planetoid" / "ind.citeseer.graph")
    loops = torch.tensor(sorted(node for node, others in graph.items() if node in others))
    adj = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    adj[data.edge_index[0], data.edge_index[1]] = 1
    adj[loops, loops] = 1
    scale = torch.where(adj.sum(1) > 0, adj.sum(1).rsqrt(), 0)
    # The largest eigenvalue is 2, so that the scaled Laplacian is minus the adjacency matrix.
    minus = SparseMatrix.from_tensor(-(scale[:, None] * adj * scale).float())
    result = fit(
        lambda: ChebNet(data.num_features, 16, 6),
        data,
        range(20),
        epochs=200,
        rule=RisingLoss(),
        prepare=lambda data: (compress(data.x), minus, None),
    )
    mean = 100 * sum(result.test_accuracy) / 20
    assert mean > 69.3


@pytest.mark.parametrize("reweight", [None, "dr"])
@pytest.mark.parametrize("split", ["full", "public"])
def test_gcn_on_cora_reaches_the_published_accuracy(split, reweight, tmp_path, request):
    data = real("cora", split)
    experiment = Experiment("cora", split, reweight=reweight)
    outcome = run(experiment, data, range(4), tmp_path)
    mean = summarize(outcome.seeds).mean
    assert mean > published(experiment).mean - 0.5
    recorded = {r.identity: r for r in load_records(request.config.rootpath / "results")}
    committed = recorded[experiment.identity(data.dataset.content_hash)]
    same_seeds = summarize({seed: committed.seeds[seed] for seed in range(4)})
    assert abs(mean - same_seeds.mean) < 0.5  # another device, the same random numbers
