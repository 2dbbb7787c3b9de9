"""The family of gates: those that start at one, and those measured on training data."""

import numpy as np
import pytest
import torch
from scipy.special import polygamma
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData

from drgcn import fit, insert_reweighting, load, reweighting_blocks
from drgcn.cli.options import ModelGate
from drgcn.errors import InputError
from drgcn.gates import (
    GATES,
    ClassShareGate,
    ExponentialReweighting,
    MeasuredGate,
    PseudoClassShareGate,
    ReweightingFromOne,
    VarianceGate,
    gate_factory,
    observe,
    training_view,
)
from drgcn.nn import GAT, GCN, MLP, MixHop
from drgcn.studies.build import build
from drgcn.studies.experiment import MEASURED_GATES, recipe, tunable, with_settings
from drgcn.studies.run import pass_of, run, run_grid
from drgcn.training.inputs import check_features
from drgcn.training.result import load_fit
from drgcn.training.task import seen_in_training

MEASURED = tuple(name for name in GATES if isinstance(GATES[name](-1), MeasuredGate))


def graph(seed=0, nodes=60, width=12, classes=3):
    """Features of which the first few know the class; two splits of nodes, four a class."""
    rng = np.random.default_rng(seed)
    y = np.arange(nodes) % classes
    scale = rng.uniform(0.1, 10, width)
    scale[:classes] = 1
    x = rng.normal(size=(nodes, width)) * scale
    x[:, :classes] += 5 * np.eye(classes)[y]
    x[:, -1] = 2.0
    edges = rng.integers(nodes, size=(2, 3 * nodes))
    masks = {}
    order = [rng.permutation(nodes // classes) * classes for _ in range(2)]
    for name, (start, stop) in {"train": (0, 4), "val": (4, 10), "test": (10, 20)}.items():
        columns = [
            np.isin(np.arange(nodes), [i + c for i in part[start:stop] for c in range(classes)])
            for part in order
        ]
        masks[f"{name}_mask"] = torch.tensor(np.stack(columns, 1))
    return Data(
        x=torch.tensor(x, dtype=torch.float32),
        edge_index=torch.tensor(edges),  # one way: who propagates to whom shows
        y=torch.tensor(y),
        **masks,
    )


def one_split(data, split=0):
    masks = {f"{part}_mask": data[f"{part}_mask"][:, split] for part in ("train", "val", "test")}
    return data.clone().update(masks)


def literal_class_share(data, steps):
    """Class share by loops over nodes, classes and dimensions."""
    x, y = data.x.double().numpy(), data.y.numpy()
    n, d = x.shape
    into = [[v] for v in range(n)]
    for u, v in data.edge_index.T.tolist():
        if u != v:
            into[v].append(u)
    h = x
    for _ in range(steps):
        h = np.stack([h[into[v]].mean(0) for v in range(n)])
    train = np.flatnonzero(data.train_mask.numpy())
    classes = sorted(set(y[train].tolist()))
    freedom = len(train) - len(classes)
    between, within, prior = np.zeros(d), np.zeros(d), np.zeros(d)
    for j in range(d):
        prior[j] = np.var(h[:, j], ddof=1)
        grand = np.mean(h[train, j])
        for c in classes:
            mine = h[[v for v in train if y[v] == c], j]
            between[j] += len(mine) * (mine.mean() - grand) ** 2 / (len(classes) - 1)
            within[j] += ((mine - mine.mean()) ** 2).sum() / max(freedom, 1)
    flat = prior < 1e-12
    excess = -1
    if freedom:
        usable = ~flat & (within > 1e-12)
        excess = np.log(within[usable] / prior[usable]).var(ddof=1) - polygamma(1, freedom / 2)
    variance = prior
    if excess > 0:
        weights = np.geomspace(1e-3, 1e4, 200_001)  # a search where the gate takes Newton's steps
        d0 = 2 * weights[np.argmin(np.abs(polygamma(1, weights) - excess))]
        variance = (d0 * prior + freedom * within) / (d0 + freedom)
    return np.where(flat, 0, between / np.where(flat, 1, variance)), excess > 0


@pytest.mark.parametrize(("steps", "uneven"), [(0, True), (2, True), (2, False)])
def test_class_share_is_the_moderated_ratio_of_mean_squares(steps, uneven):
    data = one_split(graph())
    if uneven:  # dimensions whose training nodes are spread otherwise than all nodes
        data.x[data.train_mask] *= torch.linspace(-3, 3, 12).exp()
    found = ClassShareGate(steps=steps).measure(training_view(data))
    expected, moderated = literal_class_share(data, steps)
    assert moderated == uneven
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3)


def literal_spread_labels(data):
    """Labels spread by loops over nodes and edges, as a random walk that begins anew."""
    n, train = data.num_nodes, data.train_mask.tolist()
    given = np.zeros((n, 3))
    for v in range(n):
        given[v, data.y[v]] = train[v]
    spread = given
    for _ in range(20):
        after = spread.copy()
        for v in range(n):
            into = [u for u, w in data.edge_index.T.tolist() if w == v != u]
            after[v] = 0.9 * np.mean([spread[u] for u in [v, *into]], 0) + 0.1 * given[v]
        spread = after
    shares = spread / spread.sum(0)
    return [
        int(data.y[v]) if train[v] else int(shares[v].argmax()) if shares[v].any() else -1
        for v in range(n)
    ]


def test_pseudo_class_share_is_that_of_labels_spread_along_edges():
    data = one_split(graph())
    data.edge_index = data.edge_index[:, data.edge_index[1] != 59]  # which nothing reaches
    data.train_mask[59] = False
    labels = literal_spread_labels(data)
    assert labels[59] == -1
    assert len(set(labels)) == 4
    guessed = data.clone().update({"y": torch.tensor(labels)})
    guessed.train_mask = guessed.y >= 0
    found = PseudoClassShareGate().measure(training_view(data))
    torch.testing.assert_close(found, ClassShareGate().measure(guessed))
    several = data.clone().update({"y": torch.stack([data.y == 0, data.y > 0], 1).float()})
    with pytest.raises(InputError, match="one class a node"):
        PseudoClassShareGate().measure(training_view(several))


@pytest.mark.parametrize("gate", ["class-share", "shuffled-variance"])
def test_an_exponent_of_zero_is_the_plain_network(gate):
    grid = {"split": [1], "dropout": [0.5]}
    found = [
        fit(lambda: GCN(12, 4, 3), graph(), [1], grid=grid, epochs=2),
        fit(
            lambda: GCN(12, 4, 3, reweight=gate),
            graph(),
            [1],
            grid=grid | {"exponent": [0]},
            epochs=2,
        ),
    ]
    assert found[0].val_accuracy == found[1].val_accuracy
    plain, gated = (one.models[0].convs[0].weight for one in found)
    torch.testing.assert_close(plain, gated)


def test_class_share_finds_the_dimensions_that_know_the_class():
    found = ClassShareGate(steps=0).measure(training_view(one_split(graph())))
    assert sorted(found.topk(3).indices.tolist()) == [0, 1, 2]


def test_class_share_with_one_label_a_class_takes_the_variance_of_all_nodes():
    data = one_split(graph())
    data.train_mask = torch.zeros(60, dtype=torch.bool).index_fill(0, torch.arange(3), True)
    found = ClassShareGate().measure(training_view(data))
    np.testing.assert_allclose(found.numpy(), literal_class_share(data, 2)[0], rtol=1e-6)


def test_class_share_of_several_labels_is_that_of_two_classes_each():
    data = one_split(graph())
    two = data.clone().update({"y": (data.y == 0).long()})
    several = data.clone().update({"y": torch.stack([two.y, 1 - two.y, 0 * two.y], 1).float()})
    measure = ClassShareGate().measure
    torch.testing.assert_close(measure(training_view(several)), measure(training_view(two)))


@pytest.mark.parametrize("gate", MEASURED)
def test_labels_of_other_nodes_change_nothing(gate):
    data = one_split(graph())
    other = data.clone().update({"y": torch.where(data.train_mask, data.y, (data.y + 1) % 3)})
    found = [fit(lambda: GCN(12, 4, 3, reweight=gate), d, [0, 1], epochs=3) for d in (data, other)]
    for first, second in zip(found[0].models, found[1].models, strict=True):
        assert torch.equal(first.inputs[0].gate.weights, second.inputs[0].gate.weights)


@pytest.mark.parametrize("gate", ["class-share", "variance"])
def test_a_shuffled_gate_has_the_same_weights_elsewhere(gate):
    data = one_split(graph())
    plain, shuffled = (gate_factory(name)(12) for name in (gate, f"shuffled-{gate}"))
    for one in (plain, shuffled):
        torch.manual_seed(1)
        observe(one, data)
        energy = (data.x * one.weights).square().sum()
        torch.testing.assert_close(energy, data.x.square().sum())
    assert not torch.allclose(plain.weights, shuffled.weights)
    ratio = shuffled.weights.sort().values / plain.weights.sort().values
    torch.testing.assert_close(ratio, ratio[:1].expand(12))


def test_weights_are_powers_within_a_factor_of_their_median():
    data = one_split(graph())
    measured = VarianceGate().measure(training_view(data))
    gate = VarianceGate(exponent=-1.0)
    observe(gate, data)
    powers = 1 / measured
    powers = powers.clamp(powers.median() / 64, powers.median() * 64)
    torch.testing.assert_close(gate.weights / gate.weights[0], (powers / powers[0]).float())
    neutral = VarianceGate(exponent=0.0)
    observe(neutral, data)
    assert torch.equal(neutral.weights, torch.ones(12))


@pytest.mark.parametrize("gate", ["dr-one", "dr-exp"])
@pytest.mark.parametrize("kind", [GCN, GAT, MLP, MixHop])
def test_gates_from_one_are_the_plain_model_before_training(kind, gate):
    data = graph()
    models = []
    for reweight in (None, gate):
        torch.manual_seed(0)
        models.append(kind(12, (4, 4, 4) if kind is MixHop else 8, 3, reweight=reweight).eval())
    models[1].load_state_dict(models[0].state_dict(), strict=False)
    torch.testing.assert_close(
        models[1](data.x, data.edge_index), models[0](data.x, data.edge_index), rtol=0, atol=0
    )
    models[1](data.x, data.edge_index).square().sum().backward()
    for enter in models[1].inputs:
        assert enter.gate.excite_weight.grad.abs().sum() > 0


def test_an_exponential_gate_knows_no_unit():
    mean = torch.rand(16)
    gate, published = ExponentialReweighting(16), ReweightingFromOne(16)
    for block in (gate, published):
        torch.nn.init.normal_(block.excite_weight)
    torch.testing.assert_close(gate.from_mean(1e4 * mean), gate.from_mean(mean))
    assert gate.from_mean(torch.zeros(2, 16)).isfinite().all()
    assert ((published.from_mean(1e4 * mean) / 2 - 0.5).abs() > 0.49).all()


def test_an_exponent_is_a_setting_of_a_lane_and_so_is_the_split():
    data = graph()
    grid = {"exponent": [0.0, 0.75], "split": [0, 1]}
    result = fit(lambda: GCN(12, 4, 3, reweight="class-share"), data, [0, 1], grid=grid, epochs=2)
    for settings, model in zip(result.settings, result.models, strict=True):
        alone = ClassShareGate(exponent=settings["exponent"])
        observe(alone, one_split(data, settings["split"]))
        assert torch.equal(model.inputs[0].gate.weights, alone.weights)
        assert model.inputs[0].gate.exponent == settings["exponent"]
        assert model.inputs[1].gate is None


def test_lanes_of_a_traced_model_have_weights_of_their_own():
    def make():
        return insert_reweighting(pyg.GCN(12, 4, num_layers=2, out_channels=3), gate="class-share")

    data, grid = one_split(graph()), {"exponent": [0.0, 1.0]}
    together = fit(make, data, [0], grid=grid, epochs=20)
    by_hand = data.clone()
    gate = observe(ClassShareGate(exponent=1.0), data)
    by_hand.x = data.x * gate.weights
    plain = fit(lambda: pyg.GCN(12, 4, num_layers=2, out_channels=3), by_hand, [0], epochs=20)
    torch.testing.assert_close(
        together.curves["train_loss"][1], plain.curves["train_loss"][0], rtol=1e-3, atol=1e-4
    )
    assert together.curves["train_loss"][0][-1] != together.curves["train_loss"][1][-1]


def test_results_with_a_measured_gate_are_saved_and_loaded(tmp_path):
    data = one_split(graph())
    result = fit(lambda: GCN(12, 4, 3, reweight="shuffled-variance"), data, [0], epochs=2)
    result.save(tmp_path / "saved")
    again = load_fit(tmp_path / "saved", lambda: GCN(12, 4, 3, reweight="shuffled-variance"))
    scores = [m(data.x, data.edge_index) for m in (result.models[0], again.models[0])]
    assert torch.equal(*scores)


@pytest.mark.parametrize("gate", [ClassShareGate, PseudoClassShareGate])
def test_classes_in_a_column_are_classes(gate):
    data = one_split(graph())
    column = data.clone().update({"y": data.y[:, None]})
    assert torch.equal(observe(gate(), column).weights, observe(gate(), data).weights)


def test_a_gate_that_saw_no_data_is_refused():
    data = graph()
    with pytest.raises(InputError, match="has seen training data; found a new one"):
        GCN(12, 4, 3, reweight="class-share")(data.x, data.edge_index)
    with pytest.raises(InputError, match="boolean train_mask"):
        observe(ClassShareGate(), data)
    with pytest.raises(InputError, match="at least two classes"):
        observe(ClassShareGate(), one_split(data).update({"y": torch.zeros(60, dtype=int)}))
    with pytest.raises(InputError, match="in front of the layer that takes the features"):
        observe(ClassShareGate(7), one_split(data))
    with pytest.raises(InputError, match="grid of exponents; found none"):
        fit(lambda: GCN(12, 4, 3), one_split(data), [0], grid={"exponent": [1.0]}, epochs=2)
    with pytest.raises(ValueError, match="measured on 12"):
        observe(ClassShareGate(), one_split(data)).from_mean(torch.rand(5))


def test_a_gate_of_ones_own_by_module_name_or_function():
    class Reach(MeasuredGate):
        def measure(self, data):
            return data.x.abs().amax(0)

    data = one_split(graph())
    for gate in (Reach(), lambda width: Reach(width)):
        model = observe(GCN(12, 4, 3, reweight=gate), data)
        top = data.x.abs().amax(0)
        torch.testing.assert_close(model.inputs[0].gate.weights.argmax(), top.argmax())
        model = insert_reweighting(pyg.GCN(12, 12, num_layers=2, out_channels=3), gate=gate)
        assert isinstance(model.convs[0].reweighting, Reach)
        assert not hasattr(model.convs[1], "reweighting")
    with pytest.raises(InputError, match=r"which has from_mean\(mean\), for reweight"):
        GCN(12, 4, 3, reweight=torch.nn.ReLU())


def test_a_gate_sees_the_graphs_that_training_sees():
    data, device = one_split(graph()), torch.device("cpu")
    inside = seen_in_training(data, None, "train", (None, None), device)
    assert torch.equal(inside.x, data.x[data.train_mask])
    data.graph = (torch.arange(60) >= 30).long()
    data.train_mask &= data.graph == 0
    first = data.graph == 0
    inside = seen_in_training(data, None, None, (None, None), device)
    assert torch.equal(inside.x, data.x[first])
    assert torch.equal(inside.train_mask, data.train_mask[first])
    assert torch.equal(inside.y >= 0, inside.train_mask)
    with pytest.raises(InputError, match="pairs of nodes or graphs"):
        seen_in_training((data, data, data), None, None, (None, None), device)


def test_splits_share_features_that_are_checked_and_moved_once(monkeypatch):
    data, device, nothing = graph(), torch.device("meta"), (None, None)
    first = seen_in_training(data, 0, None, nothing, device)
    second = seen_in_training(data, 1, None, nothing, device, first)
    assert first.x.is_meta
    assert second.x is first.x
    assert second.edge_index is first.edge_index
    assert second.y.is_meta
    known = seen_in_training(data, 1, None, nothing, torch.device("cpu"), data)
    assert torch.equal(known.train_mask, data.train_mask[:, 1])
    assert torch.equal(known.y >= 0, known.train_mask)
    checked, usual = [], check_features
    monkeypatch.setattr(
        "drgcn.training.inputs.check_features", lambda one: checked.append(one) or usual(one)
    )
    fit(lambda: GCN(12, 4, 3, reweight="variance"), data, [0], grid={"split": [0, 1]}, epochs=1)
    assert len(checked) == 2  # for the gate and for the task


def test_names_are_those_of_experiments_and_the_command_line():
    assert MEASURED == MEASURED_GATES
    assert {gate.value for gate in ModelGate} == {"none", *GATES}


def test_exponents_of_experiments_are_lanes_with_records_of_their_own(tmp_path):
    data = load("wine", normalize="standard")
    usual = recipe("wine", "random", epochs=3, reweight="class-share")
    rows = [with_settings(usual, {"exponent": value}) for value in (0.25, 0.75)]
    assert pass_of(rows[0]) == pass_of(rows[1])
    assert tunable(usual, GCN)["exponent"] is float
    together = run_grid(rows, data, [0], tmp_path / "together")
    for row, outcome in zip(rows, together, strict=True):
        alone = run(row, data, [0], tmp_path / "alone")
        assert outcome.seeds[0] == alone.seeds[0]
        assert len(outcome.seeds[0].k) == 1  # the first layer has a gate, the second has none
    assert together[0].seeds[0].s_deciles != together[1].seeds[0].s_deciles
    with pytest.raises(InputError, match="exponent"):
        build(recipe("wine", "random", reweight="dr", options={"exponent": 1.0}), data)
    with pytest.raises(InputError, match="steps"):
        build(recipe("wine", "random", reweight="variance", options={"steps": 1}), data)


@pytest.mark.parametrize("gate", MEASURED)
def test_sparse_features_have_the_same_weights_and_a_batch_one_row_a_graph(gate):
    data = one_split(graph())
    sparse = data.clone().update({"x": data.x.to_sparse()})
    found = []
    for one in (data, sparse):
        torch.manual_seed(0)
        found.append(observe(GATES[gate](12), one))
    torch.testing.assert_close(found[0].weights, found[1].weights)
    batch = (torch.arange(60) >= 25).long()
    expected = data.x * found[0].weights
    assert torch.equal(found[0](data.x, batch=batch), expected)
    model = GCN(12, 4, 3, reweight=found[0]).eval()
    plain = GCN(12, 4, 3).eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(
        model(data.x, data.edge_index, batch), plain(expected, data.edge_index)
    )


def hetero():
    """The nodes of ``graph`` as one type, and unlabelled ones of another."""
    labelled, data = one_split(graph()), HeteroData()
    for name in ("x", "y", "train_mask"):
        data["paper"][name] = labelled[name]
    data["paper", "cites", "paper"].edge_index = labelled.edge_index[:, :100]
    data["paper", "after", "paper"].edge_index = labelled.edge_index[:, 100:]
    data["author"].x = torch.randn(7, 5) * torch.tensor([1.0, 2, 3, 4, 0])
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 6], [3, 59]])
    data["paper", "by", "author"].edge_index = torch.tensor([[3, 59], [0, 6]])
    return data, labelled


