import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.cli.recommend.train_run import print_run
from drgcn.cli.verbs import app
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickGraph, SplitRule, split_clicks
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.model.run_folder import load_run
from drgcn.recommend.serving import LoadedRun
from drgcn.records import load_sealed, sealed

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


SMALL = (
    *("--steps", 3, "--batch-size", 32, "--channels", 8, "--fan-outs", "3,2", "--negatives", 8),
    *("--model", "sage"),
)


def test_a_run_writes_weights_settings_history_and_record(folder, tmp_path):
    out = tmp_path / "run"
    printed = json.loads(succeed(folder, "--out", out, *SMALL, "--json"))
    names = ["config.toml", "history.json", "record.json", "settings.json", "weights.safetensors"]
    assert sorted(path.name for path in out.iterdir()) == names
    model, facts = load_run(out)
    assert facts["training"]["day"] == 3
    assert facts["model"]["gate"] == "dr"
    assert facts["model"]["kind"] == "sage"
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

    for loss, normal, draw in (("softmax", True, "clicks"), ("bpr", False, "users")):
        out = tmp_path / loss
        succeed(folder, "--out", out, *SMALL, "--model", "lightgcn", "--loss", loss)
        _, facts = load_run(out)
        assert facts["training"]["draw"] == draw
        assert facts["training"]["weight_decay"] == 1e-4
        assert facts["model"]["normalize"] == normal
    succeed(folder, "--out", tmp_path / "light", *SMALL, "--model", "lightgcn", "--no-normalize")
    _, facts = load_run(tmp_path / "light")
    assert (facts["training"]["loss"], facts["model"]["normalize"]) == ("softmax", False)
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
        "without --patience": ("--patience", 3),
        "no gate for lightgcn": ("--model", "lightgcn", "--gate", "dr"),
        "content hash abc": ("--content-hash", "abc"),
        "with --model hybrid": ("--cold-share", 0.5),
        "cold users from 0 to 1": ("--model", "hybrid", "--cold-share", 1),
    }
    for words, arguments in cases.items():
        done = run(folder, "--out", tmp_path / "run", *SMALL, *arguments)
        assert isinstance(done.exception, InputError), (words, done.output)
        assert words in str(done.exception)
    done = run(tmp_path / "nowhere", "--out", tmp_path / "run")
    assert isinstance(done.exception, InputError)
    assert "one of gowalla, " in str(done.exception)
    for words, arguments in {
        "--epochs or --steps": ("--targets", "last-day"),
        "a share between 0 and 1": ("--hold-out", 1.5),
        "above zero": ("--every", 0),
    }.items():
        done = run(folder, "--out", tmp_path / "run", *SMALL[2:], *arguments)
        assert isinstance(done.exception, InputError), (words, done.output)
        assert words in str(done.exception)


CHOSEN = (*SMALL[2:], "--epochs-max", 2, "--lr", 0.02)


def test_validation_says_how_long_and_all_clicks_are_learnt(folder, tmp_path, capsys):
    out, kept = tmp_path / "run", tmp_path / "kept"
    record = json.loads(succeed(folder, "--out", out, *CHOSEN, "--hold-out", 0.3, "--json"))
    found = record["validation"]
    seen = data(days=4).graph.until(3)
    assert found["split"] == "validation: days from 2 on"
    assert found["clicks"] == seen.on(2).num_clicks
    assert found["best_recall"] == max(row["recall"] for row in found["history"])
    share = seen.num_clicks / (seen.num_clicks - found["clicks"])
    assert record["steps"] == max(round(found["best_step"] * share), 1)
    assert (record["clicks"], found["refitted"]) == (seen.num_clicks, True)
    assert not list(out.glob("*.safetensors.*"))
    said = succeed(folder, "--out", kept, *CHOSEN, "--hold-out", 0.3, "--no-refit")
    assert "popular items" in said
    assert found["n"] == 8  # a fifth of 40 items
    found = load_sealed(kept / "record.json")
    best = max(found["validation"]["best_recall"], *found["popularity"]["recall"].values())
    for above, is_told in ((0.01, True), (0.0, True), (-0.01, False)):
        found["validation"]["popular_recall"] = best + above
        (tmp_path / "record.json").write_text(json.dumps(sealed(found)))
        print_run(tmp_path, False)
        assert ("not above popular items" in capsys.readouterr().out) is is_told
    assert found["steps"] == found["validation"]["best_step"]


