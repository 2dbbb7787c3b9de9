import shutil

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData
from drgcn.recommend.model import ModelOptions, build_model
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.serving import LoadedRun, model_hash

from ..model.clicks import data as random_data
from .conftest import shop_data


def test_a_run_finds_its_clicks_also_when_both_are_moved(shop, tmp_path):
    run = LoadedRun.open(shop / "run")
    assert run.data.content_hash == shop_data().content_hash
    for name in ("run", "clicks"):
        shutil.copytree(shop / name, tmp_path / "elsewhere" / name)
    moved = LoadedRun.open(tmp_path / "elsewhere" / "run")
    assert model_hash(moved.model) == model_hash(run.model)
    shutil.move(tmp_path / "elsewhere" / "clicks", tmp_path / "away")
    with pytest.raises(InputError, match="Say with --data where they are"):
        LoadedRun.open(tmp_path / "elsewhere" / "run")
    LoadedRun.open(tmp_path / "elsewhere" / "run", tmp_path / "away")


def test_other_clicks_are_refused(shop, tmp_path):
    other = random_data(users=60, items=400, clicks=900, seed=1, days=4).save(tmp_path / "other")
    with pytest.raises(InputError, match="Expected the clicks that the run was trained on"):
        LoadedRun.open(shop / "run", other)


def test_the_day_to_find(shop):
    run = LoadedRun.open(shop / "run")
    split = run.split()
    assert split.targets.num_clicks == run.data.graph.on(3).num_clicks
    assert split.train.num_clicks == run.data.graph.until(3).num_clicks
    with pytest.raises(InputError, match="found 2, whose clicks the run has learnt"):
        run.split(2)
    with pytest.raises(InputError, match="Expected clicks on day 9; found none"):
        run.split(9)
    run.training["day"] = None
    with pytest.raises(InputError, match="has learnt from all clicks"):
        run.split()
    with pytest.raises(InputError, match="Expected clicks before day 0; found none"):
        run.clicks(0)


def test_vectors_are_those_of_the_model(shop):
    run = LoadedRun.open(shop / "run")
    data = ClickData.load(shop / "clicks")
    graph = data.graph.until(3)
    users, items = embed_all(run.model, data, graph)
    found = run.vectors(run.clicks(3))
    torch.testing.assert_close(found[0], users)
    torch.testing.assert_close(found[1], items)


def test_the_hash_knows_weights_and_settings():
    data = random_data(days=4)
    hashes = [
        model_hash(
            build_model(data, data.graph, ModelOptions(seed=seed, channels=8, fan_outs=fans))
        )
        for seed, fans in ((0, (3, 2)), (0, (3, 2)), (1, (3, 2)), (0, (3, 3)))
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
