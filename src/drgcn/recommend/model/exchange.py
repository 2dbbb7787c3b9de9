"""Communication between the ranks of a training run; none for a single rank."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor


class Exchange:
    """Sums and gathers over ranks. This base class is that of a single process.

    A rank holds rows ``rank * B / size`` to ``(rank + 1) * B / size`` of the global batch, and
    likewise of the extra negatives. The loss of a rank is the mean over its rows, and the loss of
    the run is the mean over ranks. A class for several processes overrides the methods so that a
    step on ``size`` ranks equals one on a single rank with the whole batch:

    * :meth:`sum` adds over ranks, and so does its backward pass;
    * :meth:`gather` concatenates over ranks in their order; backward adds the gradients over
      ranks and gives each its own part;
    * :meth:`average_gradients` replaces gradients by their mean over ranks, after ``backward``.

    Attributes:
        rank: This process, from 0.
        size: How many there are.
    """

    rank: int = 0
    size: int = 1

    def sum(self, x: Tensor) -> Tensor:
        """The sum over ranks, with a gradient: sums and counts behind a Dr block's mean."""
        return x

    def gather(self, x: Tensor) -> Tensor:
        """The rows of all ranks in their order, with a gradient: embeddings of items."""
        return x

    def gather_ids(self, ids: Tensor) -> Tensor:
        """The same for whole numbers, without a gradient."""
        return ids

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Make the gradients of all ranks equal to their mean."""

    def mean(self, x: Tensor) -> Tensor:
        """The mean over ranks of a number that is reported, without a gradient."""
        return x
