"""``drgcn recommend``: from a table of clicks to recommendations."""

from __future__ import annotations

import typer

from drgcn.cli.recommend import clicks, compare, evaluate, export, serve, train

app = typer.Typer(help="Recommendation from clicks.", no_args_is_help=True)

app.command("generate")(clicks.generate)
app.command("ingest")(clicks.ingest)
app.command("info")(clicks.info)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("export")(export.export)
app.command("query")(export.query)
app.command("serve")(serve.serve)
