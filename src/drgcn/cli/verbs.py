"""The verbs as one command: how options are read, and what is said at the end."""

from __future__ import annotations

import inspect
import io
import math
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from drgcn import __version__
from drgcn._io import explain_system_error
from drgcn.cli import (
    audit,
    baselines,
    data,
    demo,
    recommend,
    report,
    reproduce,
    stability,
    studies,
    theory,
    train,
    tune,
)
from drgcn.cli.options import removing_empty
from drgcn.errors import DrgcnError, DrgcnWarning, one_line


class _Verbs(typer.core.TyperGroup):
    """The verbs; an interruption that none of them tells of is told here."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _telling_of_interruptions():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _telling_of_interruptions():
            return super().invoke(ctx)


@contextmanager
def _telling_of_interruptions() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:  # of which typer would say nothing
        print("interrupted", file=sys.stderr)
        raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Verbs,
    help="Dimensional reweighting for graph neural networks.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


_FIRST_STEPS = """\
drgcn %s: dimensional reweighting for graph neural networks. First steps:

  drgcn demo                       GCN with and without Dr on two graphs
  drgcn data info FOLDER           look at your own nodes.csv and edges.csv
  drgcn stability FOLDER           how far your features spread
  drgcn train FOLDER --compare     is Dr worth having on your data?
  drgcn audit FOLDER               duplicates and leaks in a dataset
  drgcn reproduce main --dry-run   a table of the paper, and what it costs
  drgcn recommend train gowalla --out run     recommendation from clicks

All verbs: drgcn --help. Their options: drgcn VERB --help.
Completion by Tab: drgcn --install-completion
"""


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True)
    ] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(_FIRST_STEPS % __version__, end="")


app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("demo")(demo.demo)
app.command("report")(report.report)
app.command("reproduce")(reproduce.reproduce)
app.command("baselines")(baselines.baselines)
app.command("stability")(stability.stability)
app.command("audit")(audit.audit)
app.command("refine")(audit.refine)
app.command("doctor")(demo.doctor)
app.command("theory")(theory.theory)
app.add_typer(data.app, name="data")
app.add_typer(studies.app, name="studies")
app.add_typer(recommend.app, name="recommend")


def _join_lines(group: typer.Typer) -> None:
    """Make paragraphs of help as wide as the terminal: typer keeps the line ends of docstrings."""
    for verb in group.registered_commands:
        paragraphs = inspect.cleandoc(verb.callback.__doc__ or "").split("\n\n")
        verb.help = "\n\n".join(text.replace("\n", " ") for text in paragraphs)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _join_lines(inner.typer_instance)


_join_lines(app)


#: Largest whole numbers by option. They are far beyond any use, and not beyond all memory.
_MOST: Final = {
    **dict.fromkeys(("threads", "jobs", "workers", "restarts"), 1024),
    "layers": 256,
    **dict.fromkeys(("hidden", "channels", "user_ids", "item_ids"), 2**16),
    **dict.fromkeys(("seeds", "fresh_seeds", "trials"), 10**5),
    **dict.fromkeys(("epochs", "n", "most_n", "most_users"), 10**6),
    **dict.fromkeys(("batch_size", "negatives", "steps"), 10**8),
    "seed": 2**53 - 1,
}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def run() -> None:
    """Run the command line, and raise what goes wrong."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # of a terminal that knows no UTF-8
    command = typer.main.get_command(app)
    _read_strictly(command)
    with removing_empty():
        sys.exit(command(standalone_mode=False) or 0)


def end(error: BaseException) -> None:
    """Tell of an error in one line, and end; one that is none of input or system is raised."""
    if isinstance(error, typer.Abort):
        sys.exit(1)
    if isinstance(error, _UsageError):
        words = error.format_message().rstrip(".")
        if not words:  # a group of verbs without a verb shows its help
            error.show()
            sys.exit(error.exit_code)
        place = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
        _refuse(f"{words}{'' if words.endswith('?') else '.'}{place}")
    told = str(error) if isinstance(error, DrgcnError) else explain_system_error(error)
    if told is None:
        raise error
    _refuse(told)


# What typer raises where options do not fit; its name has moved between versions.
_UsageError: Final[Any] = typer.BadParameter.__base__


def _refuse(words: str) -> None:
    print(f"error: {one_line(words)}", file=sys.stderr)
    sys.exit(2)


def _read_strictly(command: Any) -> None:
    """Let options of a command and those below it refuse odd ways to write numbers, and names that
    no library could open."""
    for parameter in command.params:
        parameter.process_value = _strict(parameter)
    for inner in getattr(command, "commands", {}).values():
        _read_strictly(inner)


def _strict(parameter: Any) -> Any:
    process = parameter.process_value

    def processed(ctx: Any, value: Any) -> Any:
        for word in value if isinstance(value, list | tuple) else [value]:
            if isinstance(word, str) and ("\0" in word or not _is_utf8(word)):
                raise typer.BadParameter(
                    f"{word!r} is no text in UTF-8.", ctx=ctx, param=parameter
                )
            # An empty path would be the folder one is in. Defaults may be empty.
            source = ctx.get_parameter_source(parameter.name)
            if word == "" and parameter.name != "missing" and source.name == "COMMANDLINE":
                raise typer.BadParameter("it is empty.", ctx=ctx, param=parameter)
        found = process(ctx, value)
        if type(found) not in (int, float) or not isinstance(value, str):
            return found
        most = _MOST.get(parameter.name, 2**31 - 1) if type(found) is int else math.inf
        if not _NUMBER.fullmatch(value) or not math.isfinite(found):
            raise typer.BadParameter(f"{value!r} is no number.", ctx=ctx, param=parameter)
        if found > most:
            raise typer.BadParameter(f"{value} is more than {most:,}.", ctx=ctx, param=parameter)
        return found

    return processed


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # Python keeps other bytes of the command line as surrogates
        return False
    return True


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, DrgcnWarning):
        print(f"warning: {one_line(str(message))}", file=sys.stderr)
