"""A dataset whose test nodes a search cannot look at."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace

from torch_geometric.data import Data

SUFFIX = "without test"


def without_test(data: Data) -> Data:
    """The same graph with no label but those to train and validate, and validation for a test.

    Training and validation are what they were, to the last digit: features and edges of all nodes
    stay. What a record of it calls test accuracy is the validation accuracy again, and its split
    is called "... without test"; its content hash is another, so that no record made on it is ever
    taken for one of the dataset itself.

    Args:
        data: A graph from :func:`drgcn.load`.
    """
    hidden = copy.copy(data)
    hidden.y = data.y.clone()
    hidden.y[~(data.train_mask | data.val_mask)] = -1
    hidden.test_mask = data.val_mask.clone()
    info = data.dataset
    missing = hidden.y < 0 if hidden.y.dim() == 1 else (hidden.y < 0).any(dim=1)
    hidden.dataset = replace(
        info,
        split=f"{info.split} {SUFFIX}",
        test=info.val,
        unlabelled=int(missing.sum()),
        content_hash=hashlib.sha256(f"{info.content_hash} {SUFFIX}".encode()).hexdigest()[:16],
    )
    return hidden
