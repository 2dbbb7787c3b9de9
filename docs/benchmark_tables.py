"""Tables and sentences from the files of the benchmarks."""

from __future__ import annotations

import csv
from pathlib import Path

from drgcn.reporting.tables import Table
from drgcn.studies.paper.page import published_seconds

ROOT = Path(__file__).parent.parent
_SEEDS = {"1": "for one seed:", "5": "for five seeds in one pass:"}


def benchmark_table(name: str, leave_out: tuple[str, ...] = ()) -> str:
    """The CSV files of one benchmark, one after the other; without columns that mislead."""
    parts = []
    for path in files(name):
        found = rows_of(path)
        heads = [head for head in found[0] if head not in leave_out]
        table = Table(heads, [[row[head] for head in heads] for row in found])
        parts.append(f"`{path.stem}`\n\n{table.markdown()}")
    return "\n\n".join(parts) or "Not measured yet."


def lanes_table() -> str:
    """Speed of a pass over PyG's loop by number of networks, one row a network."""
    parts = []
    for path in files("lanes"):
        cells = {(row["network"], row["lanes"]): row for row in rows_of(path)}
        counts = list(dict.fromkeys(lanes for _, lanes in cells))
        table = Table(
            ["network", "loop, ms", *(f"{lanes} at once" for lanes in counts)],
            [
                [name, cells[name, counts[0]]["loop_ms"], *(_lane(cells[name, c]) for c in counts)]
                for name in dict.fromkeys(name for name, _ in cells)
            ],
        )
        parts.append(f"{machine_of(path)}:\n\n{table.markdown()}")
    return "\n\n".join(parts) or "Not measured yet."


def _lane(row: dict[str, str]) -> str:
    each = float(row["us_per_lane_epoch"])
    return f"{float(row['over_loop']):.3g} x ({each:,.{0 if each >= 100 else 1}f} us)"


def speed() -> str:
    """How many times as fast as PyG, lowest to highest, for each machine that was measured."""
    lines = []
    for path in files("seeds_in_one_pass"):
        rows = [row for row in rows_of(path) if row["variant"].startswith("one pass")]
        ratios = [float(row["throughput_over_pyg"]) for row in rows]
        lines.append(f"- {machine_of(path)}: {min(ratios):.0f} to {max(ratios):.0f} times")
    return "\n".join(lines)


def epoch_words() -> str:
    """Seconds of an epoch of AS-GCN at Reddit's size, and what Dr and the norms add."""
    lines = []
    printed = published_seconds().values()
    for path in files("reddit_scale"):
        found = [r for r in rows_of(path) if r["model"] == "AS-GCN"]
        plain = found[0]
        added = "; ".join(f"{words} {_added(found, seeds)}" for seeds, words in _SEEDS.items())
        lines.append(
            f"On the {machine_of(path)}, an epoch of one seed is {plain['steps']} steps and a "
            f"look at the validation nodes, and takes {float(plain['seconds_per_epoch']):.2f} s. "
            f"Added to that, {added}. The paper prints {min(printed)} to {max(printed)} s for "
            f"Reddit, on hardware it does not name: neither data nor machine nor code are the "
            f"same."
        )
    return "\n\n".join(lines)


def _added(rows: list[dict[str, str]], seeds: str) -> str:
    return ", ".join(
        f"{r['variant']} {100 * float(r['over_plain']) - 100:.0f} %"
        for r in rows
        if r["seeds"] == seeds and r["variant"] != "plain"
    )


def full_batch_words() -> str:
    """What an epoch of a full-batch GCN takes beyond its sparse products."""
    lines = []
    for path in files("reddit_scale"):
        rows = {r["variant"]: r for r in rows_of(path) if r["model"].startswith("GCN")}
        plain, products = rows["plain"], rows["sparse products alone"]
        seconds = float(plain["seconds_per_epoch"])
        ratio = seconds / float(products["seconds_per_epoch"])
        lines.append(
            f"A full-batch GCN takes {1000 * seconds:.1f} ms for an epoch on the same graph "
            f"({machine_of(path)}), {ratio:.2f} times its sparse products alone; with Dr "
            f"{100 * float(rows['Dr']['over_plain']) - 100:.0f} % more."
        )
    return "\n\n".join(lines)


def files(name: str) -> list[Path]:
    """The results of one benchmark."""
    return sorted((ROOT / "benchmarks" / "results").glob(f"{name}-*.csv"))


def rows_of(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file by the names of their columns."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def machine_of(path: Path) -> str:
    """The machine that a file is named after."""
    name = path.stem.partition("-")[2].partition("-torch-")[0]
    return name.replace("-", " ")
