import copy
import io
import logging
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data

import drgcn.nn
from drgcn import (
    DimensionalReweighting,
    StabilityTracker,
    insert_reweighting,
    insertion,
    reweighting_blocks,
    stability_k,
)
from drgcn.errors import InputError

D, CLASSES, NODES = 6, 3, 8
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 0, 2], [1, 2, 3, 4, 5, 6, 7, 0, 4, 6]])
TYPES = ["author", "paper"]
METADATA = (
    TYPES,
    [("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper")],
)


@pytest.fixture
def x():
    return torch.randn(NODES, D)


class HandWritten(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = pyg.SAGEConv(D, 4)
        self.rest = torch.nn.ModuleDict({"last": pyg.GATConv(4, CLASSES, heads=2, concat=False)})

    def forward(self, x, edge_index):
        return self.rest["last"](x=self.first(x, edge_index).relu(), edge_index=edge_index)


def sequential():
    layers = [
        (pyg.GCNConv(D, 4), "x, edge_index -> x"),
        torch.nn.ReLU(),
        (pyg.GCNConv(4, CLASSES), "x, edge_index -> x"),
    ]
    return pyg.Sequential("x, edge_index", layers)


MODELS = {
    "GCN": lambda: pyg.GCN(D, 4, 2, CLASSES),
    "GraphSAGE": lambda: pyg.GraphSAGE(D, 4, 2, CLASSES),
    "GAT": lambda: pyg.GAT(D, 4, 2, CLASSES),
    "GIN": lambda: pyg.GIN(D, 4, 2, CLASSES),
    "Sequential": sequential,
    "hand-written": HandWritten,
}
EVERY_MODEL = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


def unit(width):
    return DimensionalReweighting(width, gate=torch.ones_like)


def half(width):
    return DimensionalReweighting(width, gate=lambda v: torch.full_like(v, 0.5))


# What is inserted


@EVERY_MODEL
def test_every_convolution_gets_one_block(make):
    assert len(reweighting_blocks(insert_reweighting(make()))) == 2


@EVERY_MODEL
def test_with_unit_gates_the_model_equals_the_original(make, x):
    model = make()
    inserted = insert_reweighting(model, gate=unit)
    assert torch.equal(inserted(x, EDGES), model(x, EDGES))


@EVERY_MODEL
def test_blocks_change_the_output(make, x):
    model = make()
    assert not torch.allclose(insert_reweighting(model)(x, EDGES), model(x, EDGES))


@EVERY_MODEL
def test_every_block_gets_a_gradient(make, x):
    inserted = insert_reweighting(make())
    inserted(x, EDGES).square().sum().backward()
    for block in reweighting_blocks(inserted).values():
        assert block.excite_weight.grad.any()


@EVERY_MODEL
def test_the_original_keeps_its_state_and_outputs(make, x):
    model = make()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    out = model(x, EDGES)
    insert_reweighting(model)(x, EDGES).sum().backward()
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert torch.equal(model(x, EDGES), out)


@EVERY_MODEL
def test_parameters_of_the_original_keep_names_and_values(make, x):
    model = make()
    inserted = insert_reweighting(model)
    inserted(x, EDGES)
    state = inserted.state_dict()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


@EVERY_MODEL
def test_a_plain_state_dict_loads_with_nothing_unexpected(make, x):
    inserted = insert_reweighting(make())
    inserted(x, EDGES)
    keys = inserted.load_state_dict(make().state_dict(), strict=False)
    assert keys.unexpected_keys == []
    assert keys.missing_keys
    assert all(".reweighting." in name for name in keys.missing_keys)


def test_inserted_model_equals_blocks_called_by_hand(x):
    plain = pyg.GCN(D, 4, 2, CLASSES)
    inserted = insert_reweighting(plain)
    first, second = reweighting_blocks(inserted).values()
    hidden = plain.convs[0](first(x), EDGES).relu()
    expected = plain.convs[1](second(hidden), EDGES)
    torch.testing.assert_close(inserted(x, EDGES), expected)


def test_blocks_have_the_widths_of_their_convolutions():
    blocks = reweighting_blocks(insert_reweighting(pyg.GCN(D, 4, 2, CLASSES)))
    assert {name: block.in_channels for name, block in blocks.items()} == {
        "convs.0.reweighting": D,
        "convs.1.reweighting": 4,
    }


def test_options_reach_every_block():
    inserted = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), hidden_channels=3, bias=False)
    for block in reweighting_blocks(inserted).values():
        assert block.hidden_channels == 3
        assert block.squeeze_bias is None


def test_the_log_says_what_was_inserted(caplog):
    with caplog.at_level(logging.INFO, "drgcn.insertion"):
        insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    assert caplog.messages == [
        "inserted convs.0.reweighting: DimensionalReweighting(6, hidden_channels=2)",
        "inserted convs.1.reweighting: DimensionalReweighting(4, hidden_channels=2)",
    ]


# One convolution


def test_a_single_convolution_is_a_model(x):
    conv = pyg.GCNConv(D, CLASSES)
    assert torch.equal(insert_reweighting(conv, gate="constant")(x, EDGES), conv(x * 0.5, EDGES))


