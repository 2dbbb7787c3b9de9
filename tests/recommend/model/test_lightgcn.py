import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import LightGCN as PyGLightGCN

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData
from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model import train
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.model.encoder import encode_means
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.objectives import LightGCNObjective, TrainSettings
from drgcn.recommend.model.run_folder import describe, from_description
from drgcn.recommend.model.sampling import unclicked_items, uniform_items

from .clicks import data, graph, new_model, planted


def literal(clicks, embeddings, layers):
    """Dense, by the formulas of the paper."""
    nodes = clicks.num_users + clicks.num_items
    A = np.zeros((nodes, nodes))
    for user in range(clicks.num_users):
        for item in clicks.by_user.col[
            clicks.by_user.rowptr[user] : clicks.by_user.rowptr[user + 1]
        ]:
            A[user, clicks.num_users + int(item)] = A[clicks.num_users + int(item), user] = 1
    degree = A.sum(1)
    scale = np.zeros_like(degree)
    scale[degree > 0] = degree[degree > 0] ** -0.5
    A = scale[:, None] * A * scale[None, :]
    E = embeddings.detach().double().numpy()
    total, H = E.copy(), E
    for _ in range(layers):
        H = A @ H
        total += H
    return total / (layers + 1)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_forward_equals_the_dense_formulas_and_pyg(layers):
    clicks = graph()
    model = LightGCN(clicks.num_users, clicks.num_items, 8, layers)
    users, items = model(model.prepare(clicks))
    found = torch.cat([users, items])
    expected = torch.from_numpy(literal(clicks, model.embeddings, layers)).float()
    torch.testing.assert_close(found, expected)
    theirs = PyGLightGCN(found.size(0), 8, layers)
    theirs.embedding.weight.data = model.embeddings.detach()
    user = torch.arange(clicks.num_users).repeat_interleave(clicks.by_user.degree)
    item = clicks.by_user.col.long() + clicks.num_users
    both = torch.stack([torch.cat([user, item]), torch.cat([item, user])])
    torch.testing.assert_close(found, theirs.get_embedding(both))
    torch.testing.assert_close(embed_all(model, data(), clicks), (users, items))


def test_bpr_with_penalty_equals_the_loss_of_pyg_and_its_gradient():
    clicks = graph()
    model = LightGCN(clicks.num_users, clicks.num_items, 8, 2)
    settings = TrainSettings(loss="bpr", weight_decay=0.01)
    objective = LightGCNObjective(model, clicks, clicks, settings, Exchange())
    users = torch.arange(20)
    items = clicks.by_user.col[clicks.by_user.rowptr[users]].long()
    key = torch.tensor(99)
    loss = objective(users, items, key)
    (grad,) = torch.autograd.grad(loss, model.embeddings)
    from drgcn.streams import call_key

    negatives = unclicked_items(call_key(key, 100), users, clicks.by_user, objective.pairs)
    theirs = PyGLightGCN(100, 8, 2)
    theirs.embedding.weight.data = model.embeddings.detach().clone()
    user = torch.arange(clicks.num_users).repeat_interleave(clicks.by_user.degree)
    item = clicks.by_user.col.long() + clicks.num_users
    both = torch.stack([torch.cat([user, item]), torch.cat([item, user])])
    out = theirs.get_embedding(both)
    rank = [(out[users] * out[60 + i]).sum(-1) for i in (items, negatives)]
    nodes = torch.cat([users, 60 + items, 60 + negatives])
    # PyG leaves out the half that the authors put before the squares.
    expected = theirs.recommendation_loss(*rank, node_id=nodes, lambda_reg=0.005)
    torch.testing.assert_close(loss, expected)
    expected.backward()
    torch.testing.assert_close(grad, theirs.embedding.weight.grad)


def test_negatives_are_unclicked_and_uniform_among_those():
    clicks = graph(users=8, items=9, clicks=25)
    user = torch.arange(8).repeat_interleave(clicks.by_user.degree)
    pairs = user * 9 + clicks.by_user.col
    users = torch.full((40_000,), int(clicks.by_user.degree.argmax()))
    drawn = unclicked_items(torch.tensor(5), users, clicks.by_user, pairs)
    row = clicks.by_user.col[slice(*clicks.by_user.rowptr[users[0] : users[0] + 2].tolist())]
    counts = torch.bincount(drawn, minlength=9).double()
    share = len(row) / 9  # of draws that hit; four in a row may be kept
    clicked = torch.zeros(9, dtype=torch.bool).index_fill_(0, row.long(), True)
    # Fewer tries than the last are checked: only what failed three times can be a click.
    assert float(counts[clicked].sum()) / 40_000 == pytest.approx(share**4, abs=0.02)
    free = counts[~clicked]
    expected = free.mean()
    assert float(((free - expected) ** 2 / expected).sum()) < 27  # at most 8 degrees, p = 0.001


