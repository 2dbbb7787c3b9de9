import json

import pytest
import torch
from typer.testing import CliRunner

from drgcn.cli import app
from drgcn.errors import InputError
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.model.run_folder import load_run

from ..recommend.model.clicks import data, graph


@pytest.fixture
def folder(tmp_path):
    return data(days=4).save(tmp_path / "clicks")


def run(*arguments):
    command = ["recommend", "train", *map(str, arguments), "--device", "cpu"]
    return CliRunner().invoke(app, command)


def succeed(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output or done.exception
    return done.stdout


SMALL = ("--steps", 3, "--batch-size", 32, "--channels", 8, "--fan-outs", "3,2", "--negatives", 8)


def test_a_run_writes_weights_settings_history_and_record(folder, tmp_path):
    out = tmp_path / "run"
    printed = json.loads(succeed(folder, "--out", out, *SMALL, "--json"))
    names = ["history.json", "record.json", "settings.json", "weights.safetensors"]
    assert sorted(path.name for path in out.iterdir()) == names
    model, facts = load_run(out)
    assert facts["training"]["day"] == 3
    assert facts["model"]["gate"] == "dr"
    record = json.loads((out / "record.json").read_text())
    assert record["content_hash"] == data(days=4).content_hash
    assert record["clicks"] == data(days=4).graph.until(3).num_clicks
    assert printed["seconds"] == record["seconds"] > 0
    assert record["positives"] == 96
    users, _ = embed_all(model, data(days=4), data(days=4).graph.until(3))
    torch.testing.assert_close(users.norm(dim=1), torch.ones(60))
    again = run(folder, "--out", out, *SMALL)
    assert isinstance(again.exception, InputError)
    assert "holds one already" in str(again.exception)


@pytest.mark.parametrize("gate", ["none", "static"])
def test_controls_and_temporal_targets(folder, tmp_path, gate):
    out = tmp_path / gate
    succeed(folder, "--out", out, *SMALL, "--gate", gate, "--targets", "last-day", "--day", 3)
    _, facts = load_run(out)
    assert facts["model"]["gate"] == (None if gate == "none" else gate)
    record = json.loads((out / "record.json").read_text())
    assert record["clicks"] == data(days=4).graph.until(2).num_clicks


def test_lightgcn_and_clicks_without_attributes(folder, tmp_path):
    from drgcn.recommend.clicks import ClickData

    succeed(folder, "--out", tmp_path / "light", *SMALL, "--model", "lightgcn")
    _, facts = load_run(tmp_path / "light")
    assert facts["training"]["loss"] == "bpr"
    assert facts["training"]["weight_decay"] == 1e-4
    plain = ClickData(graph()).save(tmp_path / "plain")
    succeed(plain, "--out", tmp_path / "ids", *SMALL)
    _, facts = load_run(tmp_path / "ids")
    assert facts["model"]["item_id_channels"] == facts["model"]["user_id_channels"] == 8
    assert facts["training"]["day"] is None


def test_bad_options_are_one_sentence(folder, tmp_path):
    cases = {
        "such as 10,5": ("--fan-outs", "ten"),
        "softmax or bpr": ("--loss", "hinge"),
        "standard, refined or off": ("--logq", "on"),
        "before day 0": ("--day", 0),
        "no --all-days": ("--day", 2, "--all-days"),
        "two days": ("--day", 1, "--targets", "last-day"),
    }
    for words, arguments in cases.items():
        done = run(folder, "--out", tmp_path / "run", *SMALL, *arguments)
        assert isinstance(done.exception, InputError), (words, done.output)
        assert words in str(done.exception)
    done = run(tmp_path / "nowhere", "--out", tmp_path / "run")
    assert isinstance(done.exception, InputError)
