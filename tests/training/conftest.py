import pytest

from drgcn.data import load


@pytest.fixture(scope="session")
def tiny():
    """A graph on which an epoch takes milliseconds."""
    return load(
        "planted", nodes=240, labels_per_class=8, val_per_class=15, features=24, informative=8
    )
