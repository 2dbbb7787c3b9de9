"""How long is an epoch at Reddit's size, and what do norms and Dr add to it?

On `reddit-like`, which is synthetic. AS-GCN as its authors trained it (mix form, batches of 256,
512 nodes drawn), one seed and five in one pass, plain and with batch norm, layer norm, Dr, and Dr
with layer norm; then a full-batch GCN, plain and with Dr, beside its sparse products alone. An
epoch is all steps of every seed and a look at the validation nodes; variants take turns, and the
fastest round counts.

    python benchmarks/reddit_scale.py --device cuda
    python benchmarks/reddit_scale.py --device cpu --scale 0.05 --rounds 1
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from measuring import write_csv

from drgcn.data import load
from drgcn.nn import ASGCN, GCN, spmm
from drgcn.training import BestValidation
from drgcn.training.grid import LaneSettings
from drgcn.training.stack import ModelStack
from drgcn.training.task import Task
from drgcn.training.trainer import EpochRunner, Trainer

VARIANTS = {
    "plain": {},
    "batch norm": {"norm": "batch"},
    "layer norm": {"norm": "layer"},
    "Dr": {"reweight": "dr"},
    "Dr + layer norm": {"norm": "layer", "reweight": "dr"},
}


class Measured:
    """A model in training, and the time of its epochs."""

    def __init__(self, make: Callable, task: Task, device: torch.device, seeds: int = 1) -> None:
        stack = ModelStack(make, range(seeds), task.val.inputs, device)
        trainer = Trainer(
            stack, task, BestValidation(), epochs=10_000, optimizer=torch.optim.Adam,
            lanes=LaneSettings(0.01, 1e-4),
        )  # fmt: skip
        self.device, self.runner, self.best = device, EpochRunner(trainer), float("inf")
        self.run(2 if device.type == "cuda" else 1)  # on CUDA: two epochs, then a recording
        self.best = float("inf")

    def run(self, epochs: int) -> None:
        """Seconds per epoch; the least is kept."""
        wait(self.device)
        start = time.perf_counter()
        for _ in range(epochs):
            self.runner.run(1)
        wait(self.device)
        self.best = min(self.best, (time.perf_counter() - start) / epochs)


def wait(device: torch.device) -> None:
    """For a GPU to finish."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def sampled(
    data, device: torch.device, rounds: int, epochs: int, seeds: int
) -> list[dict[str, object]]:
    """AS-GCN and what can stand in front of its layers."""
    d, c = data.num_features, data.dataset.classes

    def make(**options):
        return ASGCN(d, 128, c, form="mix", count=512, max_degree=64, **options)

    model = make()
    task = Task.from_data(
        data, model.prepare, device, prepare_training=model.prepare_training, inductive="train",
        batch_size=256,
    )  # fmt: skip
    running, memory = {}, {}
    for name, options in VARIANTS.items():
        forget_peak(device)
        running[name] = Measured(lambda options=options: make(**options), task, device, seeds)
        memory[name] = peak(device)
    for _ in range(rounds):
        for measured in running.values():
            measured.run(epochs)
    plain = running["plain"].best
    return [
        {
            "model": "AS-GCN",
            "seeds": seeds,
            "variant": name,
            "steps": task.batches.steps,
            "seconds_per_epoch": f"{measured.best:.4f}",
            "over_plain": f"{measured.best / plain:.3f}",
            "peak_gib": f"{memory[name] / 2**30:.2f}",
        }
        for name, measured in running.items()
    ]


def full_batch(data, device: torch.device, rounds: int, epochs: int) -> list[dict[str, object]]:
    """GCN on the whole graph, beside its sparse products: two forward and two backward in a step,
    two in a look at the validation nodes."""
    d, c = data.num_features, data.dataset.classes
    task = Task.from_data(data, GCN.prepare, device)
    matrix = task.val.inputs[1]
    wide = torch.rand(data.num_nodes, 128, device=device)
    narrow = torch.rand(data.num_nodes, c, device=device)
    running, memory = {}, {}
    for name in ("plain", "Dr"):
        forget_peak(device)
        options = VARIANTS[name]
        running[name] = Measured(lambda o=options: GCN(d, 128, c, **o), task, device)
        memory[name] = peak(device)
    products = float("inf")
    for _ in range(rounds):
        for measured in running.values():
            measured.run(epochs)
        wait(device)
        start = time.perf_counter()
        for _ in range(epochs):
            for x in (wide, narrow) * 3:
                spmm(matrix, x)
        wait(device)
        products = min(products, (time.perf_counter() - start) / epochs)
    rows = [("sparse products alone", products, 0)]
    rows += [(name, measured.best, memory[name]) for name, measured in running.items()]
    return [
        {
            "model": "GCN, full batch",
            "seeds": 1,
            "variant": name,
            "steps": 1,
            "seconds_per_epoch": f"{seconds:.4f}",
            "over_plain": f"{seconds / running['plain'].best:.3f}",
            "peak_gib": f"{size / 2**30:.2f}",
        }
        for name, seconds, size in rows
    ]


def forget_peak(device: torch.device) -> None:
    """Lets the next peak be that of what comes next, beside what is there already."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak(device: torch.device) -> int:
    """Most memory of the device in use since :func:`forget_peak`; zero on CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    data = load("reddit-like", scale=arguments.scale)
    shape = {"nodes": data.num_nodes, "edges": data.num_edges // 2}
    how_often = (arguments.rounds, arguments.epochs)
    rows = [row for seeds in (1, 5) for row in sampled(data, device, *how_often, seeds)]
    rows += full_batch(data, device, *how_often)
    rows = [{**shape, **row} for row in rows]
    write_csv("reddit_scale", rows, device, arguments.out)


if __name__ == "__main__":
    main()
