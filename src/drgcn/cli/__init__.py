"""The command line: one file per verb, and nothing heavy imported before a verb runs."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

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


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        app()
    except DrgcnError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:  # a refusal of the system is told; anything else is raised
        words = explain_system_error(error)
        if words is None:
            raise
        print(f"error: {words}", file=sys.stderr)
        sys.exit(2)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, DrgcnWarning):
        print(f"warning: {message}", file=sys.stderr)