def test_a_run_is_made_again_from_its_settings(folder, tmp_path):
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    succeed(folder, "--out", one, *CHOSEN, "--gate", "static", "--seed", 3, "--no-refit")
    succeed("--config", one / "config.toml", "--out", two)
    assert (one / "weights.safetensors").read_bytes() == (two / "weights.safetensors").read_bytes()
    assert (one / "config.toml").read_text() == (two / "config.toml").read_text()
    succeed("--config", one / "config.toml", "--out", other, "--seed", 4, "--gate", "none")
    _, facts = load_run(other)
    assert (facts["training"]["seed"], facts["model"]["gate"]) == (4, None)


def test_settings_that_cannot_be_read(folder, tmp_path):
    path = tmp_path / "config.toml"
    for text, words in {
        "seed = ": "as TOML",
        "sede = 3": "found sede = 3",
        "seed = {a = 1}": "a plain value",
        "batch-size = 3\nbatch_size = 4": "there once",
    }.items():
        path.write_text(text)
        done = run(folder, "--config", path, "--out", tmp_path / "run")
        assert isinstance(done.exception, InputError), text
        assert words in str(done.exception)
    path.write_text("steps = 2.5")
    assert run(folder, "--config", path, "--out", tmp_path / "run").exit_code == 2
    path.write_text('model = "sage"\nfan-outs = [3, 2]\nsteps = 1\nchannels = 4\nbatch_size = 8')
    succeed(folder, "--config", path, "--out", tmp_path / "run")
    _, facts = load_run(tmp_path / "run")
    assert facts["model"]["fan_outs"] == [3, 2]
    done = run(folder, "--config", tmp_path / "nowhere", "--out", tmp_path / "new")
    assert "No such file" in str(done.exception)
    assert not (tmp_path / "new").exists()


def test_a_published_set_is_known_by_its_name(tmp_path, monkeypatch):
    from .recommend_chain import done

    home = tmp_path / "root" / "recommend" / "amazon-book"
    home.mkdir(parents=True)
    clicks = [f"{user} " + " ".join(str((user + k) % 9) for k in range(4)) for user in range(12)]
    (home / "train.txt").write_text("\n".join(clicks))
    (home / "test.txt").write_text("\n".join(f"{user} {(user + 5) % 9}" for user in range(12)))
    monkeypatch.chdir(tmp_path)
    data(days=4).save(tmp_path / "amazon-book")
    root = ("--data-root", tmp_path / "root")
    words = ("--model", "lightgcn", *CHOSEN, *root)
    found = run("amazon-book", "--out", "run", *words)
    assert found.exit_code == 0, found.exception
    assert "for the folder of that name write ./amazon-book" in found.stderr
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert (record["users"], record["clicks"]) == (12, 48)
    assert record["validation"]["split"] == "validation: 10% of every user's clicks"
    monkeypatch.delenv("DRGCN_DATA", raising=False)
    assert json.loads(done("evaluate", "run", "--n", 5, "--json"))["data"]["name"] == "amazon-book"
    succeed("./amazon-book", "--out", "own", *SMALL, *root)
    assert json.loads((tmp_path / "own" / "record.json").read_text())["users"] == 60


def test_the_model_suits_what_is_known(folder, tmp_path):
    from drgcn.recommend.clicks import ClickData

    from .recommend_chain import done

    succeed(folder, "--out", tmp_path / "both", *SMALL[:-2])
    _, facts = load_run(tmp_path / "both")
    assert (facts["model"]["kind"], facts["model"]["gate"]) == ("hybrid", None)
    assert facts["model"]["cold_share"] == 0.3
    done("evaluate", tmp_path / "both", "--n", 5)
    done("export", tmp_path / "both", "--out", tmp_path / "export", "--index", "none")
    plain = ClickData(graph()).save(tmp_path / "plain")
    succeed(plain, "--out", tmp_path / "ids", *SMALL[:-2])
    assert load_run(tmp_path / "ids")[1]["model"]["kind"] == "lightgcn"


