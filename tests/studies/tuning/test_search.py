"""Searches on validation: trials, their log, and hidden test labels."""

import copy
import json
import sqlite3
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from drgcn.errors import InputError
from drgcn.studies.experiment import MODELS, Experiment, recipe
from drgcn.studies.records import load_records
from drgcn.studies.run import run, run_grid
from drgcn.studies.tuning import search as module
from drgcn.studies.tuning.search import Search, folder_lock, run_searches, rungs_of, without_test
from drgcn.studies.tuning.space import SettingRange
from drgcn.studies.tuning.trials import FileLog, StudyLog, Trial

from ...training.graphs import several

USUAL = recipe("planted", "random", hidden_channels=8, epochs=3)
SPACE = (
    SettingRange("lr", 1e-3, 1e-1, log=True),
    SettingRange("dropout", 0.0, 0.8),
    SettingRange("hidden_channels", choices=(4, 8)),
)

STRATEGIES = ("random", "halving", "tpe")
LONG = replace(USUAL, epochs=18)  # for rungs of two, six and eighteen epochs

# Validation nodes stand in for test nodes on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*data.val_mask and data.test_mask")


def search(data, out, experiment=USUAL, space=SPACE, seeds=(0, 1), **options):
    return Search(experiment, data, space, out, seeds=seeds, **options)


def history(found):
    return [(trial.settings, trial.value) for trial in found.trials]


@pytest.fixture
def searched(tiny, tmp_path):
    """A function that searches in a folder of its own."""

    def make(name, trials=6, data=tiny, **options):
        found = search(data, tmp_path / name, **options)
        run_searches([found], trials)
        return found

    return make


