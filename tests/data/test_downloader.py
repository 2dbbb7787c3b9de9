from __future__ import annotations

import builtins
import hashlib
import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drgcn.data import describe, download, downloader, load, verify
from drgcn.data.catalog import PublishedFile
from drgcn.errors import DrgcnWarning, InputError, MissingDataError

CONTENT = {"toy/a.bin": b"first", "toy/b.bin": b"second"}


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    for name, content in CONTENT.items():
        path = tmp_path / "mirror" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    handler = partial(_Handler, directory=str(tmp_path / "mirror"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    files = tuple(
        PublishedFile(name, hashlib.sha256(content).hexdigest())
        for name, content in CONTENT.items()
    )
    entry = replace(describe("cora"), name="toy", files=files, home="https://example.org/toy")
    monkeypatch.setattr(downloader, "describe", lambda name: entry)


def _url(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}/"


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.usefixtures("toy")
def test_files_arrive_whole(mirror: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    paths = download("toy", root, base_url=_url(mirror))
    assert [path.read_bytes() for path in paths] == [b"first", b"second"]
    assert verify("toy", root) == [("toy/a.bin", "ok"), ("toy/b.bin", "ok")]
    assert _files(root) == ["toy/a.bin", "toy/b.bin"]


@pytest.mark.usefixtures("toy")
def test_whole_files_are_not_fetched_again(mirror: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "toy").mkdir(parents=True)
    (root / "toy" / "a.bin").write_bytes(b"first")
    (root / "toy" / "b.bin").write_bytes(b"sec")
    assert verify("toy", root) == [("toy/a.bin", "ok"), ("toy/b.bin", "different")]
    download("toy", root, base_url=_url(mirror))
    assert mirror.asked == ["/toy/b.bin"]
    download("toy", root, base_url=_url(mirror))
    assert mirror.asked == ["/toy/b.bin"]
    assert (root / "toy" / "b.bin").read_bytes() == b"second"


@pytest.mark.usefixtures("toy")
def test_a_wrong_file_is_thrown_away(mirror: Any, tmp_path: Path) -> None:
    (tmp_path / "mirror" / "toy" / "b.bin").write_bytes(b"<html>not found</html>")
    root = tmp_path / "root"
    with pytest.raises(InputError, match=r"not the published toy/b\.bin: its SHA-256 differs"):
        download("toy", root, base_url=_url(mirror))
    assert _files(root) == ["toy/a.bin"]


@pytest.mark.usefixtures("toy")
def test_an_interrupted_download_is_finished_later(mirror: Any, tmp_path: Path) -> None:
    root, hidden = tmp_path / "root", tmp_path / "mirror" / "toy" / "b.bin"
    hidden.unlink()
    with pytest.raises(MissingDataError, match=r"toy/b\.bin could not be fetched from http"):
        download("toy", root, base_url=_url(mirror))
    assert _files(root) == ["toy/a.bin"]
    hidden.write_bytes(b"second")
    download("toy", root, base_url=_url(mirror))
    assert mirror.asked == ["/toy/a.bin", "/toy/b.bin", "/toy/b.bin"]


@pytest.mark.usefixtures("toy")
def test_offline_names_every_missing_file_and_the_home(tmp_path: Path) -> None:
    with pytest.raises(
        MissingDataError, match=r"toy/a\.bin, toy/b\.bin; fetch .*example\.org/toy"
    ):
        download("toy", tmp_path, offline=True)


@pytest.mark.usefixtures("toy")
def test_files_without_a_link_are_to_be_fetched_by_hand(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"no direct link: toy/a\.bin, toy/b\.bin"):
        download("toy", tmp_path)


@pytest.mark.usefixtures("toy")
def test_a_host_that_does_not_answer_is_missing_data(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="could not be fetched"):
        download("toy", tmp_path, base_url="http://127.0.0.1:9")


@pytest.mark.usefixtures("toy")
def test_nothing_is_printed(
    mirror: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: Any
) -> None:
    with caplog.at_level(logging.INFO, "drgcn"):
        download("toy", tmp_path / "root", base_url=_url(mirror))
    assert capfd.readouterr() == ("", "")
    assert "toy/a.bin" in caplog.text


@pytest.mark.usefixtures("toy")
def test_without_pooch_the_link_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_pooch(name: str, *args: Any) -> Any:
        if name == "pooch":
            raise ImportError(name)
        return real_import(name, *args)

    monkeypatch.setattr(builtins, "__import__", no_pooch)
    with pytest.raises(MissingDataError, match=r"pooch.*fetch http://h/toy/a\.bin by hand"):
        download("toy", tmp_path, base_url="http://h")


@pytest.mark.usefixtures("toy")
def test_a_failed_download_makes_no_folder(mirror: Any, tmp_path: Path) -> None:
    root, fetched = tmp_path / "new" / "root", tmp_path / "mirror" / "toy" / "a.bin"
    fetched.unlink()
    with pytest.raises(MissingDataError, match="could not be fetched"):
        download("toy", root, base_url=_url(mirror))
    fetched.write_bytes(b"<html>not found</html>")
    with pytest.raises(InputError, match="SHA-256 differs"):
        download("toy", root, base_url=_url(mirror))
    assert not root.parent.exists()


@pytest.mark.parametrize(("make", "found"), [(False, "none"), (True, "a file")])
def test_a_data_root_that_is_no_folder_is_named_and_not_made(
    tmp_path: Path, make: bool, found: str
) -> None:
    root = tmp_path / "root"
    if make:
        root.touch()
    words = f"Expected a folder of datasets at {root}; found {found}"
    with pytest.raises(MissingDataError, match=f"{words}.*ind.cora.allx"):
        load("cora", root, offline=True)
    with pytest.raises(MissingDataError, match=words):
        load("coauthor-cs", root)
    with pytest.raises(MissingDataError, match=words):
        verify("cora", root)
    assert verify("wine", root) == []
    assert root.exists() is make


def test_sets_without_files_need_no_download(tmp_path: Path) -> None:
    assert download("wine", tmp_path) == []
    assert verify("wine", tmp_path) == []


def test_load_fetches_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(file: PublishedFile, url: str, root: Path) -> None:
        asked.append(url)
        raise MissingDataError("no network here")

    monkeypatch.setattr(downloader, "_retrieve", refuse)
    with pytest.raises(MissingDataError, match="no network here"):
        load("cora", tmp_path)
    assert asked == ["https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.x"]


def test_load_offline_names_the_files(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"planetoid/ind\.cora\.allx.*kimiyoung/planetoid"):
        load("cora", tmp_path, offline=True)


def test_root_is_argument_then_environment_then_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRGCN_DATA", str(tmp_path))
    assert downloader.data_root("other") == Path("other")
    assert downloader.data_root() == tmp_path
    monkeypatch.delenv("DRGCN_DATA")
    assert downloader.data_root() == Path.home() / ".cache" / "drgcn"


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "tolokers", "corar"])
def test_real_files_have_the_known_digests(real_root: Path, name: str) -> None:
    found = {status for _, status in verify(name, real_root)}
    if "missing" in found:
        pytest.skip(f"{name} is not under DRGCN_DATA")
    assert found == {"ok"}


def _write_invented(root: Path, name: str) -> None:
    for file in describe(name).files:
        path = root / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"invented")


