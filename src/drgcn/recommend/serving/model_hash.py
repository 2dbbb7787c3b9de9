"""One number for a trained model, whatever file it is stored in."""

from __future__ import annotations

import hashlib
import json

from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.run_folder import describe


def model_hash(model: ClickSAGE | LightGCN) -> str:
    """SHA-256 of a model's settings and of all its weights and buffers."""
    digest = hashlib.sha256(json.dumps(describe(model), sort_keys=True).encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"[{name} {value.dtype} {list(value.shape)}]".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