@pytest.mark.parametrize("strategy", ["random", pytest.param("tpe", marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_trials(searched, strategy):
    first, second = (searched(name, strategy=strategy) for name in ("a", "b"))
    other = searched("c", 4, seed=1, strategy=strategy)
    assert history(first) == history(second)
    assert history(first)[1:4] != history(other)[1:]
    assert len({json.dumps(settings) for settings, _ in history(first)}) == 6


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_search_in_pieces_has_the_trials_of_one_in_one_go(searched, strategy):
    """Thirteen, for after ten TPE draws from what it has seen."""
    options = {"strategy": strategy, "experiment": LONG, "seeds": (0,)}
    whole = searched("whole", 13, **options)
    for trials in (7, 11, 13):
        pieces = searched("pieces", trials, **options)
        assert len(pieces.trials) == trials
    assert [settings for settings, _ in history(pieces)] == [s for s, _ in history(whole)]
    if strategy != "halving":  # whose trials may have been among the best of fewer before
        assert history(pieces) == history(whole)


def test_trials_of_one_shape_share_a_pass(searched, monkeypatch):
    calls = []

    def noted(experiments, *args, **options):
        calls.append([e.hidden_channels for e in experiments])
        return run_grid(experiments, *args, **options)

    monkeypatch.setattr(module, "run_grid", noted)
    found = searched("a", 6)
    assert len(calls) == 1
    widths = [trial.settings["hidden_channels"] for trial in found.trials]
    assert calls[0] == widths
    assert set(widths) == {4, 8}


def test_of_each_rung_the_best_third_goes_on(searched):
    found = searched("a", 6, strategy="halving", experiment=LONG, seeds=(0,))
    log = json.loads((found.folder.parent / "search.json").read_text())["gcn"]["trials"]
    first, last = (
        {t["number"]: t["val_accuracy"][0] for t in log if t["epochs"] == epochs}
        for epochs in (6, 18)
    )
    assert list(first) == [0, 1, 2, 3, 4, 5]
    ranked = sorted(first, key=lambda number: (-first[number], number))
    assert sorted(last) == sorted(ranked[:2])
    assert found.best().value == max(last.values())
    assert found.spent()[0] == 6 * 6 + 2 * 18


def test_rungs_end_with_all_epochs():
    assert rungs_of("halving", 30, 800) == [(30, 88), (10, 266), (3, 800)]
    assert rungs_of("halving", 60, 10) == [(60, 3), (20, 10)]
    assert rungs_of("random", 30, 800) == rungs_of("tpe", 30, 800) == [(30, 800)]
    for trials, epochs in ((5, 800), (30, 8)):
        with pytest.raises(InputError, match="--strategy random"):
            rungs_of("halving", trials, epochs)


def test_a_search_ends_where_the_space_does(searched):
    found = searched("a", 9, space=(SettingRange("hidden_channels", choices=(4, 8, 16)),))
    assert [trial.settings["hidden_channels"] for trial in found.trials[:1]] == [8]
    assert len(found.trials) == 3


def test_test_labels_play_no_part(searched, tiny):
    """Other labels of test nodes: the same search, but for the name of the data."""
    other = copy.copy(tiny)
    other.y = tiny.y.clone()
    other.y[tiny.test_mask] = (tiny.y[tiny.test_mask] + 1) % tiny.dataset.classes
    other.dataset = replace(tiny.dataset, content_hash="other")
    assert history(searched("a", 4)) == history(searched("b", 4, data=other))


def test_no_test_accuracy_is_on_record(searched, tiny, tmp_path):
    found = searched("a", 3)
    seen = run(found.chosen(), tiny, [0, 1], tmp_path / "seen").seeds
    assert {r.test_accuracy for r in seen.values()} != {r.val_accuracy for r in seen.values()}
    for record in load_records(found.folder):
        assert record.data["split"] == record.experiment.split == "random without test"
        for result in record.seeds.values():
            assert result.test_accuracy == result.val_accuracy
    assert "test_accuracy" not in (found.folder.parent / "search.json").read_text()


def test_the_objective_is_the_mean_validation_accuracy(searched, tiny, tmp_path):
    found = searched("a", 3)
    for trial in found.trials:
        e = replace(USUAL, **trial.settings)
        seeds = run(e, tiny, [0, 1], tmp_path / "seen").seeds.values()
        assert trial.value == pytest.approx(sum(r.val_accuracy for r in seeds) / 2)
    values = [value for _, value in history(found)]
    assert found.best().number == values.index(max(values))
    assert found.best(1).number == 0
    assert found.chosen() == replace(USUAL, **found.best().settings)


def test_of_equal_trials_the_first_is_the_best(searched, monkeypatch):
    seeds = {seed: SimpleNamespace(val_accuracy=0.5) for seed in (0, 1)}
    level = SimpleNamespace(seeds=seeds, reason="")
    monkeypatch.setattr(
        module, "run_grid", lambda experiments, *_, **__: [level] * len(experiments)
    )
    assert searched("a", 3).best().number == 0


def test_the_first_trial_is_the_recipe_if_it_is_in_the_space(searched):
    inside = searched("a", 1)
    assert inside.chosen() == USUAL
    outside = searched("b", 1, space=(SettingRange("lr", 0.02, 0.1),))
    assert 0.02 <= outside.chosen().lr <= 0.1


def test_what_was_spent_is_counted_from_records(searched):
    found = searched("a", 3)
    epochs, seconds = found.spent()
    assert epochs == 3 * 2 * USUAL.epochs
    assert seconds == pytest.approx(sum(r.seconds for r in load_records(found.folder)))
    assert found.spent(1)[0] == 2 * USUAL.epochs


def test_never_more_trials_than_asked_for(searched, monkeypatch):
    found = searched("a", 3)
    monkeypatch.setattr(module, "run_grid", lambda *_, **__: pytest.fail("one more trial"))
    assert run_searches([found], 3) == 3
    with pytest.raises(InputError, match="--trials 3 or more"):
        run_searches([found], 2)


@pytest.mark.parametrize("strategy", ["random", pytest.param("tpe", marks=pytest.mark.slow)])
def test_a_trial_whose_record_was_written_is_not_trained_again(searched, monkeypatch, strategy):
    """Killed after the record and before the log heard of it."""

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        for log in (FileLog, StudyLog):
            patch.setattr(log, "add", killed)
        with pytest.raises(KeyboardInterrupt):
            searched("a", 1, strategy=strategy)
    calls = []

    def noted(train, *args, **options):
        outcomes = train(*args, **options)
        calls.extend(o.trained for o in (outcomes if train is run_grid else [outcomes]))
        return outcomes

    monkeypatch.setattr(module, "run", partial(noted, run))
    monkeypatch.setattr(module, "run_grid", partial(noted, run_grid))
    found = searched("a", 2, strategy=strategy)
    assert calls == [(), (0, 1)]
    assert len(found.trials) == len(load_records(found.folder)) == 2


def test_a_trial_that_cannot_be_trained_counts_and_the_rest_goes_on(searched, monkeypatch):
    errors = {1: InputError("odd\nand a second line"), 2: torch.OutOfMemoryError("too much")}
    calls = []

    def picky(*args, **options):
        calls.append(args)
        if error := errors.get(len(calls)):
            raise error
        return run(*args, **options)

    monkeypatch.setattr(module, "run", picky)
    found = searched("a", 4, strategy="tpe")
    assert len(found.trials) == len(calls) == 4
    assert [trial.reason for trial in found.trials] == [
        "odd and a second line",
        "too much",
        "",
        "",
    ]
    assert found.best().number in (2, 3)
    assert found.spent()[0] == 2 * 2 * USUAL.epochs


def test_a_trial_that_diverges_among_others_counts_and_is_not_repeated(searched, monkeypatch):
    space = (SettingRange("lr", choices=(0.01, 1e30, 0.1)),)
    found = searched("a", 3, space=space)
    failed = [trial for trial in found.trials if trial.reason]
    assert [trial.settings["lr"] for trial in failed] == [1e30]
    assert found.spent()[0] == 2 * 2 * USUAL.epochs
    monkeypatch.setattr(module, "run_grid", lambda *_, **__: pytest.fail("trained again"))
    assert history(searched("a", 3, space=space)) == history(found)


def test_a_search_that_never_succeeds_says_why(searched, monkeypatch):
    def never(*_, **__):
        raise InputError("it does not fit")

    monkeypatch.setattr(module, "run", never)
    found = searched("a", 2, strategy="tpe")
    with pytest.raises(InputError, match=r"none among 2\. The last one: it does not fit"):
        found.best()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"seed": 1}, "sampler seed"),
        ({"seeds": (0, 1, 2)}, "seeds"),
        ({"space": SPACE[:2]}, "space"),
        ({"strategy": "halving", "experiment": LONG}, "experiment, strategy"),
        ({"experiment": replace(USUAL, epochs=4)}, "experiment"),
    ],
)
def test_another_search_in_the_same_folder_is_refused(searched, change, word):
    searched("a", 1)
    with pytest.raises(InputError, match=rf"another {word}\. Choose another --out"):
        searched("a", 1, **change)


