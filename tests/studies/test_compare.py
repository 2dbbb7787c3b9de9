"""``compare``: any model with and without gates, and the answer when nothing was learnt."""

import math
import warnings
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import pytest
import torch
from sklearn.metrics import f1_score
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE

import drgcn
from drgcn import compare, fit, insert_reweighting, load
from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.comparison import Comparison, Guess, Scores
from drgcn.training.objectives import objective_for


@pytest.fixture(scope="module")
def planted():
    return load("planted", nodes=240, labels_per_class=8, val_per_class=15, features=24)


def sage(data):
    return lambda: GraphSAGE(data.num_features, 8, num_layers=2, out_channels=4)


def test_rows_are_those_of_fit_with_each_gate_inserted(planted):
    make = sage(planted)
    found = compare(make, planted, range(3), epochs=6, lr=0.02)
    assert list(found.rows) == [None, "dr", "static", "constant"]
    plain = fit(make, planted, range(3), epochs=6, lr=0.02)
    assert found.fits[None].test_accuracy == plain.test_accuracy
    for gate in ("dr", "static", "constant"):
        gated = fit(
            lambda gate=gate: insert_reweighting(make(), gate=gate),
            planted,
            range(3),
            epochs=6,
            lr=0.02,
        )
        assert found.fits[gate].test_accuracy == gated.test_accuracy
        assert [r.val_accuracy for r in found.rows[gate].values()] == gated.val_accuracy
    text = found.summary()
    assert found.verdict in text
    assert all(f"| {name} |" in text for name in ("plain", "dr", "static", "constant"))


def test_columns_that_drown_the_others_are_told(planted):
    data = planted.clone()
    data.x[:, 0] *= 1000
    make = lambda: GCN(data.num_features, 4, 1, 4)  # noqa: E731
    with pytest.warns(DrgcnWarning, match=r"wildly different scales.*Standardise") as told:
        compare(make, data, range(2), epochs=1)
    assert [Path(one.filename).name for one in told] == ["test_compare.py"]
    data.dataset = replace(data.dataset, normalize="row")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DrgcnWarning)
        compare(make, data, range(2), epochs=1)


def test_rows_begin_with_the_same_weights(planted):
    found = compare(sage(planted), planted, [3], epochs=1, lr=0.0, weight_decay=0.0)
    plain = found.fits[None].models[0].state_dict()
    for gate in ("dr", "static", "constant"):
        gated = found.fits[gate].models[0].state_dict()
        assert all(torch.equal(gated[name], value) for name, value in plain.items())


def test_a_model_that_takes_the_gate_is_built_with_it(planted):
    seen = []

    def make(gate):
        seen.append(gate)
        return drgcn.nn.GCN(planted.num_features, 8, 4, reweight=gate)

    found = compare(make, planted, iter([0, 1]), epochs=3, gates=(None, "dr"))
    assert set(seen) == {None, "dr"}
    assert found.verdict is None
    assert found.summary().count("| dr |") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gates": ("nonsense",)}, "gates out of"),
        ({"gates": ()}, "found none"),
        ({"seeds": 3}, "seeds"),
        ({"make_model": GCN(24, 8, 2, 4)}, "function that builds"),
    ],
)
def test_wrong_arguments_are_refused(planted, options, words):
    arguments = {"make_model": sage(planted), "data": planted, "seeds": [0]} | options
    with pytest.raises(InputError, match=words):
        compare(**arguments)


def useless(nodes=200):
    """Four of five nodes are of one class, and nothing tells which."""
    draw = torch.Generator().manual_seed(0)
    part = torch.rand(nodes, generator=draw).argsort().argsort()
    ring = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
    return Data(
        x=torch.ones(nodes, 3),
        edge_index=torch.cat([ring, ring.flip(0)], dim=1),
        y=(part % 5 == 0).long(),
        train_mask=part < 100,
        val_mask=(part >= 100) & (part < 150),
        test_mask=part >= 150,
    )


def test_equal_guesses_bring_no_verdict():
    found = compare(lambda: GCN(3, 4, 2, out_channels=2), useless(), range(3), epochs=5)
    assert not found.learnt
    assert found.guess.score == pytest.approx(0.8)
    assert found.verdict.startswith("Nothing was learnt")
    assert "80.00 %" in found.summary()
    assert "costs" not in found.summary()


