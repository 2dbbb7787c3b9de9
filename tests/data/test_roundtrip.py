"""Any small graph, written in any form and read back, is the same graph."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from drgcn.data import load
from drgcn.errors import DrgcnWarning, InputError

from .graphs import (
    Graph,
    small,
    write_csv,
    write_npz,
    write_parquet,
    write_pt,
    write_pt_dict,
    write_sparse_npz,
)

FORMS: dict[str, Callable[[Path, Graph], Path]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "dense.npz": write_npz,
    "sparse.npz": write_sparse_npz,
    "data.pt": write_pt,
    "dict.pt": write_pt_dict,
}

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes, columns = draw(st.integers(6, 9)), draw(st.integers(1, 4))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=20))
    # One node of each class and part at least; the others as they fall.
    y = [0, 1, 2, *draw(st.lists(st.integers(0, 2), min_size=nodes - 3, max_size=nodes - 3))]
    part = [1, 2, 3, *draw(st.lists(st.integers(0, 3), min_size=nodes - 3, max_size=nodes - 3))]
    hidden = draw(st.booleans())
    labels = [-1 if hidden and where == 0 else label for label, where in zip(y, part, strict=True)]
    values = st.floats(width=32, allow_nan=False, allow_infinity=False)
    return Graph(
        x=draw(hnp.arrays(np.float32, (nodes, columns), elements=values)),
        y=np.array(labels),
        pairs=np.array(pairs, dtype=np.int64).reshape(-1, 2).T,
        part=np.array(part),
    )


def _read(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrgcnWarning)
        return load(path)


@quick
@given(graphs())
def test_every_form_gives_the_same_data(
    tmp_path_factory: pytest.TempPathFactory, graph: Graph
) -> None:
    folder = tmp_path_factory.mktemp("forms")
    loaded = {form: _read(write(folder / form, graph)) for form, write in FORMS.items()}
    assert len({data.dataset.content_hash for data in loaded.values()}) == 1
    straight = {(a, b) for a, b in graph.pairs.T.tolist() if a != b}
    for data in loaded.values():
        assert torch.equal(data.x, torch.from_numpy(graph.x))
        assert data.y.tolist() == graph.y.tolist()
        assert set(map(tuple, data.edge_index.T.tolist())) == straight | {
            (b, a) for a, b in straight
        }
        assert data.train_mask.tolist() == (graph.part == 1).tolist()
        assert data.val_mask.tolist() == (graph.part == 2).tolist()
        assert data.test_mask.tolist() == (graph.part == 3).tolist()
        assert data.dataset.split == "given"


@pytest.mark.parametrize("form", FORMS)
@quick
@given(noise=st.binary(max_size=60), place=st.floats(0, 1), alone=st.booleans())
@example(noise=b"\x80", place=0.35, alone=False)  # inside a text column of the Parquet file
def test_garbage_is_never_anything_but_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, form: str, noise: bytes, place: float, alone: bool
) -> None:
    path = FORMS[form](tmp_path_factory.mktemp("noise") / form, small())
    file = path / f"nodes.{form}" if path.is_dir() else path
    whole = bytearray(file.read_bytes())
    start = int(place * len(whole))
    whole[start : start + len(noise)] = noise
    file.write_bytes(noise if alone else whole)
    # A change may hit nothing that matters; then the graph is simply read.
    with contextlib.suppress(InputError):
        _read(path)
