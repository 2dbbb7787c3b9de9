"""The attributes of one side as tables that a training step reads by node."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class EncodedAttributes:
    """What :meth:`AttributeEncoder.prepare` computes once. The last row stands for nobody.

    Attributes:
        numeric: Standardised numbers and missing flags ``[nodes + 1, columns]``; zeros at the end.
        codes: Rows of the fused table of categories ``[nodes + 1, categories]``, int32.
        ids: Rows of the table of ids ``[nodes + 1]``, int32; ``None`` without one.
    """

    numeric: Tensor
    codes: Tensor
    ids: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, which is also the number that stands for nobody."""
        return self.numeric.size(0) - 1


@dataclass(frozen=True, eq=False)
class ClickAttributes:
    """The encoded attributes of both sides.

    Attributes:
        user: Those of users.
        item: Those of items.
    """

    user: EncodedAttributes
    item: EncodedAttributes

    def __getitem__(self, side: str) -> EncodedAttributes:
        return self.user if side == "user" else self.item
