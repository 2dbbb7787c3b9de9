"""The endpoint as a FastAPI application: POST /recommend, GET /healthz, GET /metrics."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import torch
from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from drgcn.errors import InputError
from drgcn.recommend.retrieval.top_items import TopItems
from drgcn.recommend.serving.export_folder import ExportFolder
from drgcn.recommend.serving.http_limits import HttpLimits
from drgcn.recommend.serving.http_messages import (
    Health,
    ItemList,
    RecommendRequest,
    RecommendResponse,
)
from drgcn.recommend.serving.http_middleware import MeteredApp
from drgcn.recommend.serving.recommender import Recommender
from drgcn.recommend.serving.request_meter import RequestMeter
from drgcn.recommend.serving.user_list import known_rows

_USUAL = 50  # items in a list, if a request does not say


def build_app(export: ExportFolder, limits: HttpLimits | None = None) -> FastAPI:
    """The application for an export, all of whose files are read and checked now."""
    limits = limits or HttpLimits()
    recommender = Recommender(export)
    _read_all(export, recommender)
    app = FastAPI(title="drgcn recommend", version=version("drgcn"))
    meter = RequestMeter(("/recommend", "/healthz", "/metrics"))
    app.add_middleware(MeteredApp, meter=meter, most_bytes=limits.body)

    @app.exception_handler(InputError)
    async def refuse(_: Request, error: InputError) -> JSONResponse:
        return _refusal(str(error))

    @app.exception_handler(RequestValidationError)
    async def refuse_shape(_: Request, error: RequestValidationError) -> JSONResponse:
        return _refusal(_sentence(error))

    @app.post("/recommend")
    def recommend(asked: Annotated[RecommendRequest, Body()]) -> RecommendResponse:
        """The best items of each user. Scores are inner products: higher is better."""
        n = _checked_n(asked, limits)
        if asked.users is not None:
            rows, unknown = known_rows(export.user_lookup, asked.users, asked.skip_unknown)
            top = recommender.for_users(
                rows, n, exclude_seen=asked.exclude_seen, exact=asked.exact
            )
            owners = export.user_lookup.ids(rows.numpy()).to_pylist()
        else:
            assert asked.attributes is not None
            vectors, unknown = export.cold_users.vectors(asked.attributes), 0
            top = recommender.for_vectors(vectors, n, exact=asked.exact)
            owners = [None] * len(vectors)
        meter.count_lists(len(owners))
        return RecommendResponse(recommendations=_lists(export, owners, top), unknown=unknown)

    @app.get("/healthz")
    def healthz() -> Health:
        """Whether the endpoint is up, and what it serves."""
        facts = export.manifest
        return Health(
            status="ok",
            users=export.num_users,
            items=export.num_items,
            model=str(facts.model["sha256"]),
            data=str(facts.data["content_hash"]),
        )

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Counts and times in Prometheus' text form."""
        return PlainTextResponse(meter.text(), media_type="text/plain; version=0.0.4")

    return app


def _read_all(export: ExportFolder, recommender: Recommender) -> None:
    """A broken file must end the start, not the first request that needs it."""
    recommender.for_users(torch.zeros(1, dtype=torch.int64), 1)
    recommender.for_users(torch.zeros(1, dtype=torch.int64), 1, exact=True)
    export.user_lookup.rows([""])
    export.users.hold()
    _ = export.item_lookup
    if export.manifest.seen:
        _ = export.seen
    if export.manifest.cold_users:
        _ = export.cold_users


def _checked_n(asked: RecommendRequest, limits: HttpLimits) -> int:
    """The length of the lists, if the request is within limits."""
    if (asked.users is None) == (asked.attributes is None):
        raise InputError("Expected either users, by id, or attributes; found both or neither.")
    number = len(asked.users or asked.attributes or ())
    if not 1 <= number <= limits.batch:
        raise InputError(f"Expected 1 to {limits.batch} users in a request; found {number}.")
    n = min(_USUAL, limits.n) if asked.n is None else asked.n
    if not 1 <= n <= limits.n:
        raise InputError(f"Expected n from 1 to {limits.n}; found {n}.")
    if asked.attributes is not None and asked.exclude_seen:
        raise InputError(
            "Expected exclude_seen with users by id; users by attributes have seen nothing."
        )
    return n


def _lists(export: ExportFolder, owners: list[int | str | None], top: TopItems) -> list[ItemList]:
    lists = []
    for owner, items, scores in zip(owners, top.items, top.scores, strict=True):
        real = items >= 0
        ids = export.item_lookup.ids(items[real].numpy()).to_pylist()
        lists.append(ItemList(user=owner, items=ids, scores=scores[real].tolist()))
    return lists


def _refusal(sentence: str) -> JSONResponse:
    """The sentence as an answer; it may quote names that are no proper text."""
    proper = sentence.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"detail": proper}, status_code=422)


def _sentence(error: RequestValidationError) -> str:
    """The first thing that is wrong, in one sentence."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
    found = f"; found {first['input']!r:.80}" if "input" in first else ""
    return f"Expected a request as /docs describes it; {place}: {first['msg']}{found}."
