"""Why does a gate cost MixHop so much on Citeseer?

A sigmoid gate starts at one half. Two explanations, and what would refute each:

- MixHop's regulariser acts on the gate too. Then a gate without parameters would lose nothing, and
  taking the regulariser off the gate would help.
- The gate halves what the weights do, and under MixHop's strong decay they cannot double to undo
  it. Then a gate that starts at one would lose little, and so would one half if the weights were
  penalised as the layer sees them, which is half as large.

Everything but gate and penalty is the recipe of MixHop on the public split.

    python benchmarks/mixhop_gates.py --device cuda --seeds 20
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from measuring import write_csv
from torch import Tensor

from drgcn.data import load
from drgcn.nn import MixHop
from drgcn.reweighting import DimensionalReweighting
from drgcn.stats import Summary
from drgcn.studies.build import build, stopping_rule
from drgcn.studies.experiment import recipe
from drgcn.training import StepwiseDecay, fit


def twice_sigmoid(x: Tensor) -> Tensor:
    """Activation of a gate that starts at one."""
    return 2 * x.sigmoid()


def start_at_one(model: MixHop) -> None:
    """Replace the blocks by such that start at one."""
    for layer in model.inputs:
        width = layer.gate.in_channels
        layer.gate = DimensionalReweighting(width, gate=twice_sigmoid)


def spare_gates(model: MixHop) -> None:
    """Take the regulariser off the gates."""
    usual = type(model).penalty

    def penalty(own: MixHop, weight_decay: float) -> Tensor:
        squares = sum(parameter.square().sum() for parameter in own.gate_parameters())
        return usual(own, weight_decay) - 0.5 * weight_decay * squares

    model.penalty = partial(penalty, model)


def halve_penalty(model: MixHop) -> None:
    """Penalise the weights as a gate of one half lets them act: half as large."""

    def penalty(own: MixHop, weight_decay: float) -> Tensor:
        total = own.readout.segment_logits.square().mean() * 1e-3
        for conv in (*own.convs, own.readout):
            half = conv.weight / 2
            lengths = torch.linalg.vector_norm(half, dim=0)
            total = total + weight_decay * (half.square().sum() + lengths.sum())
        squares = sum(parameter.square().sum() for parameter in own.gate_parameters())
        return total + 0.5 * weight_decay * squares

    model.penalty = partial(penalty, model)


def nothing(model: MixHop) -> None:
    """Leave the model as it is."""


ARMS: dict[str, tuple[str | None, Callable[[MixHop], None]]] = {
    "no gate": (None, nothing),
    "Dr": ("dr", nothing),
    "one half, nothing learnt": ("constant", nothing),
    "Dr, gate not regularised": ("dr", spare_gates),
    "Dr that starts at one": ("dr", start_at_one),
    "Dr, weights penalised at half": ("dr", halve_penalty),
    "one half, weights penalised at half": ("constant", halve_penalty),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="citeseer")
    parser.add_argument("--data-root")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    data = load(arguments.dataset, arguments.data_root, split="public")
    rows: list[dict[str, object]] = []
    for name, (gate, change) in ARMS.items():
        usual = recipe(arguments.dataset, "public", "mixhop", reweight=gate)

        def make(usual=usual, change=change):
            model = build(usual, data)
            change(model)
            return model

        result = fit(
            make,
            data,
            range(arguments.seeds),
            epochs=usual.epochs,
            rule=stopping_rule(usual),
            optimizer=torch.optim.SGD,
            lr=usual.lr,
            weight_decay=usual.weight_decay,
            schedule=StepwiseDecay(usual.lr_cut_every),
            device=arguments.device,
        )
        found = Summary.of([100 * value for value in result.test_accuracy])
        if not rows:
            plain = found.mean
        rows.append(
            {
                "dataset": arguments.dataset,
                "gate": name,
                "test_accuracy": round(found.mean, 2),
                "std": round(found.std, 2),
                "less_no_gate": round(found.mean - plain, 2),
                "seeds": found.seeds,
            }
        )
        write_csv("mixhop_gates", rows, torch.device(arguments.device), arguments.out)


if __name__ == "__main__":
    main()