@pytest.mark.parametrize("made", ["to_hetero", "HeteroConv"])
def test_gates_of_a_heterogeneous_model_see_the_nodes_of_their_type(made):
    data, labelled = hetero()
    if made == "to_hetero":
        plain = pyg.to_hetero(pyg.GraphSAGE((-1, -1), 8, 1, 3), data.metadata())
    else:
        plain = pyg.HeteroConv({way: pyg.SAGEConv((-1, -1), 3) for way in data.edge_types})
    for name in ("class-share", "variance"):
        model = observe(insert_reweighting(plain, gate=name), data)
        weights = {
            place.rpartition("." if made == "HeteroConv" else "__")[2]: block.weights
            for place, block in reweighting_blocks(model).items()
        }
        alone = observe(GATES[name](), labelled).weights
        torch.testing.assert_close(weights["paper"], alone)
        # Authors have no labels: nothing is known of their classes.
        no_labels = Data(x=data["author"].x, train_mask=torch.zeros(7, dtype=torch.bool))
        even = (
            torch.ones(5) if name == "class-share" else observe(VarianceGate(), no_labels).weights
        )
        torch.testing.assert_close(weights["author"], even)
        assert model(data.x_dict, data.edge_index_dict)["paper"].shape == (60, 3)


def test_what_a_gate_of_a_heterogeneous_model_cannot_see_is_refused():
    data, _ = hetero()
    before = insert_reweighting(pyg.GraphSAGE((-1, -1), 8, 1, 3), gate="variance")
    for model in (before, pyg.to_hetero(before, data.metadata())):
        with pytest.raises(InputError, match="what to_hetero returns"):
            observe(model, data)
    plain = pyg.HeteroConv({way: pyg.SAGEConv((-1, -1), 3) for way in data.edge_types})
    model = insert_reweighting(plain, gate="variance")
    del data["author"].x
    with pytest.raises(InputError, match="features of 'author'"):
        observe(model, data)