@pytest.mark.parametrize(("strategy", "name"), [("tpe", "study.db"), ("random", "search.json")])
def test_a_damaged_log_is_named(tiny, tmp_path, strategy, name):
    (tmp_path / name).write_bytes(b"no study" * 100)
    with pytest.raises(InputError, match=name):
        search(tiny, tmp_path, strategy=strategy)


@pytest.mark.parametrize(
    ("old", "new"), [('"number": 0', '"number": 1'), ('"seconds": 0.0', '"seconds": true')]
)
def test_a_log_that_was_changed_is_refused(tiny, tmp_path, old, new):
    search(tiny, tmp_path).train([0], 2)
    path = tmp_path / "search.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match="was changed since"):
        search(tiny, tmp_path)
    facts = json.loads(path.read_text())
    del facts["sha256"]  # as logs were before there were digests
    path.write_text(json.dumps(facts))
    if "true" in new:
        with pytest.raises(InputError, match="has True as seconds"):
            search(tiny, tmp_path)
    else:
        assert [trial.number for trial in search(tiny, tmp_path).trials] == [1]


def test_validation_above_one_is_that_of_an_error(tmp_path):
    path, one = tmp_path / "search.json", Trial(0, {"lr": 0.01}, 2, [95.5])
    error = {"experiment": {"metric": "MAE"}}
    FileLog(path, "a", error).add([one])
    assert FileLog(path, "a", error).trials == [one]
    FileLog(tmp_path / "share.json", "a", {}).add([one])
    with pytest.raises(InputError, match="trial 0 has a val_accuracy above 1"):
        FileLog(tmp_path / "share.json", "a", {})


