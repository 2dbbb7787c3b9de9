"""One feature that says something of the class."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TellingFeature:
    """A feature, and the class that it says most of.

    Attributes:
        column: Its column.
        information: Mutual information with the class, in bits.
        label: The class that it says most of.
        share: What it says of whether a node is of this class, as a share of what there is to
            say: 1 if it settles the question, 0 if it says nothing.
        precision: Among the nodes in the group of values that fits the class best, the share of
            this class.
        recall: Share of the class that is in this group.
    """

    column: int
    information: float
    label: int
    share: float
    precision: float
    recall: float
