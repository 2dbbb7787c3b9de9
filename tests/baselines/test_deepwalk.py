import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import sparse

from drgcn.baselines import DeepWalk
from drgcn.baselines.base import SeenGraph, seeded
from drgcn.baselines.deepwalk import random_walks, skip_gram_loss
from drgcn.errors import InputError
from tests.baselines.graphs import blocks


def star():
    """A node with three neighbours, two of which know each other, and a node alone."""
    pairs = [(0, 1), (0, 2), (0, 3), (2, 3)]
    matrix = np.zeros((5, 5))
    for a, b in pairs:
        matrix[a, b] = matrix[b, a] = 1
    return sparse.csr_array(matrix)


def test_walks_go_along_edges_and_lonely_nodes_stay():
    walks = random_walks(star(), torch.arange(5).repeat(20), 12, seeded(0))
    dense = star().toarray()
    for walk in walks.tolist():
        for a, b in pairwise(walk):
            assert dense[a, b] == 1 or a == b == 4


def test_every_neighbour_is_as_likely_as_the_others():
    draws = 30_000
    second = random_walks(star(), torch.zeros(draws, dtype=torch.long), 2, seeded(1))[:, 1]
    counts = second.bincount(minlength=5)[1:4].double()
    # Five standard deviations of a share of one third.
    assert (counts / draws - 1 / 3).abs().max() < 5 * math.sqrt(2 / 9 / draws)


def test_walks_come_to_visit_nodes_by_their_degrees():
    walks = random_walks(star(), torch.zeros(4000, dtype=torch.long), 60, seeded(2))
    shares = walks[:, 30:].flatten().bincount(minlength=5).double()
    expected = torch.tensor([3, 1, 2, 2, 0.0], dtype=torch.float64) / 8
    torch.testing.assert_close(shares / shares.sum(), expected, atol=0.01, rtol=0)


def literal_loss(inner, outer, walks, negatives, window, per_pair):
    """Pair by pair, negative by negative."""

    def surprise(score):
        return -torch.log(1 / (1 + torch.exp(-score)))

    total = 0.0
    for walk, drawn in zip(walks.tolist(), negatives.tolist(), strict=True):
        for i, centre in enumerate(walk):
            for j, context in enumerate(walk):
                if i == j or abs(i - j) > window:
                    continue
                total = total + surprise(inner[centre] @ outer[context])
                for other in drawn:
                    weight = per_pair / len(drawn)
                    total = total + weight * surprise(-inner[centre] @ outer[other])
    return total


def test_loss_and_gradient_are_those_of_every_pair():
    generator = torch.Generator().manual_seed(0)
    inner, outer = torch.randn(2, 7, 4, generator=generator, dtype=torch.float64)
    walks = torch.randint(7, (3, 6), generator=generator)
    negatives = torch.randint(7, (3, 4), generator=generator)
    found = []
    for loss_of in (literal_loss, skip_gram_loss):
        u, w = inner.clone().requires_grad_(), outer.clone().requires_grad_()
        settings = {"window": 2, "per_pair": 5.0}
        loss = loss_of(u, w, walks, negatives, **settings)
        found.append((loss, *torch.autograd.grad(loss, (u, w))))
    for ours, slow in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, slow)


def test_training_makes_neighbours_alike():
    seen = SeenGraph.of(blocks())
    method = DeepWalk(walks=60, length=10, window=2, channels=8, batch_size=16, lr=0.05)
    vectors = torch.nn.functional.normalize(method.vectors(seen.adjacency, 0))
    alike = vectors @ vectors.t()
    edges = torch.from_numpy(seen.adjacency.toarray()) > 0
    others = ~edges & ~torch.eye(seen.nodes, dtype=torch.bool)
    assert alike[edges].mean() > alike[others].mean() + 0.2


def test_features_are_not_looked_at():
    data = blocks()
    method = DeepWalk(walks=2, length=5, window=2, channels=4)
    before = method.predict(data, 1).scores
    data.x = torch.full_like(data.x, 7.0)
    assert torch.equal(before, method.predict(data, 1).scores)


def test_sizes_are_whole_numbers():
    with pytest.raises(InputError, match="Expected walks of DeepWalk to be a whole number from 1"):
        DeepWalk(walks=0)


def test_a_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="edges to walk along"):
        DeepWalk().vectors(sparse.csr_array((4, 4)), seed=0)
