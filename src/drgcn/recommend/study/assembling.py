"""A model from the settings of a run."""

from __future__ import annotations

from typing import Any

import torch

from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.building import build_lightgcn, build_sage
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.study.study_settings import StudySettings

_ID_ROWS = 1 << 20  # users share rows by hash if there are more


def build_model(
    data: ClickData, graph: ClickGraph, settings: StudySettings
) -> ClickSAGE | LightGCN:
    """A new model; statistics of attributes are those of nodes in the clicks of ``graph``.

    For one seed, all gates begin with the same weights but for the gate's own.
    """
    shared: dict[str, Any] = {"temperature": settings.temperature, "normalize": settings.normalize}
    if settings.model == "lightgcn":
        return build_lightgcn(
            graph,
            settings.seed,
            out_channels=settings.channels,
            num_layers=settings.layers,
            **shared,
        )
    sides = (("user", settings.user_ids, data.users), ("item", settings.item_ids, data.items))
    widths: dict[str, Any] = {
        f"{side}_id_channels": asked
        if asked is not None
        else (0 if table is not None else settings.channels)
        for side, asked, table in sides
    }
    options = {
        "hidden_channels": settings.channels,
        "out_channels": settings.channels,
        "fan_outs": settings.fan_outs,
        "user_id_rows": _ID_ROWS if graph.num_users > _ID_ROWS else None,
        **widths,
        **shared,
    }
    model = build_sage(data, graph, settings.seed, **options)
    if settings.gate == "none":
        return model
    # A Dr block draws weights of its own, between those of layers: without this, a seed would
    # mean other first layers for Dr than for the gates it is paired with.
    gated = build_sage(data, graph, settings.seed, gate=settings.gate, **options)
    gated.load_state_dict(model.state_dict(), strict=False)
    return gated


def wait_for(device: torch.device) -> None:
    """Lets a CUDA device finish, so that seconds are its own."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
