"""Every fault of a graph, planted and found; and nothing found on a clean one."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import (
    contains_isolated_nodes,
    degree,
    is_undirected,
    to_undirected,
)

from drgcn.audit.finding import Finding
from drgcn.audit.hygiene.graph import graph_findings
from drgcn.data import load
from drgcn.errors import InputError

from ...data.conftest import real, real_root  # noqa: F401 - fixtures
from ..graphs import ring, spoilt, tensors_of, with_edges


def named(data: Data) -> dict[str, Finding]:
    return {finding.name: finding for finding in graph_findings(data)}


def test_a_clean_graph_has_nothing_to_say():
    found = named(ring())
    assert {finding.severity for finding in found.values()} == {"fine"}
    assert found["edge counts"].numbers["undirected edges, each once"] == 12
    assert found["edge counts"].numbers["both directions"] == 24


def test_the_input_is_not_changed():
    data = with_edges((3, 3), (0, 1))
    before = tensors_of(data)
    graph_findings(data)
    assert all(torch.equal(data[key], value) for key, value in before.items())


def test_loops_are_counted_by_node():
    found = named(with_edges((3, 3), (3, 3), (5, 5)))["self-loops"]
    assert (found.severity, found.numbers["nodes with a loop"]) == ("warning", 2)


def test_repeats_are_counted_by_entry_and_loops_are_not_repeats():
    found = named(with_edges((0, 1), (0, 1), (1, 0), (3, 3), (3, 3)))
    assert found["repeated edges"].numbers["repeats"] == 3
    assert found["repeated edges"].severity == "warning"
    assert found["direction"].severity == "fine"
    assert found["edge counts"].numbers["undirected edges, each once"] == 12


def test_one_way_edges_are_found():
    found = named(with_edges((0, 5), (7, 2), (7, 2)))["direction"]
    assert found.severity == "warning"
    assert found.numbers == {"entries": 26, "without counterpart": 2, "symmetric": False}


def test_isolated_nodes_and_pieces_are_found():
    data = ring()
    cut = (data.edge_index != 4).all(dim=0)  # node 4 loses its edges, the ring becomes a path
    data.edge_index = data.edge_index[:, cut]
    found = named(data)
    assert found["isolated nodes"].numbers["isolated"] == 1
    assert found["isolated nodes"].severity == "warning"  # 1 of 12 is more than 5 %
    assert found["components"].numbers["components"] == 2
    assert found["components"].severity == "note"
    assert found["components"].numbers["test nodes out of reach"] == 0


def test_test_nodes_out_of_reach_are_counted_in_graphs_that_are_trained_on():
    data = spoilt(edge_index=torch.tensor([[0, 1, 4, 5], [1, 0, 5, 4]]))
    # Pieces {0, 1}, {4, 5} and single nodes; training nodes are 0, 3, 6, 9.
    assert named(data)["components"].numbers["test nodes out of reach"] == 4
    data.graph = (torch.arange(12) >= 4).long()
    data.train_mask &= data.graph == 0
    assert named(data)["components"].numbers["test nodes out of reach"] == 1  # node 2


def test_several_whole_graphs_are_no_pieces():
    data = spoilt(edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    data = data.subgraph(torch.arange(4))
    data.graph = torch.tensor([0, 0, 1, 1])
    assert named(data)["components"].severity == "fine"
    del data.graph
    assert named(data)["components"].severity == "note"


def slow_components(pairs: np.ndarray, nodes: int) -> int:
    neighbours = {node: set[int]() for node in range(nodes)}
    for a, b in pairs.T.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    seen: set[int] = set()
    count = 0
    for start in range(nodes):
        count += start not in seen
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if node not in seen:
                seen.add(node)
                queue.extend(neighbours[node])
    return count


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_agree_with_pyg_and_a_plain_search(seed):
    rng = np.random.default_rng(seed)
    nodes, edges = int(rng.integers(2, 30)), int(rng.integers(1, 40))
    pairs = rng.integers(0, nodes, (2, edges))
    index = torch.from_numpy(pairs)
    data = Data(x=torch.ones(nodes, 2), edge_index=index)
    found = named(data)
    proper = index[:, index[0] != index[1]]
    assert found["direction"].numbers["symmetric"] == is_undirected(proper)
    both = to_undirected(proper)
    assert found["edge counts"].numbers["both directions"] == both.shape[1]
    assert found["components"].numbers["components"] == slow_components(pairs, nodes)
    alone = found["isolated nodes"].numbers["isolated"]
    assert bool(alone) == contains_isolated_nodes(both, nodes)
    degrees = degree(both[0], nodes)
    assert found["degrees"].numbers["mean"] == pytest.approx(float(degrees.mean()))
    assert found["degrees"].numbers["largest"] == int(degrees.max())
    assert sum(count for _, count in found["degrees"].rows) == nodes
    assert found["repeated edges"].numbers["repeats"] == proper.shape[1] - len(
        {tuple(pair) for pair in proper.T.tolist()}
    )


def test_degrees_are_counted_in_doubling_steps():
    star = torch.tensor([[0] * 6, [1, 2, 3, 4, 5, 6]])
    data = Data(x=torch.ones(8, 1), edge_index=star)
    assert named(data)["degrees"].rows == (("0", 1), ("1", 6), ("2-3", 0), ("4-6", 1))


def test_what_loading_removed_is_told(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "id,a,label\n" + "".join(f"{i},1,{i % 2}\n" for i in range(6))
    )
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n0,1\n2,2\n1,0\n")
    found = named(load(tmp_path))
    assert found["self-loops"].numbers == {"nodes with a loop": 0, "removed when loading": 1}
    assert found["repeated edges"].numbers == {"repeats": 0, "removed when loading": 1}
    assert {found["self-loops"].severity, found["repeated edges"].severity} == {"note"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "found no x"),
        ({"edge_index": None}, "found no edge_index"),
        ({"x": torch.ones(0, 3)}, "empty graph"),
        ({"edge_index": torch.tensor([[0], [99]])}, "names node 99"),
        ({"y": torch.zeros(5)}, "labels of 12 nodes"),
        ({"y": torch.full((12,), 0.5)}, "class numbers"),
        ({"train_mask": torch.ones(12, 10, dtype=torch.bool)}, "choose one column"),
        ({"graph": torch.zeros(3, dtype=torch.int64)}, "number of its graph"),
    ],
)
def test_what_is_no_graph_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        graph_findings(spoilt(**change))


@pytest.mark.data
def test_cora_in_all_its_edge_counts(real):  # noqa: F811
    found = named(real("cora"))["edge counts"].numbers
    assert found["undirected edges, each once"] == 5278
    assert found["both directions"] == 10556
    assert found["with the repeats of a file that lists both ends"] == 5429
