"""The line of progress, ``--quiet`` and ``--json``, first steps, completion."""

import io
import os
import re
import subprocess
import sys

import pytest
import typer
from rich.console import Console

import drgcn.cli.verbs
from drgcn.cli import options
from drgcn.cli.options import ProgressLine
from drgcn.data.readers import refuse_exhaustion

# Verbs that may run for longer than somebody looks on in silence.
LONG = {
    *("train", "tune", "demo", "reproduce", "baselines", "stability", "audit", "refine", "theory"),
    *("data download", "data features", "recommend generate", "recommend ingest"),
    *("recommend train", "recommend evaluate", "recommend compare", "recommend export"),
    "recommend query",
}


def verb(name):
    command = typer.main.get_command(drgcn.cli.verbs.app)
    for word in name.split():
        command = command.commands[word]
    return command


@pytest.mark.parametrize("name", sorted(LONG))
def test_long_verbs_can_be_quiet_and_print_json(name):
    names = {option for parameter in verb(name).params for option in parameter.opts}
    assert {"--quiet", "--json"} <= names


def console(width=60, **settings):
    return Console(file=io.StringIO(), width=width, **settings)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for what the test adds to it."""
    now = [100.0]
    monkeypatch.setattr(options.time, "monotonic", lambda: now[0])
    return now


def test_elsewhere_than_on_a_terminal_a_line_is_printed_now_and_then(clock):
    place = console()
    with ProgressLine("training", console=place) as line:
        line.show("loss 3", 0.2)
        clock[0] += 5
        line.show("loss 2", 0.3)
        clock[0] += 5
        line.show("loss 1", 0.4)
        clock[0] += 1
        line.show("loss 0", 0.5)
    # A tenth takes five seconds; what was done before the first look has no time.
    assert place.file.getvalue() == "training 40 %, 30 s left, loss 1\n"


def test_other_work_has_a_pace_of_its_own(clock):
    place = console()
    with ProgressLine("one", console=place) as line:
        line.show(share=0.0)
        clock[0] += 10
        line.show(share=0.5, what="two")
        clock[0] += 20
        line.show(share=0.75)
    assert place.file.getvalue() == "two 50 %\ntwo 75 %, 20 s left\n"


def test_work_of_unknown_length_tells_no_time(clock):
    place = console()
    with ProgressLine("loading", console=place) as line:
        clock[0] += 20
        line.show("wine")
    assert place.file.getvalue() == "loading, wine\n"


def test_nothing_is_shown_where_quiet(clock):
    place = console(force_terminal=True)
    with ProgressLine("training", quiet=True, console=place) as line:
        line.show("loss 3", 0.2)
        clock[0] += 20
        line.show("loss 2", 0.3)
        line.say("a remark")
    assert place.file.getvalue() == ""


def test_on_a_terminal_it_is_one_line_that_fits(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    place = console(force_terminal=True, color_system="standard", legacy_windows=False)
    with ProgressLine("training", console=place) as line:
        line.show("[words] " * 30, 0.5)
        line._bar.refresh()
    drawn = place.file.getvalue()
    assert "training 50 %" in drawn
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", drawn)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= 60
    assert "\x1b[1A" in drawn  # and it is gone at the end


def test_no_color_is_heard(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    place = console(force_terminal=True, color_system="standard")
    with ProgressLine("training", console=place) as line:
        line.show("loss 3", 0.5)
        line._bar.refresh()
    assert not re.search(r"\x1b\[[0-9;]*[349][0-9]m", place.file.getvalue())


def test_an_interruption_says_how_to_go_on(capsys):
    with (
        pytest.raises(typer.Exit) as ended,
        ProgressLine("training", resumes=True, console=console()),
    ):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert (
        capsys.readouterr().err
        == "interrupted; run the same command again to go on from what was saved\n"
    )


def test_an_interruption_of_what_cannot_go_on_is_one_line(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("drgcn.data.load", interrupted)
    monkeypatch.setattr(sys, "argv", ["drgcn", "stability", "wine"])
    with pytest.raises(SystemExit) as ended:
        drgcn.cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def interrupted(*_, **__):
    """Code that is stopped anywhere can fail in its own clearing up."""
    try:
        raise KeyboardInterrupt
    finally:
        raise RecursionError


def test_an_interruption_wins_over_what_came_of_it(monkeypatch, capsys):
    monkeypatch.setattr("drgcn.data.load", interrupted)
    monkeypatch.setattr(sys, "argv", ["drgcn", "train", "wine"])
    with pytest.raises(SystemExit) as ended:
        drgcn.cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interruption_told_as_bad_input_says_how_to_go_on(capsys):
    with (
        pytest.raises(typer.Exit) as ended,
        ProgressLine("training", resumes=True, console=console()),
        refuse_exhaustion("a file"),
    ):
        interrupted()
    assert ended.value.exit_code == 130
    assert "go on" in capsys.readouterr().err


def test_without_a_verb_the_first_steps_are_shown(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["drgcn"])
    with pytest.raises(SystemExit) as ended:
        drgcn.cli.main()
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    steps = [re.split(r"\s{2,}", line.strip())[0] for line in lines if line.startswith("  drgcn")]
    assert len(steps) >= 5
    for step in steps:
        words = step.split()[1:]
        depth = 2 if words[0] in ("data", "recommend") else 1
        name = " ".join(words[:depth])
        verb(name).make_context(name, words[depth:])


def test_completion_knows_the_verbs():
    own = {
        **os.environ,
        "_DRGCN_COMPLETE": "complete_bash",
        "COMP_WORDS": "drgcn rec",
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv = ['drgcn']; from drgcn.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True)
    assert ran.stdout.split() == ["recommend"], ran.stderr
