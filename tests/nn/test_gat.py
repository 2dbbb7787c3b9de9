import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv

from drgcn.nn import GAT, GraphAttention
from drgcn.nn.gat import attention_coefficients
from drgcn.nn.graph import NodeGroups, neighborhoods

from ..reference import gat, layouts
from .matrices import random_matrix
from .models import CLASSES, EDGES, NODES, D, one_at_a_time, randomized

PPI = {"num_layers": 3, "residual": True, "out_heads": 2}


@pytest.fixture
def x():
    return random_matrix(NODES, D)


def random_model(num_layers=2, dropout=0.0, **options):
    return randomized(
        GAT(D, 8, CLASSES, num_layers=num_layers, heads=2, dropout=dropout, **options)
    )


def neighbor_lists(edges, nodes):
    lists = [{node} for node in range(nodes)]
    for source, target in edges.t().tolist():
        lists[target].add(source)
    return [sorted(each) for each in lists]


def gates(model):
    def s(enter):
        if enter.gate is None:
            return torch.ones_like
        return lambda x: enter.gate.from_mean(x.mean(0))

    return [s(enter) for enter in model.inputs]


def gradients(out, parameters):
    factors = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)
    return torch.autograd.grad((out * factors).sum(), list(parameters))


# The formula


@one_at_a_time(
    {"reweight": "dr"},
    PPI,
    PPI | {"reweight": "static"},
    num_layers=[1],
    out_heads=[3],
    reweight=[None, "static", "constant"],
)
def test_model_equals_the_transcription(x, setting):
    model = random_model(**setting)
    expected = gat.forward(x, neighbor_lists(EDGES, NODES), model, gates(model))
    out = model(x, EDGES)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    parameters = list(model.parameters())
    torch.testing.assert_close(
        gradients(out, parameters), gradients(expected, parameters), rtol=1e-8, atol=1e-9
    )


def test_layer_equals_pyg_where_the_two_agree(x):
    """Without dropout and score biases, the layer is PyG's."""
    ours = GraphAttention(D, 4, heads=3).double()
    theirs = GATConv(D, 4, heads=3).double()
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.weight.transpose(0, 1).flatten(1).t())
        theirs.att_src.copy_(ours.att_src.transpose(1, 2).transpose(0, 1))
        theirs.att_dst.copy_(ours.att_dst.transpose(1, 2).transpose(0, 1))
    torch.testing.assert_close(ours(x, neighborhoods(EDGES, NODES)), theirs(x, EDGES))


def test_neighbourhoods_count_a_repeated_edge_once_and_follow_its_direction():
    edges = torch.tensor([[0, 0, 1], [1, 1, 1]])
    pattern = neighborhoods(edges, 3)
    assert pattern.crow.tolist() == [0, 1, 3, 4]
    assert pattern.col.tolist() == [0, 0, 1, 2]


def test_residual_is_in_the_middle_only():
    model = GAT(D, 8, CLASSES, num_layers=4, heads=2, residual=True)
    assert [conv.res_weight is not None for conv in model.convs] == [False, True, True, False]


# Attention


def test_coefficients_sum_to_one_however_large_the_scores():
    pattern = neighborhoods(EDGES, NODES)
    scores = 1e4 * torch.randn(2, NODES, generator=torch.Generator().manual_seed(0)).double()
    alpha = attention_coefficients(scores, scores.flip(1), pattern)
    total = torch.zeros(2, NODES, dtype=torch.float64).index_add(1, pattern.row, alpha)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_attention_gradients_equal_finite_differences():
    pattern = neighborhoods(EDGES, NODES)
    generator = torch.Generator().manual_seed(3)
    target, source = (
        torch.randn(2, NODES, generator=generator, dtype=torch.float64).requires_grad_()
        for _ in range(2)
    )

    def once(t: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return attention_coefficients(t, s, pattern)

    assert torch.autograd.gradcheck(once, (target, source))
    assert torch.autograd.gradgradcheck(once, (target, source))
    pairs = [
        torch.stack([value, value.flip(1)]).detach().requires_grad_() for value in (target, source)
    ]
    assert torch.autograd.gradgradcheck(torch.vmap(once), tuple(pairs), fast_mode=True)


def test_attention_under_vmap_equals_a_loop():
    pattern = neighborhoods(EDGES, NODES)
    generator = torch.Generator().manual_seed(3)
    target, source = (
        torch.randn(4, 2, NODES, generator=generator, dtype=torch.float64).requires_grad_()
        for _ in range(2)
    )
    pairs = zip(target, source, strict=True)
    out = torch.vmap(lambda t, s: attention_coefficients(t, s, pattern))(target, source)
    loop = torch.stack([attention_coefficients(t, s, pattern) for t, s in pairs])
    torch.testing.assert_close(out, loop)
    torch.testing.assert_close(gradients(out, [target, source]), gradients(loop, [target, source]))


def test_scores_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"shape \[heads, 8\]"):
        attention_coefficients(torch.zeros(2, 5), torch.zeros(2, 5), neighborhoods(EDGES, NODES))


