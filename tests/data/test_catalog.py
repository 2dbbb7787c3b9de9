from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from drgcn.data import describe, names
from drgcn.errors import InputError


def test_catalogue_is_read_without_importing_torch() -> None:
    code = (
        "import sys, drgcn.data, drgcn.data.catalog as c; c.describe(c.names()[0]); "
        "assert not {'torch', 'torch_geometric', 'pooch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_loading_does_not_import_what_only_some_readers_need() -> None:
    code = (
        "import sys; from drgcn.data import load, download; "
        "assert not {'pooch', 'pyarrow', 'sklearn', 'torch_geometric'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_entry_describes_itself_completely() -> None:
    for name in names():
        entry = describe(name)
        assert entry.name == name
        assert entry.title
        assert entry.licence
        assert entry.default_split == entry.splits[0]
        assert len(set(entry.splits)) == len(entry.splits)
        made = name in ("planted", "reddit-like")
        assert made or entry.citation
        assert made or entry.stands_for or entry.home.startswith("https://")
        assert bool(entry.stands_for) == bool(entry.remark)
        assert bool(entry.other_files) == bool(entry.other_home)
        for file in entry.files + entry.other_files:
            assert len(file.sha256 or "") == (0 if name in ("ppi", "reddit") else 64)
            assert file.url is None or file.url.startswith("https://")


def test_entries_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        describe("cora").title = "mine"  # type: ignore[misc]


def test_case_underscores_and_hyphens_do_not_matter() -> None:
    assert describe("CORAR") is describe("CoraR") is describe("corar")
    assert describe("Amazon_Photo") is describe("amazon-photo")


def test_unknown_name_lists_close_and_known_names() -> None:
    with pytest.raises(InputError, match=r"did you mean cite.*known are cora, citeseer"):
        describe("citeser")


def test_package_has_no_other_attributes() -> None:
    import drgcn.data

    assert set(drgcn.data.__all__) <= set(dir(drgcn.data))
    with pytest.raises(AttributeError, match="nonsense"):
        drgcn.data.nonsense  # noqa: B018