def test_a_study_that_was_changed_is_refused(tiny, tmp_path):
    pytest.importorskip("optuna")
    one = Trial(0, {"lr": 0.01, "dropout": 0.3, "hidden_channels": 8}, 2, [0.5, 0.25])
    study = StudyLog(tmp_path / "study.db", "a", {}, SPACE, 2)
    study.add([one])
    assert study.trials == [one]
    for change in (
        "UPDATE trial_values SET value = 0.9",
        "UPDATE trial_user_attributes SET value_json = 'null' WHERE key = 'sha256'",
    ):
        with sqlite3.connect(tmp_path / "study.db") as database:
            database.execute(change)
        with pytest.raises(InputError, match="trial 0 was changed since"):
            _ = StudyLog(tmp_path / "study.db", "a", {}, SPACE, 2).trials


@pytest.mark.parametrize(
    "change",
    [
        "trials SET state = 'a'",
        "trials SET number = number + 2",
        "trials SET number = 0",
        "trial_user_attributes SET trial_id = NULL",
        "trial_values SET value_type = ''",
        "trial_user_attributes SET value_json = 'nan'",
        "study_user_attributes SET value_json = '3'",
        "study_user_attributes SET value_json = 'null'",
        "trial_user_attributes SET key = 'another' WHERE key = 'sha256'",
    ],
)
def test_a_study_of_odd_values_is_refused(tmp_path, change):
    pytest.importorskip("optuna")
    one = Trial(0, {"lr": 0.01, "dropout": 0.3, "hidden_channels": 8}, 2, [0.5])
    two = replace(one, number=1, val_accuracy=[0.25])
    StudyLog(tmp_path / "study.db", "a", {}, SPACE, 2).add([one, two])
    with sqlite3.connect(tmp_path / "study.db") as database:
        database.execute(f"UPDATE {change}")
    with pytest.raises(InputError, match=r"study\.db to be a study of this program"):
        _ = StudyLog(tmp_path / "study.db", "a", {}, SPACE, 2).trials


@pytest.mark.parametrize("strategy", ["random", "tpe"])
def test_an_interruption_told_as_bad_input_is_no_trial(tiny, tmp_path, monkeypatch, strategy):
    if strategy == "tpe":
        pytest.importorskip("optuna")

    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        finally:
            raise InputError("Expected something else.")

    found = search(tiny, tmp_path, strategy=strategy)
    monkeypatch.setattr("drgcn.studies.run.fit", interrupted)
    with pytest.raises(InputError):
        run_searches([found], 1)
    assert not found.trials


def test_a_folder_of_another_strategy_is_left_alone(tiny, tmp_path):
    search(tiny, tmp_path / "old", strategy="tpe")
    with pytest.raises(InputError, match="--strategy tpe"):
        search(tiny, tmp_path / "old")
    search(tiny, tmp_path / "new")
    with pytest.raises(InputError, match="--strategy random"):
        search(tiny, tmp_path / "new", strategy="tpe")


# Several searches, time, and two processes


