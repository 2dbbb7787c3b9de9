"""The whole recommendation job on synthetic `astar` clicks, with a record of what came out.

For each gate and seed: one epoch over the clicks of all days but the last, embeddings of every
user and item, and Recall@50 of the last day's clicks by full ranking over all items. With
``--all-users`` the exact 50 best items are also searched for every user there is. One JSON file
per run, with settings, seconds of every stage, hardware and versions.

    python benchmarks/astar_job.py --device cuda --gates none dr --all-users
    python benchmarks/astar_job.py --device cpu --fraction 0.001 --batch 512
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from drgcn.recommend.clicks import ClickData, ClickSplit
from drgcn.recommend.model import ModelOptions, TrainSettings, build_model, embed_all, train
from drgcn.recommend.retrieval import ItemBlocks, evaluate, exact_top
from drgcn.recommend.synthetic import checksum, generate_astar
from drgcn.records import environment

_PIECE = 2**20  # users searched at once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fraction", type=float, default=1.0)
    parser.add_argument("--gates", nargs="+", default=["none", "constant", "static", "dr"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--all-users", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results/recommend"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(args.device)
    data, generated = timed(lambda: generate_astar(args.fraction, device=device), device)
    split = ClickSplit.by_time(data)
    facts = {
        "data": "astar (synthetic)",
        "fraction": args.fraction,
        "checksum": checksum(data),
        "users": split.train.num_users,
        "items": split.train.num_items,
        "clicks": data.graph.num_clicks,
        "train_clicks": split.train.num_clicks,
        "split": split.name,
        "environment": environment(device),
    }
    for seed in args.seeds:
        for gate in args.gates:
            found = facts | run(data, split, gate, seed, args)
            found["seconds"] = {"generate": generated} | found["seconds"]
            name = f"astar-{args.fraction:g}-lr-{args.lr:g}-{gate}-seed-{seed}.json"
            path = args.out / name
            path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(path, json.dumps({k: found[k] for k in ("seconds", "recall")}), flush=True)


def run(
    data: ClickData, split: ClickSplit, gate: str, seed: int, args: argparse.Namespace
) -> dict[str, Any]:
    """One model from its first weights to its recall."""
    device = torch.device(args.device)
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    settings = TrainSettings(
        seed=seed, epochs=args.epochs, batch_size=args.batch, lr=args.lr, bfloat16=cuda
    )
    model = build_model(data, split.train, ModelOptions(gate=gate, seed=seed))
    result, training = timed(
        lambda: train(model, data, split.train, settings, device=device), device
    )
    dtype = torch.float16 if cuda else None
    (users, items), embedding = timed(
        lambda: embed_all(model, data, split.train, dtype=dtype), device
    )
    items = items.float()
    report, evaluation = timed(lambda: evaluate(users, items, split, 50), device)
    seconds = {"train": training, "steps": result.seconds, "embed": embedding}
    seconds["evaluate"] = evaluation
    searched = {}
    if args.all_users:
        searched, seconds["search all users"] = timed(lambda: search(users, items), device)
    return {
        "gate": gate,
        "seed": seed,
        "settings": asdict(settings),
        "model": model.settings,
        "steps": result.steps,
        "last_loss": float(result.losses[-100:].mean()),
        "recall": report.to_dict(),
        "seconds": seconds,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        **searched,
    }


def search(users: torch.Tensor, items: torch.Tensor) -> dict[str, int]:
    """The exact 50 best items of every user, kept nowhere: how many needed a second look."""
    blocks = ItemBlocks.of(items)
    found = {"searched": 0, "widened": 0, "scanned": 0}
    for part in users.split(_PIECE):
        top = exact_top(part.float(), blocks, 50)
        found["searched"] += part.size(0)
        found["widened"] += top.widened
        found["scanned"] += top.scanned
    return found


def timed(work: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    """What it returns, and the seconds it took."""
    start = time.perf_counter()
    found = work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
