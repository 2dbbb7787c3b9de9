"""The vectorised drawing equals the literal one, value for value."""

import pytest
import torch

from drgcn.recommend.synthetic import AstarParameters, generate_astar
from drgcn.recommend.synthetic.attributes import (
    ITEM_NUMBERS,
    USER_NUMBERS,
    item_categories,
    number_columns,
    user_categories,
)
from drgcn.recommend.synthetic.clicks import TopicMap, day_ends
from drgcn.recommend.synthetic.random import clicks_of_users, rank_table
from tests.recommend.synthetic.literal_astar import Literal

# Few items and busy users: topics run full, slices meet, and much is left to the rest.
CROWDED = AstarParameters(users=120, items=500, clicks=1900, most_clicks=31, candidates=3)
SHORT = AstarParameters(
    users=90,
    items=300,
    clicks=300,
    favourite_shares=(20, 10, 5),
    rising_share=10,
    rising_topics=3,
    candidates=1,
    latent_bits=5,
    days=4,
    rising_days=(2, 3),
)


def literal(parameters, seed):
    sizes = parameters.sized(1)
    topics = TopicMap.draw(parameters, sizes, seed, torch.device("cpu"))
    at_least = clicks_of_users(sizes.users, sizes.clicks, parameters.user_tail, sizes.most_clicks)
    return Literal(
        parameters,
        seed,
        topics.sizes.tolist(),
        at_least.tolist(),
        rank_table(parameters.item_tail).tolist(),
        day_ends(parameters),
    )


@pytest.mark.parametrize(("parameters", "seed"), [(CROWDED, 0), (CROWDED, 2**63 - 1), (SHORT, 3)])
def test_clicks(parameters, seed):
    data, slow = (
        generate_astar(1, seed, parameters=parameters, chunk=17),
        literal(parameters, seed),
    )
    ends = data.graph.by_user.rowptr.tolist()
    items, days = data.graph.by_user.col.tolist(), data.graph.days.tolist()
    for user in range(parameters.users):
        here = slice(ends[user], ends[user + 1])
        assert list(zip(items[here], days[here], strict=True)) == slow.clicks(user)


def test_crowded_is_crowded():
    """The hard cases do occur: full topics, and slices that meet."""
    slow = literal(CROWDED, 0)
    full = sum(
        slow.divide(user, slow.tastes(user)[0])[0] == slow.sizes[slow.tastes(user)[0][0]] // 2
        for user in range(CROWDED.users)
    )
    assert full > 5


@pytest.mark.parametrize("side", ["users", "items"])
def test_attributes(side):
    data, slow = generate_astar(1, 5, parameters=CROWDED, chunk=64), literal(CROWDED, 5)
    topics = len(slow.sizes)
    users = side == "users"
    numbers = number_columns(USER_NUMBERS if users else ITEM_NUMBERS)
    categories = user_categories(topics) if users else item_categories(topics)
    streams = (10, 11) if users else (12, 13)
    table = getattr(data, side)
    values = [column.values().tolist() for column in numbers]
    numeric, codes = table.numeric.tolist(), table.categories.tolist()
    place_of = {item: place for place, item in enumerate(slow.item_at)}
    for node in range(0, len(table), 3):
        if users:
            (topic, second, *_), latents = slow.tastes(node)
        else:
            topic = second = slow.topic_at(place_of[node])
            latents = slow.item_latents(place_of[node])
        for j, column in enumerate(numbers):
            found = numeric[node][j]
            wanted = slow.number(streams[0], column, j, node, topic, latents, values[j])
            assert found == wanted or (wanted is None and found != found)
        for j, column in enumerate(categories):
            true = {
                "topic": topic,
                "group": topic // 16,
                "second": second,
                "style": latents >> 6 & 15,
                "brand": 4 * topic + (latents >> 10 & 3),
                "nothing": None,
            }[column.carries]
            assert codes[node][j] == slow.category(streams[1], column, j, node, true)


@pytest.mark.parametrize("skew", [0.0, 0.99])
def test_room_for_the_busiest(skew):
    """With as few items as there may be, nobody is asked for more than half of a group."""
    for items in (64, 70, 100, 257, 3000):
        most = items // 16
        parameters = AstarParameters(
            users=200, items=items, clicks=200 * most - 50, topic_skew=skew, user_tail=2.01
        )
        slow = literal(parameters, 1)
        for user in range(200):
            topics = slow.tastes(user)[0]
            rest = items - sum(slow.sizes[topic] for topic in topics)
            assert slow.divide(user, topics)[4] <= rest // 2
        graph = generate_astar(1, 1, parameters=parameters).graph
        users = torch.arange(200).repeat_interleave(graph.by_user.degree)
        assert bool(((users * items + graph.by_user.col).diff() > 0).all())