def test_features_may_come_by_keyword(x):
    inserted = insert_reweighting(pyg.GCNConv(D, CLASSES))
    assert torch.equal(inserted(edge_index=EDGES, x=x), inserted(x, EDGES))


def test_lazy_convolutions_get_lazy_blocks(x):
    inserted = insert_reweighting(pyg.GCNConv(-1, CLASSES), gate=half)
    out = inserted(x, EDGES)
    assert inserted.reweighting.in_channels == D
    plain = pyg.GCNConv(-1, CLASSES)
    plain.load_state_dict({n: v for n, v in inserted.state_dict().items() if "rew" not in n})
    assert torch.equal(out, plain(x * 0.5, EDGES))


def test_both_ends_of_one_kind_share_the_vector_of_the_sources(x):
    conv = pyg.SAGEConv(D, CLASSES)
    inserted = insert_reweighting(conv)
    s = inserted.reweighting.vector(x)
    expected = conv((x * s, x[:4] * s), EDGES % 4)
    torch.testing.assert_close(inserted((x, x[:4]), EDGES % 4), expected)


def test_targets_may_be_missing(x):
    conv = pyg.SAGEConv(D, CLASSES, root_weight=False)
    inserted = insert_reweighting(conv, gate="constant")
    size = (NODES, NODES)
    assert torch.equal(inserted((x, None), EDGES, size), conv((x * 0.5, None), EDGES, size))


def test_ends_of_different_widths_have_a_block_each(x):
    conv = pyg.SAGEConv((D, 5), CLASSES)
    target = torch.randn(NODES, 5)
    inserted = insert_reweighting(conv)
    blocks = reweighting_blocks(inserted)
    assert [block.in_channels for block in blocks.values()] == [D, 5]
    expected = conv((blocks["reweighting"](x), blocks["target_reweighting"](target)), EDGES)
    torch.testing.assert_close(inserted((x, target), EDGES), expected)


def test_options_reach_the_blocks_of_both_ends(x):
    conv = pyg.SAGEConv((D, 5), CLASSES)
    target = torch.randn(NODES, 5)
    found = insert_reweighting(conv, gate="constant")((x, target), EDGES)
    assert torch.equal(found, conv((x * 0.5, target * 0.5), EDGES))


def test_ends_of_unknown_widths_may_differ(x):
    inserted = insert_reweighting(pyg.SAGEConv((-1, -1), CLASSES))
    assert inserted((x, torch.randn(NODES, 5)), EDGES).shape == (NODES, CLASSES)


# What is left alone


@pytest.mark.parametrize("step", [pyg.APPNP(2, 0.1), pyg.LGConv()], ids=["APPNP", "LGConv"])
def test_propagation_without_parameters_is_left_alone(step, x):
    layers = [(pyg.GCNConv(D, 4), "x, edge_index -> x"), (step, "x, edge_index -> x")]
    inserted = insert_reweighting(pyg.Sequential("x, edge_index", layers), gate="constant")
    assert len(reweighting_blocks(inserted)) == 1
    expected = step(layers[0][0](x * 0.5, EDGES), EDGES)
    assert torch.equal(inserted(x, EDGES), expected)


@pytest.mark.parametrize("model", [torch.nn.Linear(3, 3), pyg.APPNP(2, 0.1)])
def test_a_model_without_convolutions_is_refused(model):
    with pytest.raises(ValueError, match=f"found none in {type(model).__name__}"):
        insert_reweighting(model)


def test_blocks_of_a_plain_model_are_none():
    assert reweighting_blocks(pyg.GCN(D, 4, 2)) == {}


def test_a_second_insertion_does_not_reweight_twice(x):
    conv = pyg.GCNConv(D, CLASSES)
    twice = insert_reweighting(insert_reweighting(conv, gate="constant"), gate="constant")
    assert torch.equal(twice(x, EDGES), conv(x * 0.5, EDGES))


def test_a_convolution_with_two_parents_is_reweighted_once_per_call(x):
    shared = pyg.GCNConv(D, D)
    parents = torch.nn.ModuleList([torch.nn.ModuleList([shared]), torch.nn.ModuleList([shared])])
    inserted = insert_reweighting(parents, gate="constant")
    assert torch.equal(inserted[0][0](x, EDGES), shared(x * 0.5, EDGES))


# Heterogeneous models


def hetero_inputs():
    x = {"author": torch.randn(NODES, 5), "paper": torch.randn(NODES, D)}
    return x, dict.fromkeys(METADATA[1], EDGES)


def hetero_conv():
    convs = {
        ("author", "writes", "paper"): pyg.SAGEConv((5, D), 4),
        ("paper", "by", "author"): pyg.SAGEConv((D, 5), 4),
        ("paper", "cites", "paper"): pyg.SAGEConv(D, 4),
    }
    return pyg.HeteroConv(convs)


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = pyg.SAGEConv((-1, -1), 4)
        self.conv2 = pyg.SAGEConv((-1, -1), CLASSES)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class OneLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = pyg.SAGEConv((-1, -1), 4)

    def forward(self, x, edge_index):
        return self.conv1(x, edge_index)


def count_calls(model):
    calls = dict.fromkeys(reweighting_blocks(model), 0)

    def counter(name):
        def count(*_):
            calls[name] += 1

        return count

    for name, block in reweighting_blocks(model).items():
        block.register_forward_hook(counter(name))
    return calls


