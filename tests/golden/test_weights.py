"""Weights before and after a few epochs, to the bit, for every model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch.nn.parameter import is_lazy
from torch_geometric.data import Data

from drgcn.baselines import (
    DeepWalk,
    IterativeClassification,
    LabelPropagation,
    ManifoldRegularization,
    Planetoid,
    PlanetoidI,
    SemiEmbedding,
)
from drgcn.baselines.base import Baseline, SeenGraph, seeded
from drgcn.baselines.planetoid import PlanetoidNet
from drgcn.nn import GCN
from drgcn.recommend.model import ClickSAGE, LightGCN, TrainSettings, embed_all, train
from drgcn.recommend.model.run_folder import attribute_summaries, initial_weights
from drgcn.recommend.synthetic import generate_astar
from drgcn.streams import stream_key
from drgcn.training import fit
from drgcn.training.checkpoint import fingerprint_of

from .goldens import expect_json, expect_numbers, tensor_hash
from .models import EPOCHS, SEEDS, Case, cases, data_of

CASES = cases()
SAGES: dict[str, dict[str, Any]] = {
    **{f"sage, {gate}": {"gate": gate} for gate in (None, "dr", "static", "constant")},
    "sage, ids": {"gate": "dr", "user_id_channels": 4, "item_id_channels": 4, "user_id_rows": 50},
    "sage, one level": {"gate": "dr", "fan_outs": (3,), "normalize": False, "temperature": 0.5},
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _initial(case: Case, seed: int) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "initialisation"))
        return case.make()


def _trained(case: Case, data: Data) -> dict[str, Any]:
    result = fit(case.make, data, SEEDS, epochs=EPOCHS, **case.training)
    curves = {name: torch.stack(curve) for name, curve in result.curves.items()}
    return {
        "initial": {s: tensor_hash(_initial(case, s).state_dict()) for s in SEEDS},
        "trained": {
            seed: tensor_hash(model.state_dict())
            for seed, model in zip(SEEDS, result.models, strict=True)
        },
        "curves": tensor_hash(curves),
        "best_epoch": result.best_epoch,
        "epochs_run": result.epochs_run,
        "val_accuracy": result.val_accuracy,
        "test_accuracy": result.test_accuracy,
        "metric": result.metric,
    }


@pytest.mark.parametrize("model", CASES)
def test_state_has_the_names_and_the_order_it_always_had(model):
    found = {
        form: [
            [name, "lazy" if is_lazy(value) else list(value.shape)]
            for name, value in case.make().state_dict().items()
        ]
        for form, case in CASES[model].items()
    }
    expect_json(f"state/{model}", found)


@pytest.mark.parametrize("model", CASES)
def test_a_model_is_trained_to_the_same_bits(model):
    graphs = {case.data: data_of(case.data) for case in CASES[model].values()}
    found = {form: _trained(case, graphs[case.data]) for form, case in CASES[model].items()}
    expect_numbers(f"weights/{model}", found)


@pytest.mark.parametrize("model", CASES)
def test_a_checkpoint_of_a_model_has_the_same_fingerprint(model):
    # Data that is the same to the bit everywhere, for a fingerprint holds the data's bytes.
    x = torch.arange(60, dtype=torch.float32).view(5, 12)
    masks = {name: torch.arange(5) % 3 == i for i, name in enumerate(("train_mask", "val_mask"))}
    data = Data(x=x, edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.arange(5), **masks)
    found = {
        form: fingerprint_of(
            (EPOCHS, *sorted((k, getattr(v, "__name__", v)) for k, v in case.training.items())),
            [data],
            case.make,
        )
        for form, case in CASES[model].items()
    }
    expect_numbers(f"fingerprints/{model}", found)


def test_a_run_that_is_gone_on_with_ends_as_one_that_is_not(tmp_path):
    case, data = CASES["gcn"]["dr"], data_of("planted")
    whole = fit(case.make, data, SEEDS, epochs=EPOCHS)
    path = tmp_path / "run"
    saved = fit(case.make, data, SEEDS, epochs=EPOCHS, checkpoint=path, checkpoint_every=0)
    again = fit(case.make, data, SEEDS, epochs=EPOCHS, checkpoint=path)
    hashes = [[tensor_hash(m.state_dict()) for m in r.models] for r in (whole, saved, again)]
    assert hashes[0] == hashes[1] == hashes[2]
    found = {}
    for one in sorted(tmp_path.iterdir()):
        with safe_open(one, framework="pt") as file:
            names = sorted(file.keys())
            found[one.name] = {"tensors": names, "run": file.metadata()["run"]}
    expect_numbers("checkpoints", found)


def _baselines() -> dict[str, Baseline]:
    planetoid = {"channels": 4, "label_rounds": 3, "label_pairs": 10, "passes": 1, "steps": 5}
    walks = {"walks": 1, "length": 6, "window": 2, "channels": 4}
    return {
        "manireg": ManifoldRegularization(ambient=(1e-3, 1e-1), intrinsic=(1e2, 1e4)),
        "semiemb": SemiEmbedding(channels=5, weights=(1.0, 10.0), epochs=5),
        "label-propagation": LabelPropagation(),
        "label-propagation without class mass": LabelPropagation(class_mass=False),
        "deepwalk": DeepWalk(**walks, negatives=2, shared_negatives=4, batch_size=16),
        "ica": IterativeClassification(rounds=2, inverse_penalties=(0.1, 10.0)),
        "planetoid-t": Planetoid(**planetoid),
        "planetoid-i": PlanetoidI(**planetoid),
    }


@pytest.mark.parametrize("name", _baselines())
def test_a_baseline_comes_to_the_same_scores(name):
    baseline, data = _baselines()[name], data_of("wine")
    found: dict[str, Any] = {}
    for seed in SEEDS:
        prediction = baseline.predict(data, seed)
        classes = prediction.scores.argmax(dim=1)
        found[str(seed)] = {
            "scores": tensor_hash({"scores": prediction.scores}),
            "classes": tensor_hash({"classes": classes}),
            "chosen": prediction.chosen,
        }
    expect_numbers(f"baselines/{name}", found)


def test_networks_of_baselines_start_from_the_same_bits():
    seen = SeenGraph.of(data_of("wine"))
    found: dict[str, Any] = {}
    for form in ("T", "I"):
        net = PlanetoidNet(seen, 4, form == "T", seeded(5))
        every = [*net.context_parameters, *net.class_parameters]
        found[form] = tensor_hash({str(i): value for i, value in enumerate(every)})
    found["deepwalk"] = tensor_hash(
        {"vectors": DeepWalk(walks=1, length=4, channels=3).vectors(seen.adjacency, 5)}
    )
    expect_numbers("baselines/networks", found)


@pytest.mark.parametrize("name", [*SAGES, "lightgcn", "lightgcn, softmax"])
def test_a_model_of_clicks_is_trained_to_the_same_bits(name):
    data = generate_astar(0.0001)
    found: dict[str, Any] = {}
    for seed in SEEDS:
        settings = {"seed": seed, "steps": EPOCHS, "batch_size": 32, "negatives": 16, "lr": 0.01}
        if name in SAGES:
            options = {"fan_outs": (3, 2), "hidden_channels": 8, "out_channels": 8, **SAGES[name]}
            with initial_weights(seed):
                model = ClickSAGE(*attribute_summaries(data, data.graph), **options)
            if name == "sage, ids":
                settings |= {"loss": "bpr", "draw": "users", "weight_decay": 1e-4}
        elif name == "lightgcn":
            with initial_weights(seed):
                model = LightGCN(data.graph.num_users, data.graph.num_items, 8)
            settings |= {"loss": "bpr", "weight_decay": 1e-4}
        else:
            with initial_weights(seed):
                model = LightGCN(data.graph.num_users, data.graph.num_items, 8, normalize=True)
        initial = tensor_hash(model.state_dict())
        result = train(model, data, settings=TrainSettings(**settings))
        users, items = embed_all(model, data, data.graph)
        found[str(seed)] = {
            "keys": list(model.state_dict()),
            "initial": initial,
            "trained": tensor_hash(model.state_dict()),
            "embedded": tensor_hash({"users": users, "items": items}),
            "losses": tensor_hash({"losses": result.losses}),
            "fingerprint": result.fingerprint,
        }
    expect_numbers(f"clicks/{name}", found)


def test_a_seed_has_the_same_bits_alone_and_among_others():
    data = data_of("planted")

    def make() -> GCN:
        return GCN(12, 6, 3, reweight="dr")

    alone, among = fit(make, data, [5], epochs=2), fit(make, data, [0, 5, 6], epochs=2)
    first, second = (tensor_hash(r.models[i].state_dict()) for r, i in ((alone, 0), (among, 1)))
    assert first == second