def test_small_differences_below_a_guess_bring_no_verdict():
    """Minesweeper: rows that differ surely from each other, and none of which beats a guess."""

    def row(value):
        return {seed: Scores(value + 1e-4 * seed, 0.8) for seed in range(20)}

    values = {None: 0.8, "dr": 0.79, "static": 0.8, "constant": 0.8}
    rows = {gate: row(value) for gate, value in values.items()}
    guess = Guess(0.8, 2500, "accuracy")
    assert Comparison(rows, guess).decided["dr", None].sign == "down"
    assert Comparison(rows, guess).verdict.startswith("Nothing was learnt")
    assert "Dr costs accuracy" in Comparison(rows | {None: row(0.9)}, guess).verdict


def test_the_guess_for_classes_is_the_share_of_the_most_frequent():
    labels = torch.tensor([2, 2, 0, 2])
    assert objective_for(labels).guess(labels) == 0.75


def test_the_guess_for_several_labels_is_the_best_of_all_constant_answers():
    labels = (torch.rand(30, 5, generator=torch.Generator().manual_seed(1)) < 0.4).long()
    best = 0.0
    for chosen in chain.from_iterable(combinations(range(5), size) for size in range(1, 6)):
        answer = torch.zeros_like(labels)
        answer[:, list(chosen)] = 1
        best = max(best, f1_score(labels, answer, average="micro"))
    assert objective_for(labels).guess(labels) == pytest.approx(best)


def test_the_command_line_says_that_nothing_was_learnt(tmp_path, monkeypatch, capsys):
    from drgcn.cli.verbs import app

    data = useless()
    torch.save(data, tmp_path / "useless.pt")
    monkeypatch.chdir(tmp_path)
    app(
        ["train", "useless.pt", "--compare", "--seeds", "2", "--epochs", "3"],
        standalone_mode=False,
    )
    words = " ".join(capsys.readouterr().out.split())
    assert "the most frequent class is 80.00 % of the test nodes" in words
    assert "Nothing was learnt" in words
    assert "Dr costs" not in words


def test_a_lower_error_is_a_gain(planted):
    values = planted.clone()
    values.y = planted.x[:, :1] + 0.5

    def make(gate):
        model = GCN(24, 8, 2, out_channels=1)
        torch.nn.init.constant_(model.convs[-1].bias, 0.0 if gate == "dr" else 5.0)
        return model

    found = compare(make, values, range(8), epochs=2, metric="MAE", gates=(None, "dr"))
    plain, dr = (sum(r.test_accuracy for r in found.rows[gate].values()) for gate in (None, "dr"))
    assert dr < plain
    assert found.decided["dr", None].sign == "up"
    expected = 100 * (plain - dr) / 8 / found.guess.score
    assert found.over_plain("dr").mean == pytest.approx(expected)
    assert "test MAE |" in found.summary()


@pytest.mark.parametrize(("guess", "higher"), [(10.0, True), (-10.0, False), (0.0, False)])
def test_gains_of_other_metrics_are_in_their_own_unit(guess, higher):
    """Of a log likelihood, say, or of an error that may be negative."""
    sign = 1 if higher else -1

    def row(value, step=0.0):
        return {s: Scores(sign * (value + 0.001 * s**2 + step * s), math.nan) for s in range(4)}

    steps = {None: 0.0, "dr": 1e-4, "static": 2e-4, "constant": -1e-4}
    rows = {gate: row(22.0 if gate == "dr" else 20.0, step) for gate, step in steps.items()}
    found = Comparison(rows, Guess(guess, 50, "likelihood", higher, share=False))
    assert found.over_plain("dr").mean == pytest.approx(2.00015)
    assert found.decided["dr", None].sign == "up"
    assert f"| {found.over_plain('dr').words(4)} |" in found.summary()
    assert (
        f"Dr gains over the plain model ({found.over_plain('dr').mean:+.4f} in likelihood, 95 %"
        in found.verdict
    )


def test_an_error_beats_a_guess_if_it_is_lower():
    guess = Guess(2.0, 50, "MAE", higher_is_better=False, share=False)
    assert guess.is_beaten_by([1.9])
    assert not guess.is_beaten_by([2.1])


@pytest.mark.slow
def test_the_chance_of_an_area_is_that_of_ranks():
    """Standard deviation of the area under random scores, 50 positives among 1,000."""
    labels = (torch.arange(1000) < 50).long()
    objective = objective_for(labels, metric="ROC-AUC")
    draws = torch.randn(2000, 1000, 2, generator=torch.Generator().manual_seed(0))
    spread = float(objective.score(draws, labels).std())
    size = objective.sample_size(labels)
    assert (0.25 / size) ** 0.5 == pytest.approx(spread, rel=0.1)