def test_hetero_conv_gets_one_block_per_node_type():
    blocks = reweighting_blocks(insert_reweighting(hetero_conv()))
    assert {name: block.in_channels for name, block in blocks.items()} == {
        "reweighting.author": 5,
        "reweighting.paper": D,
    }


@pytest.mark.parametrize("by_keyword", [False, True])
def test_hetero_conv_reweights_every_node_type_once(by_keyword):
    conv = hetero_conv()
    inserted = insert_reweighting(conv, gate="constant")
    x, edges = hetero_inputs()
    found = inserted(x_dict=x, edge_index_dict=edges) if by_keyword else inserted(x, edges)
    expected = conv({t: v * 0.5 for t, v in x.items()}, edges)
    assert all(torch.equal(found[t], expected[t]) for t in TYPES)


def test_hetero_conv_equals_blocks_called_by_hand():
    conv = hetero_conv()
    inserted = insert_reweighting(conv)
    x, edges = hetero_inputs()
    found = inserted(x, edges)
    expected = conv({t: inserted.reweighting[t](v) for t, v in x.items()}, edges)
    assert all(torch.equal(found[t], expected[t]) for t in TYPES)


def test_hetero_conv_inside_a_model_keeps_its_name():
    model = torch.nn.ModuleDict({"encoder": hetero_conv()})
    assert list(reweighting_blocks(insert_reweighting(model))) == [
        "encoder.reweighting.author",
        "encoder.reweighting.paper",
    ]


def test_lazy_hetero_conv_takes_its_widths_from_the_data():
    convs = {edge_type: pyg.SAGEConv((-1, -1), 4) for edge_type in METADATA[1]}
    inserted = insert_reweighting(pyg.HeteroConv(convs))
    inserted(*hetero_inputs())
    widths = [block.in_channels for block in reweighting_blocks(inserted).values()]
    assert widths == [5, D]


@pytest.mark.parametrize("name", ["items", "type"])
def test_node_types_may_be_called_anything(name):
    ways = [(name, "to", "user"), ("user", "of", name)]
    inserted = insert_reweighting(pyg.HeteroConv({way: pyg.SAGEConv(D, 4) for way in ways}))
    assert len(reweighting_blocks(inserted)) == 2
    x = {name: torch.randn(NODES, D), "user": torch.randn(NODES, D)}
    assert inserted(x, dict.fromkeys(ways, EDGES))["user"].shape == (NODES, 4)


def test_hetero_propagation_without_parameters_is_left_alone():
    layers = [hetero_conv(), pyg.HeteroConv({("paper", "cites", "paper"): pyg.LGConv()})]
    assert len(reweighting_blocks(insert_reweighting(torch.nn.ModuleList(layers)))) == 2


def test_to_hetero_gets_one_block_per_layer_and_node_type():
    inserted = insert_reweighting(pyg.to_hetero(TwoLayers(), METADATA))
    assert sorted(reweighting_blocks(inserted)) == [
        "reweighting.conv1__author",
        "reweighting.conv1__paper",
        "reweighting.conv2__author",
        "reweighting.conv2__paper",
    ]


def test_to_hetero_calls_every_block_once():
    inserted = insert_reweighting(pyg.to_hetero(TwoLayers(), METADATA))
    calls = count_calls(inserted)
    inserted(*hetero_inputs())
    assert set(calls.values()) == {1}


def test_to_hetero_reweights_every_node_type_once():
    model = pyg.to_hetero(OneLayer(), METADATA)
    x, edges = hetero_inputs()
    model(x, edges)  # materialises the lazy weights
    found = insert_reweighting(model, gate="constant")(x, edges)
    expected = model({t: v * 0.5 for t, v in x.items()}, edges)
    assert all(torch.equal(found[t], expected[t]) for t in TYPES)


def test_to_hetero_with_unit_gates_equals_the_original():
    model = pyg.to_hetero(TwoLayers(), METADATA)
    x, edges = hetero_inputs()
    expected = model(x, edges)
    found = insert_reweighting(model, gate=unit)(x, edges)
    assert all(torch.equal(found[t], expected[t]) for t in TYPES)


def test_to_hetero_leaves_the_original_alone():
    model = pyg.to_hetero(TwoLayers(), METADATA)
    x, edges = hetero_inputs()
    before = model(x, edges)
    insert_reweighting(model, gate="constant")
    assert reweighting_blocks(model) == {}
    assert all(torch.equal(model(x, edges)[t], before[t]) for t in TYPES)


def test_to_hetero_inside_a_model_gets_one_block_per_layer_and_node_type():
    model = torch.nn.ModuleDict({"encoder": pyg.to_hetero(TwoLayers(), METADATA)})
    assert len(reweighting_blocks(insert_reweighting(model))) == 4


def test_to_hetero_takes_features_by_keyword():
    class ByKeyword(OneLayer):
        def forward(self, x, edge_index):
            return self.conv1(x=x, edge_index=edge_index)

    model = pyg.to_hetero(ByKeyword(), METADATA)
    assert len(reweighting_blocks(insert_reweighting(model))) == 2


# Models as values


