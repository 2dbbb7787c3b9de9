"""How long does the search for duplicates take on a million nodes, and what does it miss?

Rows are drawn, and copies of some rows planted at known places: equal ones, and near ones of known
similarity. Beside time and memory stand the share of the planted pairs that was found, and every
pair that was found and not planted. Peak memory is the resident memory of the process above what
it was with the features loaded.

    python benchmarks/duplicates.py --threads 2
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import write_csv
from scipy import sparse
from streaming_covariance import measured
from threadpoolctl import threadpool_limits

from drgcn.audit.duplicates.features import exact_duplicates, near_duplicates

PLANTED = 1000  # pairs of each kind
COSINES = (0.99, 0.96, 0.94)  # the planted ones scatter by 0.01 around these; 0.9 is asked for
SHARED = (0.9, 0.75, 0.6)  # Jaccard similarities
WORDS = 20  # per row, on average


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--words", type=int, default=5_000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    threadpool_limits(args.threads)  # numpy has threads of its own
    rows = []
    for name, make in (("dense", dense), ("bag of words", bags)):
        width = args.features if name == "dense" else args.words
        x, planted = make(args.nodes, width)
        rows += list(entries(name, x, planted))
        del x
    write_csv("duplicates", rows, torch.device("cpu"), args.out)


def entries(name: str, x: Any, planted: dict[str, np.ndarray]) -> Iterator[dict[str, object]]:
    ways: dict[str, Callable[[], Any]] = {
        "equal": lambda: exact_duplicates(x).pairs,
        "near": lambda: near_duplicates(x).pairs,
    }
    for way, work in ways.items():
        pairs, seconds, megabytes = measured(work)
        found = set(map(tuple, pairs.nodes.tolist()))
        wanted = {key: set(map(tuple, value.tolist())) for key, value in planted.items()}
        chosen = [key for key in wanted if (key == "equal") == (way == "equal")]
        false = found - set().union(*wanted.values())
        for key in chosen:
            yield {
                "features": f"{name}, {x.shape[0]} x {x.shape[1]}",
                "planted": f"{len(wanted[key])} {key}",
                "found": f"{len(found & wanted[key]) / max(len(wanted[key]), 1):.3f}",
                "false_pairs": len(false),
                "seconds": round(seconds, 1),
                "peak_extra_mb": round(megabytes),
            }


def dense(nodes: int, width: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Correlated columns of different scales, far from zero, as embeddings have them."""
    draw = np.random.default_rng(0)
    mixing = np.eye(width) + 0.3 * draw.standard_normal((width, width)) / np.sqrt(width)
    scale = np.exp(draw.standard_normal(width)).astype(np.float32)
    x = draw.standard_normal((nodes, width), dtype=np.float32)
    mixed = mixing.astype(np.float32)
    for at in range(0, nodes, 1 << 16):
        x[at : at + (1 << 16)] = x[at : at + (1 << 16)] @ mixed
    planted = places(nodes, ["equal", *(f"at cosine {c}" for c in COSINES)], draw)
    for key, pairs in planted.items():
        source = x[pairs[:, 0]]
        if key != "equal":
            cosine = float(key.split()[-1])
            noise = draw.standard_normal(source.shape, dtype=np.float32) @ mixed
            source = cosine * source + np.sqrt(1 - cosine**2) * noise
        x[pairs[:, 1]] = source
    x *= scale
    x += scale
    return x, planted


def bags(nodes: int, width: int) -> tuple[sparse.csr_array, dict[str, np.ndarray]]:
    """Words by Zipf's law, independent of each other, in rows of very different lengths."""
    draw = np.random.default_rng(0)
    frequency = 1 / np.arange(10, width + 10)
    sizes = np.minimum(draw.poisson(WORDS * draw.gamma(4, 0.25, nodes)) + 3, width)
    owner = np.repeat(np.arange(nodes), sizes)
    word = draw.choice(width, len(owner), p=frequency / frequency.sum())
    ones = np.ones(len(owner), dtype=np.float32)
    csr = sparse.csr_array((ones, (owner, word)), shape=(nodes, width))
    csr.data[:] = 1
    planted = places(nodes, ["equal", *(f"at Jaccard {s}" for s in SHARED)], draw)
    # Of rows long enough that a copy can differ a little.
    long = np.flatnonzero(np.diff(csr.indptr) >= WORDS)
    sources = draw.permutation(long[long < nodes // 2])
    order = np.arange(nodes)
    changed = []
    for key, pairs in planted.items():
        pairs[:, 0], sources = sources[: len(pairs)], sources[len(pairs) :]
        order[pairs[:, 1]] = pairs[:, 0]
        if key != "equal":
            changed += [(row, float(key.split()[-1])) for row in pairs[:, 1]]
    csr = csr[order].tolil()
    for row, similarity in changed:
        words = csr.rows[row]
        # k words in place of others: (n - k) / (n + k) is the similarity.
        count = int(len(words) * (1 - similarity) / (1 + similarity))
        keep = draw.permutation(words)[count:]
        new = draw.permutation(np.setdiff1d(np.arange(width), words))[:count]
        csr.rows[row] = sorted([*keep.tolist(), *new.tolist()])
        csr.data[row] = [1.0] * len(csr.rows[row])
    return sparse.csr_array(csr.tocsr()), planted


def places(nodes: int, kinds: list[str], draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Sources in the first half and copies in the second, no node twice."""
    count = min(PLANTED, nodes // 2 // len(kinds))
    half = nodes // 2
    source = draw.choice(half, count * len(kinds), replace=False)
    copy = half + draw.choice(nodes - half, count * len(kinds), replace=False)
    pairs = np.stack([source, copy], axis=1)
    return {kind: pairs[at * count : (at + 1) * count] for at, kind in enumerate(kinds)}


if __name__ == "__main__":
    main()
