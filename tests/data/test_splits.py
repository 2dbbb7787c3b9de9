from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch_geometric.data import Data

from drgcn.data.splits import draw, from_indices, per_class, random_splits, sixty
from drgcn.errors import InputError


def test_masks_are_true_at_the_listed_nodes() -> None:
    masks = from_indices(5, range(2), [2], [4])
    assert [mask.nonzero()[0].tolist() for mask in masks] == [[0, 1], [2], [4]]


def test_per_class_split_takes_the_same_number_of_every_class() -> None:
    y = np.repeat([0, 1, 2, -1], 60)
    masks = per_class(y, 20, 30, seed=3)
    assert np.bincount(y[masks.train]).tolist() == [20, 20, 20]
    assert np.bincount(y[masks.val]).tolist() == [30, 30, 30]
    assert np.bincount(y[masks.test]).tolist() == [10, 10, 10]


def test_per_class_split_refuses_a_class_that_is_too_small() -> None:
    with pytest.raises(InputError, match="class 1 has only 3 nodes"):
        per_class(np.array([0] * 60 + [1] * 3), 20, 30, seed=0)


@given(hnp.arrays(np.int64, st.integers(3, 60), elements=st.integers(-1, 3)), st.integers(0, 99))
def test_sixty_split_covers_the_labelled_nodes_once(y: np.ndarray, seed: int) -> None:
    labelled = int((y >= 0).sum())
    if labelled < 3:
        with pytest.raises(InputError, match="at least 3 labelled"):
            sixty(y, seed)
        return
    masks = sixty(y, seed)
    assert (sum(mask.astype(int) for mask in masks) == (y >= 0)).all()
    assert masks.val.sum() == masks.test.sum() == max(1, labelled // 5)


def test_same_seed_gives_the_same_split_and_another_seed_another() -> None:
    y = np.arange(200) % 2
    for name in ("random", "random-60"):
        assert (draw(name, y, 7).train == draw(name, y, 7).train).all()
        assert (draw(name, y, 7).train != draw(name, y, 8).train).any()


def test_splits_leave_the_global_generator_alone() -> None:
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()
    draw("random-60", np.arange(50) % 2, 0)
    assert np.random.get_state()[1].tolist() == before


def test_random_splits_are_columns_that_depend_on_their_seed_alone() -> None:
    y = torch.arange(3).repeat_interleave(60)
    y[:5] = -1
    data = Data(x=torch.rand(180, 2), y=y, train_mask=torch.ones(180, dtype=torch.bool))
    several = random_splits(data, [4, 0, 7])
    assert several.train_mask.shape == (180, 3)
    assert data.train_mask.shape == (180,)
    for place, seed in enumerate([4, 0, 7]):
        expected = per_class(y.numpy(), 20, 30, seed)
        assert np.array_equal(several.val_mask[:, place].numpy(), expected.val)
        assert not several.test_mask[:5, place].any()


@pytest.mark.parametrize("kind", ["int32", "float", "column"])
def test_random_splits_take_labels_in_all_of_pygs_forms(kind: str) -> None:
    y = torch.arange(3).repeat_interleave(60)
    forms = {"int32": y.int(), "float": y.float(), "column": y[:, None]}
    splits = random_splits(Data(y=forms[kind]), range(2)).train_mask
    assert torch.equal(splits, random_splits(Data(y=y), range(2)).train_mask)


def test_random_splits_divide_values_and_labels() -> None:
    for y in (torch.randn(50), torch.randn(50, 1), torch.randint(2, (50, 4)).float()):
        masks = random_splits(Data(y=y), [1], counts=None)
        assert [int(masks[f"{p}_mask"].sum()) for p in ("train", "val", "test")] == [30, 10, 10]
    with pytest.raises(InputError, match="class numbers"):
        random_splits(Data(y=torch.randn(50)), [1])
    few = Data(y=torch.arange(3).repeat_interleave(50))  # as iris
    for data in (few, Data(y=torch.ones(50, 4))):
        with pytest.raises(InputError, match=r"counts=None of random_splits"):
            random_splits(data, [1])
        assert random_splits(data, [1], counts=None).train_mask.any()
    with pytest.raises(InputError, match="at least one seed"):
        random_splits(Data(y=torch.arange(3).repeat(60)), [])