def test_resetting_the_model_resets_the_blocks():
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    model.reset_parameters()
    assert not any((parameter == 7.0).any() for parameter in model.parameters())


def test_vmap_over_parameters_equals_a_loop(x):
    models = [insert_reweighting(pyg.GCN(D, 4, 2, CLASSES)) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)

    def call(parameters, buffers):
        return torch.func.functional_call(models[0], (parameters, buffers), (x, EDGES))

    expected = torch.stack([model(x, EDGES) for model in models])
    torch.testing.assert_close(torch.vmap(call)(parameters, buffers), expected)


def test_a_copy_equals_the_model_and_is_independent_of_it(x):
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    out = model(x, EDGES)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(x, EDGES), out)
    for parameter in twin.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(model(x, EDGES), out)


@EVERY_MODEL
def test_state_survives_saving(make, x):
    model = insert_reweighting(make())
    model(x, EDGES)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = insert_reweighting(make())
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x, EDGES), model(x, EDGES))


def test_a_second_insertion_into_a_traced_model_changes_nothing():
    once = insert_reweighting(pyg.to_hetero(TwoLayers(), METADATA))
    assert reweighting_blocks(insert_reweighting(once)).keys() == reweighting_blocks(once).keys()


def test_a_convolution_of_several_node_types_gets_one_block_per_type():
    conv = pyg.HGTConv({"author": 5, "paper": D}, 4, METADATA)
    x, edges = hetero_inputs()
    inserted = insert_reweighting(conv)
    assert [b.in_channels for b in reweighting_blocks(inserted).values()] == [5, D]
    expected = conv({t: inserted.reweighting[t](v) for t, v in x.items()}, edges)
    assert all(torch.equal(inserted(x, edges)[t], expected[t]) for t in TYPES)


@pytest.mark.parametrize("name", ["GCN", "GAT", "MixHop", "ChebNet", "MLP", "LGCN", "GeniePath"])
def test_our_own_models_are_pointed_to_their_argument(name):
    for reweight in (None, "dr"):
        hidden = [3, 3, 3] if name == "MixHop" else 8
        model = getattr(drgcn.nn, name)(D, hidden, CLASSES, reweight=reweight)
        wanted = rf"found {name} of drgcn\.nn.*{name}\(\.\.\., reweight='dr'\)"
        for host in (model, torch.nn.ModuleDict({"inside": model, "beside": pyg.GCNConv(D, 4)})):
            with pytest.raises(InputError, match=wanted):
                insert_reweighting(host)


def test_a_class_made_of_one_of_ours_is_ours():
    class Mine(drgcn.nn.GCN):
        pass

    with pytest.raises(InputError, match="reweight='dr'"):
        insert_reweighting(Mine(D, 8, CLASSES))


def test_a_model_with_regularized_parameters_of_its_own_is_not_ours():
    class Theirs(HandWritten):
        def regularized_parameters(self):
            return self.first.parameters()

    assert len(reweighting_blocks(insert_reweighting(Theirs()))) == 2


# Which gates, and where


@pytest.mark.parametrize("gate", ["static", "constant"])
@EVERY_MODEL
def test_controls_begin_as_one_half(make, gate, x):
    model = make()
    halved = insert_reweighting(model, gate=half)
    assert torch.equal(insert_reweighting(model, gate=gate)(x, EDGES), halved(x, EDGES))


def test_the_static_control_learns_one_number_per_dimension(x):
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), gate="static")
    model(x, EDGES).sum().backward()
    logits = [block.logits for block in reweighting_blocks(model).values()]
    assert [len(value) for value in logits] == [D, 4]
    assert all(value.grad.abs().sum() > 0 for value in logits)


def test_static_gates_of_unknown_width_survive_saving(x):
    model = insert_reweighting(pyg.GCNConv(-1, CLASSES), gate="static")
    assert "reweighting.logits" in model.state_dict()
    model(x, EDGES)
    torch.nn.init.normal_(model.reweighting.logits)
    other = insert_reweighting(pyg.GCNConv(-1, CLASSES), gate="static")
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x, EDGES), model(x, EDGES))


def test_a_module_is_copied_to_every_place(x):
    plain, norm = pyg.GCN(D, D, 2, D), torch.nn.LayerNorm(D)
    inserted = insert_reweighting(plain, gate=norm)
    first, second = reweighting_blocks(inserted).values()
    assert first is not second
    assert first is not norm
    hidden = plain.convs[0](norm(x), EDGES).relu()
    torch.testing.assert_close(inserted(x, EDGES), plain.convs[1](norm(hidden), EDGES))
    inserted.reset_parameters()


def test_a_function_makes_a_gate_of_each_width(x):
    def gate(width):
        return torch.nn.Sequential(torch.nn.LayerNorm(width), DimensionalReweighting(width))

    inserted = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), gate=gate)
    assert list(reweighting_blocks(inserted)) == ["convs.0.reweighting", "convs.1.reweighting"]
    assert inserted(x, EDGES).shape == (NODES, CLASSES)


@pytest.mark.parametrize("gate", ["softplus", 3, None, lambda width: width, torch.ones_like])
def test_gates_that_are_none_are_refused(gate):
    with pytest.raises(InputError, match="Expected gate"):
        insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), gate=gate)


