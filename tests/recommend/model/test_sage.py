import importlib

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import HeteroConv, SAGEConv

from drgcn.errors import InputError
from drgcn.recommend.model.embedding import embed_all, embed_cold, freeze
from drgcn.recommend.model.encoder import AttributeSummary, encode_means
from drgcn.recommend.model.run_folder import attribute_summaries, initial_weights
from drgcn.recommend.model.sage import ClickSAGE, SAGELayer
from drgcn.recommend.model.sampling import ClickTree, other

from .clicks import data, full_tree, table

GATES = [None, "constant", "static", "dr"]


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model_for(clicks, gate=None, **options):
    options = {"hidden_channels": 12, "out_channels": 6, "fan_outs": (4, 3), **options}
    with initial_weights(0):
        model = ClickSAGE(*attribute_summaries(clicks, clicks.graph), gate=gate, **options)
    with torch.no_grad():  # zeros and halves would hide mistakes
        for layer in model.sage_layers:
            for side in ("user", "item"):
                layer.bias[side].normal_()
                if gate == "static":
                    layer.gates[side].logits.normal_()
                if gate == "dr":
                    layer.gates[side].excite_bias.normal_()
    return model


def encoded(model, attributes, side):
    nodes = torch.arange(attributes[side].num_nodes)[:, None]
    return encode_means(model.encoder(side), attributes[side], nodes)


def all_trees(clicks, depth=2):
    sizes = {"user": clicks.num_users, "item": clicks.num_items}
    return [full_tree(clicks, side, torch.arange(n), depth) for side, n in sizes.items()]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_full_neighbourhoods_equal_heteroconv_of_pyg(depth):
    clicks = data(30, 20, 60)
    model = model_for(clicks, fan_outs=(2,) * depth)
    attributes = model.prepare(clicks)
    g = clicks.graph
    user = torch.arange(g.num_users).repeat_interleave(g.by_user.degree)
    item = g.by_user.col.long()
    edges = {
        ("user", "to", "item"): torch.stack([user, item]),
        ("item", "to", "user"): torch.stack([item, user]),
    }
    h = {side: encoded(model, attributes, side) for side in ("user", "item")}
    for number, layer in enumerate(model.sage_layers):
        convolutions = {}
        for side in ("user", "item"):
            widths = layer.in_channels[other(side)], layer.in_channels[side]
            conv = SAGEConv(widths, layer.bias[side].numel())
            conv.lin_l.weight.data = layer.neighbor[side].detach()
            conv.lin_l.bias.data = layer.bias[side].detach()
            conv.lin_r.weight.data = layer.own[side].detach()
            convolutions[other(side), "to", side] = conv
        h = HeteroConv(convolutions)(h, edges)
        if number + 1 < depth:
            h = {side: value.relu() for side, value in h.items()}
    expected = [F.normalize(h[side], dim=-1) for side in ("user", "item")]
    found = model(all_trees(g, depth), attributes)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(list(embed_all(model, attributes, g)), expected)


