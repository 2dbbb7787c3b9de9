"""Splits into training, validation and test nodes: masks, and random draws of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

# One class number per node, -1 where there is none.
Labels = npt.NDArray[np.int64]
# For several labels at once: a row of zeros and ones per node.
MultiLabels = npt.NDArray[np.float32]
AnyLabels = Labels | MultiLabels
Mask = npt.NDArray[np.bool_]

SEEDED: Final = ("random", "random-60")


class Masks(NamedTuple):
    """Training, validation and test nodes, one boolean a node; no node is in two parts."""

    train: Mask
    val: Mask
    test: Mask


def labelled(y: AnyLabels) -> Mask:
    """Mask of the nodes whose labels are known; a row of zeros is known to have no label, and one
    with NaN has values that are not known."""
    return np.asarray(~np.isnan(y).any(axis=1)) if y.ndim == 2 else y >= 0


def from_indices(
    nodes: int, train: Iterable[int], val: Iterable[int], test: Iterable[int]
) -> Masks:
    """Build masks that are true at the listed nodes."""
    masks = []
    for part in (train, val, test):
        mask = np.zeros(nodes, dtype=np.bool_)
        mask[np.fromiter(part, dtype=np.int64)] = True
        masks.append(mask)
    return Masks(*masks)


def per_class(y: AnyLabels, train: int, val: int, seed: int) -> Masks:
    """Draw ``train`` and ``val`` nodes of each class; the labelled rest is the test part."""
    if y.ndim == 2:
        raise InputError(
            "split 'random' takes nodes of each class, but here a node has several labels, or "
            "values instead: divide the nodes as they are (split='random-60', or counts=None of "
            "random_splits)"
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in range(int(y.max(initial=-1)) + 1):
        members = rng.permutation(np.flatnonzero(y == label))
        if len(members) <= train + val:
            raise InputError(
                f"the split takes {train} training and {val} validation nodes of each class and "
                f"leaves the rest for the test, but class {label} has only {len(members)} nodes: "
                "ask for fewer nodes per class, or divide the nodes as they are "
                "(split='random-60', or counts=None of random_splits)"
            )
        for part, chosen in zip(parts, np.split(members, [train, train + val]), strict=True):
            part.extend(chosen.tolist())
    return from_indices(len(y), *parts)


def sixty(y: AnyLabels, seed: int) -> Masks:
    """Draw a fifth of the labelled nodes to validate, a fifth to test, the rest to train."""
    known = np.flatnonzero(labelled(y))
    if len(known) < 3:
        raise InputError(
            f"a random split needs at least 3 labelled nodes, but there are {len(known)}: "
            "add labels"
        )
    order = np.random.Generator(np.random.PCG64(seed)).permutation(known)
    fifth = max(1, len(order) // 5)
    train, val, test = np.split(order, [len(order) - 2 * fifth, len(order) - fifth])
    return from_indices(len(y), train.tolist(), val.tolist(), test.tolist())


def sixty_by_identity(identity: npt.NDArray[np.int64], seed: int) -> Masks:
    """Draw things as :func:`sixty` draws nodes: all nodes of a thing are in one part."""
    things, thing = np.unique(identity, return_inverse=True)
    return Masks(*(mask[thing] for mask in sixty(np.zeros(len(things), np.int64), seed)))


def draw(split: str, y: AnyLabels, seed: int, counts: tuple[int, int] | None = None) -> Masks:
    """Draw the seeded split of that name; ``counts`` are the nodes per class of ``random``.

    The generator is seeded by ``seed`` alone, so splits and weight initialisations never share
    a stream.
    """
    if split == "random":
        return per_class(y, *(counts or (20, 30)), seed)
    return sixty(y, seed)


def random_splits(
    data: Data, seeds: Iterable[int], *, counts: tuple[int, int] | None = (20, 30)
) -> Data:
    """Return a graph with one random split for each seed, as columns of its masks.

    ``fit(..., grid={"split": range(10)})`` trains on ten of them side by side.

    Args:
        data: A graph with ``y``; masks that it has are replaced in the copy.
        seeds: One split is drawn from each, whatever the others are.
        counts: Training and validation nodes of each class, all others are tested; ``None`` to
            divide nodes by 60, 20 and 20 %, as for several labels a node.
    """
    import torch

    y = data.y.reshape(-1) if data.y.dim() == 2 and data.y.size(1) == 1 else data.y
    labels = y.cpu().numpy()
    if counts is not None and labels.ndim == 1:
        numbers = labels.astype(np.int64)
        if (numbers != labels).any():
            raise InputError(
                "Expected class numbers, of each of which some nodes are drawn; found other "
                "numbers in data.y. Give counts=None to divide the nodes as they are."
            )
        labels = numbers
    elif labels.ndim == 1 and labels.dtype.kind == "f":
        labels = labels[:, None]  # values, of which none is below what counts as known
    name = "random-60" if counts is None else "random"
    drawn = [draw(name, labels, seed, counts) for seed in seeds]
    if not drawn:
        raise InputError("Expected at least one seed to draw a split from; found none.")
    found = data.clone()
    for part in Masks._fields:
        found[f"{part}_mask"] = torch.from_numpy(np.stack([getattr(d, part) for d in drawn], 1))
    return found
