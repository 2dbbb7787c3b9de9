"""One small case for every form of every model, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from drgcn.data import load, unite
from drgcn.insertion import insert_reweighting
from drgcn.nn import ASGCN, GAT, GCN, LGCN, MLP, ChebNet, FastGCN, GeniePath, GraphSAGE, MixHop
from drgcn.reweighting import DimensionalReweighting
from drgcn.training import BestValidation, Patience, RisingLoss, StepwiseDecay

GATES = (None, "dr", "static", "constant")
SEEDS = (0, 5)  # in two blocks of lanes
EPOCHS = 3


@dataclass(frozen=True)
class Case:
    """A model, and the arguments of ``fit``."""

    make: Callable[[], torch.nn.Module]
    training: dict[str, Any] = field(default_factory=dict)
    data: str = "planted"


def data_of(name: str) -> Data:
    """A small graph of a name."""
    if name in ("planted", "words"):
        few = {"labels_per_class": 6, "val_per_class": 8}
        data = load("planted", nodes=72, classes=3, features=12, informative=4, **few)
        data.x = data.x.relu() if name == "words" else data.x  # with zeros, as words have
        return data
    if name == "wine":
        return load("wine", normalize="standard")
    if name == "several":
        return unite(*([_drawn(seed) for seed in part] for part in ((1, 2, 3), (4,), (5,))))
    return unite(*([_drawn(seed, many=True) for seed in part] for part in ((1, 2, 3), (4,), (5,))))


def cases() -> dict[str, dict[str, Case]]:
    """By model, then by form."""
    sampled = {"batch_size": 8}
    apart = {**sampled, "inductive": "apart"}
    return {
        "gcn": _gated(GCN, {}) | _normed(GCN, {}) | _of_gcn(),
        "gat": _gated(GAT, {"heads": 2}, rule=Patience(2, "loss"), lr=0.005)
        | _normed(GAT, {"heads": 2})
        | {
            "residual": _case(GAT, {"heads": 2, "out_heads": 2, "residual": True, "num_layers": 3})
        },
        "mixhop": {
            form: replace(case, data="words")
            for form, case in _gated(MixHop, {"hidden_channels": [3, 2, 4]}, **_sgd(0.5)).items()
        }
        | {
            "readout": _case(
                MixHop,
                {"hidden_channels": [3, 2, 4], "readout_channels": [3, 3, 6], "binarize": False},
            )
        },
        "chebyshev": _gated(ChebNet, {"K": 2}, rule=RisingLoss()) | _normed(ChebNet, {}),
        "mlp": _gated(MLP, {}) | _normed(MLP, {}),
        "lgcn": _gated(LGCN, {"growth": 4, "k": 4}) | _normed(LGCN, {"growth": 4, "k": 4}),
        "geniepath": _gated(GeniePath, {})
        | _normed(GeniePath, {})
        | {"lazy": _case(GeniePath, {"lazy": True, "reweight": "dr"})},
        "graphsage": _gated(GraphSAGE, {"fan_outs": [3, 4]}, **sampled, inductive="train")
        | {
            "simple": _case(
                GraphSAGE,
                {"form": "simple", "fan_outs": [3, 3], "reweight": "dr"},
                **sampled,
                **_sgd(0.7),
            ),
            "replace": _case(GraphSAGE, {"fan_outs": [3, 4], "replace": True}, **sampled),
            "layer norm": _case(GraphSAGE, {"fan_outs": [3, 4], "norm": "layer"}, **sampled),
        },
        "fastgcn": _gated(FastGCN, {"count": 10}, **apart)
        | {
            "layer-dependent": _case(
                FastGCN, {"count": 10, "sampler": "layer-dependent", "reweight": "dr"}, **sampled
            ),
            "all, power 2": _case(
                FastGCN,
                {"count": 10, "candidates": "all", "power": 2, "replace": True},
                **sampled,
                inductive="train",
            ),
        },
        "asgcn": _gated(ASGCN, {"count": 10, "max_degree": 4}, **sampled, inductive="train")
        | {
            "mix": _case(ASGCN, {"form": "mix", "count": 10, "reweight": "dr"}, **sampled),
            "as the code": _case(
                ASGCN,
                {
                    **{"count": 10, "extra_identity": True, "drop_duplicates": True},
                    **{"swap_scores": True, "divide_variance": True, "reweight": "dr"},
                },
                **sampled,
            ),
        },
        "pyg": _of_pyg(),
    }


def _case(kind: type[torch.nn.Module], options: dict[str, Any], **training: Any) -> Case:
    arguments = {"hidden_channels": 6, **options}
    return Case(lambda: kind(in_channels=12, out_channels=3, **arguments), training)


def _gated(
    kind: type[torch.nn.Module], options: dict[str, Any], **training: Any
) -> dict[str, Case]:
    return {
        str(gate).lower(): _case(kind, {**options, "reweight": gate}, **training) for gate in GATES
    }


def _normed(kind: type[torch.nn.Module], options: dict[str, Any]) -> dict[str, Case]:
    return {
        f"{norm} norm": _case(kind, {**options, "norm": norm, "reweight": "dr"})
        for norm in ("batch", "layer", "graph", "pair")
    }


def _sgd(lr: float) -> dict[str, Any]:
    return {"optimizer": torch.optim.SGD, "lr": lr, "schedule": StepwiseDecay(1)}


def _of_gcn() -> dict[str, Case]:
    def wide(outputs: int = 3, inputs: int = 12, **options: Any) -> Callable[[], GCN]:
        return lambda: GCN(inputs, 6, outputs, reweight="dr", **options)

    return {
        "pre-activation": Case(wide(pre_activation=True, num_layers=3)),
        "wine": Case(wide(inputs=13), {"rule": BestValidation(2)}, "wine"),
        "several graphs": Case(wide(), {"graphs_per_step": 2}, "several"),
        "many labels": Case(wide(outputs=5), {"graphs_per_step": 1}, "many labels"),
        "inductive": Case(wide(), {"inductive": "train"}),
        "apart": Case(wide(), {"inductive": "apart", "weight_decay": 0.0}),
    }


def _of_pyg() -> dict[str, Case]:
    found = {}
    for kind in (pyg.GCN, pyg.GAT, pyg.GIN, pyg.GraphSAGE):

        def plain(kind: Any = kind) -> torch.nn.Module:
            return kind(12, 6, num_layers=2, out_channels=3, dropout=0.3)

        found[f"{kind.__name__}, plain"] = Case(plain)
        found[f"{kind.__name__}, dr"] = Case(lambda make=plain: insert_reweighting(make()))
    gate = partial(DimensionalReweighting, hidden_channels=3, act="relu", gate="softplus")
    found["GCN, dr with options"] = Case(
        lambda: insert_reweighting(pyg.GCN(12, 6, num_layers=2, out_channels=3), gate=gate)
    )
    return found


def _drawn(seed: int, *, many: bool = False) -> Data:
    """A graph of 16 nodes with three classes, or five labels."""
    own = torch.Generator().manual_seed(seed)
    y = torch.arange(16) % 3
    x = torch.randn(16, 12, generator=own) + y[:, None]
    if many:
        y = (torch.rand(16, 5, generator=own) < 0.5).float()
        y[0], y[1] = 1, 0
    return Data(x=x, edge_index=torch.randint(16, (2, 60), generator=own), y=y)
