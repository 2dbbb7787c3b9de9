"""The command line as a user meets it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import drgcn.cli
from drgcn.errors import DrgcnError


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Runs a command in an empty folder; returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRGCN_DATA", str(tmp_path / "no-data"))

    def run(*words):
        result = CliRunner().invoke(drgcn.cli.app, list(words))
        if isinstance(result.exception, DrgcnError):
            return 2, result.stdout, str(result.exception)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

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
        "import sys, drgcn.cli\n"
        "try: drgcn.cli.app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'torch_geometric', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_bad_input_ends_in_one_sentence_and_code_2(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import drgcn.cli; drgcn.cli.main()", "train", "coar"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "cora" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


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
        ("train", "planted", "--normalize", "odd"),
        ("train", "planted", "--device", "odd"),
        ("train", "cora", "--offline"),
        ("report", "nowhere"),
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


def test_data_verify_reports_missing_files_with_code_1(call):
    code, out, _ = call("data", "verify", "cora")
    assert code == 1
    assert "missing" in out


def test_report_reads_records_alone(call, tmp_path):
    call("train", "planted", "--seeds", "2", "--epochs", "3", "--hidden", "4")
    code, out, _ = call("report", "runs", "--html", "page.html")
    assert code == 0
    assert "| planted | random | gcn + dr (hidden channels 4, epochs 3) |" in out
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
    assert (tmp_path / "demo-output" / "report.html").exists()
    assert "digits" in out
    assert "planted" in out


def test_the_version_is_told(call):
    code, out, _ = call("--version")
    assert code == 0
    assert out.strip() == drgcn.__version__


def test_an_output_that_is_a_file_is_refused_before_training(call, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, error = call("train", "planted", "--out", "taken")
    assert code == 2
    assert "taken" in error


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