def test_options_of_the_block_are_refused_with_other_gates():
    with pytest.raises(InputError, match="bias"):
        insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), gate="static", bias=False)


@pytest.mark.parametrize("gate", ["static", "constant", unit, torch.nn.LayerNorm])
def test_the_tracker_follows_gates_that_have_a_vector(gate, x):
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), gate=gate, layers=[1])
    model = insert_reweighting(model, layers=[0])
    states = StabilityTracker(model).record(x, EDGES)
    assert len(states) == (1 if gate is torch.nn.LayerNorm else 2)


def test_gates_have_the_type_of_the_model():
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES).double())
    assert {p.dtype for p in model.parameters()} == {torch.float64}


@pytest.mark.parametrize("layers", [[1, 2], ["convs.1", 2], ["convs.2", "convs.1"]])
def test_layers_are_chosen_by_number_or_name(layers):
    blocks = reweighting_blocks(insert_reweighting(pyg.GCN(D, 4, 4, CLASSES), layers=layers))
    assert list(blocks) == ["convs.1.reweighting", "convs.2.reweighting"]


@pytest.mark.parametrize("layer", [0, "convs.0"])
def test_one_layer_needs_no_list(layer):
    blocks = reweighting_blocks(insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), layers=layer))
    assert list(blocks) == ["convs.0.reweighting"]


@pytest.mark.parametrize("layers", [[2], [-1], ["conv"], [0, "norms.0"], [True], []])
def test_layers_that_are_not_there_are_refused_with_those_that_are(layers):
    with pytest.raises(InputError, match=r"0 'convs.0', 1 'convs.1'"):
        insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), layers=layers)


def test_layers_of_heterogeneous_models_have_names_of_their_own():
    traced = insert_reweighting(pyg.to_hetero(TwoLayers(), METADATA), layers="conv2")
    assert sorted(reweighting_blocks(traced)) == [f"reweighting.conv2__{t}" for t in TYPES]
    both = insert_reweighting(traced, gate="constant", layers="conv1")
    assert len(reweighting_blocks(both)) == 4
    listed = torch.nn.ModuleList([hetero_conv(), hetero_conv()])
    assert len(reweighting_blocks(insert_reweighting(listed, layers=["1"]))) == 2


def test_a_layer_that_has_a_gate_cannot_be_given_another(caplog):
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), layers=[0])
    with pytest.raises(InputError, match=r"'convs.0': it has a gate already"):
        insert_reweighting(model, gate="static", layers=[0])
    blocks = reweighting_blocks(insert_reweighting(model, gate="static")).values()
    assert [type(block).__name__ for block in blocks] == ["DimensionalReweighting", "StaticGate"]
    assert "no gate for convs.0 (GCNConv): it has a gate already" in caplog.messages


# Gates that would not be trained


def test_inputs_that_are_no_features_are_refused():
    conv = torch.nn.ModuleDict({"first": pyg.RGCNConv(NODES, 4, num_relations=1)})
    kinds = torch.zeros(EDGES.size(1), dtype=torch.long)
    inserted = insert_reweighting(conv)
    for nothing in (None, torch.arange(NODES)):
        with pytest.raises(InputError, match="gate of first; found"):
            inserted["first"](nothing, EDGES, kinds)


@pytest.mark.parametrize("kind", [pyg.SGConv, lambda *a, **k: pyg.SSGConv(*a, 0.1, **k)])
def test_convolutions_that_keep_features_are_left_out(kind, caplog, x):
    kept = torch.nn.ModuleDict({"sg": kind(D, 4, cached=True), "gcn": pyg.GCNConv(4, CLASSES)})
    assert list(reweighting_blocks(insert_reweighting(kept))) == ["gcn.reweighting"]
    assert "cached=True" in caplog.text
    with pytest.raises(InputError, match="'sg': it keeps"):
        insert_reweighting(kept, layers=["sg"])
    fresh = insert_reweighting(kind(D, 4))
    fresh(x, EDGES).sum().backward()
    assert fresh.reweighting.squeeze_weight.grad is not None


def test_layers_without_features_are_left_out():
    with pytest.raises(InputError, match="it takes edges and no features"):
        insert_reweighting(pyg.LINKX(NODES, D, 4, CLASSES, 2))


def test_a_cached_adjacency_is_no_obstacle(x):
    inserted = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES, cached=True))
    for _ in range(2):
        inserted(x, EDGES).sum().backward()
    assert all(p.grad is not None for p in inserted.parameters())


# Pairs of sources and targets


def test_blocks_of_both_ends_are_there_before_the_first_call(x):
    make = lambda: insert_reweighting(pyg.SAGEConv((-1, -1), CLASSES), bias=False)  # noqa: E731
    inserted = make()
    names = set(dict(inserted.named_parameters()))
    assert "target_reweighting.squeeze_weight" in names
    target = torch.randn(NODES, 5)
    inserted((x, target), EDGES).sum().backward()
    assert set(dict(inserted.named_parameters())) == names
    assert all(p.grad is not None for p in inserted.parameters())
    assert inserted.target_reweighting.excite_bias is None
    other = make()
    other.load_state_dict(inserted.state_dict())
    assert torch.equal(other((x, target), EDGES), inserted((x, target), EDGES))


