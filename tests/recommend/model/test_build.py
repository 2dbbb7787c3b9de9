import importlib.util
import runpy
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import drgcn.recommend.model
import drgcn.recommend.model.fitting
from drgcn.cli.verbs import app
from drgcn.recommend.clicks import ClickData, ClickSplit
from drgcn.recommend.model import ClickSAGE, LightGCN, ModelOptions, build_model
from drgcn.recommend.model import run_folder as build

from .clicks import data, graph

ROOT = Path(__file__).parents[3]


class BuiltError(Exception):
    """Raised in place of the first model, with its options."""


def catch(monkeypatch, module, work):
    """The options with which some work builds its first model."""

    def stop(clicks, graph, options=None, *_):
        raise BuiltError(options)

    monkeypatch.setattr(module, "build_model", stop)
    with pytest.raises(BuiltError) as caught:
        work()
    return caught.value.args[0]


def command(*words):
    result = CliRunner().invoke(app, ["recommend", *map(str, words), "--device", "cpu"])
    raise result.exception


def benchmark(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_benchmarks_and_example_build_the_same_model(monkeypatch, tmp_path):
    plain = ClickData(graph(days=4))  # no attributes: users and items have rows of their own
    folder, split = plain.save(tmp_path / "clicks"), ClickSplit.by_time(plain)
    same = ("--channels", "64", "--fan-outs", "10,5")
    train = ("train", folder, "--out", tmp_path / "run", *same, "--model", "sage")
    compare = ("compare", folder, "--out", tmp_path / "study", *same, "--gates", "dr", "--n", "5")
    job, stages = (benchmark(name, monkeypatch) for name in ("astar_job", "recommend"))
    args = Namespace(device="cpu", epochs=1.0, batch=32, lr=1e-3, steps=1)
    cpu = torch.device("cpu")
    found = [
        catch(monkeypatch, *one)
        for one in (
            (drgcn.recommend.model.fitting, lambda: command(*train)),
            (drgcn.recommend.model.fitting, lambda: command(*compare)),
            (job, lambda: job.run(plain, split, "dr", 0, args)),
            (stages, lambda: stages.trainer(plain, split, "dr", cpu, args)),
        )
    ]
    models = [build_model(plain, plain.graph, options) for options in found]
    weights = models[0].state_dict()
    for model in models[1:]:
        assert model.settings == models[0].settings
        assert model.state_dict().keys() == weights.keys()
        for name, value in model.state_dict().items():
            assert torch.equal(value, weights[name]), name
    assert models[0].encoder("user").id_table.shape == (60 + 1, 64)
    example = ROOT / "examples" / "recommend.py"
    options = catch(monkeypatch, drgcn.recommend.model, lambda: runpy.run_path(str(example)))
    assert options == ModelOptions(fan_outs=(5, 5))


@pytest.mark.parametrize(("most", "rows", "hashed"), [(60, 60, False), (59, 59, True)])
def test_users_share_rows_only_if_there_are_too_many(monkeypatch, most, rows, hashed):
    monkeypatch.setattr(build, "MOST_ID_ROWS", most)
    plain = ClickData(graph())
    model = build_model(plain, plain.graph, ModelOptions(channels=4))
    users, items = model.encoder("user"), model.encoder("item")
    assert (users.id_rows, users.hashed) == (rows, hashed)
    assert (items.id_rows, items.hashed) == (40, False)


def test_embeddings_of_nodes_stand_in_for_missing_attributes():
    clicks = data()
    known = build_model(clicks, clicks.graph, ModelOptions(channels=4))
    assert known.encoder("user").id_table is None
    assert known.encoder("item").id_table is None
    asked = build_model(clicks, clicks.graph, ModelOptions(channels=4, user_ids=3, item_ids=2))
    assert asked.encoder("user").id_table.shape == (61, 3)
    assert asked.encoder("item").id_table.shape == (41, 2)


@pytest.mark.parametrize("gate", ["constant", "static", "dr"])
def test_gates_of_a_seed_begin_alike(gate):
    clicks = data()
    models = [
        build_model(clicks, clicks.graph, ModelOptions(channels=4, gate=name, seed=seed))
        for name, seed in (("none", 0), (gate, 0), ("none", 1))
    ]
    plain, gated, other = (model.state_dict() for model in models)
    assert plain.keys() <= gated.keys()
    for name, value in plain.items():
        assert torch.equal(value, gated[name]), name
    assert not torch.equal(plain["layers.0.own.user"], other["layers.0.own.user"])


def test_what_is_not_asked_is_the_models_own():
    clicks = data()
    generator = torch.get_rng_state()
    sage = build_model(clicks, clicks.graph)
    light = build_model(clicks, clicks.graph, ModelOptions(model="lightgcn"))
    assert isinstance(sage, ClickSAGE)
    assert isinstance(light, LightGCN)
    assert (sage.temperature, sage.normalize) == (0.07, True)
    assert (light.temperature, light.normalize) == (1.0, False)
    warm = ModelOptions(model="lightgcn", temperature=0.5, normalize=True)
    light = build_model(clicks, clicks.graph, warm)
    assert (light.temperature, light.normalize) == (0.5, True)
    assert torch.equal(torch.get_rng_state(), generator)
