import pytest

from .recommend_chain import make_chain


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    """A folder with clicks, a run and an export, and what each verb said; left as it is."""
    pytest.importorskip("faiss")
    folder = tmp_path_factory.mktemp("chain")
    return folder, make_chain(folder)