@pytest.mark.parametrize("width", [-1, D])
def test_a_pair_of_equal_widths_has_a_block_for_each_end_too(width, x):
    conv = pyg.SAGEConv((width, width), CLASSES)
    conv(x, EDGES)
    inserted = insert_reweighting(conv)
    source, target = inserted.reweighting, inserted.target_reweighting
    torch.testing.assert_close(inserted(x, EDGES), conv((source(x), target(x)), EDGES))
    torch.testing.assert_close(inserted((x, x), EDGES), inserted(x, EDGES))


# Traced programs of PyG's own models

TRACED = {
    "GraphSAGE": lambda: pyg.GraphSAGE(D, 4, 2, CLASSES),
    "lazy GraphSAGE": lambda: pyg.GraphSAGE((-1, -1), 4, 2, CLASSES),
    "GAT": lambda: pyg.GAT(D, 4, 2, CLASSES, add_self_loops=False),
    "lazy GAT": lambda: pyg.GAT((-1, -1), 4, 2, CLASSES, add_self_loops=False),
}


def typed_inputs():
    return {t: torch.randn(NODES, D) for t in TYPES}, dict.fromkeys(METADATA[1], EDGES)


@pytest.mark.parametrize("make", TRACED.values(), ids=TRACED.keys())
def test_traced_models_of_pyg_get_one_block_per_layer_and_node_type(make):
    model, (x, edges) = pyg.to_hetero(make(), METADATA), typed_inputs()
    expected = model(x, edges)
    same = insert_reweighting(model, gate=unit)(x, edges)
    inserted = insert_reweighting(model)
    found = inserted(x, edges)
    assert sorted(reweighting_blocks(inserted)) == [
        f"reweighting.convs_{layer}__{t}" for layer in (0, 1) for t in TYPES
    ]
    sum(value.sum() for value in found.values()).backward()
    for block in reweighting_blocks(inserted).values():
        assert all(p.grad is not None for p in block.parameters())
    for t in TYPES:
        torch.testing.assert_close(same[t], expected[t])
        assert not torch.allclose(found[t], expected[t])
    other = insert_reweighting(pyg.to_hetero(make(), METADATA))
    other.load_state_dict(inserted.state_dict())
    assert all(torch.equal(other(x, edges)[t], found[t]) for t in TYPES)


def test_models_of_shared_bases_get_a_block_per_convolution():
    plain = TwoLayers()  # PyG's own models cannot be called in this form
    plain.conv1, plain.conv2 = pyg.SAGEConv(D, 4), pyg.SAGEConv(4, CLASSES)
    model = pyg.to_hetero_with_bases(plain, METADATA, num_bases=2, in_channels={"x": D})
    x, edges = typed_inputs()
    expected = model(x, edges)
    inserted = insert_reweighting(model)
    blocks = reweighting_blocks(inserted)
    assert list(blocks)[:2] == ["conv1.convs.0.reweighting", "conv1.convs.1.reweighting"]
    assert len(blocks) == 4
    sum(value.sum() for value in inserted(x, edges).values()).backward()
    assert all(p.grad is not None for block in blocks.values() for p in block.parameters())
    same = insert_reweighting(model, gate=unit)(x, edges)
    assert all(torch.equal(same[t], expected[t]) for t in TYPES)


# Batches of graphs

SIZES = (3, 5)
BATCH = torch.tensor([0] * 3 + [1] * 5)
APART = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 0, 4, 5, 6, 7, 3]])


def one_by_one(model, x):
    """The outputs for the two graphs of the batch, each by itself."""
    first = model(x[:3], APART[:, :3])
    return torch.cat([first, model(x[3:], APART[:, 3:] - 3)])


class Hand(torch.nn.Module):
    """A model that takes the batch under some name, and in some place."""

    def __init__(self):
        super().__init__()
        self.gnn = pyg.GCN(D, 4, 2, CLASSES)

    def forward(self, x, edge_index, batch=None):
        return self.gnn(x, edge_index)


class OfData(Hand):
    def forward(self, data):
        return self.gnn(data.x, data.edge_index)


@pytest.mark.parametrize("gate", ["dr", "static", torch.nn.LayerNorm])
@pytest.mark.parametrize(
    "make", [lambda: pyg.GCN(D, 4, 2, CLASSES), lambda: pyg.GIN(D, 4, 2), Hand]
)
def test_every_graph_of_a_batch_has_its_own_vector(make, gate, x):
    model = insert_reweighting(make(), gate=gate)
    torch.testing.assert_close(model(x, APART, batch=BATCH), one_by_one(model, x))
    assert torch.equal(model(x, APART), model(x, APART, batch=None))
    if gate == "dr":
        assert not torch.allclose(model(x, APART), one_by_one(model, x))


def test_the_batch_may_come_in_its_place_or_with_its_size(x):
    model = insert_reweighting(Hand())
    assert torch.equal(model(x, APART, BATCH), model(x, APART, batch=BATCH))
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    assert torch.equal(
        model(x, APART, batch=BATCH, batch_size=2), model(x, APART, None, None, BATCH)
    )


