"""Features that say nothing, in dense and in sparse form."""

from __future__ import annotations

import pytest
import torch

from drgcn.audit.finding import Finding
from drgcn.audit.hygiene.features import feature_findings

from ..graphs import ring, spoilt


def named(x: torch.Tensor, layout: str, **others: torch.Tensor) -> dict[str, Finding]:
    forms = {
        "dense": lambda x: x,
        "coo": torch.Tensor.to_sparse,
        "csr": torch.Tensor.to_sparse_csr,
    }
    return {f.name: f for f in feature_findings(spoilt(x=forms[layout](x), **others))}


LAYOUTS = pytest.mark.parametrize("layout", ["dense", "coo", "csr"])


@LAYOUTS
def test_clean_features_have_nothing_to_say(layout):
    assert {found.severity for found in named(ring().x, layout).values()} == {"fine"}


@LAYOUTS
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_serious(layout, value):
    x = ring().x.clone()
    x[4, 1] = x[7, 2] = x[7, 0] = value
    found = named(x, layout)["features that are not finite"]
    assert found.severity == "serious"
    assert found.numbers == {"entries": 3, "nodes": 2}
    assert set(found.rows) == {(4, 1), (7, 0), (7, 2)}


@LAYOUTS
def test_empty_rows_are_worse_in_the_test(layout):
    x = ring().x.clone()
    x[3] = 0
    found = named(x, layout)["nodes without features"]
    assert (found.severity, found.numbers["nodes"], found.rows) == ("note", 1, ((3,),))
    x[5] = 0  # a test node
    found = named(x, layout)["nodes without features"]
    assert (found.severity, found.numbers["test nodes"]) == ("warning", 1)
    y = ring().y.clone()
    y[3] = -1
    assert named(x, layout, y=y)["nodes without features"].numbers["without a label"] == 1


@LAYOUTS
def test_constant_columns_of_any_value_are_found(layout):
    base = ring().x
    training = torch.where(ring().train_mask, 4.0, torch.arange(12.0))
    x = torch.stack([base[:, 0], torch.zeros(12), torch.full((12,), 2.5), training], dim=1)
    found = named(x, layout)["constant features"]
    assert found.severity == "note"
    assert found.rows == ((1,), (2,))
    assert found.numbers == {"constant": 2, "constant in training": 1, "columns": 4}


def test_a_column_of_nan_is_not_constant():
    x = ring().x.clone()
    x[:, 0] = float("nan")
    assert named(x, "dense")["constant features"].numbers["constant"] == 0


def test_no_split_has_no_training_columns():
    data = ring()
    del data.train_mask
    found = {f.name: f for f in feature_findings(data)}["constant features"]
    assert found.numbers["constant in training"] == 0
