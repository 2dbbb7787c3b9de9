"""What the package did when its golden files were made, and how they are made again.

``DRGCN_GOLDEN=update python -m pytest tests/golden tests/theory`` writes every file anew; read the
difference before it is committed. Numbers that depend on how a machine rounds are compared to the
bit where versions and rounding are those of ``files/machine.json``; elsewhere only names are.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from torch.nn.parameter import is_lazy

FILES = Path(__file__).parent / "files"
UPDATE = os.environ.get("DRGCN_GOLDEN") == "update"
_DECIDING = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn")
_SHOWN = 12
# Times, paths, versions and hardware, and digests of them.
_MASKED = {
    "sha256",
    *("environment", "seconds", "seconds_each", "started", "folder", "out", "path", "hardware"),
    *("device", "devices", "data_root", "wall_seconds", "peak_bytes", "source_path", "memory"),
}
_TIMES = ("_seconds", "_per_second")


def expect_json(name: str, found: Any) -> None:
    """Compares with a golden file, whatever the machine."""
    found = json.loads(json.dumps(found))
    path = _path(name)
    if UPDATE:
        _write(path, json.dumps(found, indent=1, sort_keys=True) + "\n")
        return
    expect_equal(name, found, json.loads(path.read_text(encoding="utf-8")))


def expect_numbers(name: str, found: Any) -> None:
    """Compares with a golden file to the bit; where rounding differs, its keys alone."""
    found = json.loads(json.dumps(found))
    if UPDATE:
        _write(FILES / "machine.json", json.dumps(machine(), indent=1) + "\n")
        expect_json(name, found)
        return
    recorded = json.loads((FILES / "machine.json").read_text(encoding="utf-8"))
    if recorded == machine():
        expect_json(name, found)
        return
    golden = json.loads(_path(name).read_text(encoding="utf-8"))
    expect_equal(f"{name}, names alone", _keys(found), _keys(golden))
    other = ", ".join(key for key, value in machine().items() if recorded[key] != value)
    pytest.skip(f"names are as they were; numbers are those of another machine ({other} differs)")


def masked(value: Any) -> Any:
    """The same without what another run, place or machine would change."""
    if isinstance(value, dict):
        return {
            name: "masked" if name in _MASKED or name.endswith(_TIMES) else masked(part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [masked(part) for part in value]
    return value


def expect_text(name: str, found: str) -> None:
    """Compares a text with a golden file."""
    path = FILES / name
    if UPDATE:
        _write(path, found)
        return
    expect_equal(name, found.splitlines(), path.read_text(encoding="utf-8").splitlines())


def expect_equal(name: str, found: Any, golden: Any) -> None:
    """Fails with the places at which two trees of plain values differ."""
    places = list(_differences("", found, golden))
    if places:
        more = [f"and {len(places) - _SHOWN} more"] if len(places) > _SHOWN else []
        pytest.fail("\n".join([f"{name} differs at:", *places[:_SHOWN], *more]), pytrace=False)


def sha(*parts: bytes | str) -> str:
    """A hash of some bytes or words, one after another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()


def tensor_hash(tensors: dict[str, torch.Tensor]) -> str:
    """A hash of names, kinds, shapes and bytes."""
    parts: list[bytes | str] = []
    for name, value in tensors.items():
        if is_lazy(value):
            parts += [name, "lazy"]
            continue
        value = value.detach().cpu().contiguous()
        parts += [name, str(value.dtype), str(tuple(value.shape)), value.numpy().tobytes()]
    return sha(*parts)


@functools.cache
def machine() -> dict[str, str]:
    """Versions, and how this machine rounds what the package asks of torch and numpy."""
    versions = {name: importlib.metadata.version(name) for name in _DECIDING}
    return {**versions, "torch": torch.__version__, "rounding": _rounding()}


def _rounding() -> str:
    """A hash of what sums, products and functions come to here; none of it is the package's."""
    rng = np.random.Generator(np.random.PCG64(7))
    found: dict[str, torch.Tensor] = {}
    for rows, inner, columns in ((120, 12, 8), (178, 13, 16), (240, 24, 64), (33, 70, 5)):
        for kind in (torch.float32, torch.float64):
            a = torch.from_numpy(rng.standard_normal((rows, inner))).to(kind)
            b = torch.from_numpy(rng.standard_normal((inner, columns))).to(kind).requires_grad_()
            place = f"{rows} {kind}"
            product = torch.vmap(torch.matmul)(a.expand(4, *a.shape), b.expand(4, *b.shape))
            scores = F.log_softmax(F.elu(product).tanh() / 0.07, dim=-1)
            (gradient,) = torch.autograd.grad(scores[:, 0].sum() + product.sigmoid().mean(), b)
            sparse = torch.sparse.mm(a.relu().to_sparse_csr(), b.detach())
            state = b.detach().clone().requires_grad_()
            state.grad = gradient
            torch.optim.Adam([state], weight_decay=0.1).step()
            found |= {f"product {place}": product, f"scores {place}": scores}
            found |= {f"gradient {place}": gradient, f"sparse {place}": sparse}
            found |= {f"state {place}": state, f"normed {place}": F.layer_norm(a, a.shape[-1:])}
    square = rng.standard_normal((40, 60))
    values, vectors = np.linalg.eigh(square @ square.T)
    solved = scipy.linalg.solve(square @ square.T, square)
    shapes = {"values": values, "vectors": vectors, "solved": solved, "exp": np.exp(square)}
    return tensor_hash(found | {name: torch.from_numpy(v) for name, v in shapes.items()})


def _path(name: str) -> Path:
    return FILES / f"{name.replace(', ', '-').replace(' ', '-').lower()}.json"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _keys(value: Any) -> Any:
    """The names in a tree of plain values; of a list, those of its first entry."""
    if isinstance(value, dict):
        return {name: _keys(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_keys(value[0])] if value and isinstance(value[0], dict | list) else []
    return None


def _differences(place: str, found: Any, golden: Any) -> Any:
    if isinstance(found, dict) and isinstance(golden, dict):
        for name in [*golden, *(name for name in found if name not in golden)]:
            if name not in found or name not in golden:
                yield f"  {place}/{name}: {'new' if name in found else 'gone'}"
            else:
                yield from _differences(f"{place}/{name}", found[name], golden[name])
    elif isinstance(found, list) and isinstance(golden, list) and len(found) == len(golden):
        for number, (one, other) in enumerate(zip(found, golden, strict=True)):
            yield from _differences(f"{place}/{number}", one, other)
    elif found != golden or type(found) is not type(golden):
        yield f"  {place}: was {str(golden)[:200]!r}, is {str(found)[:200]!r}"
