"""What attributes may tell of users or items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from drgcn.recommend.synthetic.attribute_columns import TOPICS_PER_GROUP

_STYLE_SHIFT, _BRAND_SHIFT = 6, 10  # factors 0 to 5 are carried by numbers


@dataclass(frozen=True, eq=False)
class NodeTruth:
    """Topics and latent factors of some nodes.

    Attributes:
        topic: The topic of each item, or the first favourite of each user ``[nodes]``.
        second: The second favourite of each user; of items the topic again.
        latents: The factors as bits.
    """

    topic: Tensor
    second: Tensor
    latents: Tensor

    def sign(self, factor: int) -> Tensor:
        """A latent factor of each node, -1 or 1."""
        return ((self.latents >> factor) & 1) * 2 - 1

    def code(self, carries: Literal["topic", "group", "second", "style", "brand"]) -> Tensor:
        """The true category of each node, see :class:`CategoryColumn`."""
        match carries:
            case "topic":
                return self.topic
            case "group":
                return self.topic.div(TOPICS_PER_GROUP, rounding_mode="floor")
            case "second":
                return self.second
            case "style":
                return (self.latents >> _STYLE_SHIFT) & 15
            case "brand":
                return self.topic * 4 + ((self.latents >> _BRAND_SHIFT) & 3)
