"""View of a PyG ``Data`` as plain arrays, checked for an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.assemble import DatasetInfo, as_array, as_features
from drgcn.data.checks import checked_pairs, identity_numbers
from drgcn.data.features import Features
from drgcn.data.splits import AnyLabels, Mask, labelled
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS: Final = ("train", "val", "test")


@dataclass(frozen=True)
class GraphView:
    """A graph as plain arrays; the ``Data`` it came from stays as it is.

    Attributes:
        x: Features, a float array or a ``scipy.sparse.csr_array``; may hold non-finite values.
        pairs: The entries of ``edge_index``, as they are.
        y: Labels, -1 where there is none; zeros and ones for several labels a node.
        masks: The parts of the split that there are, by name; they may overlap.
        graph: The number of the graph that each node belongs to.
        class_names: One name per class.
        info: Facts of loading, if :func:`drgcn.data.load` made the ``Data``.
        identity: A number a node, equal for nodes that are the same thing and -1 where that is
            not known; ``None`` where nothing is known.
    """

    x: Features
    pairs: npt.NDArray[np.int64]
    y: AnyLabels
    masks: dict[str, Mask]
    graph: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    info: DatasetInfo | None
    identity: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(cls, data: Data) -> GraphView:
        """Return the view of a PyG ``Data``.

        Raises:
            InputError: If ``x`` or ``edge_index`` is missing, there are no nodes, or the tensors
                do not belong to the same nodes.
        """
        x = _features(data)
        nodes = x.shape[0]
        y = _labels(data, nodes)
        info = getattr(data, "dataset", None)
        info = info if isinstance(info, DatasetInfo) else None
        classes = y.shape[1] if y.ndim == 2 else int(y.max(initial=-1)) + 1
        names = info.class_names if info is not None else ()
        # A data set whose labels were changed after loading has names for other classes.
        if len(names) < classes:
            names = tuple(map(str, range(classes)))
        pairs = as_array(data.edge_index, "edge_index")
        graph, identity = getattr(data, "graph", None), getattr(data, "identity", None)
        if identity is not None:
            identity = identity_numbers(as_array(identity, "identity"), nodes, "identity")
        return cls(
            x=x,
            pairs=checked_pairs(pairs, nodes, "edge_index"),
            y=y,
            masks={
                part: _mask(mask, part, nodes)
                for part in PARTS
                if (mask := getattr(data, f"{part}_mask", None)) is not None
            },
            graph=np.zeros(nodes, np.int64) if graph is None else _per_node(graph, nodes),
            class_names=names,
            info=info,
            identity=identity,
        )

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self.x.shape[0])

    @property
    def known(self) -> Mask:
        """The nodes with a label."""
        return labelled(self.y)

    def mask(self, part: str) -> Mask:
        """Return the nodes of a part; none if the split does not have it."""
        return self.masks.get(part, np.zeros(self.nodes, dtype=np.bool_))


def is_finite(x: Features) -> bool:
    """Return True if no feature is NaN or infinite."""
    return bool(np.isfinite(x.data if sparse.issparse(x) else x).all())


def _features(data: Data) -> Features:
    for key in ("x", "edge_index"):
        if not isinstance(getattr(data, key, None), torch.Tensor):
            raise InputError(
                f"Expected a graph with the tensors x and edge_index; found no {key}. Give one "
                "PyG Data, with features for every node."
            )
    x = as_features(data.x, "x")
    if x.ndim != 2 or not x.shape[0]:
        raise InputError(
            f"Expected features [nodes, columns] of at least one node; found the shape "
            f"{tuple(x.shape)}. There is nothing to audit in an empty graph."
        )
    return x


def _labels(data: Data, nodes: int) -> AnyLabels:
    if getattr(data, "y", None) is None:
        return np.full(nodes, -1, dtype=np.int64)
    y = as_array(data.y, "y")
    if y.shape == (nodes, 1):
        y = y[:, 0]
    if y.ndim not in (1, 2) or len(y) != nodes:
        raise InputError(
            f"Expected y to hold labels of {nodes} nodes; found the shape {tuple(y.shape)}. "
            "Give every node a class number, -1 where it has none."
        )
    if y.ndim == 1 and y.dtype.kind == "f":
        if not (np.isfinite(y).all() and (y % 1 == 0).all()):
            raise InputError(
                "Expected y to hold class numbers; found fractions or numbers that are not "
                "finite. Audits are about classes, not about measured values."
            )
        return y.astype(np.int64)
    return y if y.ndim == 2 else y.astype(np.int64)


def _mask(value: Any, part: str, nodes: int) -> Mask:
    mask = as_array(value, f"{part}_mask")
    if mask.shape != (nodes,):
        raise InputError(
            f"Expected {part}_mask to hold true or false for {nodes} nodes; found the shape "
            f"{tuple(mask.shape)}. Of several splits, choose one column."
        )
    return mask.astype(np.bool_)


def _per_node(value: Any, nodes: int) -> npt.NDArray[np.int64]:
    graph = as_array(value, "graph")
    if graph.shape != (nodes,) or graph.dtype.kind not in "iu":
        raise InputError(
            f"Expected graph to hold the number of its graph for each of {nodes} nodes; found "
            f"{graph.dtype} of shape {tuple(graph.shape)}."
        )
    return graph.astype(np.int64)
