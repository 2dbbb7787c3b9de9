"""Remakes the table of docs/layers.md: every convolution of PyG with gates in it.

    python docs/make_layers.py                       # fills the page
    python docs/make_layers.py --check               # exit code 1 if anything would change
    python docs/make_layers.py --device cuda --out benchmarks/results

The last form, on a CUDA machine, records which layers can be recorded as a CUDA graph, in a file
named after hardware and version; the page has that column from there.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from pathlib import Path

import torch
from pages.layers import layer_table, recordings

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "layers.md"
PLACE = re.compile(r"(<!-- layers -->\n).*?(<!-- /layers -->)", re.DOTALL)


def main() -> None:
    """Fills the page, checks it, or records CUDA graphs for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--device", type=torch.device, help="record CUDA graphs on this device")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of layers that PyG itself calls experimental
    if options.device is not None:
        if options.device.type != "cuda":
            parser.error(f"Expected a CUDA device; found {options.device}.")
        sys.path.append(str(ROOT / "benchmarks"))
        from measuring import write_csv

        write_csv("cuda_graphs", recordings(options.device), options.device, options.out)
        return
    text = PAGE.read_text(encoding="utf-8")
    new = PLACE.sub(lambda found: f"{found[1]}{layer_table().markdown()}\n{found[2]}", text)
    if options.check:
        sys.exit(int(new != text))
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
