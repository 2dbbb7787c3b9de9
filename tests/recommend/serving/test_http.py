"""The endpoint, asked in process."""

import asyncio
import warnings

import pytest
import torch

from drgcn.recommend.serving import ExportSettings, LoadedRun, Recommender, export
from drgcn.recommend.serving.export_folder import ExportFolder
from drgcn.recommend.serving.server import HttpLimits

from .test_recommender import seen_by

pytest.importorskip("fastapi")
pytest.importorskip("httpx")


def client_of(folder, **limits):
    with warnings.catch_warnings():
        # starlette would rather have another client than the one that is installed.
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

    from drgcn.recommend.serving.http import build_app

    app = build_app(ExportFolder(folder), HttpLimits(n=20, batch=4, **limits))
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
    ({}, "either users, by id, or attributes"),
    ({"users": ["u07"], "attributes": [{}]}, "either users, by id, or attributes"),
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
    ):
        headers = {"content-type": "application/json"}
        answer = client.post("/recommend", content=text, headers=headers)
        assert answer.status_code == 422, text
        assert answer.json()["detail"].startswith("Expected")


def test_a_body_too_large_is_not_read(shop):
    client = client_of(shop / "export", body=1000)
    answer = client.post("/recommend", content=b'{"users": ["' + b"x" * 2000 + b'"]}')
    assert answer.status_code == 413
    assert "at most 1000 bytes" in answer.json()["detail"]


def test_reading_stops_at_a_body_too_large():
    from drgcn.recommend.serving.http import MeteredApp, RequestMeter

    read, sent = [], []

    async def receive():
        read.append(b"x" * 600)
        return {"type": "http.request", "body": read[-1], "more_body": len(read) < 9}

    async def read_all(scope, receive, send):
        while (await receive())["more_body"]:
            pass

    async def send(message):
        sent.append(message)

    app = MeteredApp(read_all, RequestMeter(["/recommend"]), 1000)
    asyncio.run(app({"type": "http", "path": "/recommend"}, receive, send))
    assert len(read) == 2
    assert sent[0]["status"] == 413


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
