"""A refined dataset, and the account of what was done to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from drgcn.audit.refining.merged_edges import EdgeAccount
from drgcn.audit.refining.merging import FeatureRule, LabelConflict
from drgcn.audit.refining.node_map import NodeMap

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Refined:
    """What :func:`drgcn.audit.refining.refine.refine` returns.

    Attributes:
        data: The new graph, as :func:`drgcn.data.load` would give it.
        node_map: What became of every old node.
        edges: What became of the edges.
        conflicts: Groups whose members had different labels.
        left_training: Old training nodes that were taken out of training because what they were
            merged with is validated or tested on.
        feature_rule: How features of merged nodes were made.
        removed_features: Old numbers of the columns that were taken out.
        replaced_features: Whether the features are new ones.
        has_split: Whether the old graph had a split.
        texts: Texts of the new nodes, if those of the old ones were given.
    """

    data: Data
    node_map: NodeMap
    edges: EdgeAccount
    conflicts: tuple[LabelConflict, ...]
    left_training: tuple[int, ...]
    feature_rule: FeatureRule
    removed_features: tuple[int, ...] = ()
    replaced_features: bool = False
    has_split: bool = True
    texts: tuple[str, ...] | None = None

    @property
    def changed(self) -> bool:
        """Whether anything was merged, dropped, removed or replaced."""
        counts = self.node_map.counts
        return (
            bool(counts["merged"] or counts["dropped"] or self.removed_features)
            or self.replaced_features
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the map is a table of its own."""
        info = self.data.dataset
        return {
            "refined from": dict(info.options),
            "nodes": {"before": len(self.node_map.fates), **self.node_map.counts},
            "edges": asdict(self.edges),
            "features": {
                "columns": info.features,
                "rule for merged nodes": self.feature_rule,
                "removed columns": list(self.removed_features),
                "replaced": self.replaced_features,
            },
            "split": {
                "train": info.train,
                "val": info.val,
                "test": info.test,
                "rule for merged nodes": "test if a member is in test, else val, else train",
                "nodes that left training": list(self.left_training),
            },
            "class names": list(info.class_names),
            "label conflicts": [asdict(conflict) for conflict in self.conflicts],
            "content hash": info.content_hash,
        }
