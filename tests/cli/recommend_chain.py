"""The verbs of ``drgcn recommend`` one after another, on a small synthetic set."""

import json

from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.errors import DrgcnError

TRAINING = (
    *("--steps", "5", "--batch-size", "128", "--channels", "16", "--fan-outs", "3,2"),
    *("--model", "sage"),
)


def recommend(*words):
    """Exit code, standard output, and the sentence of an error."""
    result = CliRunner().invoke(drgcn.cli.verbs.app, ["recommend", *map(str, words)])
    if isinstance(result.exception, DrgcnError):
        return 2, result.stdout, str(result.exception)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def done(*words):
    """Standard output of a command that must succeed."""
    code, out, error = recommend(*words)
    assert code == 0, out + error
    return out


def refused(*words):
    """The sentence with which a command is refused."""
    code, out, error = recommend(*words)
    assert code == 2, out + error
    assert error.startswith("Expected")
    assert "\n" not in error
    return error


def make_chain(folder):
    """``clicks``, ``run`` and ``export`` in a folder; returns what each verb said."""
    said = {}
    words = ("--fraction", "0.0001", "--out", folder / "clicks", "--json")
    said["generate"] = json.loads(done("generate", *words))
    words = (folder / "clicks", "--out", folder / "run", *TRAINING, "--device", "cpu", "--json")
    said["train"] = json.loads(done("train", *words))
    words = (folder / "run", "--n", 20, "--device", "cpu", "--json")
    said["evaluate"] = json.loads(done("evaluate", *words))
    words = ("--out", folder / "export", "--index", "ivf", "--recall", "0.9", "--n", 20)
    words = (folder / "run", *words, "--device", "cpu", "--json")
    said["export"] = json.loads(done("export", *words))
    return said
