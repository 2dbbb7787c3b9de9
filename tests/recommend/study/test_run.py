import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickGraph
from drgcn.recommend.model import build_model, embed_all, train
from drgcn.recommend.retrieval import evaluate
from drgcn.recommend.study import EvaluationSplit, StudySettings
from drgcn.recommend.study.run import StudyRun, parts_of
from drgcn.recommend.study.settings import StudyRecord, packed, unpacked

from .small import SMALL, official, settled, timed

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[3] / "results" / "recommend"


def run(data, settings, **options):
    by_time = settings.split == "time"
    parts = (
        EvaluationSplit.by_time(data, settings.days) if by_time else EvaluationSplit.official(data)
    )
    return StudyRun(data, parts, settings, CPU, **options)


def poisoned(data, days):
    """The same clicks before the test; in the test, other clicks, of which there are more."""
    graph = data.graph
    begin = int(graph.days.max()) - days + 1
    users = torch.repeat_interleave(torch.arange(graph.num_users), graph.by_user.degree)
    kept = graph.days < begin
    generator = torch.Generator().manual_seed(9)
    new = torch.randint(graph.num_users, (400,), generator=generator)
    pick = torch.randint(graph.num_items, (400,), generator=generator)
    seen = set(zip(users[kept].tolist(), graph.by_user.col[kept].tolist(), strict=True))
    fresh = [i for i in range(400) if (int(new[i]), int(pick[i])) not in seen]
    columns = (
        torch.cat([users[kept], new[fresh]]),
        torch.cat([graph.by_user.col[kept].long(), pick[fresh]]),
    )
    day = torch.cat([graph.days[kept], torch.full((len(fresh),), begin + days - 1)])
    made = ClickGraph.from_pairs(*columns, graph.num_users, graph.num_items, day)
    return replace(data, graph=made)


def test_lists_that_hold_all_items_are_refused():
    assert parts_of(timed(), replace(SMALL, n=(39, 50))).test.targets.num_clicks
    with pytest.raises(InputError, match="shorter than the 40 items; found 40"):
        parts_of(timed(), replace(SMALL, n=(40, 5)))


@pytest.mark.parametrize("gate", ["none", "dr"])
def test_nothing_of_the_test_reaches_training_or_choice(gate):
    data = timed()
    settings = replace(SMALL, gate=gate)
    model, plateau = run(data, settings).chosen()
    other = poisoned(data, settings.days)
    assert other.content_hash != data.content_hash
    again, same = run(other, settings).chosen()
    assert plateau.history == same.history
    assert plateau.best_step == same.best_step
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_poison_in_validation_is_noticed():
    # The test above could not fail if histories never changed.
    data = timed()
    _, plateau = run(data, SMALL).chosen()
    later = replace(SMALL, days=1)
    assert run(data, later).chosen()[1].history != plateau.history


def test_kept_weights_are_asked_with_all_clicks_before_the_test():
    one = run(timed(), SMALL)
    record = one.record({})
    model, plateau = one.chosen()
    split = one.parts.test
    vectors = embed_all(model, one.data, split.train)
    for n in SMALL.n:
        report = evaluate(*vectors, split, n, exclude_seen=True)
        assert record.test[str(n)] == report.to_dict()
    assert unpacked(record.user_recall).mean() == pytest.approx(record.recall(), rel=1e-6)
    assert record.trained_steps == plateau.best_step
    assert record.choice["best_recall"] == max(row["recall"] for row in record.history)
    assert record.data["parts"] == one.parts.counts


def test_pieces_are_one_training():
    # Looks in between change nothing: the last weights are those of one call of train().
    settings = replace(SMALL, gate="dr", patience=100)
    one = run(timed(), settings)
    graph = one.parts.validation.train
    whole = build_model(one.data, graph, settings.model_options())
    steps = settings.steps(settings.epochs_max, graph.num_clicks)
    train(whole, one.data, graph, settings.training(steps))
    model, plateau = run(timed(), replace(settings, every=settings.epochs_max)).chosen()
    looked, many = one.chosen()
    assert (len(plateau.history), plateau.best_step) == (1, steps)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    if many.best_step == steps:
        assert torch.equal(looked.layers[0].own["user"], whole.layers[0].own["user"])
    last = many.history[-1]
    assert (last["step"], last["recall"]) == (steps, plateau.history[0]["recall"])


