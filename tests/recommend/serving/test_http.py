"""The endpoint, asked in process."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import threading
import warnings

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.serving import ExportSettings, LoadedRun, Recommender, export
from drgcn.recommend.serving.server import (
    TOKEN_VARIABLE,
    AccessLog,
    HttpLimits,
    RequestMeter,
    ServedExport,
    read_token,
    serve,
)

from .test_recommender import seen_by

pytest.importorskip("fastapi")
pytest.importorskip("httpx")


def client_of(folder, token=None, access_log=None, **limits):
    with warnings.catch_warnings():
        # starlette would rather have another client than the one that is installed.
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

    from drgcn.recommend.serving.http import build_app

    served = folder if isinstance(folder, ServedExport) else ServedExport(folder)
    limits = HttpLimits(n=20, batch=4, **limits)
    app = build_app(served, limits, token=token, access_log=access_log)
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(shop):
    return client_of(shop / "export")


def ask(client, **body):
    return client.post("/recommend", json=body)


def test_lists_by_id_are_those_of_the_export(client, exported):
    answer = ask(client, users=["u07", "u59"], n=6, exact=True)
    assert answer.status_code == 200
    top = Recommender(exported).for_users(torch.tensor([7, 59]), 6, exact=True)
    for row, found in enumerate(answer.json()["recommendations"]):
        assert found["user"] == ("u07", "u59")[row]
        assert found["items"] == [10 * item + 7 for item in top.items[row].tolist()]
        assert found["scores"] == pytest.approx(top.scores[row].tolist())
    assert answer.json()["unknown"] == 0


def test_seen_items_are_left_out(client):
    seen = {10 * item + 7 for item in seen_by(torch.tensor([7]))[0]}
    kept = ask(client, users=["u07"], n=20).json()["recommendations"][0]["items"]
    left = ask(client, users=["u07"], n=20, exclude_seen=True).json()["recommendations"][0]
    assert not seen & set(left["items"])
    assert [item for item in kept if item not in seen] == left["items"][: len(set(kept) - seen)]


def test_unknown_ids_are_named_or_skipped(client):
    answer = ask(client, users=["u07", "nobody", 12])
    assert answer.status_code == 422
    assert "found 2 others: 'nobody', 12" in answer.json()["detail"]
    answer = ask(client, users=["nobody", "u07"], skip_unknown=True, n=3)
    assert answer.status_code == 200
    assert [found["user"] for found in answer.json()["recommendations"]] == ["u07"]
    assert answer.json()["unknown"] == 1
    answer = ask(client, users=["nobody"], skip_unknown=True)
    assert answer.json() == {"recommendations": [], "unknown": 1}


def test_cold_users_by_attributes(client, exported):
    rows = [{"a": 1.5, "kind": "2"}, {}]
    answer = ask(client, attributes=rows, n=5, exact=True)
    assert answer.status_code == 200
    top = Recommender(exported).for_vectors(exported.cold_users.vectors(rows), 5, exact=True)
    found = answer.json()["recommendations"]
    assert [one["user"] for one in found] == [None, None]
    assert [one["items"] for one in found] == (10 * top.items + 7).tolist()


REFUSED = (
    ({}, "either users, by id, or visitors"),
    ({"users": ["u07"], "attributes": [{}]}, "either users, by id, or visitors"),
    ({"users": ["u07"], "clicked": [[7]]}, "either users, by id, or visitors"),
    ({"clicked": [[7]] * 2, "attributes": [{}]}, "of as many visitors; found 1 and 2"),
    ({"clicked": [[7], [8]]}, "ids of items that the export knows; found 1 other: 8"),
    ({"clicked": [7]}, "clicked.0"),
    ({"clicked": []}, "Expected 1 to 4 users in a request; found 0"),
    ({"users": ["u07"], "deny": ["x"]}, "ids of items that the export knows"),
    ({"users": ["u07"], "allow": ["x"]}, "ids of items that the export knows"),
    ({"users": ["u07"], "categories": {"x": ["1"]}}, "among kind, place; found 'x'"),
    ({"users": ["u07"], "categories": {"kind": "1"}}, "categories.kind"),
    ({"users": []}, "Expected 1 to 4 users in a request; found 0"),
    ({"users": ["u01"] * 5}, "Expected 1 to 4 users in a request; found 5"),
    ({"attributes": [{}] * 5}, "Expected 1 to 4 users"),
    ({"users": ["u01"], "n": 0}, "Expected n from 1 to 20; found 0"),
    ({"users": ["u01"], "n": 21}, "Expected n from 1 to 20; found 21"),
    ({"users": ["u01"], "n": "ten"}, "n: Input should be a valid integer; found 'ten'"),
    ({"users": [1.5]}, "users.0"),
    ({"users": [True]}, "users.0"),
    ({"users": ["u01"], "m": 3}, "m: Extra inputs are not permitted"),
    ({"attributes": [{"age": 3}]}, "Expected attributes among a, b, c, kind, place"),
    ({"attributes": [{"a": 1e39}]}, "Expected a finite number for 'a'"),
    ({"attributes": [{"a": [1]}]}, "Expected a finite number for 'a'"),
    ({"attributes": [{}], "exclude_seen": True}, "have seen nothing"),
    ([], "the body"),
)


def test_bad_requests_are_refused_with_a_sentence(client):
    for body, words in REFUSED:
        answer = client.post("/recommend", json=body)
        assert answer.status_code == 422, body
        detail = answer.json()["detail"]
        assert words in detail
        assert detail.startswith("Expected")
        assert "\n" not in detail


def test_texts_that_are_no_requests(client):
    for text in (
        '{"attributes": [{"a": NaN}]}',
        "{",
        "",
        '{"users": ["\\ud800"]}',
        '{"attributes": [{"kind": "\\ud800"}]}',
        '{"attributes": [{"\\ud800": 1}]}',
        '{"\\ud800": 1}',
        b"\xff\xfe",
        '{"users": ["u07"]}'.encode("utf-16"),
        '\ufeff{"users": ["u07"]}',
        '{"users": ["u07"], "n": NaN}',
        '{"users": ["u07"], "n": -Infinity}',
        '{"users": ["u07"], "n": 1e400}',
        '{"users": ["u07"], "n": 1' + "0" * 5000 + "}",
        '{"users": ["u07"], "users": ["u08"]}',
        '{"attributes": [{"a": 1, "a": 2}]}',
        f'{{"users": [{2**70}]}}',
        f'{{"users": ["u07"], "deny": [{2**63}]}}',
    ):
        headers = {"content-type": "application/json"}
        answer = client.post("/recommend", content=text, headers=headers)
        assert answer.status_code == 422, text
        assert answer.json()["detail"].startswith("Expected")


def test_whole_numbers_may_have_a_point(client):
    found = client.post(
        "/similar",
        content='{"items": [17.0, 2.7e1], "n": 3.0}',
        headers={"content-type": "application/json; charset=utf-8"},
    )
    assert found.status_code == 200
    assert found.json() == client.post("/similar", json={"items": [17, 27], "n": 3}).json()


def test_other_kinds_of_content_are_refused(client):
    text = '{"users": ["u07"]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"):
        answer = client.post("/recommend", content=text, headers={"content-type": kind})
        assert answer.status_code == 422
        assert "content-type" in answer.json()["detail"]
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "BREW"):
        answer = client.request(method, "/recommend")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_signal_before_the_server_runs_ends_it(shop, monkeypatch):
    uvicorn = pytest.importorskip("uvicorn")
    plain, late = uvicorn.Server.run, threading.Event()

    def run(self, sockets=None):
        os.kill(os.getpid(), signal.SIGTERM)
        return plain(self, sockets)

    def end():
        late.set()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    watch = threading.Timer(20, end)
    watch.start()
    serve(shop / "export", port=0)
    watch.cancel()
    assert not late.is_set()


def values_of(client):
    lines = client.get("/metrics").text.splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_another_export_takes_the_place_of_the_first(shop, tmp_path, capsys):
    link = tmp_path / "current"
    link.symlink_to(shop / "export")
    served = ServedExport(link)
    client = client_of(served)
    body = {"users": ["u07"], "n": 5, "exact": True}
    first, model = ask(client, **body).json(), client.get("/healthz").json()["model"]
    assert not served.look()  # nothing has changed
    export(LoadedRun.open(shop / "light"), tmp_path / "second", ExportSettings(n=5))
    other = shutil.copytree(tmp_path / "second", tmp_path / "broken")
    os.truncate(other / "items.npy", 500)

    def point_at(folder):
        (tmp_path / "next").symlink_to(folder)
        (tmp_path / "next").replace(link)

    point_at(other)
    assert not served.look()
    assert "broken" in capsys.readouterr().err
    assert ask(client, **body).json() == first
    assert values_of(client)['drgcn_reloads_total{result="failed"}'] == "1"
    assert not served.look()  # told once
    assert capsys.readouterr().err == ""
    point_at(tmp_path / "second")
    assert served.look()
    assert ask(client, **body).json() != first
    found = values_of(client)
    assert found['drgcn_reloads_total{result="done"}'] == "1"
    assert client.get("/healthz").json()["model"] != model
    assert not any(model in name for name in found)
    shutil.rmtree(tmp_path / "second")  # all of it is in memory, and nothing takes its place
    assert not served.look()
    assert ask(client, **body).status_code == 200
    served.ask()
    assert not served.look()
    assert served.failures == 2


def test_files_that_change_while_they_are_read(copied, monkeypatch):
    plain = Recommender.for_users

    def late(self, *args, **options):
        os.utime(copied / "items.npy")
        return plain(self, *args, **options)

    monkeypatch.setattr(Recommender, "for_users", late)
    with pytest.raises(InputError, match="stay as they are"):
        ServedExport(copied)


def test_a_token_opens_all_but_the_health(shop):
    client = client_of(shop / "export", token="a" * 32)
    for shown in (None, "", "Bearer", "Bearer " + "b" * 32, "a" * 32, "bearer\xff"):
        headers = {} if shown is None else {"authorization": shown.encode("latin-1")}
        for path in ("/metrics", "/docs", "/openapi.json", "/nowhere"):
            answer = client.get(path, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert client.post("/recommend", json={}, headers=headers).status_code == 401
        assert client.get("/healthz", headers=headers).status_code == 200
    right = {"authorization": "Bearer " + "a" * 32}
    body = {"users": ["u07"]}
    assert client.post("/recommend", json=body, headers=right).status_code == 200
    twice = [("authorization", "Bearer " + letter * 32) for letter in "ab"]
    assert client.post("/recommend", json=body, headers=twice).status_code == 401


def test_tokens_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token() is None
    monkeypatch.setenv(TOKEN_VARIABLE, "of-the-environment")
    assert read_token() == "of-the-environment"
    path = tmp_path / "token"
    path.write_text("of-the-file-and-longer\n")
    assert read_token(path) == "of-the-file-and-longer"
    for bad in ("", "short", "two words of a token", "\u00e4" * 20):
        path.write_text(bad)
        with pytest.raises(InputError, match="printable ASCII"):
            read_token(path)
    monkeypatch.setenv(TOKEN_VARIABLE, "")  # a server that was meant to be closed
    with pytest.raises(InputError, match=TOKEN_VARIABLE):
        read_token()
    with pytest.raises(InputError, match="cannot be read"):
        read_token(tmp_path / "none")


def test_answers_are_written_down(shop, tmp_path, capsys):
    log = AccessLog(tmp_path / "log")
    client = client_of(shop / "export", access_log=log, token="a" * 32)
    client.get("/healthz?secret=1")
    client.get("/two%0Alines")
    first, second = (tmp_path / "log").read_text().splitlines()
    assert re.fullmatch(r"\S+Z testclient GET /healthz 200 \d+\.\d ms", first)
    assert " GET /two%0Alines 401 " in second
    (tmp_path / "log").rename(tmp_path / "old")
    client.get("/healthz")
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    log.close()
    with pytest.raises(InputError, match="access log"):
        AccessLog(tmp_path / "none" / "log")
    full = AccessLog("/dev/full")
    client = client_of(shop / "export", access_log=full)
    for _ in range(2):
        assert client.get("/healthz").status_code == 200
    assert capsys.readouterr().err.count("cannot be written") == 1
    with contextlib.suppress(OSError):
        full.close()


def test_the_page_of_the_endpoint_needs_nothing_else(client):
    answer = client.get("/docs")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"https?:|<script|<link|src=|url\(", answer.text)
    for name in client.get("/openapi.json").json()["components"]["schemas"]:
        assert f'id="{name}"' in answer.text
    assert "exclude_seen" in answer.text
    assert client.get("/redoc").status_code == 404


def test_a_failure_of_the_search_reaches_who_waits(shop):
    from drgcn.recommend.serving import http

    maker = http.ListMaker(ServedExport(shop / "export"), RequestMeter([]), HttpLimits())
    maker.served = None
    with pytest.raises(AttributeError, match="recommender"):
        asyncio.run(asyncio.wait_for(maker.text(http.RecommendRequest(users=["u07"])), 10))


def test_requests_that_wait_are_answered_together(shop, monkeypatch):
    from drgcn.recommend.serving import http

    monkeypatch.setattr(http, "_WORKING", 1)
    maker = http.ListMaker(ServedExport(shop / "export"), RequestMeter([]), HttpLimits())
    plain, searches = Recommender.for_users, []
    begun, hold = threading.Event(), threading.Event()

    def slow(self, rows, *args, **options):
        begun.set()
        assert hold.wait(10)
        searches.append(len(rows))
        return plain(self, rows, *args, **options)

    monkeypatch.setattr(Recommender, "for_users", slow)
    users = [[f"u{7 * k:02}"] * (1 + k % 2) for k in range(6)]

    def text(users, n=20):
        return maker.text(http.RecommendRequest(users=users, exclude_seen=True, n=n))

    async def alone():
        return [await text(one) for one in users]

    async def together(users):
        searches.clear()
        begun.clear()
        hold.clear()
        first = asyncio.create_task(text(["u01"]))
        await asyncio.to_thread(begun.wait, 10)
        waiting = [asyncio.create_task(text(one)) for one in users]
        other = asyncio.create_task(text(["u02"], 5))
        await asyncio.sleep(0)
        hold.set()
        await first
        assert len(json.loads(await other)["recommendations"][0]["items"]) == 5
        return await asyncio.gather(*waiting, return_exceptions=True)

    hold.set()
    expected = asyncio.run(alone())
    assert asyncio.run(together(users)) == expected
    assert searches == [1, 9, 1]
    *found, error = asyncio.run(together([*users, ["nobody"]]))
    assert found == expected
    assert "nobody" in str(error)
    # The unknown id made each be answered by itself.
    assert searches == [1, *map(len, users), 1]


def test_a_body_too_large_is_not_read(shop):
    client = client_of(shop / "export", body=1000)
    answer = client.post("/recommend", content=b'{"users": ["' + b"x" * 2000 + b'"]}')
    assert answer.status_code == 413
    assert "at most 1000 bytes" in answer.json()["detail"]


def test_reading_stops_at_a_body_too_large():
    from drgcn.recommend.serving.http import MeteredApp

    read, sent = [], []

    async def receive():
        read.append(b"x" * 600)
        return {"type": "http.request", "body": read[-1], "more_body": len(read) < 9}

    async def read_all(scope, receive, send):
        while (await receive())["more_body"]:
            pass

    async def send(message):
        sent.append(message)

    app = MeteredApp(read_all, RequestMeter(["/recommend"]), HttpLimits(body=1000))
    asyncio.run(app({"type": "http", "path": "/recommend"}, receive, send))
    assert len(read) == 2
    assert sent[0]["status"] == 413
    assert app.held == 0


def test_half_sent_bodies_take_no_place_and_their_bytes_are_counted():
    from drgcn.recommend.serving.http import MeteredApp

    statuses = []

    async def answer(scope, receive, send):
        assert (await receive())["body"] == b"12345678"
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        if "status" in message:
            statuses.append(message["status"])

    async def run():
        end = asyncio.Event()

        def body(*parts, disconnect=False):
            left = list(parts)

            async def receive():
                if left:
                    return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}
                await end.wait()
                return {"type": "http.disconnect"}

            return receive

        meter = RequestMeter(["/recommend"])
        app = MeteredApp(answer, meter, HttpLimits(requests=2, body=10))
        scope = {"type": "http", "path": "/recommend"}
        silent = [asyncio.create_task(app(scope, slow(body(b"1234")), send)) for _ in range(3)]
        await asyncio.sleep(0)
        await app(scope, body(b"1234", b"5678"), send)
        assert (statuses, app.held) == ([200], 12)
        silent += [asyncio.create_task(app(scope, slow(body(b"1")), send))]
        await asyncio.sleep(0)
        await app(scope, body(b"1234", b"5678"), send)  # more than two whole bodies in all
        assert statuses == [200, 503]
        end.set()
        await asyncio.gather(*silent)
        assert (app.held, app.running, len(statuses)) == (0, 0, 2)
        return meter.text()

    def slow(receive):
        async def more():
            return {**await receive(), "more_body": True}

        return more

    assert 'status="499"} 4' in asyncio.run(run())


def test_health_and_other_paths(client, exported):
    found = client.get("/healthz").json()
    assert (found["status"], found["users"], found["items"]) == ("ok", 60, 400)
    assert found["model"] == exported.manifest.model["sha256"]
    assert client.get("/recommend").status_code == 405
    assert client.get("/nowhere").status_code == 404


def test_metrics_count_what_happened(shop):
    client = client_of(shop / "export")
    for users in (["u01"], ["u02", "u03"], ["nobody"]):
        ask(client, users=users)
    client.get("/nowhere/1")
    client.get("/nowhere/2")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values['drgcn_requests_total{path="/recommend",status="200"}'] == "2"
    assert values['drgcn_requests_total{path="/recommend",status="422"}'] == "1"
    assert values['drgcn_requests_total{path="other",status="404"}'] == "2"
    assert values["drgcn_refused_total"] == "3"
    assert values["drgcn_errors_total"] == "0"
    assert values["drgcn_lists_total"] == "3"
    assert values['drgcn_request_seconds_count{path="/recommend"}'] == "3"
    assert float(values['drgcn_request_seconds_sum{path="/recommend"}']) > 0
    buckets = [
        int(value)
        for name, value in values.items()
        if name.startswith('drgcn_request_seconds_bucket{path="/recommend"')
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 3


def test_a_failure_on_our_side_is_counted(shop, monkeypatch):
    client = client_of(shop / "export")

    def fail(*_, **__):
        raise RuntimeError("broken")

    monkeypatch.setattr(Recommender, "for_users", fail)
    assert ask(client, users=["u01"]).status_code == 500
    assert "drgcn_errors_total 1" in client.get("/metrics").text


def test_a_model_without_attributes_says_so(shop, tmp_path):
    export(LoadedRun.open(shop / "light"), tmp_path / "e", ExportSettings(n=5, seen=False))
    client = client_of(tmp_path / "e")
    answer = ask(client, attributes=[{}])
    assert answer.status_code == 422
    assert "clicks alone" in answer.json()["detail"]
    answer = ask(client, users=["u01"], exclude_seen=True)
    assert (answer.status_code, "--no-seen" in answer.json()["detail"]) == (422, True)
    assert ask(client, users=["u01"]).status_code == 200


def test_files_may_change_under_a_server(copied):
    client = client_of(copied)
    body = {"users": ["u07", "u12"], "n": 20, "exclude_seen": True}
    before = ask(client, **body).json()
    for name in ("rowptr", "col"):
        path = copied / "seen" / f"{name}.npy"
        with path.open("r+b") as file:  # in place, as who has mapped it would see it
            file.seek(128)
            file.write(bytes(path.stat().st_size - 128))
    assert ask(client, **body).json() == before
    for path in copied.rglob("*.*"):
        os.truncate(path, 10)
    assert ask(client, **body).json() == before
    assert ask(client, attributes=[{"a": 1.5}], exact=True).status_code == 200


def test_more_requests_at_once_than_allowed():
    from drgcn.recommend.serving.http import MeteredApp

    answers = []

    async def run():
        gate = asyncio.Event()

        async def slow(scope, receive, send):
            if scope["path"] == "/recommend":
                await gate.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message):
            if "status" in message:
                answers.append((message["status"], dict(message["headers"])))

        async def receive():
            return {"type": "http.request", "body": b""}

        meter = RequestMeter(["/recommend"])
        app = MeteredApp(slow, meter, HttpLimits(requests=2))
        running = [
            asyncio.create_task(app({"type": "http", "path": path}, receive, send))
            for path in ("/recommend", "/recommend", "/recommend", "/healthz")
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [status for status, _ in answers] == [503, 200]  # the third, and the health
        gate.set()
        await asyncio.gather(*running)
        await app({"type": "http", "path": "/recommend"}, receive, send)
        return meter.text()

    text = asyncio.run(run())
    assert answers[0][1][b"retry-after"] == b"1"
    assert [status for status, _ in answers[2:]] == [200] * 3
    assert 'drgcn_requests_total{path="/recommend",status="503"} 1' in text


@contextlib.asynccontextmanager
async def listening_to(app, **limits):
    """The address of a server, and its state."""
    uvicorn = pytest.importorskip("uvicorn")
    from drgcn.recommend.serving.http import LimitedConnection
    from drgcn.recommend.serving.server import _listen

    state = uvicorn.server.ServerState()
    config = uvicorn.Config(app, log_level="error", ws="none", lifespan="off")

    def connection():
        return LimitedConnection(
            limits=HttpLimits(**limits), config=config, server_state=state, app_state={}
        )

    listening = _listen("127.0.0.1", 0)
    server = await asyncio.get_running_loop().create_server(connection, sock=listening)
    yield listening.getsockname(), state
    server.close()
    await asyncio.sleep(0)


async def say_here(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})


GET = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


def test_connections_are_few_and_do_not_wait_for_ever():
    async def asked(line, request=GET):
        line[1].write(request)
        return await line[0].readuntil(b"\r\n\r\n")

    async def run(address, state):
        silent = await asyncio.open_connection(*address)
        half = await asyncio.open_connection(*address)
        half[1].write(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nabc")
        third = await asyncio.open_connection(*address)
        answer = await asked(third)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answer
        for line in (silent, half, third):  # closed, without waiting for its client
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(line[0].read(), 5)
        assert not state.connections
        again = await asyncio.open_connection(*address)
        for _ in range(2):
            assert (await asked(again)).startswith(b"HTTP/1.1 200")
            await again[0].readuntil(b"0\r\n\r\n")
            await asyncio.sleep(0.2)  # each answer starts the time anew
        for line in (silent, half, third, again):
            line[1].close()

    async def listen():
        async with listening_to(say_here, connections=2, seconds=0.3) as (address, state):
            await run(address, state)

    asyncio.run(listen())


def test_what_is_sent_ahead_is_left_to_the_client():
    held, number = [], 2000

    async def app(scope, receive, send):
        await receive()
        for _ in range(3):
            await asyncio.sleep(0)  # meanwhile, more could be read
        held.extend(len(one.conn.trailing_data[0]) for one in state.connections)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})

    async def run():
        nonlocal state
        request = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5000
        async with listening_to(app) as (address, state):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request * number)
            for _ in range(number):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
                await reader.readuntil(b"0\r\n\r\n")
            writer.close()

    state = None
    asyncio.run(run())
    assert len(held) == number
    assert max(held) <= 2 * 256 * 2**10  # that is one read, and what was left of the one before


def test_requests_that_two_readers_would_end_elsewhere_are_refused():
    from drgcn.recommend.serving.http import MeteredApp

    two = b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    broken = (
        b"POST / HTTP/1.1\r\nhost: here\r\n" + two,
        b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 0x3\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nhost : here\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: here\r\n" + b"x" * 20_000,
        b"GET / HTTP/1.1\r\nhost: here\r\nx: " + b"y" * 17_000 + b"\r\n\r\n",
        b"GET /?" + b"y" * 17_000 + b" HTTP/1.1\r\nhost: here\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
    )

    async def run():
        async with listening_to(MeteredApp(say_here, RequestMeter([]), HttpLimits())) as (
            address,
            _,
        ):
            for before in (b"", GET):  # a bad one behind a good one, too
                for request in broken:
                    reader, writer = await asyncio.open_connection(*address)
                    writer.write(before + request)
                    found = await asyncio.wait_for(reader.read(), 10)
                    writer.close()
                    statuses = re.findall(rb"HTTP/1.1 (\d+)", found)
                    assert statuses == [b"200"] * bool(before) + [b"400"], request
            sound = b"POST / HTTP/1.0\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\nabc"
            reader, writer = await asyncio.open_connection(*address)
            writer.write(sound)
            assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"here")
            writer.close()

    asyncio.run(run())


def test_a_body_announced_as_too_large_is_not_asked_for(shop):
    from drgcn.recommend.serving.http import MeteredApp

    async def run():
        app = MeteredApp(say_here, RequestMeter([]), HttpLimits(body=1000))
        async with listening_to(app) as (address, _):
            for length, statuses in ((1001, [b"413"]), (4, [b"100", b"200"])):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(
                    b"POST /recommend HTTP/1.1\r\nhost: here\r\nexpect: 100-continue\r\n"
                    b"connection: close\r\ncontent-length: %d\r\n\r\n" % length
                )
                found = await reader.readuntil(b"\r\n\r\n")
                writer.write(b"body")
                found += await asyncio.wait_for(reader.read(), 10)
                writer.close()
                assert re.findall(rb"HTTP/1.1 (\d+)", found) == statuses

    asyncio.run(run())


def test_slow_heads_and_broken_chunks_are_closed(caplog):
    async def run():
        async with listening_to(say_here, seconds=0.3) as (address, state):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n")

            async def drip():
                while True:
                    writer.write(b"x-y: z\r\n")
                    await asyncio.sleep(0.02)

            dripping = asyncio.create_task(drip())
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            dripping.cancel()
            writer.close()
            reader, writer = await asyncio.open_connection(*address)
            head = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
            writer.write(head + b"3\r\nabc\r\nzz\r\n")
            assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 400")
            writer.close()
            await asyncio.sleep(0.05)
            assert not state.connections

    asyncio.run(run())
    assert "Traceback" not in caplog.text


def test_answers_are_not_held_back():
    from drgcn.recommend.serving.server import _listen

    with _listen("127.0.0.1", 0) as listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()):
            line, _ = listening.accept()
            with line:
                assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_deep_texts_are_refused(client):
    for depth in (*range(900, 1000, 20), 5000, 100_000):
        for text in ('{"users": %s}', '{"attributes": [{"a": %s}]}', "%s"):
            body = text % ("[" * depth + "]" * depth)
            answer = client.post(
                "/recommend", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code in (400, 422), (depth, text)


def test_who_would_wait_for_long_is_told(shop, monkeypatch):
    from drgcn.recommend.serving import http

    monkeypatch.setattr(http, "_WORKING", 1)
    monkeypatch.setattr(http, "_PATIENCE", 0.02)
    client, found, hold = client_of(shop / "export"), [], threading.Event()
    plain = Recommender.for_users

    def slow(*args, **options):
        assert hold.wait(10)
        return plain(*args, **options)

    monkeypatch.setattr(Recommender, "for_users", slow)

    def one(n):
        found.append(ask(client, users=["u01"], n=n))
        hold.set()  # one was refused: now the other goes on

    # Of different lengths: they cannot be answered together.
    both = [threading.Thread(target=one, args=(n,)) for n in (3, 4)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert [answer.status_code for answer in found] == [503, 200]
    assert found[0].headers["retry-after"] == "1"
    assert ask(client, users=["u01"]).status_code == 200
