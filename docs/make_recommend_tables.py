"""Remakes the tables of docs/recommend_results.md from the records in results/recommend/.

Text between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is replaced. With ``--check`` nothing is
written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path

from drgcn.recommend.study import StudyRecord, StudySettings, read_records, recipe
from drgcn.recommend.study.gate_comparison import GateComparison, comparisons
from drgcn.recommend.study.study_tables import Rows, difference_rows, recall_rows, title, verdict

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "recommend_results.md"
RECORDS = ROOT / "results" / "recommend"
SETS = ("movielens-100k", "movielens-1m", "gowalla", "amazon-book", "astar")
SHOWN = (
    *("split", "days", "n", "exclude_seen", "batch_size", "negatives", "fan_outs", "user_ids"),
    *("item_ids", "epochs_max", "every", "patience", "lr", "loss", "protocol"),
)
NONE_YET = "No records yet."
# Gowalla as LightGCN's authors divide it, and what one H200 copies in a second.
USERS, ITEMS, CLICKS = 29_858, 40_981, 810_128
COPY = 4.3e12
SMALL_KERNELS, SMALL = 150, 2e-6  # counted in one step, and seconds each in a replayed graph


def blocks() -> dict[str, str]:
    """All tables by the names of their places."""
    found = comparisons(read_records(RECORDS))
    gates = [one for one in found if len(one.gates) > 1]
    known = [one for one in found if one.any.settings.model == "lightgcn"]
    return {
        "study settings": settings_table(),
        "study recall": "\n\n".join(map(section, gates)) or NONE_YET,
        "study differences": difference_rows(gates).markdown() if gates else NONE_YET,
        "study lightgcn": "\n\n".join(map(section, known)) or NONE_YET,
        "study search": search_table(read_records(RECORDS, "search")),
        "study where": where(found),
        "lightgcn estimate": estimate(),
    }


def section(found: GateComparison) -> str:
    """One comparison under its title."""
    last = f"\n\n{verdict(found)}" if len(found.gates) > 1 else ""
    return f"**{title(found)}**\n\n{recall_rows(found).markdown()}{last}"


def settings_table() -> str:
    """What the recipes say, set by set."""

    def word(settings: StudySettings, name: str) -> str:
        value = asdict(settings)[name]
        if name == "days" and settings.split == "official":
            return "-"
        if name in ("user_ids", "item_ids") and value is None:
            return "by need"
        return " ".join(map(str, value)) if isinstance(value, tuple) else f"{value}"

    columns = [recipe(name) for name in SETS]
    rows = [[name, *(word(one, name) for one in columns)] for name in SHOWN]
    return Rows(["", *SETS], rows).markdown()


def search_table(records: list[StudyRecord]) -> str:
    """Learning rates that were tried with the plain model, by validation alone."""
    rows = [
        [
            *(one.data["name"], one.settings.model, f"{one.settings.lr:g}"),
            *(f"{100 * one.choice['best_recall']:.2f}", str(one.choice["best_step"])),
        ]
        for one in records
        if one.choice is not None
    ]
    header = ["data", "model", "lr", "validation recall, %", "best step"]
    return Rows(header, rows).markdown() if rows else NONE_YET


def where(found: list[GateComparison]) -> str:
    """Hardware and versions behind the tables."""
    kinds = {
        (r.environment.get("device"), r.environment.get("torch"))
        for one in found
        for seeds in one.records.values()
        for r in seeds.values()
    }
    words = [f"{device}, torch {version}" for device, version in sorted(kinds, key=str)]
    return f"Runs on {'; '.join(words)}." if words else NONE_YET


def estimate() -> str:
    """Bytes and kernels of one step of LightGCN on Gowalla, and what they should take."""
    settings = recipe("gowalla", "lightgcn")
    table = 4 * settings.channels * (USERS + ITEMS)
    entries = 2 * CLICKS
    products = 2 * settings.layers
    product = entries * (4 * settings.channels + 8) + table
    passes = 42  # tables read or written: sums over layers, gradients, and 7 for Adam
    bytes_ = products * product + passes * table
    seconds = bytes_ / COPY + SMALL_KERNELS * SMALL
    steps = CLICKS / settings.batch_size
    rows = [
        ["table of embeddings", f"{table / 1e6:.1f} MB"],
        ["one sparse product", f"{product / 1e6:.0f} MB"],
        ["sparse products in a step", f"{products}: {products * product / 1e9:.2f} GB"],
        ["other passes over the table", f"about {passes}: {passes * table / 1e9:.2f} GB"],
        ["small kernels", f"about {SMALL_KERNELS}: {1e3 * SMALL_KERNELS * SMALL:.2f} ms"],
        [f"a step at {COPY / 1e12:.1f} TB/s", f"{1e3 * seconds:.2f} ms"],
        [f"an epoch of {steps:.0f} steps", f"{seconds * steps:.2f} s"],
        [
            f"{settings.epochs_max:g} epochs",
            f"{seconds * steps * settings.epochs_max / 60:.1f} min",
        ],
    ]
    return Rows(["estimated, not measured", ""], rows).markdown()


def filled(page: str, contents: dict[str, str]) -> str:
    """The page with new text between its marks."""
    for name, text in contents.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        page = pattern.sub(lambda _, new=f"{begin}\n{text}\n{end}": new, page)
    return page


def main() -> int:
    """Makes the page, or compares."""
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page, blocks())
    if "--check" in sys.argv:
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
