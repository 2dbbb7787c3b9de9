"""Pairs of nodes that look alike, with what they look alike in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Evidence = Literal["exact features", "near features", "text", "structure"]


@dataclass(frozen=True, eq=False)
class DuplicatePairs:
    """Pairs of one kind of evidence, in rising order and each with the smaller node first.

    Attributes:
        evidence: What is alike.
        nodes: The pairs, shape ``[P, 2]``.
        score: The similarity of each pair, 1 for equal.
    """

    evidence: Evidence
    nodes: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        nodes = np.sort(np.asarray(self.nodes, dtype=np.int64).reshape(-1, 2), axis=1)
        score = np.asarray(self.score, dtype=np.float64)
        order = np.lexsort((nodes[:, 1], nodes[:, 0]))
        object.__setattr__(self, "nodes", nodes[order])
        object.__setattr__(self, "score", score[order])

    def __len__(self) -> int:
        return len(self.nodes)

    def within(self, group: Iterable[int]) -> DuplicatePairs:
        """The pairs whose two nodes are both in a group."""
        inside = np.isin(self.nodes, list(group)).all(axis=1)
        return DuplicatePairs(self.evidence, self.nodes[inside], self.score[inside])

    @classmethod
    def none(cls, evidence: Evidence) -> DuplicatePairs:
        """No pairs."""
        return cls(evidence, np.empty((0, 2), dtype=np.int64), np.empty(0))
