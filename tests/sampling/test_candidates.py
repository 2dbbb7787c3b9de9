import pytest
import torch

from drgcn.sampling import CSRGraph
from drgcn.sampling.layers import Candidates

from .matrices import as_graph, uneven_matrix

# Both ways to number candidates: with a place per node, and by sorting the entries.
SMALL, LARGE = 12, 5000
SIZE = pytest.mark.parametrize("cols", [SMALL, LARGE])
KIND = pytest.mark.parametrize("kind", [torch.int32, torch.int64])


def wide(cols, kind=torch.int64):
    """The same entries in a matrix of few or of many columns; the columns are spread out."""
    narrow = uneven_matrix()
    dense = torch.zeros(SMALL, cols, dtype=torch.float64)
    dense[:, torch.arange(SMALL) * (cols // SMALL)] = narrow
    return dense, as_graph(dense, kind)


def by_loop(dense, rows):
    found = {}
    for v in rows.tolist():
        for u in dense[v].nonzero().flatten().tolist():
            found[u] = found.get(u, 0.0) + float(dense[v, u]) ** 2
    return found


def used(candidates):
    """What stands in the places that are used, none of them twice."""
    place = candidates.squares > 0
    nodes = candidates.node[place].tolist()
    assert len(nodes) == len(set(nodes))
    return dict(zip(nodes, candidates.squares[place].tolist(), strict=True))


ROWS = {
    "one": [7],
    "some": [8, 0, 3],
    "the hub": [2, 1],
    "one without entries": [5, 4],
    "the first has none": [5, 5, 2],
    "the last has none": [2, 5],
    "all": list(range(SMALL)),
    "one listed twice": [1, 4, 1, 1, 9],
}


@SIZE
@KIND
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_candidates_are_those_of_a_loop(cols, kind, rows):
    dense, graph = wide(cols, kind)
    rows = torch.tensor(rows)
    entries = int((dense[rows] != 0).sum())
    for room in (0, 1, 40):
        found = Candidates.of(graph, rows, entries + room if room else None)
        assert used(found) == pytest.approx(by_loop(dense, rows))
        assert found.node.shape == found.squares.shape
        assert ((found.node >= 0) & (found.node < cols)).all()  # also where no candidate stands


def test_both_ways_are_tried_here():
    rows = torch.arange(SMALL)
    assert len(Candidates.of(wide(SMALL)[1], rows).node) == SMALL
    assert len(Candidates.of(wide(LARGE)[1], rows).node) < LARGE


@SIZE
def test_without_values_squares_count_the_receivers(cols):
    dense, graph = wide(cols)
    plain = CSRGraph(graph.rowptr, graph.col, cols)
    rows = torch.tensor([2, 5, 8, 8, 0])
    found = used(Candidates.of(plain, rows, 100))
    assert found == by_loop((dense != 0).double(), rows)


@SIZE
@KIND
def test_every_lane_has_candidates_of_its_own(cols, kind):
    _, graph = wide(cols, kind)
    lanes = torch.tensor([[0, 1, 2], [5, 5, 5], [11, 2, 11], [9, 8, 7]])
    room = graph.most_entries(3, distinct=False)

    def work(rows):
        found = Candidates.of(graph, rows, room)
        return found.node, found.squares

    together = torch.vmap(work)(lanes)
    for lane, rows in enumerate(lanes):
        for ours, alone in zip(together, work(rows), strict=True):
            assert torch.equal(ours[lane], alone)  # to the bit: a seed does not see its neighbours


@SIZE
def test_lengths_do_not_depend_on_the_rows(cols):
    _, graph = wide(cols)
    lengths = {len(Candidates.of(graph, torch.tensor(r), 60).node) for r in ([5, 5], [2, 1])}
    assert len(lengths) == 1


def test_single_precision_is_added_up_in_double():
    value = torch.full((4000,), 0.1)
    graph = CSRGraph(torch.arange(4001), torch.zeros(4000, dtype=torch.long), 1, value)
    found = Candidates.of(graph, torch.arange(4000))
    assert found.squares.dtype is torch.float64
    expected = 4000 * float(value[0].double().square())
    assert float(found.squares[0]) == pytest.approx(expected, rel=1e-12)
