"""How often the name of one class appears among its own nodes, and among the others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LabelWordRow:
    """One class.

    Attributes:
        name: The class as the data calls it.
        words: What was looked for.
        total: Nodes of the class.
        readable: Those of them of which any words are known.
        appeared: Those of them that carry the name of their class.
        others: Labelled nodes of other classes.
        elsewhere: Those of them that carry the name all the same.
    """

    name: str
    words: str
    total: int
    readable: int
    appeared: int
    others: int
    elsewhere: int

    @property
    def rate(self) -> float:
        """Share of the class that carries its name; nodes without words count as not."""
        return self.appeared / self.total if self.total else 0.0

    @property
    def rate_elsewhere(self) -> float:
        """Share of the nodes of other classes that carry the name."""
        return self.elsewhere / self.others if self.others else 0.0
