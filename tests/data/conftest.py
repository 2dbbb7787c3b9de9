from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drgcn.data import load
from drgcn.errors import MissingDataError

with warnings.catch_warnings():
    # Its import uses torch.jit.script, which newer versions of torch call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.data  # noqa: F401


@pytest.fixture
def real_root() -> Path:
    root = os.environ.get("DRGCN_DATA")
    if not root:
        pytest.skip("DRGCN_DATA is not set: no real datasets here")
    return Path(root)


@pytest.fixture
def real(real_root: Path) -> Callable[..., Any]:
    """``load`` from the real data root; a set whose files are not there skips the test."""

    def load_or_skip(name: str, **arguments: Any) -> Any:
        try:
            return load(name, real_root, offline=True, **arguments)
        except MissingDataError as error:
            pytest.skip(str(error))

    return load_or_skip


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets small made-up files pass for those of a published set."""
    monkeypatch.setattr("drgcn.data.downloader._require_published", lambda *_: None)
