import pytest

from tests.recommend.model.clicks import data

from .commands import finish, start, weights


@pytest.fixture(scope="session")
def clicks(tmp_path_factory):
    return data(days=4).save(tmp_path_factory.mktemp("clicks") / "clicks")


@pytest.fixture(scope="session")
def unbroken(clicks, tmp_path_factory):
    """The weights of a run on two ranks to which nothing happens, as bytes."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    finish(start(clicks, out, "--workers", 2))
    assert sorted(path.name for path in out.iterdir()) == [
        *("attempts.jsonl", "history.json", "record.json"),
        *("settings.json", "weights.safetensors"),
    ]
    return weights(out)
