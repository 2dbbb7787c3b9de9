"""Connections to a Ray cluster, and the room that jobs find in it."""

import socket
import sys
import time

import pytest

from drgcn.errors import InputError
from drgcn.ray_cluster import RayShare, connect


def test_missing_ray_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install '\.\[cluster\]'") as raised:
        connect("local", 1)
    assert "\n" not in str(raised.value)


def test_an_address_where_nothing_answers_is_refused_at_once():
    pytest.importorskip("ray", reason="needs the extra cluster")
    with socket.socket() as taken:  # bound, and not listened to: connections are refused
        taken.bind(("127.0.0.1", 0))
        start = time.monotonic()
        with pytest.raises(InputError, match="nothing answers there") as raised:
            connect(f"127.0.0.1:{taken.getsockname()[1]}", 1)
    assert time.monotonic() - start < 30  # Ray itself would wait for minutes
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:10001", "127.0.0.1:port"])
def test_an_address_of_another_form_is_refused(address):
    pytest.importorskip("ray", reason="needs the extra cluster")
    with pytest.raises(InputError, match="auto, local or HOST:PORT; found"):
        connect(address, 1)


def test_room_is_counted_by_node():
    nodes = [
        {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}},
        {"Alive": True, "Resources": {"CPU": 3.0}},
        {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}},
    ]
    assert RayShare(2, 0.0).room(nodes) == 4 + 1
    assert RayShare(2, 1.0).room(nodes) == 2
    assert RayShare(1, 1 / 3).room(nodes) == 6
    assert RayShare(4, 1 / 3).room(nodes) == 2
    assert RayShare(16, 0.0).room(nodes) == 0
    with pytest.raises(InputError, match="Expected a node with 16 CPUs and a GPU"):
        RayShare(16, 1.0).expect_room(nodes, "auto")