# Dropout


@pytest.fixture
def dropped(monkeypatch):
    """Everything that F.dropout is given, and the masks it answers with."""
    calls, generator = [], torch.Generator().manual_seed(5)

    def dropout(value, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return value
        mask = (torch.rand(value.shape, generator=generator) >= p).to(value.dtype) / (1 - p)
        calls.append(mask)
        return value * mask

    monkeypatch.setattr(F, "dropout", dropout)
    return calls


@pytest.mark.parametrize("reweight", [None, "dr"])
@pytest.mark.parametrize("layout", [layouts.dense, layouts.csr], ids=["dense", "sparse"])
def test_masks_fall_where_the_authors_let_them(x, dropped, layout, reweight):
    """Each head has its own mask of the input; the gate is pooled from the clean input."""
    model = random_model(dropout=0.4, reweight=reweight).train()
    out = model(layout(x), EDGES)
    pattern = neighborhoods(EDGES, NODES)
    masks, calls = [], iter(dropped)
    for number, conv in enumerate(model.convs):
        inputs, alphas, features = (next(calls) for _ in range(3))
        if number == 0 and layout is layouts.csr:
            entries = x.nonzero().t()
            dense = torch.ones(conv.heads, NODES, D, dtype=torch.float64)
            dense[:, entries[0], entries[1]] = inputs
            inputs = dense
        full = torch.zeros(conv.heads, NODES, NODES, dtype=torch.float64)
        full[:, pattern.row, pattern.col] = alphas
        masks.append(list(zip(inputs, full, features, strict=True)))
    assert len(dropped) == 6
    expected = gat.forward(x, neighbor_lists(EDGES, NODES), model, gates(model), masks)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


def test_heads_drop_independently(dropped):
    model = GAT(200, 16, CLASSES, heads=2, dropout=0.5).train()
    model(torch.ones(200, 200), EDGES)
    first, second = dropped[0] > 0
    assert 0.24 < (first & second).double().mean() < 0.26
    assert 0.49 < first.double().mean() < 0.51


# Batches of graphs, and many seeds


@pytest.mark.parametrize("layout", [layouts.dense, layouts.csr], ids=["dense", "sparse"])
def test_a_batch_with_residuals_equals_its_graphs_one_by_one(x, layout):
    model = random_model(reweight="dr", **PPI)
    graphs = [
        Data(x=x, edge_index=EDGES),
        Data(x=random_matrix(5, D, seed=4), edge_index=EDGES[:, (EDGES < 5).all(0)]),
        Data(x=random_matrix(1, D, seed=5), edge_index=torch.empty(2, 0, dtype=torch.int64)),
    ]
    batch = Batch.from_data_list(graphs)
    together = model(layout(batch.x), batch.edge_index, batch.batch)
    alone = torch.cat([model(layout(graph.x), graph.edge_index) for graph in graphs])
    torch.testing.assert_close(together, alone)
    prepared = GAT.prepare(batch)
    assert isinstance(prepared[2], NodeGroups)
    torch.testing.assert_close(model(*prepared), alone)


# A user's view


def test_the_paper_form_for_ppi_has_the_published_widths():
    model = GAT(
        50,
        1024,
        121,
        num_layers=3,
        heads=4,
        out_heads=6,
        dropout=0.0,
        residual=True,
        reweight="dr",
    )
    assert [enter.gate.in_channels for enter in model.inputs] == [50, 1024, 1024]
    assert [conv.out_channels for conv in model.convs] == [256, 256, 121]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden_channels": 9}, "multiple of its 8 heads; found 9"),
        ({"heads": 0}, "heads >= 1; found 0"),
        ({"out_heads": 0}, "out_heads >= 1; found 0"),
    ],
)
def test_impossible_heads_are_refused(options, words):
    arguments = {"in_channels": D, "hidden_channels": 8, "out_channels": CLASSES, **options}
    with pytest.raises(ValueError, match=words):
        GAT(**arguments)