def literal(model, trees, attributes, means=None, counted=None):
    """Place by place, every vector multiplied by its gate before the mean; means pooled over all
    places of the trees, or given."""
    vectors = {side: encoded(model, attributes, side) for side in ("user", "item")}
    h = []  # one table of vectors per tree and level, nobody as None
    for tree in trees:
        levels = []
        for level, nodes in enumerate(tree.levels):
            x = vectors[tree.side_of(level)]
            flat = nodes.flatten().tolist()
            levels.append([x[node] if node < len(x) else None for node in flat])
        h.append(levels)
    for number, layer in enumerate(model.sage_layers):
        gates = {}
        for side in ("user", "item"):
            rows = []
            for t, (tree, levels) in enumerate(zip(trees, h, strict=True)):
                roots = tree.levels[0].numel()
                for level, places in enumerate(levels):
                    counts = roots if counted is None else counted[t]
                    kept = places[: len(places) // roots * counts]
                    if tree.side_of(level) == side:
                        rows += [row for row in kept if row is not None]
            mean = torch.stack(rows).mean(0) if means is None else means[number][side]
            s = layer.gates[side].from_mean(mean) if layer.gates else torch.ones_like(mean)
            gates[side] = s
        outputs = []
        for tree, levels in zip(trees, h, strict=True):
            new = []
            for level in range(len(levels) - 1):
                side, count = tree.side_of(level), tree.levels[level + 1].size(-1)
                rows = []
                for place, own in enumerate(levels[level]):
                    if own is None:
                        rows.append(None)
                        continue
                    below = levels[level + 1][place * count : (place + 1) * count]
                    gated = [row * gates[other(side)] for row in below if row is not None]
                    width = layer.in_channels[other(side)]
                    mean = sum(gated) / len(gated) if gated else torch.zeros(width)
                    out = layer.own[side] @ (own * gates[side]) + layer.bias[side]
                    out = out + layer.neighbor[side] @ mean
                    rows.append(out if number + 1 == len(model.layers) else out.relu())
                new.append(rows)
            outputs.append(new)
        h = outputs
    return [F.normalize(torch.stack(levels[0]), dim=-1) for levels in h]


def drawn_trees(clicks, fan_outs, roots=9, mask=True):
    users = torch.arange(roots)
    items = clicks.by_user.col[clicks.by_user.rowptr[users]].long()
    partners = (items, users) if mask else (None, None)
    return [
        ClickTree.draw(clicks, "user", users, fan_outs, torch.tensor(3), partners=partners[0]),
        ClickTree.draw(clicks, "item", items, fan_outs, torch.tensor(4), partners=partners[1]),
    ]


@pytest.mark.parametrize(
    ("gate", "fan_outs"), [*((gate, (4, 3)) for gate in GATES), ("dr", (3,)), ("dr", (2, 2, 2))]
)
def test_gates_after_the_mean_in_the_weights_equal_gates_on_every_vector(gate, fan_outs):
    clicks = data()
    model = model_for(clicks, gate, fan_outs=fan_outs, item_id_channels=5)
    attributes = model.prepare(clicks)
    trees = drawn_trees(clicks.graph, fan_outs)
    counted = (9, 4)
    found = model(trees, attributes, counted=counted)
    expected = literal(model, trees, attributes, counted=counted)
    torch.testing.assert_close(found, expected)
    weights = [p for p in model.parameters() if p.numel()]
    grads = [
        torch.autograd.grad(sum((z[:, 0] ** 2).sum() for z in zs), weights, allow_unused=True)
        for zs in (found, expected)
    ]
    for mine, theirs in zip(*grads, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs)


def test_pooled_means_and_so_gates_depend_on_the_batch_only_in_training():
    clicks = data()
    model = model_for(clicks, "dr")
    attributes = model.prepare(clicks)
    freeze(model, attributes, clicks.graph)
    trees = drawn_trees(clicks.graph, (4, 3), roots=20)
    halves = [ClickTree(t.side, tuple(level[:10] for level in t.levels), t.sizes) for t in trees]
    for training in (True, False):
        model.train(training)
        whole, half = model(trees, attributes), model(halves, attributes)
        same = [torch.allclose(a[:10], b, atol=1e-12) for a, b in zip(whole, half, strict=True)]
        assert same == [not training] * 2


def test_frozen_weights_equal_live_dr_pooled_over_all_clicks():
    """Freezing pools each layer over clicks; with those means the literal model agrees."""
    clicks = data(25, 15, 70)
    model = model_for(clicks, "dr").eval()
    attributes = model.prepare(clicks)
    freeze(model, attributes, clicks.graph)
    g = clicks.graph
    user = torch.arange(g.num_users).repeat_interleave(g.by_user.degree)
    item = g.by_user.col.long()
    h = {side: encoded(model, attributes, side) for side in ("user", "item")}
    layer = model.sage_layers[0]
    first = {"user": h["user"][user].mean(0), "item": h["item"][item].mean(0)}
    for side in first:
        torch.testing.assert_close(layer.frozen_means()[side], first[side])
    # A model of one layer gives the hidden vectors that the second layer pools.
    weights = layer.folded(layer.gate_vectors(first))
    means = {}
    for side, rows, cols in (("user", user, item), ("item", item, user)):
        total = torch.zeros(h[side].size(0), h[other(side)].size(1))
        total.index_add_(0, rows, h[other(side)][cols])
        degree = torch.bincount(rows, minlength=len(total)).clamp(min=1)
        means[side] = total / degree[:, None]
    hidden = {side: layer.apply_weights(weights[side], h[side], means[side]).relu() for side in h}
    second = {"user": hidden["user"][user].mean(0), "item": hidden["item"][item].mean(0)}
    for side in second:
        torch.testing.assert_close(model.sage_layers[1].frozen_means()[side], second[side])
    trees = all_trees(g)
    expected = literal(model, trees, attributes, means=[first, second])
    torch.testing.assert_close(model(trees, attributes), expected)
    torch.testing.assert_close(list(embed_all(model, clicks, g)), expected)


@pytest.mark.parametrize("gate", GATES)
def test_the_target_edge_is_invisible(gate):
    """Taking a click out of the graph, or changing what is at its other end, changes nothing."""
    clicks = data(30, 20, 60)
    g = clicks.graph
    model = model_for(clicks, gate).eval()
    attributes = model.prepare(clicks)
    freeze(model, attributes, g)
    users = torch.arange(g.num_users).repeat_interleave(g.by_user.degree)
    items = g.by_user.col.long()
    for edge in range(0, g.num_clicks, 7):
        kept = torch.arange(g.num_clicks) != edge
        without = type(g).from_pairs(users[kept], items[kept], g.num_users, g.num_items)
        pair = users[edge : edge + 1], items[edge : edge + 1]
        masked = []
        for side, root, partner in (("user", *pair), ("item", *pair[::-1])):
            tree = full_tree(g, side, root, 2)
            first = tree.levels[1]
            nobody = torch.full_like(first, tree.sizes[1])
            hidden = torch.where(first == partner, nobody, first)
            expected = model([full_tree(without, side, root, 2)], attributes)[0]
            # The masked place has nobody below it either; other rows are as they were.
            below = full_tree(g, other(side), hidden.flatten(), 1).levels[1]
            level = ClickTree(side, (root, hidden, below.view(1, first.size(1), -1)), tree.sizes)
            masked.append((model([level], attributes)[0], expected))
        for found, expected in masked:
            torch.testing.assert_close(found, expected)


def test_drawn_trees_never_hold_the_target_edge_unless_asked_to():
    g = data(30, 20, 200).graph
    users = torch.arange(g.num_users).repeat_interleave(g.by_user.degree)
    items = g.by_user.col.long()
    for side, roots, partners in (("user", users, items), ("item", items, users)):
        seen = {}
        for mask in (True, False):
            tree = ClickTree.draw(
                *(g, side, roots, (6, 3, 3), torch.tensor(1)),
                partners=partners if mask else None,
            )
            found = 0
            for level in range(1, 4):
                above, below = tree.levels[level - 1].unsqueeze(-1), tree.levels[level]
                shape = [-1] + [1] * level
                ends = roots.view(shape), partners.view(shape)
                mine, theirs = ends if level % 2 else ends[::-1]
                found += int(((above == mine) & (below == theirs)).sum())
            seen[mask] = found
        assert seen[True] == 0
        assert seen[False] > 100


def test_a_users_vector_does_not_depend_on_the_item_it_is_to_find():
    """Bit for bit: other attributes at the far end of the masked click leave the vector alone."""
    clicks = data()
    g = clicks.graph
    model = model_for(clicks, item_id_channels=4)
    attributes = model.prepare(clicks)
    users = torch.arange(20)
    items = g.by_user.col[g.by_user.rowptr[users]].long()
    leaks = 0
    for user, item in zip(users, items, strict=True):
        for mask in (True, False):
            partner = item[None] if mask else None
            tree = ClickTree.draw(g, "user", user[None], (8, 3), torch.tensor(2), partners=partner)
            (before,) = model([tree], attributes)
            numeric = attributes.item.numeric.clone()
            attributes.item.numeric[item] += 100
            (after,) = model([tree], attributes)
            attributes.item.numeric.copy_(numeric)
            drawn = bool((tree.levels[1] == item).any())
            assert torch.equal(before, after) == (not drawn)
            assert not (mask and drawn)
            leaks += drawn
    assert leaks == 20  # eight places at even distances pass over no item of a short row


def test_cold_nodes_are_embedded_by_attributes_alone():
    clicks = data()
    model = model_for(clicks, "dr", user_id_channels=4, user_id_rows=8).eval()
    freeze(model, clicks, clicks.graph)
    cold = torch.arange(55, 60)
    assert (clicks.graph.by_user.degree[cold] == 0).all()
    with torch.no_grad():
        model.encoder("user").id_table.zero_()
    expected = embed_all(model, clicks, clicks.graph)[0][cold]
    torch.testing.assert_close(embed_cold(model, "user", clicks.users.rows(cold)), expected)
    torch.testing.assert_close(expected.norm(dim=1), torch.ones(5))


@pytest.mark.parametrize("gate", [None, "dr"])
def test_pieces_and_large_fan_outs_approach_the_exact_embeddings(monkeypatch, gate):
    module = importlib.import_module("drgcn.recommend.model.embedding")
    clicks = data()
    model = model_for(clicks, gate).eval()
    freeze(model, clicks, clicks.graph)
    exact = embed_all(model, clicks, clicks.graph)
    monkeypatch.setattr(module, "_ROWS", 7)
    monkeypatch.setattr(module, "_ENTRIES", 11)
    pieces = embed_all(model, clicks, clicks.graph)
    torch.testing.assert_close(pieces, exact)
    errors = []
    for count in (2, 200):
        drawn = embed_all(model, clicks, clicks.graph, fan_outs=(count, count))
        errors.append(max(float((a - b).abs().max()) for a, b in zip(drawn, exact, strict=True)))
    assert errors[1] < 0.02 < errors[0]
    half = embed_all(model, clicks, clicks.graph, dtype=torch.float16)
    torch.testing.assert_close(half[0].double(), exact[0], atol=2e-2, rtol=0)


def test_fan_outs_of_embeddings_go_from_the_roots_on(monkeypatch):
    module = importlib.import_module("drgcn.recommend.model.embedding")
    counts, draw = [], module.draw_systematic

    def watched(rows, nodes, count, *arguments, **options):
        counts.append(count)
        return draw(rows, nodes, count, *arguments, **options)

    monkeypatch.setattr(module, "draw_systematic", watched)
    clicks = data()
    embed_all(model_for(clicks).eval(), clicks, clicks.graph, fan_outs=(5, 3))
    assert counts == [3, 3, 5, 5]  # the first layer, of users and items, is farthest from roots


def test_unfrozen_dr_and_other_bad_input_are_refused():
    clicks = data()
    model = model_for(clicks, "dr")
    with pytest.raises(InputError, match="freeze"):
        embed_all(model, clicks, clicks.graph)
    with pytest.raises(InputError, match="freeze"):
        embed_cold(model, "user", table(3, torch.Generator().manual_seed(0)))
    with pytest.raises(InputError, match="2 levels"):
        model(drawn_trees(clicks.graph, (3,)), model.prepare(clicks))
    with pytest.raises(InputError, match="user_id_channels"):
        ClickSAGE(AttributeSummary(10), AttributeSummary(10))
    with pytest.raises(InputError, match="gate to be one of"):
        SAGELayer({"user": 3, "item": 3}, 4, "sigmoid")
    with pytest.raises(InputError, match="fan-outs"):
        model_for(clicks, fan_outs=())
    with pytest.raises(InputError, match="temperature"):
        model_for(clicks, temperature=0)
