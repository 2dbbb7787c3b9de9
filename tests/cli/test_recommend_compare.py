import json
import os

import pytest
from typer.testing import CliRunner

from drgcn.cli.verbs import app
from drgcn.errors import InputError
from drgcn.recommend.study import read_records, recipe

from ..recommend.study.small import timed

SMALL = (
    *("--channels", 8, "--fan-outs", "3,2", "--batch-size", 64, "--epochs-max", 2, "--days", 2),
    *("--n", "5,10", "--device", "cpu"),
)


def run(*arguments):
    return CliRunner().invoke(app, ["recommend", "compare", *map(str, arguments)])


def succeed(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output or done.exception
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    return timed().save(tmp_path / "clicks")


def test_gates_with_spaces_or_commas(folder, tmp_path):
    out = tmp_path / "out"
    shown = succeed(folder, "--gates", "none", "dr", "--seeds", 2, *SMALL, "--out", out)
    assert "dr − none" in shown
    found = read_records(out)
    assert sorted((r.settings.gate, r.settings.seed) for r in found) == [
        *(("dr", 0), ("dr", 1), ("none", 0), ("none", 1)),
    ]
    assert found[0].environment["torch"]
    assert found[0].settings.n == (5, 10)
    printed = json.loads(
        succeed(folder, "--gates", "none,dr", "--seeds", 2, *SMALL, "--out", out, "--json")
    )
    assert sorted(printed["records"]) == sorted(record.file_name for record in found)
    assert len(read_records(out)) == 4  # nothing was run again


def test_lightgcn_has_no_gate(folder, tmp_path):
    options = ("--model", "lightgcn", "--seeds", 1, *SMALL, "--out", tmp_path / "out")
    succeed(folder, *options)
    (record,) = read_records(tmp_path / "out")
    assert (record.settings.loss, record.settings.draw) == ("bpr", "users")
    assert (record.settings.protocol, record.settings.weight_decay) == ("fixed", 1e-4)
    refused = run(folder, "--gates", "dr", *options)
    assert isinstance(refused.exception, InputError)
    assert "no gate for lightgcn" in str(refused.exception)


@pytest.mark.slow
def test_made_up_clicks_by_name(tmp_path):
    out = tmp_path / "out"
    options = ("--fraction", 1e-4, "--seeds", 1, "--out", out, *SMALL[:6], *SMALL[-2:])
    options += ("--epochs-max", 0.5)
    succeed("astar", "--gates", "none", *options)
    (record,) = read_records(out)
    assert record.data["name"].startswith("astar (synthetic)")
    assert record.settings.n == (50,)
    assert not record.settings.exclude_seen


def test_bad_options_are_refused(folder, tmp_path):
    for options, words in [
        (("--gates", "half"), "Expected gates of"),
        (("--search", "wd=1"), "such as lr="),
        (("--search", "lr=x"), "such as lr="),
        (("--split", "official"), "Split by time"),
        (("--protocol", "best-on-test"), "Expected protocol"),
    ]:
        done = run(folder, *SMALL, "--out", tmp_path / "out", *options)
        assert isinstance(done.exception, InputError)
        assert words in str(done.exception)


def test_lightgcn_is_trained_as_its_authors_do():
    found = recipe("gowalla", "lightgcn")
    assert (found.layers, found.channels, found.lr, found.weight_decay) == (3, 64, 1e-3, 1e-4)
    assert (found.batch_size, found.loss, found.epochs_max) == (2048, "bpr", 1000)
    assert (found.draw, found.protocol, found.n) == ("users", "fixed", (20,))
    assert found.exclude_seen
    assert not found.normalize
    assert recipe("gowalla", "lightgcn", fast=True).loss == "softmax"


@pytest.mark.data
@pytest.mark.parametrize("name", ["movielens-100k", "movielens-1m", "gowalla", "amazon-book"])
def test_recipes_fit_the_published_sets(name):
    from drgcn.recommend.clicks.known_sets import load_clicks
    from drgcn.recommend.study.run import parts_of

    if not os.path.isdir(os.path.join(os.environ.get("DRGCN_DATA", ""), "recommend", name)):
        pytest.skip(f"{name} is not under DRGCN_DATA")
    parts = parts_of(load_clicks(name), recipe(name))
    assert min(parts.counts.values()) > 8000


def test_a_variant_of_another_model_is_refused():
    from drgcn.recommend.study import recipe

    with pytest.raises(InputError, match="--model lightgcn"):
        recipe("gowalla", fast=True)


def test_runs_of_a_comparison_can_be_evaluated_and_exported(folder, tmp_path):
    from .recommend_chain import done

    out = tmp_path / "out"
    words = (*SMALL, "--gates", "none", "--seeds", 1, "--out", out, "--n", 5, "--days", 1)
    succeed(folder, *words)
    (record,) = read_records(out)
    left = out / "runs" / record.file_name.removesuffix(".json")
    found = json.loads(done("evaluate", left, "--n", 5, "--keep-seen", "--json"))
    assert found["model"] == record.test["5"]["model"]
    done("export", left, "--out", tmp_path / "export", "--index", "none")
    succeed(folder, *words, "--no-runs", "--lr", 0.02)
    assert len(list((out / "runs").iterdir())) == 1


def test_a_half_life_belongs_to_a_run(folder, tmp_path):
    words = (*SMALL, "--gates", "none", "--seeds", 1, "--n", 5, "--days", 1, "--no-runs")
    succeed(folder, *words, "--out", tmp_path / "none")
    said = succeed(folder, *words, "--out", tmp_path / "two", "--half-life", 2)
    assert "half-life of clicks 2 days" in said
    succeed(folder, *words, "--out", tmp_path / "auto", "--half-life", "auto")
    plain, two, auto = (read_records(tmp_path / name)[0] for name in ("none", "two", "auto"))
    assert "half_life" not in plain.settings.to_dict()
    assert (two.settings.half_life, two.settings.to_dict()["half_life"]) == (2.0, 2.0)
    assert auto.settings.half_life in (None, 3.0, 10.0, 30.0, 100.0)
    assert plain.identity != two.identity
    assert [one["loss"] for one in plain.history] != [one["loss"] for one in two.history]
