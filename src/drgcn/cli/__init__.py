"""The command line: one file per verb, and nothing heavy imported before a verb runs."""

from __future__ import annotations

import math
import re
import signal
import sys
import threading
import warnings
from typing import Annotated, Any, Final

# An interruption of the imports below would end in a traceback.
_QUIET = threading.current_thread() is threading.main_thread()
_BEFORE = signal.signal(signal.SIGINT, signal.SIG_DFL) if _QUIET else None

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
from drgcn.errors import DrgcnError, DrgcnWarning

app = typer.Typer(
    help="Dimensional reweighting for graph neural networks.",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True)
    ] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


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


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        command = typer.main.get_command(app)
        _read_numbers_strictly(command)
        sys.exit(command(standalone_mode=False) or 0)
    except typer.Abort:
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except _UsageError as error:
        words = error.format_message().rstrip(".")
        if not words:  # a group of verbs without a verb shows its help
            error.show()
            sys.exit(error.exit_code)
        place = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
        _refuse(f"{words}.{place}")
    except DrgcnError as error:
        _refuse(str(error))
    except Exception as error:  # a refusal of the system is told; anything else is raised
        words = explain_system_error(error)
        if words is None:
            raise
        _refuse(words)


# What typer raises where options do not fit; its name has moved between versions.
_UsageError: Final[Any] = typer.BadParameter.__base__


def _refuse(words: str) -> None:
    line = " ".join(words.split())
    print(f"error: {line if len(line) <= 1500 else f'{line[:1000]} ...'}", file=sys.stderr)
    sys.exit(2)


def _read_numbers_strictly(command: Any) -> None:
    """Let options of a command and those below it refuse odd ways to write numbers."""
    for parameter in command.params:
        parameter.process_value = _strict(parameter)
    for inner in getattr(command, "commands", {}).values():
        _read_numbers_strictly(inner)


def _strict(parameter: Any) -> Any:
    process = parameter.process_value

    def processed(ctx: Any, value: Any) -> Any:
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


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, DrgcnWarning):
        print(f"warning: {message}", file=sys.stderr)


if _QUIET:
    signal.signal(signal.SIGINT, _BEFORE)
