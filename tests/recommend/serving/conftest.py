"""One small shop for all tests of the room: clicks with ids and attributes, a run, an export."""

import os

import pyarrow as pa
import pytest
import torch

from drgcn.recommend.clicks import ClickData
from drgcn.recommend.model import ModelOptions, TrainSettings, build_model, save_run, train
from drgcn.recommend.serving import ExportFolder, ExportSettings, LoadedRun, export

from ..model.clicks import data as random_data


def shop_data():
    """60 users named u00 to u59, 400 items numbered 7, 17, 27, ..., four days."""
    plain = random_data(users=60, items=400, clicks=900, days=4)
    users = pa.array([f"u{number:02}" for number in range(60)], pa.large_string())
    items = pa.array([10 * number + 7 for number in range(400)], pa.int64())
    return ClickData(plain.graph, plain.users, plain.items, users, items, name="shop")


def make_run(folder, data, model):
    settings = TrainSettings(steps=3, batch_size=64, negatives=8)
    seen = data.graph.until(3)
    result = train(model, data, seen, settings)
    facts = {
        "data": data.name,
        "content_hash": data.content_hash,
        "day": 3,
        "folder": os.path.relpath(folder.parent / "clicks", folder),
    }
    return save_run(folder, model, facts, result.losses, {})


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A folder with ``clicks``, ``run``, ``light`` (LightGCN) and ``export``."""
    pytest.importorskip("faiss")
    folder = tmp_path_factory.mktemp("shop")
    data = shop_data()
    data.save(folder / "clicks")
    torch.manual_seed(0)
    seen = data.graph.until(3)
    sage = build_model(data, seen, ModelOptions(channels=16, fan_outs=(3, 2), gate="dr"))
    make_run(folder / "run", data, sage)
    light = build_model(data, seen, ModelOptions(model="lightgcn", channels=8))
    make_run(folder / "light", data, light)
    export(LoadedRun.open(folder / "run"), folder / "export", ExportSettings(n=10))
    return folder


@pytest.fixture
def exported(shop):
    return ExportFolder(shop / "export")


@pytest.fixture
def copied(shop, tmp_path):
    """An export of one's own, to break."""
    import shutil

    return shutil.copytree(shop / "export", tmp_path / "export")
