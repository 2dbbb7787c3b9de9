"""Remakes every table and picture of the documentation from the records in results/.

Text between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is replaced. With ``--check`` nothing is
written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from drgcn.studies.comparison import summarize
from drgcn.studies.feature_measures import FILE as MEASURES
from drgcn.studies.feature_measures import load_measures
from drgcn.studies.figures import comparison_figure, save_figure
from drgcn.studies.gain_figure import gain_figure
from drgcn.studies.gain_study import study
from drgcn.studies.gain_tables import cell_table, correlation_table
from drgcn.studies.gain_words import (
    claim_words,
    control_words,
    low_k_disc_words,
    low_k_words,
    size_words,
    stuck_words,
)
from drgcn.studies.paper_tables import paper_table
from drgcn.studies.published import PAPER_TABLES, published
from drgcn.studies.recipes import unusual
from drgcn.studies.run_record import RunRecord, load_records
from drgcn.studies.tables import gate_table, markdown_table, merge, search_table

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/results.md", "docs/differences.md")


def benchmark_table(name: str) -> str:
    """The CSV files of one benchmark, one after the other."""
    parts = []
    for path in sorted((ROOT / "benchmarks" / "results").glob(f"{name}-*.csv")):
        with path.open(encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        lines = [" | ".join(head), " | ".join("---" for _ in head), *map(" | ".join, rows)]
        parts.append(f"`{path.stem}`\n\n" + "\n".join(f"| {line} |" for line in lines))
    return "\n\n".join(parts)


def speed() -> str:
    """How many times as fast as PyG, lowest to highest, for each machine that was measured."""
    lines = []
    for path in sorted((ROOT / "benchmarks" / "results").glob("seeds_in_one_pass-*.csv")):
        with path.open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["variant"].startswith("one pass")]
        ratios = [float(row["throughput_over_pyg"]) for row in rows]
        machine = path.stem.removeprefix("seeds_in_one_pass-").partition("-torch-")[0]
        lines.append(
            f"- {machine.replace('-', ' ')}: {min(ratios):.0f} to {max(ratios):.0f} times"
        )
    return "\n".join(lines)


def notes() -> str:
    """The places where the paper is silent or left, as they are marked in the code."""
    lines = ["| where | kind | what |", "|---|---|---|"]
    kinds = {"PAPER": "the paper is silent", "DIFF": "departure"}
    mark = re.compile(r"NOTE\[(PAPER|DIFF)\]((?:.|\n)*?)(?:\"\"\"|\n\s*\n|\n\s*[^#\s])")
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for found in mark.finditer(text):
            words = " ".join(found[2].replace("#", " ").split()).lstrip(": ")
            place = path.relative_to(ROOT / "src" / "drgcn").as_posix()
            lines.append(f"| `{place}` | {kinds[found[1]]} | {words} |")
    return "\n".join(lines)


def filled(text: str, contents: dict[str, str]) -> str:
    """The page with every marked place filled anew."""
    for name, content in contents.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = place.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)
    return text


def reached(records: list[RunRecord]) -> str:
    """How many of the paper's numbers were reached, on the features they were printed for."""
    found = {}
    for record, seeds in merge(records):
        printed = published(record.experiment)
        rebuilt = str(record.data["feature_source"]).startswith("rebuilt")
        if printed is None or rebuilt or unusual(record.experiment):
            continue
        least = printed.mean - (0.5 if printed.std is None else printed.std)
        key = (record.data["name"], record.data["split"], record.experiment.label)
        found[key] = summarize(seeds).mean >= least
    return (
        f"Of {len(found)} numbers the paper prints for GCN, GAT, MixHop, Chebyshev and MLP, plain "
        f"and with Dr, on data at hand, {sum(found.values())} are reached or exceeded within one "
        f"printed deviation (0.5 where none is printed)."
    )


def shown_first(record: RunRecord) -> bool:
    """Whether a record belongs in the README: GCN and GAT on the best-known sets."""
    own = record.data["name"] in ("digits", "planted")
    known = record.data["name"] in ("cora", "citeseer", "pubmed", "corar")
    usual = record.experiment.model in ("gcn", "gat") and not unusual(record.experiment)
    return own or (known and usual and plain_norm(record))


def plain_norm(record: RunRecord) -> bool:
    """Whether nothing but a gate stands in front of the layers."""
    return record.experiment.norm is None and not record.experiment.pre_activation


def main() -> None:
    """Fills the pages, or checks that they are filled."""
    records = load_records(ROOT / "results")
    gains = study(records, load_measures(ROOT / "results" / MEASURES))
    contents = {
        "gates": gate_table([record for record in records if shown_first(record)]),
        "all gates": gate_table(records),
        "reached": reached(records),
        "search": search_table(load_records(ROOT / "results" / "search")),
        "twitch": gate_table([r for r in records if r.data["name"] == "twitch"]),
        "paper": "\n\n".join(f"**{t}**\n\n{paper_table(records, t)}" for t in PAPER_TABLES),
        "gain size": size_words(gains),
        "gain claim": claim_words(gains),
        "gain correlations": correlation_table(gains),
        "gain where": "\n\n".join(
            words(gains) for words in (low_k_words, low_k_disc_words, stuck_words, control_words)
        ),
        "gain settings": cell_table(gains),
        "all records": markdown_table(records),
        "notes": notes(),
        "speed": speed(),
        "seeds in one pass": benchmark_table("seeds_in_one_pass"),
        "reweighting overhead": benchmark_table("reweighting_overhead"),
        "models": benchmark_table("models"),
        "ppi attention": benchmark_table("ppi_attention"),
        "streaming covariance": benchmark_table("streaming_covariance"),
    }
    stale = False
    for page in PAGES:
        path = ROOT / page
        old = path.read_text(encoding="utf-8")
        new = filled(old, contents)
        stale |= new != old
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
    if "--check" in sys.argv:
        sys.exit("tables are not those of results/: run `make tables`" if stale else 0)
    shown = {
        "planted (synthetic)": ("planted", "random", "none"),
        "CoraR, rebuilt, lengths unscaled": ("corar", "full", "none"),
        "Cora": ("cora", "full", "row"),
    }
    panels = {
        title: [
            (record, seeds)
            for record, seeds in merge(records)
            if tuple(record.data[key] for key in ("name", "split", "normalize")) == place
            and record.experiment.model == "gcn"
            and plain_norm(record)
        ]
        for title, place in shown.items()
    }
    images = ROOT / "docs" / "images"
    save_figure(comparison_figure(panels), images / "comparison.png")
    save_figure(gain_figure(gains), images / "gain_against_k.png")


if __name__ == "__main__":
    main()
