from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from drgcn.data.features import normalized
from drgcn.errors import DrgcnWarning, InputError

COUNTS = np.array([[1, 3, 0], [0, 0, 0], [0.25, 0, 0.25]], dtype=np.float32)
ALL = np.ones(3, dtype=bool)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_row_normalisation_divides_by_the_row_sum(form) -> None:
    rows = normalized(form(COUNTS), "row", ALL)
    dense = rows.toarray() if sparse.issparse(rows) else rows
    # The last row sums to one half: clamping the sum at one would leave it as it is.
    assert dense.tolist() == [[0.25, 0.75, 0], [0, 0, 0], [0.5, 0, 0.5]]
    assert dense.dtype == np.float32


def test_row_normalisation_warns_about_negative_features() -> None:
    signed = np.array([[3, -1], [1, -1]], dtype=np.float32)
    with pytest.warns(DrgcnWarning, match="negative"):
        rows = normalized(signed, "row", ALL[:2])
    assert rows.tolist() == [[1.5, -0.5], [0, 0]]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_standardisation_uses_training_rows_only(form) -> None:
    x = np.array([[1, 5, 0.1], [3, 5, 0.1], [100, 7, 0.3]], dtype=np.float32)
    scaled = normalized(form(x), "standard", np.array([True, True, False]))
    assert scaled[:2, 0].tolist() == [-1, 1]
    assert scaled[2, 0] == 98
    # Constant on the training rows: no scale is known, so the column says nothing.
    assert not scaled[:, 1:].any()


def test_standardisation_needs_training_rows() -> None:
    with pytest.raises(InputError, match="needs training nodes"):
        normalized(COUNTS, "standard", ~ALL)


@pytest.mark.parametrize("method", ["row", "standard", "none"])
def test_input_is_left_as_it_is(method: str) -> None:
    for x in (COUNTS.copy(), sparse.csr_array(COUNTS)):
        normalized(x, method, ALL)
        assert ((x.toarray() if sparse.issparse(x) else x) == COUNTS).all()


def test_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match="one of row, standard, none"):
        normalized(COUNTS, "l2", ALL)
