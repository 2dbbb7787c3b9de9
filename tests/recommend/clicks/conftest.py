from __future__ import annotations

import os
from pathlib import Path

import pytest

from drgcn.errors import MissingDataError
from drgcn.recommend.clicks import load_clicks


@pytest.fixture
def real_root() -> Path:
    root = os.environ.get("DRGCN_DATA")
    if not root:
        pytest.skip("DRGCN_DATA is not set: no real datasets here")
    return Path(root)


@pytest.fixture
def real(real_root):
    """``load_clicks`` from the real data root; a set whose files are not there skips the test."""

    def load_or_skip(name):
        try:
            return load_clicks(name, real_root)
        except MissingDataError as error:
            pytest.skip(str(error))

    return load_or_skip