def test_the_batch_may_come_with_the_data(x):
    model = insert_reweighting(OfData())
    graphs = [Data(x=x[:3], edge_index=APART[:, :3]), Data(x=x[3:], edge_index=APART[:, 3:] - 3)]
    expected = one_by_one(model.gnn, x)
    torch.testing.assert_close(model(Batch.from_data_list(graphs)), expected)
    alone = model(graphs[0])
    torch.testing.assert_close(alone, expected[:3])


def test_wrapped_models_take_batches(x):
    layers = [(pyg.GCN(D, 4, 2, CLASSES), "x, edge_index -> x"), (torch.nn.ReLU(), "x -> x")]
    wrapped = torch.nn.DataParallel(pyg.Sequential("x, edge_index, batch", layers))
    model = insert_reweighting(wrapped)
    expected = one_by_one(model.module.module_0, x).relu()
    torch.testing.assert_close(model(x, APART, BATCH), expected)


def test_the_innermost_batch_counts(x):
    pool = pyg.SAGPooling(CLASSES, ratio=2)

    class Pooled(Hand):
        def __init__(self):
            super().__init__()
            self.first, self.second = pool, copy.deepcopy(pool)

        def forward(self, x, edge_index, batch):
            x = self.gnn(x, edge_index)
            x, edge_index, _, batch, *_ = self.first(x, edge_index, batch=batch)
            return self.second(x, edge_index, batch=batch)[0]

    model = insert_reweighting(Pooled())
    assert len(reweighting_blocks(model)) == 4
    alone = [
        model(x[:3], APART[:, :3], BATCH[:3]),
        model(x[3:], APART[:, 3:] - 3, BATCH[3:] - 1),
    ]
    torch.testing.assert_close(model(x, APART, BATCH), torch.cat(alone))


def test_a_layer_behind_a_pooling_is_refused_rather_than_pooled_wrongly(x):
    class Pooled(Hand):
        def __init__(self):
            super().__init__()
            self.pool, self.last = pyg.TopKPooling(CLASSES, ratio=2), pyg.GCNConv(CLASSES, 2)

        def forward(self, x, edge_index, batch):
            x, edge_index, *_ = self.pool(self.gnn(x, edge_index), edge_index, batch=batch)
            return self.last(x, edge_index)

    with pytest.raises(InputError, match=r"each of the 4 nodes.*found 8"):
        insert_reweighting(Pooled())(x, APART, BATCH)
    chosen = insert_reweighting(Pooled(), layers=[0, 1])
    assert chosen(x, APART, BATCH).shape == (4, 2)


def test_a_failed_call_leaves_nothing_behind(x):
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    expected = model(x, APART)
    with pytest.raises(RuntimeError):
        model(x, APART + NODES, batch=BATCH)
    assert insertion._CALLS == {}
    assert torch.equal(model(x, APART), expected)


def test_an_interrupted_call_leaves_nothing_that_counts(x):
    model, other = insert_reweighting(Hand()), insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    expected = model(x, APART), other(x, APART)

    def interrupt(*_):
        raise KeyboardInterrupt

    handle = model.gnn.convs[1].lin.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        model(x, APART, BATCH)
    handle.remove()
    assert torch.equal(other(x, APART), expected[1])
    assert torch.equal(model(x, APART), expected[0])
    assert insertion._CALLS == {}


def test_a_batch_counts_inside_its_module_alone(x):
    other = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    expected, seen = other(x, APART), []

    class Teacher(Hand):
        def forward(self, x, edge_index, batch=None):
            seen.append(other(x, edge_index))
            return self.gnn(x, edge_index)

    model = insert_reweighting(Teacher())
    torch.testing.assert_close(model(x, APART, BATCH), one_by_one(model.gnn, x))
    assert torch.equal(seen[0], expected)


def test_a_convolution_that_takes_the_batch_itself_hands_it_over(x):
    class Own(pyg.SAGEConv):
        def forward(self, x, edge_index, batch=None):
            return super().forward(x, edge_index)

    model = insert_reweighting(Own(D, CLASSES))
    torch.testing.assert_close(model(x, APART, BATCH), one_by_one(model, x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_layers_are_refused_rather_than_pooled_otherwise(x, reentrant):
    class Recomputed(Hand):
        def forward(self, x, edge_index, batch=None):
            return checkpoint(self.gnn, x, edge_index, use_reentrant=reentrant)

    model, x = insert_reweighting(Recomputed()), x.requires_grad_()
    with pytest.raises(InputError, match="Hand batch to the module that is checkpointed"):
        model(x, APART, BATCH).sum().backward()
    model(x, APART).sum().backward()  # one graph needs no batch


def test_threads_do_not_see_the_batches_of_others(x):
    model, seen = insert_reweighting(Hand()), []
    expected = model(x, APART)

    def other(*_):
        thread = threading.Thread(target=lambda: seen.append(model(x, APART)))
        handle.remove()
        thread.start()
        thread.join()

    handle = model.gnn.register_forward_pre_hook(other)
    model(x, APART, BATCH)
    assert torch.equal(seen[0], expected)


def test_copies_and_stacks_take_batches_and_have_no_new_state(x):
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
    expected = model(x, APART, batch=BATCH)
    assert torch.equal(copy.deepcopy(model)(x, APART, batch=BATCH), expected)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x, APART, batch=BATCH), expected)
    stacked = {name: value[None] for name, value in model.state_dict().items()}

    def call(state):
        return torch.func.functional_call(model, state, (x, APART), {"batch": BATCH})

    torch.testing.assert_close(torch.vmap(call)(stacked)[0], expected)


