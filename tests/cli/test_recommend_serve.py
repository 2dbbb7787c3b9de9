"""``drgcn recommend serve`` as a process."""

import json
import os
import re
import resource
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
import warnings
from contextlib import contextmanager, suppress
from inspect import signature

import pytest

import drgcn.cli
from drgcn.cli.recommend.serve import serve as serve_command
from drgcn.recommend.serving import ExportFolder, Recommender
from drgcn.recommend.serving.server import HttpLimits

from ..children import CHILDREN
from .recommend_chain import refused

pytest.importorskip("faiss")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@pytest.fixture
def export(chain):
    return chain[0] / "export"


def serve(export, out, error, files):
    """The command, with what it says in two files."""
    warnings.simplefilter("ignore")
    if files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    for number, path in ((1, out), (2, error)):
        os.dup2(os.open(path, os.O_WRONLY), number)
    sys.argv = ["drgcn", "recommend", "serve", str(export), "--port", "0", "--most-n", "30"]
    drgcn.cli.main()


@pytest.fixture
def server(export, tmp_path, request):
    """The process, its port, and the file of its errors; the files it may open as a parameter."""
    out, error = tmp_path / "out", tmp_path / "error"
    for path in (out, error):
        path.touch()
    files = getattr(request, "param", None)
    process = CHILDREN.Process(target=serve, args=(export, out, error, files))
    process.start()
    try:
        while not (found := re.search(r"http://127.0.0.1:(\d+)", out.read_text())):
            assert process.is_alive(), out.read_text() + error.read_text()
            time.sleep(0.02)
        yield process, int(found[1]), error
    finally:
        process.kill()
        process.join()


def ask(port, path, body=None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_server_answers_and_ends_when_told(export, server):
    process, port, error = server
    status, text = ask(port, "/recommend", {"users": [7], "n": 5, "exact": True})
    assert status == 200
    found = json.loads(text)["recommendations"][0]
    folder = ExportFolder(export)
    import torch

    top = Recommender(folder).for_users(torch.tensor([7]), 5, exact=True)
    assert found["items"] == top.items[0].tolist()
    status, text = ask(port, "/recommend", {"attributes": [{"style": 3, "number_0": 0.5}]})
    assert (status, len(json.loads(text)["recommendations"][0]["items"])) == (200, 30)
    status, text = ask(port, "/recommend", {"users": [7], "n": 31})
    assert (status, json.loads(text)["detail"]) == (422, "Expected n from 1 to 30; found 31.")
    assert ask(port, "/healthz")[0] == 200
    assert 'status="422"} 1' in ask(port, "/metrics")[1]
    os.kill(process.pid, signal.SIGHUP)
    latest = time.monotonic() + 30
    while 'drgcn_reloads_total{result="done"} 1' not in ask(port, "/metrics")[1]:
        assert time.monotonic() < latest
        time.sleep(0.05)
    with half_sent(port), half_sent(port) as (line, rest):
        assert ask(port, "/healthz")[0] == 200  # by now the server has read the first halves
        begin = time.monotonic()
        process.terminate()
        line.sendall(rest)  # the other never comes
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        process.join(30)
    assert process.exitcode == 0
    assert time.monotonic() - begin < 5
    assert error.read_text().strip().endswith("from now on")


@contextmanager
def half_sent(port):
    """A connection with half of a request sent, and the other half."""
    body = json.dumps({"users": [7], "n": 5}).encode()
    head = (
        "POST /recommend HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(head.encode() + body[:5])
        yield line, body[5:]


@pytest.mark.slow
@pytest.mark.parametrize("server", [256], indirect=True)
def test_more_connections_than_open_files(server):
    process, port, error = server
    lines = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(400)]
    refused = 0
    for line in lines:
        with line, suppress(ConnectionError):
            line.sendall(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n")
            refused += line.recv(4096).startswith(b"HTTP/1.1 503")
    assert refused > 0
    assert ask(port, "/healthz")[0] == 200
    process.terminate()
    process.join(30)
    assert process.exitcode == 0
    assert error.read_text() == ""


def test_options_have_the_limits_of_the_library():
    options = {name: one.default for name, one in signature(serve_command).parameters.items()}
    assert HttpLimits() == HttpLimits(
        n=options["most_n"],
        batch=options["most_users"],
        body=options["most_bytes"],
        requests=options["most_requests"],
        connections=options["most_connections"],
        seconds=options["idle_seconds"],
    )


def test_what_cannot_be_served(export, tmp_path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"{port} cannot be used" in refused("serve", export, "--port", port)
    assert "`drgcn recommend export` wrote" in refused("serve", tmp_path, "--port", 0)
    (tmp_path / "token").write_text("short")
    words = ("--token-file", tmp_path / "token", "--port", 0)
    assert "at least 16 printable" in refused("serve", export, *words)
    monkeypatch.delitem(sys.modules, "drgcn.recommend.serving.http", raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install '.[serve]'" in refused("serve", export, "--port", 0)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "found no uvicorn" in refused("serve", export, "--port", 0)