def test_refit_trains_anew_on_all_clicks_for_as_many_epochs():
    settings = replace(SMALL, protocol="refit")
    one = run(timed(), settings)
    record = one.record({})
    before, after = one.parts.validation.train.num_clicks, one.parts.test.train.num_clicks
    assert record.trained_steps == round(record.choice["best_step"] * after / before)
    graph = one.parts.test.train
    model = build_model(one.data, graph, settings.model_options())
    train(model, one.data, graph, settings.training(record.trained_steps))
    vectors = embed_all(model, one.data, graph)
    assert record.test["5"] == evaluate(*vectors, one.parts.test, 5, exclude_seen=True).to_dict()


@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_lightgcn_with_a_fixed_number_of_epochs_chooses_nothing(loss):
    settings = StudySettings(
        model="lightgcn",
        protocol="fixed",
        split="official",
        n=(5,),
        channels=8,
        layers=2,
        batch_size=64,
        loss=loss,
        draw="users",
        weight_decay=1e-4,
        epochs_max=3.0,
        temperature=1.0,
        normalize=False,
        negatives=16,
    )
    one = run(official(), settings)
    record = one.record({})
    assert record.choice is None
    assert record.history == []
    assert record.trained_steps == round(3 * one.parts.test.train.num_clicks / 64)
    assert record.recall() > 0


def test_sage_without_attributes_has_embeddings_of_nodes():
    settings = replace(SMALL, split="official", gate="static")
    record = run(official(), settings).record({})
    assert record.model["user_id_channels"] == record.model["item_id_channels"] == 8
    assert record.model["user_id_rows"] is None


def test_records_come_back_as_they_were(tmp_path):
    record = run(timed(), SMALL).record({"device": "here"})
    path = record.save(tmp_path)
    again = StudyRecord.loads(path.read_text())
    assert again == record
    assert settled(again) == settled(record)
    before = path.stat().st_mtime_ns
    replace(record, started="later").save(tmp_path)  # which never overwrites
    assert path.stat().st_mtime_ns == before
    assert [p.name for p in tmp_path.iterdir()] == [record.file_name]


def test_settings_that_mean_nothing_are_refused():
    for change, words in [
        ({"gate": "half"}, "Expected gate"),
        ({"model": "lightgcn", "gate": "dr"}, "no gate for lightgcn"),
        ({"n": ()}, "at least one item"),
        ({"patience": 0}, "above zero"),
        ({"lr": 0.0}, "lr above zero"),
    ]:
        with pytest.raises(InputError, match=words):
            replace(SMALL, **change)


def _changed(facts, place, value):
    """Set a value at a path such as ``data.name``."""
    *outer, last = place.split(".")
    for name in outer:
        facts = facts[name]
    facts[last] = value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("purpose", "other"),
        ("data", []),
        ("data.name", 3),
        ("data.users", "many"),
        ("settings.seed", True),
        ("settings.lr", "1e-3"),
        ("settings.n", "20"),
        ("seconds", {"train": -1.0}),
        ("trained_steps", 1.5),
        ("test", {}),
        ("test.20.model.all.recall.mean", 95.5),
        ("test.20.model.all.recall.mean", None),
        ("choice.best_recall", float("nan")),
        ("history", [{"step": 1}]),
        ("user_recall", "x"),
        ("user_recall", packed(np.array([2.0]))),
        ("identity", "0" * 64),
    ],
)
def test_a_record_with_unsound_values_is_refused(place, value):
    path = sorted(RESULTS.glob("compare-movielens-100k-*.json"))[0]
    text = path.read_text(encoding="utf-8")
    StudyRecord.loads(text)
    facts = json.loads(text)
    _changed(facts, place, value)
    with pytest.raises(InputError, match="Expected a record of a study"):
        StudyRecord.loads(json.dumps(facts))
