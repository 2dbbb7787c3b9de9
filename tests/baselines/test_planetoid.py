import pytest
import torch

from drgcn.baselines import Planetoid, PlanetoidI, PlanetoidScript
from drgcn.baselines.base import SeenGraph, seeded
from drgcn.baselines.planetoid import (
    context_loss,
    label_pairs,
    softmax_context_loss,
    window_pairs,
)
from drgcn.errors import InputError
from tests.baselines.graphs import blocks

SMALL = {"label_rounds": 50, "label_pairs": 20, "passes": 3, "graph_nodes": 20, "steps": 100}


def test_pairs_are_all_within_the_window():
    walks = torch.tensor([[4, 7, 9, 1], [0, 0, 2, 3]])
    expected = sorted(
        (walk[i], walk[j])
        for walk in walks.tolist()
        for i in range(4)
        for j in range(4)
        if abs(i - j) <= 2
    )
    assert sorted(map(tuple, window_pairs(walks, 2).t().tolist())) == expected


def test_label_pairs_share_a_class_and_wrong_ones_do_not():
    nodes = torch.tensor([3, 5, 8, 9, 12, 20])
    y = torch.tensor([1, 0, 1, 2, 0, 1])
    of = dict(zip(nodes.tolist(), y.tolist(), strict=True))
    pairs, wrong = label_pairs(nodes, y, 6000, 2, seeded(0))
    seen_pairs, seen_wrong = set(), set()
    for (centre, context), others in zip(pairs.t().tolist(), wrong.tolist(), strict=True):
        assert of[centre] == of[context]
        seen_pairs.add((centre, context))
        for other in others:
            assert of[other] != of[centre]
            seen_wrong.add((centre, other))
    assert len(seen_pairs) == 9 + 4 + 1
    assert len(seen_wrong) == 36 - 14
    shares = pairs[0].bincount()[nodes].double() / 6000
    assert (shares - 1 / 6).abs().max() < 0.03


def test_context_loss_is_the_sum_over_pairs():
    generator = torch.Generator().manual_seed(0)
    vectors, weight = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    pairs = torch.randint(6, (2, 9), generator=generator)
    wrong = torch.randint(6, (9, 2), generator=generator)

    def slow(e, w):
        total = 0.0
        for (i, c), others in zip(pairs.t().tolist(), wrong.tolist(), strict=True):
            total = total - torch.log(torch.sigmoid(w[c] @ e[i]))
            for n in others:
                total = total - torch.log(torch.sigmoid(-w[n] @ e[i]))
        return total

    found = []
    for loss_of in (slow, lambda e, w: context_loss(lambda nodes: e[nodes], w, pairs, wrong)):
        e, w = vectors.clone().requires_grad_(), weight.clone().requires_grad_()
        loss = loss_of(e, w)
        found.append((loss, *torch.autograd.grad(loss, (e, w))))
    for ours, literal in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, literal)


def test_the_scripts_context_loss_is_a_softmax_over_all_nodes_summed_over_pairs():
    generator = torch.Generator().manual_seed(0)
    vectors, weight = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    bias = torch.randn(6, generator=generator, dtype=torch.float64)
    pairs = torch.randint(6, (2, 9), generator=generator)

    def slow(e, w, b):
        chances = [torch.softmax(w @ e[i] + b, dim=0)[c] for i, c in pairs.t().tolist()]
        return -torch.stack(chances).log().sum()

    found = []
    for loss_of in (slow, lambda e, w, b: softmax_context_loss(lambda n: e[n], w, b, pairs)):
        leaves = [one.clone().requires_grad_() for one in (vectors, weight, bias)]
        loss = loss_of(*leaves)
        found.append((loss, *torch.autograd.grad(loss, leaves)))
    for ours, literal in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, literal)


def test_the_script_gives_every_node_its_turn_before_any_has_two():
    seen = SeenGraph.of(blocks())
    script = PlanetoidScript(graph_rounds=6, graph_nodes=20, length=1, window=1)
    rounds = list(script._walk_pairs(seen, seeded(0)))
    connected = {node for node, degree in enumerate(seen.degrees) if degree}
    for turn in (rounds[:3], rounds[3:]):
        # A walk of one step has four pairs, the first of a node with itself at its start.
        starts = [node for pairs in turn for node in pairs[0].view(-1, 4)[:, 0].tolist()]
        assert sorted(starts) == sorted(connected)


def test_the_inductive_form_trains_without_test_nodes():
    data = blocks()
    seen = SeenGraph.of(data)
    hidden = set(seen.test.tolist())
    for pairs, wrong in PlanetoidI(passes=2)._walk_pairs(seen, seeded(0)):
        assert not hidden & {*pairs.flatten().tolist(), *wrong.flatten().tolist()}
    changed = data.clone()
    changed.x = data.x.clone()
    changed.x[data.test_mask] += 3.0
    method = PlanetoidI(**SMALL)
    before, after = method.predict(data, 0).scores, method.predict(changed, 0).scores
    assert torch.equal(before[~data.test_mask], after[~data.test_mask])
    assert not torch.equal(before[data.test_mask], after[data.test_mask])


SCRIPT = PlanetoidScript(label_rounds=50, graph_rounds=15, graph_nodes=20, steps=400)


@pytest.mark.parametrize(
    "method", [Planetoid(**SMALL | {"steps": 400}), PlanetoidI(**SMALL | {"steps": 400}), SCRIPT]
)
def test_learns_what_features_and_edges_say(method):
    data = blocks(nodes=90)
    prediction = method.predict(data, 0)
    right = prediction.scores.argmax(dim=1) == data.y
    assert right[data.val_mask].double().mean() > 0.6  # a third by guessing
    assert 1 <= prediction.chosen["step"] <= 400


def test_other_forms_are_refused():
    with pytest.raises(InputError, match="Expected Planetoid's form to be T or I; found 'G'"):
        Planetoid(form="G")
