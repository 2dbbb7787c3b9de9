"""Reddit: posts joined where one user commented on both, to be told apart by community."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drgcn.data.assemble import RawGraph
from drgcn.data.catalog import describe
from drgcn.data.checks import Parts
from drgcn.data.reddit_counts import with_counts
from drgcn.data.reddit_facts import PUBLISHED
from drgcn.data.reddit_files import read_fastgcn, read_saint
from drgcn.data.reddit_splits import split_masks
from drgcn.errors import InputError


def read(root: Path, split: str, *, counts: str = "auto") -> RawGraph:
    """The graph of 11,606,919 edges, from GraphSAINT's files or else from FastGCN's.

    Args:
        root: The data root.
        split: ``"full"``, all training nodes that the files name, or ``"graphsage"``, those with
            a neighbour among them.
        counts: What becomes of the number of comments and the score, see
            :func:`drgcn.data.reddit_counts.with_counts`.
    """
    first = all((root / file.path).is_file() for file in describe("reddit").files)
    parts = (read_saint if first else read_fastgcn)(root / "reddit")
    _check(parts)
    x, words = with_counts(parts.x, counts, parts.source)
    return RawGraph(
        x=x,
        y=parts.y,
        pairs=parts.pairs,
        masks=split_masks(parts.splits["full"], split, parts.pairs),
        split=split,
        class_names=tuple(str(label) for label in range(PUBLISHED.classes)),
        feature_source=f"published; {words}",
    )


def _check(parts: Parts) -> None:
    """Refuse another graph, such as the one of 57 million edges that also goes as Reddit."""
    masks = parts.splits["full"]
    found = {
        "nodes": len(parts.x),
        "features": parts.x.shape[1],
        "val": int(masks.val.sum()),
        "test": int(masks.test.sum()),
    }
    for word, number in found.items():
        if number != getattr(PUBLISHED, word):
            raise InputError(
                f"{parts.source}: Reddit has {getattr(PUBLISHED, word):,} {word}"
                f"{' nodes' if word in ('val', 'test') else ''}, but the files hold {number:,}: "
                "fetch the published ones, or load your own graph by its path"
            )
    if parts.y.max() >= PUBLISHED.classes:
        raise InputError(
            f"{parts.source}: Reddit has the classes 0 to {PUBLISHED.classes - 1}, but the files "
            f"name {parts.y.max()}: fetch the published ones"
        )
    # An edge may be listed in one direction or in both.
    listed = int(np.count_nonzero(parts.pairs[0] != parts.pairs[1]))
    if not PUBLISHED.edges <= listed <= 2 * PUBLISHED.edges:
        raise InputError(
            f"{parts.source}: this graph of Reddit has {PUBLISHED.edges:,} edges, listed once or "
            f"twice, but the adjacency has {listed:,} entries: there is another graph of that "
            "name with five times as many; fetch the published files"
        )
