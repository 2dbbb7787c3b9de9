import socket
import sys
import time

import pytest

from drgcn.errors import InputError
from drgcn.ray_cluster import RayShare, connect
from drgcn.studies.reproduce.ray import RayRunner


def test_missing_ray_is_said_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install '\.\[cluster\]'") as raised:
        connect("local", 1)
    assert "\n" not in str(raised.value)


def test_an_address_where_nothing_answers_is_said_at_once():
    pytest.importorskip("ray", reason="needs the extra cluster")
    with socket.socket() as taken:  # bound, and not listened to: connections are refused
        taken.bind(("127.0.0.1", 0))
        start = time.monotonic()
        with pytest.raises(InputError, match="nothing answers there") as raised:
            RayRunner.at(f"127.0.0.1:{taken.getsockname()[1]}")
    assert time.monotonic() - start < 30  # Ray itself would wait for minutes
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:10001", "127.0.0.1:port", ":1"])
def test_an_address_of_another_form_is_refused(address):
    pytest.importorskip("ray", reason="needs the extra cluster")
    with pytest.raises(InputError, match="auto, local or HOST:PORT; found"):
        connect(address, 1)


def test_a_cluster_without_room_is_refused():
    nodes = [{"Alive": True, "Resources": {"CPU": 1.0}}]
    with pytest.raises(InputError, match="Expected a node with 2 CPUs and a GPU"):
        RayShare(2, 1.0).expect_room(nodes, "auto")


def test_another_device_is_refused():
    with pytest.raises(InputError, match="Expected --device cpu, cuda or auto on Ray"):
        RayRunner.at("local", device="mps")
