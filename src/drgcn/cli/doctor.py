"""``drgcn doctor``: is everything here, and are results repeatable on this machine?"""

from __future__ import annotations

import json as jsonlib
from typing import Any

import typer

from drgcn.cli.options import DataRoot, Json


def doctor(data_root: DataRoot = None, json: Json = False) -> None:
    """Show versions, devices and data, and check that seeds give the same numbers twice."""
    import torch

    from drgcn.data.catalog import describe, names
    from drgcn.data.downloader import data_root as resolve
    from drgcn.data.downloader import files_of
    from drgcn.records import device_name, environment

    root = resolve(data_root)
    devices = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    present = {
        name: all((root / file.path).is_file() for file in files_of(describe(name), root))
        for name in names()
    }
    facts: dict[str, Any] = {
        "environment": environment(torch.device("cpu")),
        "devices": {name: device_name(torch.device(name)) for name in devices},
        "data_root": str(root),
        "data_found": [name for name, here in present.items() if here],
        "data_missing": [name for name, here in present.items() if not here],
        "deterministic": {name: _repeatable(torch.device(name)) for name in devices},
    }
    if json:
        print(jsonlib.dumps(facts))
    else:
        for key, value in facts["environment"].items():
            print(f"{key:<16} {value}")
        for name, words in facts["devices"].items():
            kept = facts["deterministic"][name]
            print(f"{name:<16} {words}: seed 2 alone {_words(kept)} seed 2 among others")
        print(f"{'data root':<16} {root}")
        print(f"{'data found':<16} {', '.join(facts['data_found'])}")
        print(f"{'data missing':<16} {', '.join(facts['data_missing']) or 'none'}")
    if not facts["deterministic"]["cpu"]:
        raise typer.Exit(1)


def _repeatable(device: Any) -> bool:
    """Whether a seed trained alone has the weights, to the bit, of the same seed among others."""
    import torch

    from drgcn.data import load
    from drgcn.nn import GCN
    from drgcn.training import fit

    data = load("planted", nodes=300, labels_per_class=10, val_per_class=20)

    def weights(seeds: list[int]) -> list[torch.Tensor]:
        result = fit(
            lambda: GCN(data.num_features, 16, data.dataset.classes, reweight="dr"),
            data,
            seeds,
            epochs=20,
            device=device,
        )
        return list(result.models[seeds.index(2)].state_dict().values())

    return all(map(torch.equal, weights([2]), weights([0, 2, 5])))


def _words(equal: bool) -> str:
    return "equals, to the bit," if equal else "differs in the last bits from"
