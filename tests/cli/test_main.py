"""The command line as a whole: refusals are one line, and nothing is made by them."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from drgcn import cli

from ..data.graphs import small, write_csv


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard():
    """Also in the background of a shell, where it is ignored; ``main`` leaves its own answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Run a command that must be refused in a folder that must stay empty; return its words."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["drgcn", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        printed, words = capsys.readouterr()
        assert printed == ""
        assert words.startswith("error: ")
        assert words.count("\n") == 1
        assert len(words) < 1600
        assert list(tmp_path.iterdir()) == []
        return words

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "wine", "--epochs", "1_000"),
        ("train", "wine", "--epochs", "\u0663"),
        ("train", "wine", "--lr", "1_0.5"),
        ("train", "wine", "--lr", "inf"),
        ("train", "wine", "--threads", "2147483648"),
        ("train", "wine", "--seeds", "9" * 30),
        ("train", "wine", "--seeds", "0"),
        ("train", "wine", "--nothing"),
        ("train", "wine", "--split", "a\nb"),
        ("train", "wine", "--out", "runs", "--split", "x" * 9000),
        ("train",),
        ("nothing",),
        ("baselines", "nothing", "--out", "runs"),
        ("recommend", "compare", "nothing", "--out", "runs"),
        ("recommend", "compare", "nothing", "--fan-outs", "1_0,5"),
        ("recommend", "compare", "nothing", "--search", "lr=1_0"),
        ("refine", "wine", "--remove-features", "1_0", "--out", "refined"),
        ("refine", "wine", "--remove-features", "\u0663", "--out", "refined"),
        ("refine", "wine", "--out", "\udcff"),
        ("train", "wine", "--out", "a\0b"),
        ("train", "wi\udcffne"),
        ("train", "wine", "--out", ""),
        ("refine", "wine", "--out", "/"),
        ("train", "wine", "--normalize="),
        ("recommend", "ingest", "nothing.csv", "--items=", "--out", "clicks"),
        ("stability", "wine", "--html", "/dev/null"),
        ("recommend", "ingest", "nothing.csv", "--out", "new/clicks"),
        ("recommend", "serve", "nothing", "--access-log", "log"),
        ("recommend", "serve", "nothing", "--access-log", "new/log"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_nothing(refused, arguments):
    refused(*arguments)


def test_a_lack_of_memory_is_a_sentence(refused, monkeypatch):
    def too_large(*_, **__):
        raise MemoryError

    monkeypatch.setattr("drgcn.data.load", too_large)
    assert "memory" in refused("train", "wine")


def test_words_of_a_file_neither_end_nor_control_the_terminal(monkeypatch, tmp_path):
    """A class whose name is an escape sequence, on a terminal that knows ASCII alone."""
    folder = write_csv(tmp_path / "own", small())
    nodes = (folder / "nodes.csv").read_text()
    (folder / "nodes.csv").write_text(nodes.replace(",1,", ",\x1b[31mr\u00e9d,"))
    printed = io.BytesIO()
    stream = io.TextIOWrapper(printed, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["drgcn", "data", "info", str(folder)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    stream.flush()
    assert not ended.value.code
    assert b"\\x1b[31mr\\xe9d" in printed.getvalue()
    assert b"\x1b" not in printed.getvalue()


def test_a_group_of_verbs_without_a_verb_shows_its_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["drgcn", "recommend"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "Usage" in "".join(capsys.readouterr())


def test_an_interruption_of_an_import_ends_in_one_line_after_it(tmp_path):
    """What libraries make of an interruption in the middle of their import is not to be told."""
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('imported')"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-m", "drgcn"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"imported\n", b"interrupted\n")


def test_what_fails_after_an_interruption_is_an_interruption(monkeypatch, capsys):
    """Of an error that lost all trace of it."""

    def lose(*_, **__):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise RecursionError

    monkeypatch.setattr("drgcn.data.load", lose)
    monkeypatch.setattr(sys, "argv", ["drgcn", "data", "info", "wine"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interruption_while_options_are_read_is_told(monkeypatch, capsys):
    """Of which typer says nothing."""
    monkeypatch.setattr(
        "typer.rich_utils.rich_format_help", lambda **_: signal.raise_signal(signal.SIGINT)
    )
    monkeypatch.setattr(sys, "argv", ["drgcn", "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "words", ["--help", "data list", "train wine --seeds 2 --epochs 3", "recommend --help"]
)
def test_ctrl_c_ends_in_one_line_whenever_it_comes(tmp_path, words):
    """Until ``main`` begins, Python itself answers."""
    command = [sys.executable, "-W", "ignore", "-m", "drgcn", *words.split()]

    def ended(after):
        options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **options) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(after)
            process.send_signal(signal.SIGINT)
            return process.communicate()[1].decode(), process.returncode

    begun = time.monotonic()
    assert ended(300)[1] == 0
    whole, codes = time.monotonic() - begun, set()
    for place in range(50):
        told, code = ended(1.1 * whole * place / 50)
        codes.add(code)
        assert not re.search(r"drgcn/.*, in main", told), told
        assert (code == 130) == ("interrupted" in told), told
    assert 130 in codes


def test_a_question_ends_in_no_full_stop(refused):
    assert "Did you mean 'train'? See `" in refused("trian", "wine")
