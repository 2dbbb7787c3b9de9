"""``drgcn recommend``: from a table of clicks to recommendations, one file per verb."""

from __future__ import annotations

import typer

from drgcn.cli.recommend import (
    compare,
    evaluate,
    export,
    generate,
    info,
    ingest,
    query,
    serve,
    train,
)

app = typer.Typer(help="Recommendation from clicks.", no_args_is_help=True)

app.command("generate")(generate.generate)
app.command("ingest")(ingest.ingest)
app.command("info")(info.info)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("export")(export.export)
app.command("query")(query.query)
app.command("serve")(serve.serve)
