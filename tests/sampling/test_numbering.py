import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drgcn.sampling.neighbors import number_nodes

NODES = st.lists(st.integers(0, 12), max_size=20)


@settings(max_examples=100, deadline=None)
@given(NODES, NODES)
def test_numbers_as_a_dictionary_would(known, found):
    nodes, places = number_nodes(
        torch.tensor(known, dtype=torch.long), torch.tensor(found, dtype=torch.long)
    )
    after = known + sorted(set(found) - set(known))
    first = {}
    for place, node in enumerate(after):
        first.setdefault(node, place)
    assert nodes.tolist() == after
    assert places.tolist() == [first[node] for node in found]