@pytest.mark.parametrize(
    ("clicks", "batch"), [(10, 128), (80_000, 1024), (810_128, 8192), (10**9, 8192)]
)
def test_batches_suit_the_number_of_clicks(clicks, batch):
    from drgcn.cli.recommend.train_options import _batch_size

    assert _batch_size(clicks) == batch


@pytest.mark.parametrize("rule", ["days:1", "random:0.2:3", "last"])
def test_what_a_split_holds_back_is_not_learnt_and_is_evaluated(folder, tmp_path, rule):
    out, clicks = tmp_path / "run", data(days=4)
    done = run(folder, "--out", out, *SMALL, "--split", rule)
    assert done.exit_code == 0, done.output or done.exception
    assert "held back for test, fewer than 1,000" in done.stderr
    expected = split_clicks(clicks, SplitRule.parse(rule)).test
    record = json.loads((out / "record.json").read_text())
    assert record["clicks"] == expected.train.num_clicks < clicks.graph.num_clicks
    found = LoadedRun.open(out).split()
    assert torch.equal(found.targets.by_user.col, expected.targets.by_user.col)
    with pytest.raises(InputError, match="Expected no day"):
        LoadedRun.open(out).split(3)
    config = tmp_path / "again"
    succeed("--config", out / "config.toml", "--out", config)
    assert (config / "weights.safetensors").read_bytes() == (
        out / "weights.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    "options", [("--split", "days:1", "--day", 3), ("--split", "days:9"), ("--split", "often")]
)
def test_a_split_that_cannot_be_leaves_nothing(folder, tmp_path, options):
    done = run(folder, "--out", tmp_path / "run", *SMALL, *options)
    assert isinstance(done.exception, InputError)
    assert not (tmp_path / "run").exists()


def test_sizes_of_a_split_are_warned_of(folder, tmp_path):
    for name, rule, more in (("a", (), True), ("b", ("--split", "random:0.4"), False)):
        said = run(folder, "--out", tmp_path / name, *SMALL, *rule).stderr
        assert "held back for test, fewer than 1,000" in said
        assert ("as by --split time:0.1" in said) is more
        assert "left to learn from" not in said
    few = data(days=4)
    days = torch.full_like(few.graph.days, 3)
    days[:20] = 0
    few = replace(few, graph=ClickGraph(few.graph.by_user, few.graph.by_item, days))
    said = run(few.save(tmp_path / "few"), "--out", tmp_path / "c", *SMALL).stderr
    assert "are left to learn from. Hold back fewer" in said


def test_a_split_brings_its_own_validation(folder, tmp_path):
    quick = (*SMALL[2:], "--split", "random:0.2", "--epochs-max", 1, "--patience", 1)
    succeed(folder, "--out", tmp_path / "run", *quick)
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    expected = split_clicks(data(days=4), SplitRule.parse("random:0.2"))
    assert f"{expected.counts['valid']}" in json.dumps(record["validation"])


@pytest.mark.parametrize(
    ("clicks", "attributes", "model", "gate"),
    [
        (100_000, True, "hybrid", "none"),
        (100_000, False, "lightgcn", "none"),
        (20_000_000, True, "hybrid", "none"),
        (20_000_001, True, "sage", "dr"),
        (20_000_001, False, "sage", "dr"),
    ],
)
def test_defaults_suit_the_kind_of_data(clicks, attributes, model, gate):
    from dataclasses import fields

    from drgcn.cli.recommend.train_options import Targets, TrainOptions

    values = dict.fromkeys(field.name for field in fields(TrainOptions))
    options = TrainOptions(**values | {"targets": Targets.same}).resolved(clicks, attributes)
    assert (options.model.value, options.gate.value) == (model, gate)
    assert options.cold_share == (0.3 if model == "hybrid" else None)


def test_what_a_kill_left_of_a_finished_run_goes_when_it_is_asked_for_again(
    tmp_path, monkeypatch, capsys
):
    names = ("checkpoint.safetensors", "choice.safetensors", ".record.json.0123abcd.partial")
    for name in (*names, "settings.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / ".clicks-0-same").mkdir()
    monkeypatch.setattr("sys.argv", ["drgcn", "recommend", "train", "x", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ending:
        drgcn.cli.main()
    assert ending.value.code == 2
    assert "holds one already" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "settings.json"]
