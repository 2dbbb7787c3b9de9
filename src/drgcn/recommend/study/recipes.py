"""How the published sets are divided, trained on and asked, unless somebody says otherwise.

Nothing here was chosen by looking at a gate. Limits are such that training stops by patience: a
run takes seconds to two minutes on one H200, and with MovieLens-100k a minute on one CPU core.
"""

from __future__ import annotations

from typing import Any, Final

from drgcn.errors import InputError
from drgcn.recommend.study.study_settings import ModelName, StudySettings

_SAGE: Final[dict[str, dict[str, Any]]] = {
    # No attributes: every user and every item has an embedding of its own.
    "gowalla": {
        **{"split": "official", "n": (20,), "batch_size": 8192},
        **{"epochs_max": 80.0, "every": 2.0, "patience": 5},
    },
    "amazon-book": {
        **{"split": "official", "n": (20,), "batch_size": 8192},
        **{"epochs_max": 60.0, "every": 2.0, "patience": 5},
    },
    # Genres and years do not tell films apart, so films have embeddings of their own beside them.
    # Users have none: most of those in the test are new.
    "movielens-100k": {
        **{"split": "time", "days": 30, "n": (20, 50), "batch_size": 1024, "negatives": 256},
        **{"item_ids": 16, "fan_outs": (5, 3)},
        **{"epochs_max": 60.0, "every": 0.25, "patience": 20},
    },
    "movielens-1m": {
        **{"split": "official", "n": (20, 50), "batch_size": 4096, "item_ids": 16},
        **{"epochs_max": 300.0, "every": 2.0, "patience": 8},
    },
    # The paper's protocol on made-up clicks: the next day, top 50, seen items stay.
    "astar": {
        **{"split": "time", "days": 1, "n": (50,), "exclude_seen": False, "batch_size": 8192},
        **{"epochs_max": 8.0, "every": 0.5, "patience": 3, "valid_users": 200_000},
    },
}
# As its authors train it, on all of their sets.
_LIGHTGCN: Final[dict[str, Any]] = {
    **{"model": "lightgcn", "protocol": "fixed", "layers": 3, "channels": 64, "lr": 1e-3},
    **{"weight_decay": 1e-4, "batch_size": 2048, "loss": "bpr", "draw": "users"},
    **{"epochs_max": 1000.0, "every": 20.0, "patience": 5, "temperature": 1.0},
    **{"normalize": False},
}
# A softmax over a batch sees thousands of items a step where BPR sees one: far fewer epochs.
_SOFTMAX: Final[dict[str, Any]] = {
    **{"loss": "softmax", "draw": "clicks", "epochs_max": 100.0, "every": 2.0},
    **{"temperature": 0.2, "normalize": True, "protocol": "refit"},
}


def recipe(data: str, model: ModelName = "sage", *, fast: bool = False) -> StudySettings:
    """The settings for a set of clicks by name; for others the defaults.

    Args:
        data: Name of the set.
        model: SAGE, or LightGCN as its authors train it.
        fast: LightGCN with a softmax in place of BPR: a variant, not what was published.
    """
    first = data.partition(" ")[0]  # the name of made-up clicks goes on with size and seed
    own = _SAGE.get(first, {"n": (50,), "exclude_seen": False})
    if model == "sage":
        if fast:
            raise InputError("Expected --fast with --model lightgcn; found sage. Leave one out.")
        return StudySettings(**own)
    asked = {name: own[name] for name in ("split", "days", "n", "exclude_seen") if name in own}
    return StudySettings(**(asked | _LIGHTGCN | (_SOFTMAX if fast else {})))
