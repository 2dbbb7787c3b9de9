"""``drgcn recommend serve``: one small HTTP endpoint."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from drgcn.cli.options import use_threads

_limit = partial(typer.Option, rich_help_panel="Limits")


def serve(
    export: Annotated[Path, typer.Argument(help="Folder of an export, or a link to one.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with a token that clients must show (Authorization: Bearer ...).",
            show_default="DRGCN_SERVE_TOKEN of the environment, else none",
        ),
    ] = None,
    access_log: Annotated[
        Path | None, typer.Option(help="File that gets a line for each answer.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads of a search.", show_default="all but one"),
    ] = None,
    most_n: Annotated[int, _limit(min=1, help="The longest list of a request.")] = 500,
    most_users: Annotated[int, _limit(min=1, help="The most users of a request.")] = 256,
    most_bytes: Annotated[int, _limit(min=1, help="The largest body of a request.")] = 1 << 20,
    most_requests: Annotated[
        int, _limit(min=1, help="Requests for lists at once; others get 503.")
    ] = 64,
    most_connections: Annotated[int, _limit(min=1, help="Connections; others get 503.")] = 4096,
    idle_seconds: Annotated[
        float,
        _limit(min=0.1, max=86400, help="A connection without an answer for so long is closed."),
    ] = 30.0,
) -> None:
    """Answer POST /recommend by id or by attributes, GET /healthz and GET /metrics.

    Another export at the same place, or SIGHUP, is read beside the one that is served and takes
    its place if it is whole. There is no encryption, and one token for all is the only access
    control. Ends on Ctrl-C or SIGTERM when running requests are done.

    Example: drgcn recommend serve export --port 8000
    """
    from drgcn.recommend.serving.server import HttpLimits, read_token
    from drgcn.recommend.serving.server import serve as run_server

    limits = HttpLimits(
        n=most_n,
        batch=most_users,
        body=most_bytes,
        requests=most_requests,
        connections=most_connections,
        seconds=idle_seconds,
    )
    use_threads(threads or max(1, len(os.sched_getaffinity(0)) - 1))  # one is for connections
    run_server(export, host, port, limits, token=read_token(token_file), access_log=access_log)