@pytest.mark.parametrize("strategy", ["random", pytest.param("tpe", marks=pytest.mark.slow)])
def test_searches_take_turns_and_stop_together_when_time_is_up(
    tiny, tmp_path, monkeypatch, strategy
):
    monkeypatch.setattr(module, "_ROUND", 1)
    plain = search(tiny, tmp_path, strategy=strategy)
    dr = replace(USUAL, reweight="dr")
    gated = search(tiny, tmp_path, experiment=dr, strategy=strategy)
    assert run_searches([plain, gated], 5, timeout=0) == 1
    assert len(plain.trials) == len(gated.trials) == 1
    assert run_searches([plain, gated], 5, timeout=0) == 1  # time spent before counts
    assert run_searches([plain, gated], 3) == 3
    assert len(plain.trials) == len(gated.trials) == 3
    # The same seed draws the same first settings for both, whatever they are worth.
    assert [t.settings for t in plain.trials] == [t.settings for t in gated.trials]


@pytest.mark.parametrize(("strategy", "ends"), [("random", [(4, 4)]), ("tpe", [(3, 4), (4, 4)])])
def test_progress_counts_every_trial_once(tiny, tmp_path, strategy, ends):
    seen = []
    found = search(tiny, tmp_path, strategy=strategy)
    run_searches([found], 2)
    run_searches([found], 4, progress=seen.append)
    finished = [now for now in seen if now.finished]
    assert [(now.done, now.in_all) for now in finished] == ends
    assert finished[-1].trained == 2
    assert finished[-1].best == found.best().value
    assert all(0 <= now.share <= 2 for now in seen)


def test_a_folder_holds_one_search_at_a_time(tmp_path):
    with (
        folder_lock(tmp_path),
        pytest.raises(InputError, match="another search is running"),
        folder_lock(tmp_path),
    ):
        pass
    with folder_lock(tmp_path):
        pass


# Hidden labels


def test_no_label_of_a_test_node_is_left(tiny):
    hidden = without_test(tiny)
    assert (hidden.y[tiny.test_mask] == -1).all()
    kept = tiny.train_mask | tiny.val_mask
    assert torch.equal(hidden.y[kept], tiny.y[kept])
    assert torch.equal(hidden.test_mask, tiny.val_mask)
    assert hidden.dataset.unlabelled == int((hidden.y < 0).sum()) > tiny.dataset.unlabelled


def test_the_graph_itself_is_left_alone(tiny):
    labels, mask, info = tiny.y.clone(), tiny.test_mask.clone(), tiny.dataset
    without_test(tiny)
    assert torch.equal(tiny.y, labels)
    assert torch.equal(tiny.test_mask, mask)
    assert tiny.dataset is info


@pytest.mark.parametrize("model", MODELS)
def test_training_and_validation_are_the_same_to_the_last_digit(tiny, tmp_path, model):
    e = recipe("planted", "random", model, reweight="dr", epochs=3)
    seen = run(e, tiny, [0, 1], tmp_path / "seen")
    hidden = run(e, without_test(tiny), [0, 1], tmp_path / "hidden")
    assert hidden.trained == (0, 1)
    for seed in (0, 1):
        assert hidden.seeds[seed].curve_val_accuracy == seen.seeds[seed].curve_val_accuracy
        assert hidden.seeds[seed].curve_train_loss == seen.seeds[seed].curve_train_loss
        assert hidden.seeds[seed].test_accuracy == hidden.seeds[seed].val_accuracy


@pytest.mark.parametrize("many_labels", [False, True])
def test_labels_of_several_graphs_are_hidden(tmp_path, many_labels):
    data = several(many_labels=many_labels)
    e = Experiment("union", "given", hidden_channels=6, epochs=3)
    seen = run(e, data, [0], tmp_path / "seen").seeds[0]
    hidden = run(e, without_test(data), [0], tmp_path / "hidden").seeds[0]
    assert hidden.val_accuracy == seen.val_accuracy == hidden.test_accuracy
    assert hidden.curve_train_loss == seen.curve_train_loss


def test_records_of_either_are_never_mixed(tiny, tmp_path):
    e = Experiment("planted", "random", hidden_channels=4, epochs=3)
    run(e, without_test(tiny), [0], tmp_path)
    outcome = run(e, tiny, [0], tmp_path)
    assert outcome.trained == (0,)
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert len(list(tmp_path.glob("*without-test*.json"))) == 1
