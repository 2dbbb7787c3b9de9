import math

import pytest

from drgcn.errors import InputError
from drgcn.nn import GAT, GCN, FastGCN, MixHop
from drgcn.studies.build import build
from drgcn.studies.experiment import MODELS, recipe, tunable, with_settings
from drgcn.studies.tuning.search import corners, settings_inside
from drgcn.studies.tuning.space import SettingRange, default_space, draw_settings, read_space


def read(*words, model="gcn", make=GCN):
    return read_space(words, recipe("planted", "random", model), make)


def test_words_are_read_as_ranges_and_values():
    lr, dropout, width, layers = read(
        "lr=1e-4:1e-1:log", "dropout=0:0.8", "hidden_channels=16,32", "num_layers=2:5"
    )
    assert lr == SettingRange("lr", 1e-4, 1e-1, log=True)
    assert dropout == SettingRange("dropout", 0.0, 0.8)
    assert width == SettingRange("hidden_channels", choices=(16, 32))
    assert layers == SettingRange("num_layers", 2, 5, whole=True)
    for one in (lr, dropout, width, layers):
        assert read(str(one)) == (one,)


def test_arguments_of_the_models_class_can_be_searched():
    heads, residual = read("heads=2:8:log", "residual=true,False", model="gat", make=GAT)
    assert heads == SettingRange("heads", 2, 8, log=True, whole=True)
    assert residual.choices == (True, False)
    (sampler,) = read("sampler=importance,layer-dependent", model="fastgcn", make=FastGCN)
    assert sampler.choices == ("importance", "layer-dependent")


@pytest.mark.parametrize(
    "word",
    [
        *("lr", "lr=", "lr=1:2:lin", "lr=:1", "lr=a:b", "lr=1:1", "lr=-1:1", "lr=0.1:Infinity"),
        *("lr=1,1", "lr=true", "weight_decay=-1:1", "dropout=0:1", "dropout=0:0.5:log"),
        *("hidden_channels=0:4", "hidden_channels=1.5:4"),
    ],
)
def test_words_that_make_no_space_are_refused(word):
    with pytest.raises(InputError, match="Expected"):
        read(word)


@pytest.mark.parametrize("name", ["epochs", "norm", "odd"])
def test_the_settings_that_can_be_searched_are_named(name):
    with pytest.raises(InputError, match="dropout, hidden_channels, lr, num_layers, weight_decay"):
        read(f"{name}=1,2")


def test_a_setting_is_given_once():
    with pytest.raises(InputError, match="twice"):
        read("lr=1:2", "lr=2:3")


def test_what_is_a_list_cannot_be_searched():
    assert "hidden_channels" not in tunable(recipe("planted", "random", "mixhop"), MixHop)
    assert "hidden_dropout" in tunable(recipe("planted", "random", "mixhop"), MixHop)


def test_batches_are_searched_for_models_that_sample_alone():
    assert "batch_size" not in tunable(recipe("planted", "random"), GCN)
    assert "batch_size" in tunable(recipe("planted", "random", "fastgcn"), FastGCN)


PLACES = [*((model, "planted") for model in MODELS), ("gat", "pubmed"), ("asgcn", "reddit-like")]


@pytest.mark.parametrize(("model", "dataset"), PLACES)
def test_every_model_has_a_space_it_can_be_built_in(tiny, model, dataset):
    usual = recipe(dataset, "random", model)
    usual = with_settings(usual, {"readout_channels": None}) if model == "mixhop" else usual
    space = default_space(usual)
    names = [one.name for one in space]
    assert {"lr", "weight_decay", "dropout"} < set(names)
    assert set(names) <= tunable(usual, type(build(usual, tiny))).keys()
    for experiment in corners(usual, space):
        build(experiment, tiny)
    for one in space:  # the recipe is inside, but for an L2 of zero, which no logarithm reaches
        if not (one.name == "weight_decay" and usual.weight_decay == 0):
            assert settings_inside(usual, [one]) is not None, one


def test_corners_change_one_setting_at_a_time():
    usual = recipe("planted", "random", "gat")
    space = read("lr=0.1:1", "heads=2,4", model="gat", make=GAT)
    found = [(e.lr, e.options.get("heads")) for e in corners(usual, space)]
    assert found == [(0.1, None), (1.0, None), (usual.lr, 2), (usual.lr, 4)]


def test_settings_inside_are_those_the_search_could_draw():
    usual = recipe("planted", "random")
    assert settings_inside(usual, read("lr=0.01:1", "hidden_channels=16,64")) == {
        "lr": 0.01,
        "hidden_channels": 64,
    }
    assert settings_inside(usual, read("lr=0.02:1", "hidden_channels=16,64")) is None
    assert settings_inside(usual, read("hidden_channels=16,32")) is None


def test_drawn_numbers_are_short_and_stay_inside():
    one = SettingRange("lr", 0.0123456, 0.0123499, log=True)
    assert one.tidy(0.0123460) == 0.0123499  # 0.01235 lies above
    assert SettingRange("lr", 1e-4, 1e-1).tidy(0.0123456789) == 0.01235
    assert SettingRange("count", 1, 100_000, whole=True).tidy(12345) == 12345


def test_true_is_not_one():
    assert not SettingRange("residual", choices=(True, False)).contains(1)
    assert not SettingRange("count", 0, 4, whole=True).contains(True)


def test_drawn_settings_are_different_and_the_first_of_a_longer_list():
    space = read("lr=1e-4:1e-1:log", "num_layers=1:9:log", "hidden_channels=16,32")
    usual = {"lr": 0.01, "num_layers": 2, "hidden_channels": 32}
    found = draw_settings(space, 40, 0, usual)
    assert found[0] == usual
    assert found[:7] == draw_settings(space, 7, 0, usual)
    assert found[1:7] != draw_settings(space, 7, 1, usual)[1:]
    assert len({tuple(one.values()) for one in found}) == 40
    for one in space:
        assert all(one.contains(own[one.name]) for own in found)
    assert {own["num_layers"] for own in found} >= {1, 2, 3}
    logs = [math.log10(own["lr"]) for own in found]
    assert sum(logs) / 40 == pytest.approx(-2.5, abs=0.4)


def test_a_space_without_more_settings_is_drawn_out():
    assert len(draw_settings(read("num_layers=1:3", "hidden_channels=4,8"), 40, 0)) == 6
    narrow = draw_settings(read("lr=0.01:0.0100001"), 40, 0)
    assert 1 <= len(narrow) <= 2
