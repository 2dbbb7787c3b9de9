"""There is something to learn: topics, factors, attributes that tell of them, and drift."""

import math

import pytest
import torch

from drgcn.recommend.synthetic import AstarParameters, generate_astar
from drgcn.recommend.synthetic.attributes import (
    ITEM_NUMBERS,
    USER_NUMBERS,
    NodeTruth,
    item_categories,
    number_columns,
    user_categories,
)
from drgcn.recommend.synthetic.clicks import TopicMap, draw_tastes

PARAMETERS = AstarParameters()
FRACTION = 0.01


@pytest.fixture(scope="module")
def made():
    sizes = PARAMETERS.sized(FRACTION)
    topics = TopicMap.draw(PARAMETERS, sizes, 0, torch.device("cpu"))
    tastes = draw_tastes(0, sizes.users, PARAMETERS, 0, topics)
    return generate_astar(FRACTION), topics, tastes


def clicks(made):
    """User, place and day of each click."""
    data, topics, _ = made
    graph = data.graph
    users = torch.arange(graph.num_users).repeat_interleave(graph.by_user.degree)
    return users, topics.place_of[graph.by_user.col.long()].long(), graph.days


def near(found, wanted, draws):
    assert abs(found - wanted) < 4 * math.sqrt(max(wanted * (1 - wanted), 1e-4) / draws) + 1e-3


def test_topics_cover_the_items(made):
    _, topics, _ = made
    assert int(topics.sizes.sum()) == topics.item_at.numel()
    assert int(topics.sizes.min()) >= 4
    assert topics.item_at.sort().values.tolist() == list(range(topics.item_at.numel()))
    assert torch.equal(topics.item_at[topics.place_of.long()].long(), torch.arange(63_384))
    assert topics.topic_at(topics.starts[:-1]).tolist() == list(range(len(topics.sizes)))
    assert topics.topic_at(topics.starts[1:] - 1).tolist() == list(range(len(topics.sizes)))


def test_favourites_are_different_and_follow_sizes(made):
    _, topics, tastes = made
    ordered = tastes.topics.sort(1).values
    assert bool((ordered.diff(dim=1) > 0).all())
    share = torch.bincount(tastes.topics[:, 0], minlength=len(topics.sizes)).double()
    share = share / share.sum()
    expected = topics.sizes / topics.sizes.sum()
    assert float((share - expected).abs().sum()) < 0.03
    in_rising = torch.isin(tastes.topics[:, 3], topics.rising).double().mean()
    assert float(in_rising) > 0.95  # but for those moved on because a favourite was in the way


def test_single_clicks_follow_the_shares(made):
    data, topics, tastes = made
    user, place, _ = clicks(made)
    single = (data.graph.by_user.degree == 1)[user]
    hit = topics.topic_at(place[single])[:, None] == tastes.topics[user[single]]
    draws = int(single.sum())
    for column, share in enumerate((34, 16, 8, 3)):
        near(float(hit[:, column].double().mean()), share / 64, draws)


def test_last_days_are_different(made):
    """Clicks in rising topics: none before, then a tenth, a fifth and three tenths of a day."""
    _, topics, tastes = made
    user, place, day = clicks(made)
    new = topics.topic_at(place) == tastes.topics[user, 3]
    share = [float(new[day == d].double().mean()) for d in range(13)]
    assert max(share[:10]) == 0
    for found, wanted in zip(share[10:], (0.1016, 0.2031, 0.3047), strict=True):
        assert found == pytest.approx(wanted, abs=0.02)
    rising = torch.isin(topics.topic_at(place), topics.rising)
    before, last = (float(rising[which].double().mean()) for which in (day < 10, day == 12))
    assert last > before + 0.15


