"""What is no matrix of numbers is refused by name; what is one in another dress is taken."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data

from drgcn import advise, stability_k
from drgcn.errors import InputError
from drgcn.stability import FeatureMoments, minimal_k

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
S = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
OBJECTS = X.numpy().astype(object)

MATRICES = {
    "a list of strings": (["a", "b"], "text"),
    "lists of strings": ([["a", "b", "c"]] * 3, "text"),
    "an object array": (OBJECTS, "Python objects"),
    "complex numbers": (X + 1j, "complex128"),
    "dates": (np.zeros((3, 3), "datetime64[D]"), "dates"),
    "ragged lists": ([[1, 2, 3], [4]], "no array"),
    "scipy": (sparse.csr_array(X.numpy()), "csr_array"),
    "nothing": (None, "Python objects"),
}
EVERY_MATRIX = pytest.mark.parametrize(("x", "words"), MATRICES.values(), ids=MATRICES.keys())


@EVERY_MATRIX
def test_features_that_are_no_numbers_are_refused(x, words):
    for call in (
        lambda: stability_k(x, S),
        lambda: FeatureMoments(3).update(x),
        lambda: FeatureMoments.from_chunks([X, (x, 1)]),
        lambda: minimal_k(x),
    ):
        with pytest.raises(InputError, match=f"Expected features .*{words}"):
            call()


@EVERY_MATRIX
def test_covariances_that_are_no_numbers_are_refused(x, words):
    with pytest.raises(InputError, match=words):
        stability_k(x, S, covariance=True)
    with pytest.raises(InputError, match=f"Expected covariances .*{words}"):
        minimal_k(x, covariance=True)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (["a", "b", "c"], "text"),
        (np.array([1, 2, None]), "Python objects"),
        (S + 1j, "complex128"),
        (None, "Python objects"),
        ([[1], [2, 3]], "no array"),
    ],
)
def test_vectors_and_weights_that_are_no_numbers_are_refused(odd, words):
    with pytest.raises(InputError, match=f"entries of s .*{words}"):
        stability_k(X, odd)
    with pytest.raises(InputError, match=f"directions .*{words}"):
        FeatureMoments(3).update(X).variance_along(odd)
    if odd is not None:  # no weights and no directions are what is usual
        with pytest.raises(InputError, match=f"weights .*{words}"):
            FeatureMoments(3).update(X, odd)
        with pytest.raises(InputError, match=f"directions .*{words}"):
            FeatureMoments(3, diagonal=True, directions=odd)


@pytest.mark.parametrize("width", ["3", 3.0, None, 0, -1])
def test_widths_that_are_no_count_are_refused(width):
    with pytest.raises(InputError, match="num_features >= 1"):
        FeatureMoments(width)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (1, 1, 3), ()])
def test_directions_of_other_shapes_are_refused(shape):
    with pytest.raises(InputError, match=r"directions of shape \[3\]"):
        FeatureMoments(3, diagonal=True, directions=torch.ones(shape))


def test_what_is_no_moments_is_not_merged():
    with pytest.raises(InputError, match="found Tensor"):
        FeatureMoments(3).merge(X)


@pytest.mark.parametrize("chunks", [3, "rows", {"x": X}, None])
def test_what_is_no_loader_is_refused(chunks):
    with pytest.raises(InputError, match=f"found {type(chunks).__name__}"):
        FeatureMoments.from_chunks(chunks)


@pytest.mark.parametrize(
    ("source", "words"),
    [(["a", "b"], "text"), (OBJECTS, "Python objects"), ("ab", "found str"), ({}, "found dict")],
)
def test_advice_on_what_is_no_features_is_refused(source, words):
    with pytest.raises(InputError, match=words):
        advise(source)


def test_whole_numbers_and_flags_are_numbers():
    counts = torch.randint(9, (12, 3), generator=torch.Generator().manual_seed(0))
    k = stability_k(counts.double(), S)
    for same in (counts, counts.int(), counts.numpy(), counts.numpy().astype(np.uint8)):
        assert stability_k(same, S) == k
    assert stability_k(X, torch.tensor([1, 2, 3])) == stability_k(X, [1.0, 2.0, 3.0])
    assert stability_k(counts > 4, S) == stability_k((counts > 4).double(), S)
    assert advise(Data(x=counts)).k_std == pytest.approx(advise(counts.double()).k_std)
    c = torch.tensor([[2, 1, 0], [1, 3, 0], [0, 0, 4]])
    wanted = stability_k(c.double(), S, covariance=True)
    assert stability_k(c, S, covariance=True) == pytest.approx(wanted, rel=1e-12)


def test_a_matrix_by_itself_is_its_only_chunk():
    wanted = FeatureMoments(3).update(X).covariance()
    for same in (X, X.numpy(), X.to_sparse_csr()):
        torch.testing.assert_close(FeatureMoments.from_chunks(same).covariance(), wanted)
    assert advise(X.numpy()).k_std == pytest.approx(advise(X).k_std)


def test_arrays_of_other_strides_and_read_only_ones_are_taken():
    backwards = S.numpy()[::-1]
    fixed = S.numpy().copy()
    fixed.flags.writeable = False
    assert stability_k(X, backwards) == stability_k(X, S.flip(0))
    assert stability_k(X, fixed) == stability_k(X, S)
