"""The command line: one file per verb, and nothing heavy imported before a verb runs."""

from __future__ import annotations

import sys

import typer

from drgcn.cli import data, demo, doctor, report, train
from drgcn.errors import DrgcnError

app = typer.Typer(
    help="Dimensional reweighting for graph neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("demo")(demo.demo)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.add_typer(data.app, name="data")


def main() -> None:
    """Runs the command line; bad input ends in one sentence and exit code 2."""
    try:
        app()
    except DrgcnError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        sys.exit(130)