def test_users_click_items_like_them(made):
    """In favourite topics chosen and chance items agree on different numbers of factors."""
    _, topics, tastes = made
    user, place, _ = clicks(made)
    own = (topics.topic_at(place)[:, None] == tastes.topics[user]).any(1)
    differ = topics.latents[place].long() ^ tastes.latents[user]
    agree = 16 - sum((differ >> bit) & 1 for bit in range(16)).double()
    assert float(agree[own].mean()) > 8.9
    assert float(agree[~own].mean()) == pytest.approx(8, abs=0.05)


@pytest.mark.parametrize("side", ["users", "items"])
def test_numbers(made, side):
    data = made[0]
    table = getattr(data, side)
    columns = number_columns(USER_NUMBERS if side == "users" else ITEM_NUMBERS)
    truth = truth_of(made, side)
    rows = len(table)
    assert table.numeric.size(1) == len(columns)
    for j, column in enumerate(columns):
        values = table.numeric[:, j].double()
        present = ~values.isnan()
        near(1 - float(present.double().mean()), column.missing / 65_536, rows)
        known = values[present]
        if column.log_spread:
            assert float(known.min()) > 0
            assert float(known.median()) == pytest.approx(column.scale, rel=0.12)
            known = known.log() / column.log_spread
        else:
            mean = float(known.mean()) / column.scale
            assert mean == pytest.approx(column.offset, abs=0.12)
            known = known / column.scale
        variance = {"nothing": 1.0, "latent": 1.25, "topic": 4 / 3}[column.carries]
        assert float(known.var()) == pytest.approx(variance, rel=0.12)
        sign = truth.sign(column.factor)[present].double()
        told = float(torch.corrcoef(torch.stack([known, sign]))[0, 1])
        wanted = 0.5 / math.sqrt(1.25) if column.carries == "latent" else 0
        assert told == pytest.approx(wanted, abs=0.02)
        inside = within_topics(known, truth.topic[present])
        assert inside == pytest.approx(0.25 if column.carries == "topic" else 0, abs=0.08)


def test_scales_are_very_different(made):
    for table in (made[0].users, made[0].items):
        spreads = table.numeric.nan_to_num().double().std(0)
        assert float(spreads.min()) < 0.03
        assert float(spreads.max()) > 500
    assert len(made[0].users.numeric_names) + len(made[0].users.category_names) == 27
    assert len(made[0].items.numeric_names) + len(made[0].items.category_names) == 33


@pytest.mark.parametrize("side", ["users", "items"])
def test_categories_tell_the_truth_as_often_as_they_say(made, side):
    data, topics, _ = made
    table = getattr(data, side)
    make = user_categories if side == "users" else item_categories
    truth = truth_of(made, side)
    for j, column in enumerate(make(len(topics.sizes))):
        codes = table.categories[:, j].long()
        present = codes >= 0
        near(1 - float(present.double().mean()), column.missing / 65_536, len(table))
        assert table.category_sizes[j] == column.size
        assert int(codes.max()) < column.size
        if column.carries == "nothing":
            counts = torch.bincount(codes[present], minlength=column.size)
            first = float(counts[0]) / int(present.sum())
            near(first, 1 / math.sqrt(column.size), int(present.sum()))
            continue
        fidelity = column.fidelity / 65_536
        right = (codes == truth.code(column.carries))[present].double().mean()
        near(float(right), fidelity + (1 - fidelity) / column.size, int(present.sum()))


def truth_of(made, side):
    _, topics, tastes = made
    if side == "users":
        return NodeTruth(tastes.topics[:, 0], tastes.topics[:, 1], tastes.latents)
    place = topics.place_of.long()
    topic = topics.topic_at(place)
    return NodeTruth(topic, topic, topics.latents[place].long())


def within_topics(values, topic):
    """Share of the variance that topics explain."""
    size = torch.bincount(topic).double().clamp(min=1)
    mean = torch.zeros(len(size), dtype=torch.float64).index_add(0, topic, values) / size
    return float(1 - (values - mean[topic]).square().mean() / values.var())