def test_uniform_items_are_uniform_and_numbered():
    drawn = uniform_items(torch.tensor(1), 50_000, 7)
    counts = torch.bincount(drawn, minlength=7).double()
    assert counts.numel() == 7
    assert float(((counts - 50_000 / 7) ** 2 / (50_000 / 7)).sum()) < 22.5  # 6 degrees, p = 0.001
    assert torch.equal(uniform_items(torch.tensor(1), 10, 7, first=20), drawn[20:30])


def test_a_graph_of_other_sizes_is_refused():
    model = LightGCN(60, 40)
    with pytest.raises(InputError, match="60 users and 40 items"):
        model.prepare(graph(users=61))


def hybrid(clicks, **options):
    made = new_model(clicks, model="hybrid", channels=8, layers=2, **options)
    return made, made.inputs(clicks.graph, made.prepare_attributes(clicks))


@pytest.mark.parametrize("gate", ["none", "constant", "static", "dr"])
def test_the_hybrid_is_lightgcn_over_ids_and_attributes(gate):
    clicks = data()
    model, inputs = hybrid(clicks, gate=gate)
    users, items = model(inputs)  # in training: a Dr gate sees the mean over clicks
    first, degrees = [], (clicks.graph.by_user.degree, clicks.graph.by_item.degree)
    rows = model.embeddings.split([60, 40])
    for side, own, degree in zip(("user", "item"), rows, degrees, strict=True):
        nodes = torch.arange(len(degree))[:, None]
        x = encode_means(model.encoder(side), inputs.attributes[side], nodes)
        if gate != "none":
            x = x * model.gates[side].from_mean((degree[:, None] * x).sum(0) / degree.sum())
        tower = F.linear(x, model.weight[side], model.bias[side])
        first.append((degree > 0)[:, None] * own + tower)
    expected = torch.from_numpy(literal(clicks.graph, torch.cat(first), 2)).float()
    expected = F.normalize(expected, dim=-1)
    torch.testing.assert_close(torch.cat([users, items]), expected)
    model.eval()
    again = embed_all(model, clicks, clicks.graph)
    torch.testing.assert_close(torch.cat(again), expected)  # what the gate has seen is kept
    copy = from_description(describe(model))
    copy.load_state_dict(model.state_dict())
    assert torch.equal(embed_all(copy.eval(), clicks, clicks.graph)[0], again[0])


def _pairs(clicks):
    users = torch.arange(clicks.num_users).repeat_interleave(clicks.by_user.degree)
    return users, clicks.by_user.col


def test_a_user_without_clicks_has_attributes_alone():
    clicks = data()
    model, inputs = hybrid(clicks)
    found = model.vectors(inputs)
    users, cold = found.users, found.cold
    torch.testing.assert_close(users[55:], cold[55:])  # the last five have no clicks
    assert not torch.allclose(users[0], cold[0])
    with torch.no_grad():
        model.embeddings[55:60] += 1
    assert torch.equal(model(inputs)[0], users)
    plain = ClickData(clicks.graph)
    model, inputs = hybrid(plain)
    found = model.vectors(inputs)
    cold = found.cold
    assert found.spread.item() == 0
    assert torch.allclose(cold, cold[:1].expand(60, -1))  # nothing is known of anybody
    for gate in ("constant", "static", "dr"):
        with pytest.raises(InputError, match=f"found none, and a gate {gate}"):
            hybrid(plain, gate=gate)


def test_hidden_clicks_train_what_new_users_get():
    clicks = planted()
    losses = {}
    for share in (0.0, 0.9):
        model, _ = hybrid(clicks, seed=1, cold_share=share, temperature=0.2, normalize=True)
        train(model, clicks, settings=TrainSettings(steps=40, batch_size=128, lr=0.02))
        known = model.inputs(clicks.graph, model.prepare_attributes(clicks))
        found = model.vectors(known)
        items, cold = found.items, found.cold
        users, clicked = _pairs(clicks.graph)
        losses[share] = float(
            F.cross_entropy(cold[users] @ items.T / 0.2, clicked.long()).detach()
        )
    assert losses[0.9] < losses[0.0] - 0.2
    with pytest.raises(InputError, match="cold users from 0 to 1"):
        hybrid(clicks, cold_share=1.0)
