"""The names under which experiments are found again; a changed one would orphan its record."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from drgcn.baselines import METHODS, DeepWalk, LabelPropagation, SemiEmbedding
from drgcn.baselines.run import plain_settings
from drgcn.data import load, names
from drgcn.data.catalog import describe
from drgcn.errors import MissingDataError
from drgcn.recommend.study.settings import GATES, StudySettings, file_name, identity
from drgcn.recommend.study.settings import recipe as study_recipe
from drgcn.recommend.synthetic import checksum, generate_astar
from drgcn.recommend.synthetic.random import Stream, hash64
from drgcn.recommend.synthetic.random import stream_key as synthetic_key
from drgcn.records import BaselineRecord, BaselineResult, baseline_identity
from drgcn.streams import call_key, mix, random_16bit, random_uniform, step_key, stream_key
from drgcn.studies.experiment import MODELS, Experiment, recipe, unusual
from drgcn.studies.records import RunRecord, SeedResult
from drgcn.studies.reproduce.plan import Request

from .goldens import expect_json, expect_numbers, tensor_hash

HASH = "0123456789abcdef"
SEEDS = (0, 1, 2, 19, 1000, 2**40)


def _named(experiment: Experiment) -> dict[str, str]:
    record = RunRecord(
        experiment=experiment,
        data={"name": experiment.dataset, "split": experiment.split, "content_hash": HASH},
        environment={"device": "none"},
        started="",
        seconds=0.0,
        curve_epochs=[],
        seeds={seed: SeedResult(0.5, 0.5, 1, 1, [], [], []) for seed in (3, 11)},
    )
    return {
        "identity": experiment.identity(HASH),
        "label": experiment.label,
        "file": record.file_name,
        "unusual": unusual(experiment),
    }


def test_every_recipe_has_its_name():
    found: dict[str, Any] = {}
    for dataset in names():
        for split in describe(dataset).splits[:3]:
            for model in MODELS:
                plain = recipe(dataset, split, model)
                row = {"plain": _named(plain)}
                for gate in ("dr", "static", "constant"):
                    row[gate] = replace(plain, reweight=gate).identity(HASH)
                found[f"{dataset} {split} {model}"] = row
    expect_json("identities/recipes", found)


def test_unusual_experiments_have_their_names():
    cora = recipe("cora", "public")
    changes: dict[str, dict[str, Any]] = {
        "norm": {"norm": "batch", "reweight": "dr"},
        "pre-activation": {"pre_activation": True, "norm": "layer"},
        "sizes": {"hidden_channels": 7, "num_layers": 5, "dropout": 0.25},
        "training": {"epochs": 31, "rule": "patience", "patience": 9, "watch": "loss"},
        "rising": {"rule": "rising-loss"},
        "optimizer": {"optimizer": "sgd", "lr": 0.125, "weight_decay": 0.0, "lr_cut_every": 3},
        "several": {"graphs_per_step": 2},
        "samples": {"inductive": "apart", "batch_size": 33},
        "options": {"options": {"b": [1, 2], "a": {"x": None}}},
    }
    found = {name: _named(replace(cora, **change)) for name, change in changes.items()}
    expect_json("identities/unusual", found)


def test_jobs_of_all_tables_have_their_names():
    request = Request.of(["all"], None, [], True)
    found = [
        [
            job.file_stem,
            job.key,
            job.experiment.identity(HASH),
            list(job.seeds)[:1],
            len(job.seeds),
        ]
        for job in request.jobs
    ]
    assert found
    expect_json("identities/jobs", found)


def test_baselines_have_their_names():
    chosen = {name: kind() for name, kind in METHODS.items()}
    chosen |= {
        "no class mass": LabelPropagation(class_mass=False),
        "short walks": DeepWalk(walks=2, lr=0.5),
        "one weight": SemiEmbedding(weights=(1.0,)),
    }
    found: dict[str, Any] = {}
    for name, baseline in chosen.items():
        settings = plain_settings(baseline)
        record = BaselineRecord(
            method=baseline.name,
            settings=settings,
            data={"name": "some set", "split": "public", "content_hash": HASH},
            environment={},
            started="",
            seconds=0.0,
            seeds={seed: BaselineResult(0.5, 0.5) for seed in (2, 4)},
        )
        found[name] = {
            "identity": baseline_identity(baseline.name, settings, HASH),
            "file": record.file_name,
            "settings": settings,
            "row": baseline.row,
            "scaling": baseline.scaling,
            "deterministic": baseline.deterministic,
        }
    expect_json("identities/baselines", found)


def test_runs_of_the_recommend_study_have_their_names():
    sets = ("gowalla", "amazon-book", "movielens-100k", "movielens-1m", "astar (synthetic) 1", "?")
    chosen = {f"{name} sage": study_recipe(name) for name in sets}
    chosen |= {f"{name} lightgcn": study_recipe(name, "lightgcn") for name in sets}
    chosen |= {f"{name} fast": study_recipe(name, "lightgcn", fast=True) for name in sets}
    chosen |= {gate: StudySettings(gate=gate, seed=3) for gate in GATES}
    chosen["odd"] = StudySettings(n=(5, 7), fan_outs=(4,), user_ids=8, lr=0.5, bfloat16=True)
    found: dict[str, Any] = {}
    for name, settings in chosen.items():
        for purpose in ("compare", "search"):
            key = identity(settings, HASH, purpose)
            file = file_name(settings, name, key, purpose)
            found[f"{name}, {purpose}"] = {"identity": key, "file": file}
        assert StudySettings.from_dict(settings.to_dict()) == settings
        found[name] = {"settings": settings.to_dict(), "steps": settings.steps(1.5, 1_000_003)}
    expect_json("identities/recommend", found)


def test_streams_of_random_numbers_have_their_keys():
    purposes = ("initialisation", "dropout", "batches")
    keys = {f"{seed} {name}": stream_key(seed, name) for seed in SEEDS for name in purposes}
    key = torch.tensor([stream_key(seed, "dropout") for seed in SEEDS[:3]])
    steps = step_key(key, torch.tensor(17))
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    uniform = {str(kind): random_uniform(steps, 5, kind).double().tolist() for kind in kinds}
    drawn = {
        "mixed": mix(torch.arange(-3, 4)).tolist(),
        "steps": steps.tolist(),
        "calls": [call_key(steps, call).tolist() for call in (1, 2, 1000)],
        "16 bit": random_16bit(steps, 7).tolist(),
        "uniform": uniform,
        "many": tensor_hash({"uniform": random_uniform(steps, 1000, torch.float32)}),
    }
    synthetic = {
        f"{seed} {stream.name}": [synthetic_key(seed, stream), synthetic_key(seed, stream, 4)]
        for seed in SEEDS
        for stream in Stream
    }
    hashed = hash64(synthetic_key(3, Stream.DAYS), torch.arange(5)).tolist()
    expect_json(
        "identities/streams",
        {"keys": keys, "drawn": drawn, "synthetic": synthetic, "hash64": hashed},
    )


def test_synthetic_clicks_are_the_same_bits():
    found = {f"{fraction} {seed}": "" for fraction in (0.0001, 0.0002) for seed in (0, 3)}
    for name in found:
        fraction, seed = name.split()
        data = generate_astar(float(fraction), int(seed))
        found[name] = [data.name, checksum(data), data.content_hash]
    expect_json("identities/clicks", found)


def _facts(data: Any) -> dict[str, Any]:
    tensors = {name: value for name, value in data.items() if isinstance(value, torch.Tensor)}
    dense = {
        name: value if value.layout == torch.strided else value.to_dense()
        for name, value in tensors.items()
    }
    return {"facts": data.dataset.to_dict(), "tensors": tensor_hash(dict(sorted(dense.items())))}


def test_datasets_that_are_made_on_the_spot_are_the_same_bits():
    found = {name: _facts(load(name)) for name in ("wine", "breast-cancer", "planted")}
    found["wine, scaled"] = _facts(load("wine", normalize="standard", split_seed=3, k=4))
    found["wine, split"] = _facts(load("wine", split="random-60", normalize="row"))
    found["planted, small"] = _facts(load("planted", features=8, informative=2, seed=4))
    expect_numbers("identities/made_sets", found)


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer", "chameleon-filtered"])
def test_datasets_that_are_read_are_the_same_bits(name):
    root = os.environ.get("DRGCN_DATA")
    if not root:
        pytest.skip("DRGCN_DATA is not set: no real datasets here")
    try:
        data = load(name, Path(root), offline=True)
    except MissingDataError as error:
        pytest.skip(str(error))
    found = _facts(data)
    expect_numbers(f"identities/read_{name}", found)
