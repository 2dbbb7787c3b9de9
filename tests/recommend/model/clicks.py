"""Small random clicks for the tests of this room."""

import torch

from drgcn.recommend.clicks import AttributeTable, ClickData, ClickGraph
from drgcn.recommend.model.run_folder import ModelOptions, build_model


def table(nodes, generator, missing=True):
    numeric = torch.randn(nodes, 3, generator=generator) * torch.tensor([1.0, 100.0, 0.01])
    if missing:
        numeric[torch.rand(nodes, generator=generator) < 0.2, 1] = float("nan")
    low = -1 if missing else 0
    columns = [torch.randint(low, size, (nodes,), generator=generator) for size in (4, 7)]
    categories = torch.stack(columns, dim=1).int()
    return AttributeTable(numeric.float(), categories, ("a", "b", "c"), ("kind", "place"), (4, 7))


def graph(users=60, items=40, clicks=300, seed=0, days=None):
    generator = torch.Generator().manual_seed(seed)
    # The last users and items have no clicks, and some items are far more popular than others.
    user = torch.randint(users - 5, (clicks,), generator=generator)
    item = (torch.rand(clicks, generator=generator) ** 2 * (items - 3)).long()
    day = None if days is None else torch.randint(days, (clicks,), generator=generator)
    return ClickGraph.from_pairs(user, item, users, items, day)


def data(users=60, items=40, clicks=300, seed=0, days=None):
    generator = torch.Generator().manual_seed(seed + 1)
    tables = table(users, generator), table(items, generator)
    return ClickData(graph(users, items, clicks, seed, days), *tables)


def planted(users=80, items=40, clicks=600):
    """Four groups of users and items, told by a category; nine in ten clicks stay in a group."""
    generator = torch.Generator().manual_seed(5)
    user = torch.randint(users, (clicks,), generator=generator)
    item = torch.randint(items // 4, (clicks,), generator=generator) * 4
    astray = torch.randint(4, (clicks,), generator=generator)
    inside = torch.rand(clicks, generator=generator) < 0.9
    item = item + torch.where(inside, user % 4, astray)
    tables = []
    for nodes in (users, items):
        found = table(nodes, generator)
        found.categories[:, 0] = torch.arange(nodes) % 4
        tables.append(found)
    return ClickData(ClickGraph.from_pairs(user, item, users, items), *tables)


def new_model(clicks, **options):
    return build_model(clicks, clicks.graph, ModelOptions(**options))


def full_tree(clicks, side, roots, depth):
    """A tree of all neighbours, padded to the longest row."""
    from drgcn.recommend.model.sampling import ClickTree, other, rows_of

    levels, at = [roots], side
    for _ in range(depth):
        rows = rows_of(clicks, at)
        places = torch.full((rows.num_rows + 1, rows.longest_row), rows.num_cols)
        for row in range(rows.num_rows):
            found = rows.col[rows.rowptr[row] : rows.rowptr[row + 1]]
            places[row, : found.numel()] = found.long()
        levels.append(places[levels[-1]])
        at = other(at)
    own = rows_of(clicks, side)
    return ClickTree(side, tuple(levels), (own.num_rows, own.num_cols))
