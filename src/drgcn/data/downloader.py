"""The data root: finding, downloading and verifying the files of published datasets."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from drgcn._io import file_digest, replacing
from drgcn.data.catalog import Description, PublishedFile, describe
from drgcn.errors import InputError, MissingDataError, warn

Status = Literal["ok", "missing", "different", "unknown"]

_logger = logging.getLogger(__name__)


def data_root(root: str | PathLike[str] | None = None) -> Path:
    """Return the data root: the argument, else ``$DRGCN_DATA``, else ``~/.cache/drgcn``."""
    chosen = root if root is not None else os.environ.get("DRGCN_DATA") or "~/.cache/drgcn"
    return Path(chosen).expanduser()


def download(
    name: str,
    root: str | PathLike[str] | None = None,
    *,
    offline: bool = False,
    base_url: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Download a dataset's files into the data root; files that are there and whole are kept.

    Each file is written under another name, checked, and then moved into place, so an
    interrupted download leaves no partial file and can simply be started again.

    Args:
        name: Name of the dataset.
        root: Data root, see :func:`data_root`.
        offline: Never touch the network.
        base_url: A mirror with the layout of a data root, used instead of the publishers' links.
        progress: Called before each file with its path, its number from 0 on, and their number.

    Raises:
        InputError: If a fetched file is not the published one.
        MissingDataError: If files are missing and cannot be fetched.
    """
    description, folder = describe(name), data_root(root)
    files = files_of(description, folder)
    wanted = [file for file in files if _status(folder, file) in ("missing", "different")]
    _fetch(description, wanted, folder, offline, base_url, progress)
    return [folder / file.path for file in files]


def verify(name: str, root: str | PathLike[str] | None = None) -> list[tuple[str, Status]]:
    """List each file of a dataset as ``"ok"``, ``"missing"`` or ``"different"`` (another digest).

    A file that is there but whose published digest is not known is ``"unknown"``.

    Raises:
        MissingDataError: If the dataset has files, and there is no data root to look for them in.
    """
    folder = data_root(root)
    files = files_of(describe(name), folder)
    if files and not folder.is_dir():
        raise MissingDataError(_no_root(folder))
    return [(file.path, _status(folder, file)) for file in files]


def _status(root: Path, file: PublishedFile) -> Status:
    path = root / file.path
    if not path.is_file():
        return "missing"
    if file.sha256 is None:
        return "unknown"
    return "ok" if file_digest(path) == file.sha256 else "different"


def files_of(description: Description, root: Path) -> tuple[PublishedFile, ...]:
    """Return a dataset's files, in the layout of which the larger share is on disk."""
    first, other = description.files, description.other_files
    return other if _share_there(other, root) > _share_there(first, root) else first


def _share_there(files: tuple[PublishedFile, ...], root: Path) -> float:
    return sum((root / file.path).is_file() for file in files) / max(len(files), 1)


@dataclass(frozen=True)
class Request:
    """A dataset of the catalogue as :func:`drgcn.data.load` is asked for it.

    Attributes:
        entry: Its catalogue entry.
        root: The data root.
        named_split: The split that was named, if one was.
        split_seed: Seed of a random split.
        offline: Whether the network must not be used.
        options: Options that this set alone takes.
    """

    entry: Description
    root: Path
    named_split: str | None
    split_seed: int
    offline: bool
    options: Mapping[str, Any]

    @property
    def split(self) -> str:
        """The split that was named, or else the default one."""
        return self.named_split or self.entry.default_split

    def require_files(self, prefixes: tuple[str, ...] = ("",)) -> None:
        """Download the files that are not on disk, and refuse those that are not the published.

        Args:
            prefixes: What the paths of the files that are needed begin with.
        """
        files = files_of(self.entry, self.root)
        needed = [file for file in files if file.path.startswith(prefixes)]
        missing = [file for file in needed if not (self.root / file.path).is_file()]
        _fetch(self.entry, missing, self.root, self.offline, None)
        _require_published(self.entry, needed, self.root)