def test_the_tracker_takes_batches(x):
    model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES), layers=[0])
    (state,) = StabilityTracker(model).record(x, APART, batch=BATCH)
    s = model.convs[0].reweighting.vector(x, batch=BATCH)
    alone = [stability_k(x[graph == BATCH], s[graph]) for graph in (0, 1)]
    assert state.k == pytest.approx(sum(alone) / 2)


def test_pairs_take_batches(x):
    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.SAGEConv(D, CLASSES)

        def forward(self, x, edge_index, batch=None):
            return self.conv((x, x), edge_index)

    model = insert_reweighting(Pair())
    torch.testing.assert_close(model(x, APART, BATCH), one_by_one(model, x))


class OfTypes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = hetero_conv()

    def forward(self, x_dict, edge_index_dict, batch_dict=None):
        return self.conv(x_dict, edge_index_dict)


@pytest.mark.parametrize("traced", [False, True])
def test_node_types_have_batches_of_their_own(traced):
    x, edges = typed_inputs() if traced else hetero_inputs()
    make = lambda: pyg.to_hetero(pyg.GraphSAGE(D, 4, 1), METADATA) if traced else OfTypes()  # noqa: E731
    model = insert_reweighting(make())
    apart = dict.fromkeys(edges, APART)
    name = "batch" if traced else "batch_dict"
    found = model(x, apart, **{name: dict.fromkeys(TYPES, BATCH)})
    first = model({t: v[:3] for t, v in x.items()}, dict.fromkeys(edges, APART[:, :3]))
    for t in TYPES:
        torch.testing.assert_close(found[t][:3], first[t])
    with pytest.raises(InputError, match="author"):
        model(x, apart, **{name: {"paper": BATCH}})


# Wrappers and compilers


def test_a_wrapped_model_is_refused_where_its_parameters_are_counted():
    wrapped = torch.nn.parallel.DistributedDataParallel.__new__(
        torch.nn.parallel.DistributedDataParallel
    )
    torch.nn.Module.__init__(wrapped)
    wrapped.module = pyg.GCN(D, 4, 2)
    with pytest.raises(InputError, match="Insert gates first"):
        insert_reweighting(wrapped)


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GraphSAGE, pyg.GIN, pyg.GAT, pyg.EdgeCNN])
def test_widths_that_are_known_are_not_lazy(kind):
    model = insert_reweighting(kind(D, 4, 2, CLASSES))
    assert [block.in_channels for block in reweighting_blocks(model).values()] == [D, 4]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [lambda: pyg.GCN(D, 4, 2), sequential, lambda: pyg.GCNConv(D, 4)])
def test_scripting_is_refused_in_a_sentence(make):
    with pytest.raises(InputError, match=r"torch\.jit\.script"):
        torch.jit.script(insert_reweighting(make()))


def test_attention_kept_from_the_last_call_is_no_obstacle(x):
    conv = pyg.SuperGATConv(D, CLASSES, is_undirected=True)
    conv(x, EDGES)
    inserted = insert_reweighting(conv, gate=unit)
    assert torch.equal(inserted(x, EDGES), conv(x, EDGES))
    again = insert_reweighting(inserted)
    assert torch.equal(again(x, EDGES), inserted(x, EDGES))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("compiled_first", [True, False])
def test_compiled_models_give_the_same_numbers(compiled_first, whole, x):
    torch.compiler.reset()
    options = {"backend": "eager", "fullgraph": whole}
    if compiled_first:
        compiled = insert_reweighting(torch.compile(pyg.GCN(D, 4, 2, CLASSES), **options))
        model = compiled._orig_mod
    else:
        model = insert_reweighting(pyg.GCN(D, 4, 2, CLASSES))
        compiled = torch.compile(model, **options)
    for batch in (None, BATCH, BATCH.flip(0)):
        expected = copy.deepcopy(model)(x, APART, batch=batch)
        torch.testing.assert_close(compiled(x, APART, batch=batch, batch_size=2), expected)
    if not whole:
        torch.testing.assert_close(compiled(x, APART, batch=BATCH), model(x, APART, batch=BATCH))


# Mistakes of strangers


@pytest.mark.parametrize("model", [pyg.GCN, None, lambda: pyg.GCN(D, 4, 2), "GCN"])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(InputError, match=r"Expected a model"):
        insert_reweighting(model)


@pytest.mark.parametrize("layers", [slice(0, 1), [[0]], 1.5, {}, True])
def test_layers_that_are_none_are_refused(layers):
    with pytest.raises(InputError, match=r"Expected layers from 0 'convs\.0'"):
        insert_reweighting(pyg.GCN(D, 4, 2), layers=layers)


@pytest.mark.parametrize(
    "options", [{"hidden_channels": 0}, {"hidden_channels": "4"}, {"act": "nonsense"}, {"b": 1}]
)
def test_options_of_no_gate_are_refused(options):
    with pytest.raises(InputError, match="Expected gate"):
        insert_reweighting(pyg.GCN(D, 4, 2), **options)
