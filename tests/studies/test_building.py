from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from drgcn.errors import InputError
from drgcn.nn import ASGCN, GAT, GCN, LGCN, MLP, ChebNet, FastGCN, GeniePath, GraphSAGE, MixHop
from drgcn.studies.experiment import MODELS, recipe
from drgcn.studies.run import build

# Widths of the datasets: features and classes.
SHAPES = {
    **{"cora": (1433, 7), "citeseer": (3703, 6), "pubmed": (500, 3), "corar": (302, 7)},
    **{"citeseerr": (768, 6), "ppi": (50, 121), "wine": (13, 3), "digits": (64, 10)},
    **{"planted": (32, 4), "twitch": (128, 2), "mine": (5, 11), "reddit": (602, 41)},
}
CLASSES = {
    **{"gcn": GCN, "gat": GAT, "mixhop": MixHop, "chebyshev": ChebNet, "mlp": MLP},
    **{"lgcn": LGCN, "geniepath": GeniePath},
    **{"graphsage": GraphSAGE, "fastgcn": FastGCN, "asgcn": ASGCN},
}
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(dataset):
    features, classes = SHAPES[dataset]
    info = SimpleNamespace(classes=classes)
    return Data(x=torch.eye(3, features), edge_index=EDGES, dataset=info)


@pytest.mark.parametrize("dataset", SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_builds_for_its_recipe(dataset, model):
    data = graph(dataset)
    for split in ("public", "full"):
        for gate in (None, "dr", "static", "constant"):
            made = build(recipe(dataset, split, model, reweight=gate), data)
            assert type(made) is CLASSES[model]
            assert (made.inputs[0].gate is None) == (gate is None)
            assert sum(1 for _ in made.layers(*made.prepare(data))) == len(made.inputs)
        assert made(*made.prepare(data)).shape == (3, SHAPES[dataset][1])


def test_settings_reach_the_model():
    data = graph("cora")
    gat = build(recipe("pubmed", "public", "gat", norm="layer", num_layers=3), data)
    assert [conv.heads for conv in gat.convs] == [8, 8, 8]
    assert all(conv.dropout == 0.6 for conv in gat.convs)
    assert all(isinstance(enter.norm, torch.nn.LayerNorm) for enter in gat.inputs)
    gcn = build(recipe("cora", "full", pre_activation=True, hidden_channels=9, dropout=0.1), data)
    assert (gcn.pre_activation, gcn.dropout) == (True, 0.1)
    assert gcn.convs[0].weight.shape == (1433, 9)
    mixhop = build(recipe("cora", "full", "mixhop"), data)
    assert mixhop.convs[0].out_channels == (24, 18, 18)
    assert mixhop.readout.out_channels == (0, 7, 7)
    assert (mixhop.dropout, mixhop.hidden_dropout, mixhop.binarize) == (0.5, 0.9, True)
    cheb = build(recipe("cora", "public", "chebyshev"), data)
    assert cheb.convs[0].weight.numel() == 3 * 1433 * 16  # orders 0 to 2
    lgcn = build(recipe("cora", "public", "lgcn"), data)
    assert [(conv.in_channels, conv.out_channels, conv.k) for conv in lgcn.convs] == [
        *((32, 8, 8), (40, 8, 8))
    ]
    assert (lgcn.dropout, lgcn.convs[1].dropout) == (0.84, 0.84)
    genie = build(recipe("ppi", "published", "geniepath"), data)
    assert (len(genie.paths), genie.paths[0].out_channels, genie.lazy) == (4, 256, False)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "gcn"])
def test_pre_activation_is_for_gcn_alone(model):
    with pytest.raises(InputError, match=f"pre-activation with gcn alone; found {model}"):
        build(recipe("cora", "public", model, pre_activation=True), graph("cora"))


def test_mixhop_takes_no_norm():
    with pytest.raises(InputError, match="no norm with mixhop"):
        build(recipe("cora", "public", "mixhop", norm="layer"), graph("cora"))


@pytest.mark.parametrize("name", ["reweight", "norm", "pre_activation"])
def test_an_option_cannot_make_a_row_into_another(name):
    e = recipe("cora", "public", options={name: None})
    with pytest.raises(InputError, match=f"Expected {name} as a setting of its own"):
        build(e, graph("cora"))


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("gcn", {"heads": 8}, "dropout, hidden_channels, num_layers"),
        ("gcn", {"heads": 8}, "found heads=8."),
        ("gcn", {"hidden_channels": -4}, "hidden_channels >= 1; found -4"),
        ("gcn", {"in_channels": 4}, "found in_channels=4."),
        ("gat", {"heads": 5}, "multiple of its 5 heads"),
        ("gat", {"out_heads": "two"}, "out_heads >= 1; found 'two'"),
        ("gat", {"dropout": 1.5}, "dropout rate"),
        ("mixhop", {"hidden_channels": 8}, "one width per power"),
        ("mixhop", {"readout_channels": [1, 1, 0]}, "multiple of the number of classes"),
        ("chebyshev", {"K": -1}, "order K >= 0"),
        ("lgcn", {"k": 0}, "k >= 1; found 0"),
        ("lgcn", {"growth": 2.5}, "growth >= 1; found 2.5"),
        ("geniepath", {"heads": 2}, "dropout, hidden_channels, lazy, num_layers"),
        ("graphsage", {"fan_outs": [10]}, "one fan-out per layer, 2; found [10]"),
        ("graphsage", {"form": "gcn"}, "the form 'concat' or 'simple'"),
        ("fastgcn", {"sampler": "uniform"}, "'importance' or 'layer-dependent'"),
        ("fastgcn", {"count": 0}, "count >= 1; found 0"),
        ("asgcn", {"form": "sampled"}, "the form 'adapt' or 'mix'"),
        ("asgcn", {"max_degree": 0}, "max_degree >= 1; found 0"),
    ],
)
def test_arguments_a_model_does_not_take_are_one_clear_error(model, options, words):
    usual = recipe("cora", "public", model)
    wrong = replace(usual, options={**usual.options, **options})
    with pytest.raises(
        InputError, match=f"Expected arguments that {CLASSES[model].__name__}"
    ) as e:
        build(wrong, graph("cora"))
    assert words in str(e.value)


@pytest.mark.parametrize(("model", "option"), [("asgcn", "count"), ("gat", "out_heads")])
def test_options_of_the_recipe_are_not_held_against_the_user(model, option):
    usual = recipe("cora", "public", model, options={})
    options = {**recipe("cora", "public", model).options, option: -3}
    with pytest.raises(InputError) as e:
        build(replace(usual, options=options), graph("cora"))
    takes, found, own = str(e.value).partition(f"; found {option}=-3. ")
    assert takes == f"Expected arguments that {CLASSES[model].__name__} takes"
    assert found
    assert f"{option} >= 1; found -3" in own


def test_nothing_is_said_of_options_if_none_was_given():
    usual = recipe("cora", "public", "gat")
    with pytest.raises(InputError, match=r"^Expected arguments that GAT takes\. .*8 heads"):
        build(replace(usual, hidden_channels=30), graph("cora"))