def _require_published(description: Description, files: list[PublishedFile], root: Path) -> None:
    """Refuse files under a published set's name that are others; warn where nobody can tell."""
    status = {file.path: _status(root, file) for file in files}
    different = [path for path, found in status.items() if found == "different"]
    if different:
        raise InputError(
            f"Expected the published files of {description.name} under {root}; found another "
            f"content in {', '.join(different)} (its SHA-256 differs). Fetch what differs again "
            f"(drgcn data download {description.name}), or load a graph of your own by its path."
        )
    if "unknown" in status.values():
        warn(
            f"{description.name}: no digests of its published files are known, so those under "
            f"{root} are checked by counts and by what is known of their graphs alone"
        )


def _fetch(
    description: Description,
    wanted: list[PublishedFile],
    root: Path,
    offline: bool,
    base_url: str | None,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    links = {
        file: f"{base_url.rstrip('/')}/{file.path}" if base_url else file.url for file in wanted
    }
    by_hand = [file for file, url in links.items() if url is None]
    if wanted and (offline or by_hand):
        listed = ", ".join(file.path for file in (wanted if offline else by_hand))
        reason = "and the network is not to be used" if offline else "and have no direct link"
        home, instead = _homes(description, wanted)
        source = f"fetch them from {home} and" if home else "nobody publishes them (docs/data.md):"
        absent = "" if root.is_dir() else f"{_no_root(root)} "
        raise MissingDataError(
            f"{absent}{description.name} needs files that are not under {root} {reason}: "
            f"{listed}; {source} put them at these paths{instead}"
        )
    for number, (file, url) in enumerate(links.items()):
        if progress is not None:
            progress(file.path, number, len(links))
        _retrieve(file, str(url), root)


def _no_root(root: Path) -> str:
    found = "a file" if root.exists() else "none"
    return (
        f"Expected a folder of datasets at {root}; found {found}. Check the data root: "
        "--data-root, or else the variable DRGCN_DATA."
    )


def _homes(description: Description, wanted: list[PublishedFile]) -> tuple[str, str]:
    """Return the home of the files, and words about the other layout if there is one."""
    layouts = [
        (description.home, description.files),
        (description.other_home, description.other_files),
    ]
    if wanted[0] in description.other_files:
        layouts.reverse()
    (home, _), (other_home, others) = layouts
    if not others:
        return home, ""
    listed = ", ".join(file.path for file in others)
    return home, f"; or put there, from {other_home}, all of these instead: {listed}"


def _retrieve(file: PublishedFile, url: str, root: Path) -> None:
    try:
        import pooch
    except ImportError:
        raise MissingDataError(
            f"{file.path} is not under {root}, and pooch, which would fetch it, is not installed: "
            f"install pooch, or fetch {url} by hand"
        ) from None

    target = root / file.path
    _logger.info("fetching %s", url)
    try:
        # The data root is made when there is something to put into it, and not before.
        with tempfile.TemporaryDirectory() as folder, _quiet(pooch.get_logger()):
            digest = f"sha256:{file.sha256}" if file.sha256 else None
            fetched = pooch.retrieve(url, digest, fname=target.name, path=folder)
            with replacing(target) as partial:
                shutil.copyfile(fetched, partial)
    except ValueError:
        raise InputError(
            f"what {url} sent is not the published {file.path}: its SHA-256 differs, so it was "
            "thrown away; try again later or use another mirror"
        ) from None
    except OSError as error:
        raise MissingDataError(
            f"{file.path} could not be fetched from {url} into {root}: {_reason(error)}. Try "
            f"again later, or put the file there by hand."
        ) from None


def _reason(error: OSError) -> str:
    """Say in a few words why nothing came; libraries nest one error into the next."""
    chain: list[BaseException] = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) and inner not in chain:
        chain.append(inner)
    kinds = {kind.__name__ for one in chain for kind in type(one).__mro__}
    for one in chain:
        if (answer := getattr(one, "response", None)) is not None:
            return f"the server answered {answer.status_code}"
    if kinds & {"gaierror", "NameResolutionError"}:
        return "its name was not found, so there may be no network"
    if "ProxyError" in kinds:
        return "the proxy let nothing through"
    if "SSLError" in kinds:
        return "its certificate was not accepted"
    if kinds & {"Timeout", "TimeoutError"}:
        return "it did not answer in time"
    root = chain[-1]
    return str(getattr(root, "strerror", None) or root).lower()


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    # pooch's logger writes to the terminal on its own; ours above says the same.
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