def test_files_that_are_not_the_published_ones_are_not_loaded_under_its_name(
    tmp_path: Path,
) -> None:
    _write_invented(tmp_path, "cora")
    with pytest.raises(InputError, match=r"published files of cora .*ind\.cora\.x"):
        load("cora", tmp_path, offline=True)


@pytest.mark.parametrize("name", ["ppi", "reddit"])
def test_files_without_a_known_digest_are_read_with_a_word(tmp_path: Path, name: str) -> None:
    _write_invented(tmp_path, name)
    with (
        pytest.warns(DrgcnWarning, match="no digests"),
        pytest.raises(InputError, match="damaged"),
    ):
        load(name, tmp_path, offline=True)


def _nested() -> OSError:
    """As requests and urllib3 tell that a name was not found: three errors, each in the next."""
    inner = socket.gaierror(-3, "Temporary failure in name resolution")
    middle = RuntimeError("HTTPSConnectionPool(host='x', port=443): Max retries exceeded " * 5)
    middle.__cause__ = inner
    outer = OSError(middle)
    outer.__context__ = middle
    return outer


class _RefusedError(OSError):
    response = SimpleNamespace(status_code=404)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (_nested(), "its name was not found, so there may be no network"),
        (_RefusedError("long words"), "the server answered 404"),
        (TimeoutError("read timed out"), "it did not answer in time"),
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
    ],
)
def test_a_failed_download_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError, words: str
) -> None:
    def retrieve(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("pooch.retrieve", retrieve)
    with pytest.raises(MissingDataError) as raised:
        download("toy", tmp_path, base_url="http://h")
    said = str(raised.value)
    assert f": {words}. Try again later" in said
    assert "HTTPSConnectionPool" not in said
    assert len(said) < 400
