"""The release check finds what it is there to find; building and installing is its own run."""

import shutil
import subprocess
import tomllib

import pytest

from . import check_release
from .check_release import ROOT, SMOKE, content_faults, large_files, version_faults


@pytest.fixture
def copied(tmp_path):
    """A folder with the files that hold the version."""
    for name in ("CITATION.cff", "CHANGELOG.md", "src/drgcn/_version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_versions_agree(copied):
    assert version_faults(copied) == []


@pytest.mark.parametrize("name", ["CITATION.cff", "CHANGELOG.md"])
def test_another_version_is_found(copied, name):
    text = (copied / name).read_text()
    version = (copied / "src/drgcn/_version.py").read_text().split('"')[-2]
    (copied / name).write_text(text.replace(version, "9.9.9"))
    (fault,) = version_faults(copied)
    assert name in fault


def test_no_tracked_file_is_large(tmp_path):
    assert large_files() == []
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "data.bin").write_bytes(bytes(check_release.LARGEST + 1))
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert len(large_files(tmp_path)) == 1


def test_a_wheel_lacks_nothing_and_holds_nothing_else():
    own = ["drgcn/py.typed", "drgcn/reporting/base.html.jinja"]
    own += [f"drgcn-0.1.0.dist-info/{name}" for name in ("entry_points.txt", "licenses/LICENSE")]
    assert content_faults(own) == []
    assert content_faults(own[1:]) == ["the wheel lacks drgcn/py.typed"]
    assert content_faults([*own, "tests/x.py"]) == ["the wheel holds tests/x.py"]


def test_every_extra_has_a_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert SMOKE.keys() == {"", *project["optional-dependencies"]}
    assert all(SMOKE.values())
