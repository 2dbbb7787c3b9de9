"""Remakes tables and pictures about clicks from records and benchmarks.

Text between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is replaced. With ``--check`` nothing is
written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path

from benchmark_tables import benchmark_table, files, rows_of
from gate_figure import gate_figure
from pictures import save_figure
from recommend_costs import cost_figure, cost_table, search_words

from drgcn.recommend.serving.server import HttpLimits
from drgcn.recommend.study import StudyRecord, StudySettings, read_records, recipe
from drgcn.recommend.study.tables import (
    GateComparison,
    GateDifference,
    comparisons,
    decide_gates,
    difference_rows,
    recall_rows,
    title,
    verdict,
)
from drgcn.reporting.tables import Table

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("docs/findings.md", "docs/recommend.md")),
    *(ROOT / name for name in ("docs/recommend_results.md", "docs/recommend_inside.md")),
]
IMAGES = ROOT / "docs" / "images"
RECORDS = ROOT / "results" / "recommend"
SETS = ("movielens-100k", "movielens-1m", "gowalla", "amazon-book", "astar")
SHOWN = (
    *("split", "days", "n", "exclude_seen", "batch_size", "negatives", "fan_outs", "user_ids"),
    *("item_ids", "epochs_max", "every", "patience", "lr", "loss", "protocol"),
)
PUBLISHED_LIGHTGCN = 0.1830  # Recall@20 on Gowalla: He et al., SIGIR 2020
NONE_YET = "No records yet."

Judged = dict[GateComparison, list[GateDifference]]


def blocks() -> dict[str, str]:
    """All tables by the names of their places."""
    found = comparisons(read_records(RECORDS))
    gates = [one for one in found if len(one.gates) > 1]
    known = [one for one in found if one.any.settings.model == "lightgcn"]
    judged = dict(zip(gates, decide_gates(gates), strict=True))

    def section(one: GateComparison) -> str:
        """One comparison under its title."""
        last = f"\n\n{verdict(judged[one])}" if one in judged else ""
        return f"**{title(one)}**\n\n{recall_rows(one).markdown('none')}{last}"

    return {
        "study findings": findings(judged, known),
        "study summary": summary(judged),
        "study settings": settings_table(),
        "study recall": "\n\n".join(map(section, gates)) or NONE_YET,
        "study differences": difference_rows(gates).markdown("none") if gates else NONE_YET,
        "study lightgcn": "\n\n".join(map(section, known)) or NONE_YET,
        "study search": search_table(read_records(RECORDS, "search")),
        "study where": where(found),
        "recommend costs": cost_table(),
        "recommend search": search_words(),
        "serving limits": limits_table(),
        "serving load": benchmark_table("serving"),
        "recommend lists": benchmark_table("recommend_lists", ("seconds",)),  # of a shared machine
        "recommend lists words": list_words(),
    }


def list_words() -> str:
    """Each set in a sentence: lists that the model is surely above, or below, and the others."""
    lines = []
    found = [row for path in files("recommend_lists") for row in rows_of(path)]
    lacking = [name for name in SETS[:-1] if name not in {row["data"] for row in found}]
    for key in dict.fromkeys((row["data"], row["split"]) for row in found):
        rows = [row for row in found if (row["data"], row["split"]) == key]
        sides: dict[str, list[str]] = {
            "surely above": [],
            "surely below": [],
            "not surely apart": [],
        }
        for row in rows:
            if not row["over_low"]:  # the model itself
                continue
            low, high = float(row["over_low"]), float(row["over_high"])
            side = (
                "surely above" if low > 0 else "surely below" if high < 0 else "not surely apart"
            )
            sides[side].append(row["lists"].replace(",", ""))
        words = "; ".join(f"{side}: {', '.join(names)}" for side, names in sides.items() if names)
        best = max(rows, key=lambda row: float(row["recall@20"]))["lists"]
        lines.append(f"- **{key[0]}, {key[1]}**: {words}. Highest: {best}.")
    if lacking:
        asked = " ".join(f"{name}=official" for name in lacking)
        command = f"python benchmarks/recommend_lists.py {asked} --device cuda"
        lines.append(f"- Not run yet: `{command}`.")
    return "\n".join(lines)


def limits_table() -> str:
    """Limits of the endpoint: options, defaults, and what happens beyond."""
    limits = HttpLimits()
    rows = [
        ["`--most-n`", f"{limits.n:,}", "length of a list", "422"],
        ["`--most-users`", f"{limits.batch:,}", "users of a request", "422"],
        ["`--most-bytes`", f"{limits.body:,}", "bytes of a body", "413"],
        ["`--most-requests`", f"{limits.requests:,}", "requests for lists at once", "503"],
        ["`--most-connections`", f"{limits.connections:,}", "connections", "503, closed"],
        [
            "`--idle-seconds`",
            f"{limits.seconds:g}",
            "from the connection, or its last answer, to the end of the next answer",
            "closed",
        ],
    ]
    return Table(["option", "default", "limits", "beyond it"], rows, left=4).markdown("none")


def findings(judged: Judged, known: list[GateComparison]) -> str:
    """What the page comes to, set by set."""
    lines = [f"- **{o.any.data['name']}**: {verdict(judged[o])}" for o in repeated(judged)]
    for one in known:
        if one.any.settings.loss == "bpr":
            recall = sum(one.values("none")) / len(one.values("none")) / 100
            count = len(one.values("none"))
            seeds = f"{count} seed" + "s" * (count > 1)
            lines.append(
                f"- **LightGCN** on {one.any.data['name']}, a known answer: Recall@20 "
                f"{recall:.4f} ({seeds}), published {PUBLISHED_LIGHTGCN:.4f}."
            )
    return "\n".join(lines) or NONE_YET


def repeated(judged: Judged) -> list[GateComparison]:
    """Comparisons that have Dr with more than one seed."""
    return [one for one in judged if "dr" in one.gates and len(one.records["dr"]) > 1]


def summary(judged: Judged) -> str:
    """On how many sets Dr surely differs from no gate, in a sentence."""
    paired = repeated(judged)
    if not paired:
        return NONE_YET
    decisions = [
        difference.decision
        for one in paired
        for difference in judged[one]
        if (difference.gate, difference.against) == ("dr", "none")
    ]
    signs = [decision.sign for decision in decisions]
    names = ", ".join(one.any.data["name"] for one in paired)
    seeds = min(len(one.records["dr"]) for one in paired)
    return (
        f"Trained to a plateau on {names}, with {seeds} seeds, GraphSAGE with Dr is surely better "
        f"than without on {signs.count('up')} of {len(paired)}, and surely worse on "
        f"{signs.count('down')} ({decisions[0].correction})."
    )


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
    return Table(["", *SETS], rows, left=1).markdown("none")


def search_table(records: list[StudyRecord]) -> str:
    """Learning rates that were tried with the plain model, by validation alone; best in bold."""
    tried: dict[tuple[str, str], dict[float, float]] = {}
    for one in records:
        assert one.choice is not None
        own = tried.setdefault((one.data["name"], one.settings.model), {})
        own[one.settings.lr] = 100 * one.choice["best_recall"]
    if not tried:
        return NONE_YET
    rates = sorted({rate for own in tried.values() for rate in own})

    def cell(own: dict[float, float], rate: float) -> str:
        if rate not in own:
            return "-"
        return f"**{own[rate]:.2f}**" if own[rate] == max(own.values()) else f"{own[rate]:.2f}"

    rows = [
        [f"{data}, {model}", *(cell(own, rate) for rate in rates)]
        for (data, model), own in sorted(tried.items())
    ]
    heads = ["learning rate", *(f"{rate:g}" for rate in rates)]
    return Table(heads, rows, left=1).markdown("none")


def where(comparisons: list[GateComparison]) -> str:
    """Hardware and versions behind the tables, and whether seconds are of a device alone."""
    records = [r for one in comparisons for seeds in one.records.values() for r in seeds.values()]
    kinds = {(r.environment.get("device"), r.environment.get("torch")) for r in records}
    words = [f"{device}, torch {version}" for device, version in sorted(kinds, key=str)]
    shared = {r.environment.get("jobs_on_device", 1) for r in records} - {1}
    found = f"Runs on {'; '.join(words)}." if words else NONE_YET
    if shared:
        found += f" Up to {max(shared)} runs shared the device, so seconds are too many."
    return found


def filled(page: str, contents: dict[str, str]) -> str:
    """The page with new text between its marks."""
    for name, text in contents.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        page = pattern.sub(lambda _, new=f"{begin}\n{text}\n{end}": new, page)
    return page


def main() -> int:
    """Makes the page, or compares."""
    contents = blocks()
    stale = False
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        new = filled(page, contents)
        stale |= new != page
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
    if "--check" in sys.argv:
        return int(stale)
    figures = {
        "recommend_costs.png": cost_figure(),
        "recommend_gates.png": gate_figure(comparisons(read_records(RECORDS))),
    }
    for name, figure in figures.items():
        if figure is not None:
            save_figure(figure, IMAGES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
