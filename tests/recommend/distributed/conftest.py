import pytest

from tests.recommend.model.clicks import data

from .commands import FILES, finish, start, weights

MODELS = {"sage": ("--model", "sage"), "hybrid": ("--model", "hybrid", "--gate", "dr")}


@pytest.fixture(scope="session")
def clicks(tmp_path_factory):
    return data(days=4).save(tmp_path_factory.mktemp("clicks") / "clicks")


@pytest.fixture(scope="session", params=MODELS)
def model(request):
    """Options of a kind of model."""
    return MODELS[request.param]


@pytest.fixture(scope="session")
def unbroken(clicks, model, tmp_path_factory):
    """The weights of a run on two ranks to which nothing happens, as bytes."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    finish(start(clicks, out, *model, "--workers", 2))
    assert sorted(path.name for path in out.iterdir()) == FILES
    return weights(out)
