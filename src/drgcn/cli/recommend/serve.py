"""``drgcn recommend serve``: one small HTTP endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drgcn.cli.options import Threads, use_threads


def serve(
    export: Annotated[Path, typer.Argument(help="Folder of an export.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any.")] = 8000,
    most_n: Annotated[int, typer.Option(min=1, help="The longest list of a request.")] = 500,
    most_users: Annotated[int, typer.Option(min=1, help="The most users of a request.")] = 256,
    threads: Threads = None,
) -> None:
    """Answer POST /recommend by id or by attributes, GET /healthz and GET /metrics.

    A demonstration of what an export can do: it knows no users' rights and no encryption. Ends on
    Ctrl-C or SIGTERM when running requests are done.

    Example: drgcn recommend serve export --port 8000
    """
    from drgcn.recommend.serving.server import HttpLimits
    from drgcn.recommend.serving.server import serve as run_server

    use_threads(threads)
    run_server(export, host, port, HttpLimits(n=most_n, batch=most_users))
