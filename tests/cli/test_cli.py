"""The command line as a user meets it."""

import errno
import html
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.cli.comparing import best_on_validation
from drgcn.data import describe, load
from drgcn.errors import DrgcnError, DrgcnWarning
from drgcn.nn import GCN
from drgcn.streams import stream_key
from drgcn.studies.experiment import recipe
from drgcn.studies.records import load_records

from ..training.graphs import several


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Runs a command in an empty folder; returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRGCN_DATA", str(tmp_path / "no-data"))

    def run(*words):
        result = CliRunner().invoke(drgcn.cli.verbs.app, list(words))
        if isinstance(result.exception, DrgcnError):
            return 2, result.stdout, str(result.exception)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def refusal(tmp_path, monkeypatch, capsys):
    """Runs the program as a user does; returns the one sentence in which bad input ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["drgcn", *words])
        with pytest.raises(SystemExit) as end:
            drgcn.cli.main()
        out, error = capsys.readouterr()
        assert (end.value.code, out) == (2, "")
        assert error.startswith("error: ")
        assert len(error.strip().splitlines()) == 1
        assert list(tmp_path.iterdir()) == []
        return error

    return run


@pytest.fixture
def own_data(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = ["id,height,weight,label,split"]
    for i in range(60):
        label = i % 2
        split = ("train", "val", "test")[i % 3]
        lines.append(f"n{i},{label + rng.normal():.3f},{rng.normal():.3f},{'ab'[label]},{split}")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = [f"n{i},n{(i + 2) % 60}" for i in range(60)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return folder


def test_help_does_not_import_torch():
    program = (
        "import sys, drgcn.cli.verbs\n"
        "try: drgcn.cli.verbs.app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'torch_geometric', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_train_prints_one_json_object(call):
    code, out, _ = call(
        "train", "planted", "--compare", "--seeds", "2", "--epochs", "3", "--hidden", "4", "--json"
    )
    report = json.loads(out)
    assert code == 0
    assert [row["reweight"] for row in report["rows"]] == [None, "dr", "static", "constant"]
    assert report["dataset"]["name"] == "planted"
    assert report["verdict"]
    assert all(row["seeds"] == 2 for row in report["rows"])


def test_train_prints_a_table_and_the_paths_of_its_records(call, tmp_path):
    code, out, _ = call("train", "planted", "--seeds", "2", "--epochs", "3", "--hidden", "4")
    assert code == 0
    assert "gcn + dr" in out
    (record,) = (tmp_path / "runs").glob("*.json")
    assert record.name in out.replace("\n", "")


GRID = ("--grid", "lr=0.01,0.1", "--grid", "hidden_channels=4", "--seeds", "2", "--epochs", "2")


def test_a_grid_judges_the_settings_that_are_best_on_validation(call, tmp_path):
    code, out, _ = call("train", "wine", "--compare", *GRID, "--json")
    report = json.loads(out)
    assert code == 0
    settings = [{"lr": lr, "hidden_channels": 4} for lr in (0.01, 0.1)]
    assert [line["settings"] for line in report["grid"]] == 4 * settings
    assert len({tuple(line["records"]) for line in report["grid"]}) == 8
    for row in report["rows"]:
        lines = [line for line in report["grid"] if line["row"] == row["row"]]
        best = max(lines, key=lambda line: line["val_accuracy_mean"])
        assert [line["chosen"] for line in lines] == [line is best for line in lines]
        assert row["settings"] == best["settings"]
        assert row["test_accuracy_mean"] == best["test_accuracy_mean"]
    assert report["verdict"]
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    code, table, _ = call("train", "wine", "--compare", *GRID)
    assert code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == files
    assert "chosen" in table


def test_a_gate_that_is_not_among_those_compared_is_refused(refusal):
    found = refusal("train", "planted", "--compare", "--reweight", "class-share")
    assert "--reweight class-share" in found


def test_a_setting_is_chosen_by_validation_and_never_by_test():
    def outcome(val, test, reason=""):
        result = SimpleNamespace(val_accuracy=val, test_accuracy=test)
        return SimpleNamespace(seeds={} if reason else {0: result}, reason=reason)

    failed, first, second = outcome(0, 0, "odd"), outcome(0.8, 0.6), outcome(0.8, 0.9)
    worse = outcome(0.7, 1.0)
    assert best_on_validation([failed, worse, first, second], higher_is_better=True) is first
    assert best_on_validation([first, worse], higher_is_better=False) is worse
    assert best_on_validation([failed], higher_is_better=True) is None


def test_a_grid_of_an_error_takes_the_least_and_leaves_out_what_diverged(call, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 3))
    edges = np.stack([np.arange(60), (np.arange(60) + 2) % 60])
    parts = {
        f"{part}_mask": np.arange(60) % 3 == i for i, part in enumerate(("train", "val", "test"))
    }
    np.savez(
        tmp_path / "mine.npz",
        x=x,
        edge_index=edges,
        y=np.zeros(60, int),
        size=3 * x[:, 0],
        **parts,
    )
    words = ("--target", "size", "--metric", "MAE", "--grid", "lr=0.001,0.1,1e30")
    code, out, _ = call("train", "mine.npz", *words, "--seeds", "2", "--epochs", "5", "--json")
    report = json.loads(out)
    assert code == 0
    slow, fast, lost = report["grid"]
    assert lost["reason"]
    assert lost["val_accuracy_mean"] is None
    best = min(slow, fast, key=lambda line: line["val_accuracy_mean"])
    assert best["chosen"]
    assert report["rows"][0]["settings"] == best["settings"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("lr=abc",), "a number for lr; found 'abc'"),
        (("lr=",), "'lr='"),
        (("",), "it is empty"),
        (("lr=0.1,",), "found ''"),
        (("lr=0.1,1e-1",), "every value once"),
        (("lr=0.1", "lr=0.2"), "lr twice"),
        (("epochs=10,20",), "found 'epochs'"),
        (("odd=1",), "dropout, hidden_channels, lr, num_layers, weight_decay"),
        (("hidden_channels=8.5",), "a whole number"),
        (("lr=0.1:0.2",), "a number for lr; found '0.1:0.2'"),
        (("dropout=0.5,1",), r"[0, 1)"),
        (("lr=0.1", "--lr", "0.1"), "found both"),
        (("heads=3,4", "--model", "gat"), "heads"),
    ],
)
def test_grids_that_cannot_be_are_refused_before_any_work(refusal, words, found):
    first, *rest = words
    options = [
        w
        for word in rest
        for w in ((word,) if "--" in word or "=" not in word else ("--grid", word))
    ]
    assert found in refusal("train", "planted", "--grid", first, *options)


def test_one_seed_needs_no_interval(call):
    code, out, _ = call("train", "planted", "--compare", "--seeds", "1", "--epochs", "2", "--json")
    assert code == 0
    assert json.loads(out)["rows"][0]["test_accuracy_std"] is None


def test_a_folder_of_ones_own_trains(call, own_data):
    code, out, _ = call("train", str(own_data), "--seeds", "2", "--epochs", "3", "--json")
    assert code == 0
    assert json.loads(out)["dataset"]["split"] == "given"


def test_a_broken_folder_is_explained(call, own_data):
    (own_data / "edges.csv").write_text("source,target\nn1,n999\n")
    code, _, error = call("train", str(own_data))
    assert code == 2
    assert "n999" in error


@pytest.mark.parametrize(
    "words",
    [
        ("train", "planted", "--reweight", "odd"),
        ("train", "planted", "--seeds", "0"),
        ("train", "planted", "--model", "transformer"),
        ("train", "planted", "--split", "odd"),
        ("train", "planted", "--device", "odd"),
        ("train", "cora", "--offline"),
        ("data", "verify", "odd"),
        ("data", "info", "./nowhere"),
    ],
)
def test_what_cannot_be_done_has_exit_code_2(call, words, tmp_path):
    code, _, error = call(*words)
    assert code == 2
    assert error
    assert not (tmp_path / "runs").exists()


def test_data_list_names_every_dataset(call):
    code, out, _ = call("data", "list", "--json")
    assert code == 0
    assert {"cora", "citeseer", "pubmed", "corar", "digits", "planted"} <= {
        entry["name"] for entry in json.loads(out)
    }


def test_data_info_tells_what_is_inside(call, own_data):
    assert call("data", "info", "wine")[0] == 0
    code, out, _ = call("data", "info", str(own_data), "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["nodes"], facts["edges"], facts["classes"]) == (60, 60, 2)


@pytest.fixture
def weighted_data(own_data):
    edges = [f"n{i},n{(i + 2) % 60},{1 + i % 7}" for i in range(60)]
    (own_data / "edges.csv").write_text("\n".join(["source,target,weight", *edges]) + "\n")
    return own_data


def test_training_on_weighted_edges_equals_a_plain_loop_of_pyg(call, weighted_data, tmp_path):
    settings = ("--epochs", "5", "--hidden", "4", "--dropout", "0", "--reweight", "none")
    assert call("train", str(weighted_data), "--seeds", "1", *settings)[0] == 0
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*.json"))
    lines = [line.split(",") for line in (weighted_data / "edges.csv").read_text().split()[1:]]
    edges = torch.tensor([[int(end[1:]) for end in line[:2]] for line in lines]).T
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    weight = torch.tensor([float(line[2]) for line in lines]).repeat(2)
    data = load(weighted_data)

    torch.manual_seed(stream_key(0, "initialisation"))
    start = GCN(2, 4, 2, dropout=0.0)
    layers = [GCNConv(2, 4, bias=False), GCNConv(4, 2, bias=False)]
    for layer, own in zip(layers, start.convs, strict=True):
        layer.lin.weight.data = own.weight.detach().T.clone()
    optimizer = torch.optim.Adam(
        [
            {"params": layers[0].parameters(), "weight_decay": 5e-4},
            {"params": layers[1].parameters()},
        ],
        lr=0.01,
    )
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        out = layers[1](layers[0](data.x, edges, weight).relu(), edges, weight)
        loss = torch.nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert record["curve_epochs"] == [1, 2, 5]
    found = record["seeds"]["0"]["curve_train_loss"]
    assert found == pytest.approx([losses[0], losses[1], losses[4]], abs=1e-4)
    assert record["data"]["options"] == {"edge_weight": True}


def test_data_verify_reports_missing_files_with_code_1(call, tmp_path):
    code, out, _ = call("data", "verify", "cora", "--data-root", str(tmp_path))
    assert code == 1
    assert "missing" in out


@pytest.mark.parametrize(
    "words",
    [
        ("data", "verify", "cora"),
        ("train", "cora", "--offline"),
        ("audit", "cora", "--offline"),
        ("stability", "cora", "--offline"),
    ],
)
def test_reading_from_a_data_root_that_is_not_there_makes_nothing(call, tmp_path, words):
    code, _, error = call(*words)
    assert code == 2
    assert f"Expected a folder of datasets at {tmp_path / 'no-data'}; found none." in error
    assert list(tmp_path.iterdir()) == []


def test_data_verify_reports_files_that_differ_with_code_1(call, tmp_path):
    for file in describe("cora").files:
        path = tmp_path / "no-data" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("something else")
    code, out, _ = call("data", "verify", "cora", "--json")
    assert code == 1
    assert set(json.loads(out).values()) == {"different"}


def test_report_reads_records_alone(call, tmp_path):
    call("train", "planted", "--seeds", "2", "--epochs", "3", "--hidden", "4")
    code, out, _ = call("report", "runs", "--html", "page.html")
    assert code == 0
    assert "| planted (synthetic) | random | gcn + dr (hidden channels 4, epochs 3) |" in out
    assert (tmp_path / "page.html").exists()


def test_doctor_finds_seeds_repeatable(call):
    code, out, _ = call("doctor", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["deterministic"]["cpu"] is True
    assert "cora" in facts["data_missing"]


def test_the_demo_writes_records_and_a_report(call, tmp_path):
    code, out, _ = call("demo", "--seeds", "2", "--epochs", "2")
    assert code == 0
    assert len(list((tmp_path / "demo-output").glob("*.json"))) == 8
    page = (tmp_path / "demo-output" / "report.html").read_text()
    assert "digits" in out
    assert "planted" in out
    said = " ".join(out.split())
    for caveat in ("synthetic and built so that reweighting can help", "not yet at its best"):
        assert caveat in said
        assert page.count(caveat) == 3  # below the head, and below each verdict further down
    on_digits, _ = re.findall(r"<p><b>\w+[^<]*</b> ([^<]+)</p>", page)
    assert html.unescape(on_digits) in said  # planted learns nothing in so few epochs


def test_the_version_is_told(call):
    code, out, _ = call("--version")
    assert code == 0
    assert out.strip() == drgcn.__version__
    words = [sys.executable, "-m", "drgcn", "--version"]
    assert subprocess.run(words, capture_output=True, text=True).stdout == out


@pytest.mark.parametrize(
    ("verb", "out"), [(("train", "planted"), "taken/deeper/still"), (("demo",), "taken")]
)
def test_an_output_that_is_a_file_is_refused_before_training(
    call, tmp_path, monkeypatch, verb, out
):
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr("drgcn.cli.comparing.run_rows", lambda *_: 1 / 0)
    code, shown, error = call(*verb, "--out", out)
    assert (code, shown) == (2, "")
    assert error == (
        f"Expected --out to be a folder that can be written to; found {out}, which is a file, or "
        f"lies below one. Choose another."
    )


@pytest.mark.parametrize("verb", [("train", "planted"), ("demo",)])
def test_an_output_that_cannot_be_written_is_refused_before_training(
    call, tmp_path, monkeypatch, verb
):
    def refuse(*_, **__):  # a superuser may write whatever the permissions say
        raise OSError(errno.EROFS, "Read-only file system")

    (tmp_path / "ro").mkdir()
    monkeypatch.setattr("drgcn.cli.options.tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("drgcn.cli.comparing.run_rows", lambda *_: 1 / 0)
    code, shown, error = call(*verb, "--out", "ro")
    assert (code, shown) == (2, "")
    assert error == (
        "Expected --out to be a folder that can be written to; found ro, which is on a read-only "
        "file system. Choose another."
    )


def test_foreign_files_beside_records_do_no_harm(call, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "package.json").write_text("{}")
    assert call("train", "planted", "--seeds", "1", "--epochs", "2", "--hidden", "4")[0] == 0


def test_a_misspelt_column_is_not_taken_for_a_feature(call, own_data):
    nodes = own_data / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("split", "Split"))
    code, _, error = call("train", str(own_data))
    assert code == 2
    assert "'Split'" in error


# Other models, and several graphs


QUICK = ("--seeds", "1", "--epochs", "3")


def the_record(folder):
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        *(("gat", 2), ("mixhop", 2), ("geniepath", 3), ("asgcn", 2)),
    ],
)
def test_every_model_trains_by_its_own_recipe(call, tmp_path, model, blocks):
    code, out, _ = call("train", "wine", "--model", model, *QUICK)
    assert code == 0
    assert f"{model} + dr" in out
    record = the_record(tmp_path / "runs")
    expected = recipe("wine", "random", model, reweight="dr", epochs=3)
    assert record["experiment"] == expected.to_dict()
    assert len(record["seeds"]["0"]["k"]) == blocks


def test_models_are_compared_with_their_controls(call):
    code, out, _ = call("train", "wine", "--model", "gat", "--compare", *QUICK, "--json")
    assert code == 0
    rows = [row["row"] for row in json.loads(out)["rows"]]
    assert rows == ["gat", "gat + dr", "gat + static", "gat + constant"]


def test_arguments_of_the_models_class_can_be_set(call, tmp_path):
    words = ("--set", "out_heads=2", "--set", "heads=4", "--hidden", "8", "--norm", "graph")
    assert call("train", "wine", "--model", "gat", *words, *QUICK)[0] == 0
    experiment = the_record(tmp_path / "runs")["experiment"]
    assert experiment["options"] == {"out_heads": 2, "heads": 4}
    assert (experiment["hidden_channels"], experiment["norm"]) == (8, "graph")


def test_arguments_that_are_set_join_those_of_the_recipe(call, tmp_path):
    words = ("--set", "hidden_channels=[4,4]", "--set", "binarize=False")
    assert call("train", "wine", "--model", "mixhop", *words, *QUICK)[0] == 0
    options = the_record(tmp_path / "runs")["experiment"]["options"]
    assert options == {"hidden_channels": [4, 4], "hidden_dropout": 0.9, "binarize": False}


def test_options_of_training_reach_the_experiment(call, tmp_path):
    words = (
        "--layers",
        "3",
        "--hidden",
        "5",
        "--dropout",
        "0.2",
        "--lr",
        "0.03",
        "--norm",
        "batch",
    )
    words += ("--weight-decay", "0.07", "--rule", "rising-loss", "--pre-activation", *QUICK)
    assert call("train", "wine", "--reweight", "static", *words)[0] == 0
    changed = {"num_layers": 3, "hidden_channels": 5, "dropout": 0.2, "lr": 0.03, "norm": "batch"}
    changed |= {"weight_decay": 0.07, "rule": "rising-loss", "pre_activation": True, "epochs": 3}
    expected = recipe("wine", "random", reweight="static", **changed)
    assert the_record(tmp_path / "runs")["experiment"] == expected.to_dict()


def test_batches_and_what_training_sees_are_options(call, tmp_path):
    words = ("--batch-size", "8", "--inductive", "apart", "--set", "sampler=layer-dependent")
    assert call("train", "wine", "--model", "fastgcn", *words, *QUICK)[0] == 0
    experiment = the_record(tmp_path / "runs")["experiment"]
    assert (experiment["batch_size"], experiment["inductive"]) == (8, "apart")
    assert experiment["options"] == {"count": 400, "sampler": "layer-dependent"}


def test_what_a_recipe_hides_can_be_shown(call, tmp_path):
    assert call("train", "wine", "--model", "asgcn", "--inductive", "none", *QUICK)[0] == 0
    assert the_record(tmp_path / "runs")["experiment"]["inductive"] is None


@pytest.mark.parametrize("words", [("--batch-size", "0"), ("--inductive", "sometimes")])
def test_values_that_an_option_does_not_take_end_in_code_2(call, tmp_path, words):
    code, out, error = call("train", "wine", "--model", "asgcn", *words, *QUICK)
    assert (code, out) == (2, "")
    assert words[0] in error
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "asgcn"), "one graph for asgcn; union holds several"),
        (("--inductive", "train"), "one graph for --inductive; union holds several"),
    ],
)
def test_samples_are_of_one_graph(call, tmp_path, words, message):
    torch.save(several(), tmp_path / "union.pt")
    code, _, error = call("train", str(tmp_path / "union.pt"), *words, *QUICK)
    assert code == 2
    assert message in error


def test_graphsage_is_trained_on_features_as_they_are(call, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "drgcn.data.load", lambda *_, normalize, **__: asked.append(normalize) or 1 / 0
    )
    for model, words in (("gcn", ()), ("graphsage", ()), ("graphsage", ("--normalize", "row"))):
        with pytest.raises(ZeroDivisionError):
            call("train", "cora", "--model", model, *words, *QUICK)
    assert asked == ["row", "none", "row"]


@pytest.mark.parametrize("many_labels", [False, True])
def test_a_file_of_several_graphs_trains_in_steps(call, tmp_path, many_labels):
    torch.save(several(many_labels=many_labels), tmp_path / "union.pt")
    words = ("--model", "gat", "--graphs-per-step", "2", "--hidden", "8")
    code, _, _ = call("train", str(tmp_path / "union.pt"), *words, *QUICK)
    assert code == 0
    record = the_record(tmp_path / "runs")
    assert record["experiment"]["graphs_per_step"] == 2
    assert record["data"]["metric"] == ("micro-F1" if many_labels else "accuracy")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "sage"), "found 'sage'"),
        (("--model", "mixhop", "--hidden", "8"), "--set hidden_channels=[20,20,20]"),
        (("--model", "mixhop", "--norm", "layer"), "no norm with mixhop"),
        (("--model", "gat", "--pre-activation"), "pre-activation with gcn alone; found gat"),
        (("--model", "gat", "--hidden", "30"), "multiple of its 8 heads"),
        (("--model", "gat", "--set", "out_heads"), "--set name=value; found 'out_heads'"),
        (("--set", "heads=2"), "(dropout, hidden_channels, num_layers); found heads=2"),
        (("--set", "hidden_channels=-2"), "hidden_channels=-2. Use --hidden, a whole number."),
        (("--model", "asgcn", "--set", "count=-3"), "takes; found count=-3. ASGCN expects count"),
        (("--set", "reweight=true", "--compare"), "reweight as a setting of its own"),
        (("--model", "gat", "--set", "residual=yes"), "true or false in --set residual=..."),
        (("--set", "residual=ye s"), "true, false, null"),
        (("--batch-size", "8"), "--batch-size with graphsage, fastgcn, asgcn"),
        (("--model", "asgcn", "--set", "variance=x"), "a number in --set variance=...; found 'x'"),
        (("--model", "fastgcn", "--set", "power=3"), "power 1 (norm) or 2 (squared norm)"),
        (("--model", "graphsage", "--set", "fan_outs=[0,0]"), "at least one neighbour"),
        (("--graphs-per-step", "2"), "wine is one graph"),
    ],
)
def test_a_wrong_setting_is_one_message_and_no_record(words, message, refusal):
    assert message in refusal("train", "wine", *words, *QUICK)


def test_a_name_that_is_nearly_right_is_met_with_the_right_one(refusal):
    assert "cora" in refusal("train", "coar")


def test_a_metric_chooses_the_epoch_and_is_reported(call, own_data):
    words = ("train", str(own_data), "--seeds", "2", "--epochs", "4", "--json")
    accuracy, named, area = (
        json.loads(call(*words, *more)[1])
        for more in ((), ("--metric", "accuracy"), ("--metric", "roc_auc"))
    )
    assert named == accuracy  # the usual metric is the same experiment, from its records
    assert (area["metric"], area["guess"]) == ("ROC-AUC", 50.0)
    assert area["rows"][0]["records"] != accuracy["rows"][0]["records"]


@pytest.fixture
def prices(own_data):
    """The same graph with a whole price far from zero, which the mean height of neighbours tells;
    it is not known of one node."""
    lines = (own_data / "nodes.csv").read_text().splitlines()
    heights = [float(line.split(",")[1]) for line in lines[1:]]
    values = [
        f"{1000 * (heights[i - 2] + heights[i] + heights[i - 58]) + 9000:.0f}" for i in range(60)
    ]
    rows = [f"{line},{value}" for line, value in zip(lines[1:], values, strict=True)]
    rows[0] = rows[0].replace("train", "").rpartition(",")[0] + ","
    (own_data / "nodes.csv").write_text("\n".join([f"{lines[0]},price", *rows]))
    return own_data


def test_numbers_of_own_data_are_predicted(call, prices):
    words = ("train", str(prices), "--target", "price", "--seeds", "3", "--lr", "0.1")
    words = (*words, "--epochs", "30", "--compare")
    code, out, _ = call(*words, "--metric", "mae", "--json")
    report = json.loads(out)
    assert (code, report["metric"], report["learnt"]) == (0, "MAE", True)
    data = load(prices, target="price")
    values = data.y[data.test_mask]
    expected = float((values - values.median()).abs().mean())
    assert report["guess"] == pytest.approx(expected, rel=1e-5)
    plain, dr, *_ = report["rows"]
    assert 0 < plain["test_accuracy_mean"] < expected
    lower = plain["test_accuracy_mean"] - dr["test_accuracy_mean"]
    assert dr["gain_over_plain"][0] == pytest.approx(100 * lower / expected, rel=1e-3)
    code, out, _ = call(*words, "--metric", "mae")
    shown = " ".join(out.split())
    assert "1 value to predict" in shown
    assert f"one answer for all test nodes reaches MAE {expected:.4g}" in shown
    assert "test MAE (n=3)" in shown
    assert json.loads(call(*words, "--json")[1])["metric"] == "R2"
    with pytest.warns(DrgcnWarning, match="4 records are left out"):
        assert {r.data["metric"] for r in load_records(Path("runs"))} == {"R2"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--metric", "MAE"), "a metric of class numbers, accuracy, micro-F1"),
        (("--metric", "nonsense"), "found 'nonsense'"),
        (("--target", "height"), "does not take the option 'target'"),
    ],
)
def test_metrics_and_targets_that_do_not_go_with_the_data_are_refused(refusal, more, words):
    assert words in refusal("train", "wine", *more)
