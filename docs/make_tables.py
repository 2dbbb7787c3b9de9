"""Remakes every table and picture of the documentation from the records in results/.

Text between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is replaced. With ``--check`` nothing is
written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from astar_job_words import recall_table, speed_words
from benchmark_tables import (
    benchmark_table,
    epoch_words,
    full_batch_words,
    lanes_table,
    speed,
)
from findings_words import (
    citation_words,
    corar_words,
    findings_list,
    learnt_k_words,
    ppi_words,
    raw_words,
    scaling_words,
    stopping_words,
    sure_words,
)
from growth_figure import growth_figure, lane_growth_figure
from pages.asgcn_quirks import quirk_table, variance_words
from pages.gain import (
    cell_table,
    claim_words,
    control_words,
    correlation_table,
    gain_figure,
    low_k_disc_words,
    low_k_words,
    size_words,
    stuck_words,
)
from pages.paper_tables import paper_k_table, paper_table, reached_words, rules_table, standings
from pages.record_tables import OTHER, gate_table, markdown_table, search_table, variant_table
from pictures import Rows, comparison_figure, save_figure

from drgcn.records import BaselineRecord
from drgcn.reporting.tables import Table
from drgcn.studies.advice.evidence import correction_of, gather
from drgcn.studies.advice.feature_numbers import FILE as MEASURES
from drgcn.studies.advice.feature_numbers import load_measures
from drgcn.studies.advice.gain import study
from drgcn.studies.comparison import GATES, summarize
from drgcn.studies.experiment import MODELS, unusual
from drgcn.studies.paper.page import RESULTS, paper_table_of
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.report.tables import (
    Row,
    data_name,
    gain_words,
    gate_groups,
    one_build,
)
from drgcn.studies.reproduce.jobs import suites_in

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "docs/findings.md",
    "docs/audit.md",
    "docs/dependencies.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("results*.md"))),
    "docs/decisions-data.md",
    "docs/decisions.md",
    "docs/sampling.md",
    "docs/differences.md",
    "docs/recommend_results.md",
    "docs/training.md",
)
NAMES = {
    **{"gcn": "GCN", "gat": "GAT", "mixhop": "MixHop", "chebyshev": "Chebyshev", "mlp": "MLP"},
    **{"lgcn": "LGCN", "geniepath": "GeniePath"},
    **{"graphsage": "GraphSAGE", "fastgcn": "FastGCN", "asgcn": "ASGCN"},
}
SIX_ROWS = (
    ("cora", "full", "gcn"),
    ("citeseer", "full", "gat"),
    ("pubmed", "public", "gcn"),
    ("corar (rebuilt features)", "full", "gcn"),
    ("corar (rebuilt features, scaled: standard)", "full", "gcn"),
    ("planted (synthetic)", "random", "gcn"),
)
SAMPLED = ("graphsage", "fastgcn", "asgcn")


def notes() -> str:
    """The places where the paper is silent or left, as they are marked in the code."""
    rows = []
    kinds = {"PAPER": "the paper is silent", "DIFF": "departure"}
    mark = re.compile(r"NOTE\[(PAPER|DIFF)\]((?:.|\n)*?)(?:\"\"\"|\n\s*\n|\n\s*[^#\s])")
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for found in mark.finditer(text):
            words = " ".join(found[2].replace("#", " ").split()).lstrip(": ")
            place = path.relative_to(ROOT / "src" / "drgcn").as_posix()
            rows.append((f"`{place}`", kinds[found[1]], words))
    return Table(("where", "kind", "what"), rows).markdown("cells")


def filled(text: str, contents: dict[str, str]) -> str:
    """The page with every marked place filled anew."""
    for name, content in contents.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = place.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)
    return text


def reached(
    records: list[RunRecord], models: tuple[str, ...] = MODELS, *, names: bool = True
) -> str:
    """How many of the paper's numbers were reached by some models, and which were not."""
    found = [row for row in standings(records) if row.model in models]
    *first, last = [name for model, name in NAMES.items() if model in {r.model for r in found}]
    return reached_words(found, f"{', '.join(first)} and {last}, plain and with Dr", names=names)


def suite_words() -> str:
    """What the largest whole suite on record took."""
    suite = max(suites_in(ROOT / "results"), key=lambda suite: suite.seeds_trained)
    controls = "with" if suite.controls else "without"
    return (
        f"The tables {', '.join(suite.tables)}, {controls} control gates: {suite.jobs} jobs of "
        f"{suite.seeds_trained:,} seeds in all took {suite.wall_seconds / 60:.1f} minutes on one "
        f"{suite.environment['device']}, {suite.workers} at a time."
    )


def sampled_gains(records: list[RunRecord]) -> str:
    """What Dr did to the models that sample, on published features."""
    comparisons = gather(records)
    found = [one for one in comparisons if one.model in SAMPLED and one.features == "published"]
    each = "; ".join(
        f"{NAMES[one.model]} on {one.dataset} {one.gain:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
        for one in found
    )
    signs = [one.sign for one in found]
    return (
        f"Dr against plain, in points with 95 % intervals: {each}. Of these {len(found)}, "
        f"{signs.count('up')} are surely above zero and {signs.count('down')} surely below "
        f"({correction_of(comparisons)}, all that are on record)."
    )


def shown_first(record: RunRecord) -> bool:
    """Whether a record belongs on the page of findings: GCN and GAT on the best-known sets."""
    own = record.data["name"] in ("digits", "planted")
    known = record.data["name"] in ("cora", "citeseer", "pubmed", "corar")
    usual = record.experiment.model in ("gcn", "gat") and not unusual(record.experiment)
    return own or (known and usual and plain_norm(record))


def short_gate_table(records: list[RunRecord]) -> str:
    """The six rows of the README: where Dr gains, where it loses, and where it makes no odds."""
    heads = ("data", "model", "plain", "Dr", "static gate", "Dr over plain [95 %]")
    found = {}
    for rows in gate_groups(records):
        record = rows[None][0] if None in rows else None
        if record is None or not set(GATES) <= rows.keys() or not shown_first(record):
            continue
        place = (data_name(record), record.data["split"], record.experiment.model)
        cells = [
            summarize(rows[gate][1]).words(1) + OTHER * (not one_build(rows[gate], rows["dr"]))
            for gate in (None, "dr", "static")
        ]
        over = gain_words(rows["dr"], rows[None])
        found[place] = (f"{place[0]}, {place[1]}", place[2].upper(), *cells, over)
    return Table(heads, [found[place] for place in SIX_ROWS]).markdown("cells")


def plain_norm(record: RunRecord) -> bool:
    """Whether nothing but a gate stands in front of the layers."""
    return record.experiment.norm is None and not record.experiment.pre_activation


def comparison_panels(records: list[RunRecord]) -> dict[str, Rows]:
    """What the picture of the README shows: GCN with each gate, on three sets."""
    shown = {
        "planted (synthetic)": ("planted", "random", "none"),
        "CoraR, rebuilt, lengths unscaled": ("corar", "full", "none"),
        "Cora": ("cora", "full", "row"),
    }
    # Whole comparisons alone: a longer training of the plain model is no second row of its own.
    return {
        title + ("" if _of_one_build(rows) else ", two builds"): list(rows.values())
        for title, place in shown.items()
        for rows in gate_groups(records)
        if set(GATES) <= rows.keys()
        and tuple(rows[None][0].data[key] for key in ("name", "split", "normalize")) == place
        and rows[None][0].experiment.model == "gcn"
        and plain_norm(rows[None][0])
    }


def _of_one_build(rows: dict[str | None, Row]) -> bool:
    return all(one_build(row, rows[None]) for row in rows.values())


def main() -> None:
    """Fills the pages, or checks that they are filled."""
    records = load_records(ROOT / "results")
    search = load_records(ROOT / "results" / "search")
    rebuilt = [r for r in records if r.data["name"] == "ppi-rebuilt"]
    baselines = BaselineRecord.read_folder(ROOT / "results" / "baselines").values()
    gains = study(records, load_measures(ROOT / "results" / MEASURES))
    contents = {
        "readme gates": short_gate_table(records),
        "gates": gate_table([record for record in records if shown_first(record)]),
        "all gates": gate_table(records),
        "reached": reached(records, names=False),
        "reached by name": reached(records),
        "reached sampled": reached(records, SAMPLED),
        "search": search_table([r for r in search if r.experiment.model not in SAMPLED]),
        "search sampled": search_table(
            [r for r in search if r.experiment.model in ("fastgcn", "graphsage")]
        ),
        "sampled gains": sampled_gains(records),
        "quirks": quirk_table(search),
        "variance term": variance_words(search),
        "paper k": paper_k_table(records),
        "reddit like": variant_table([r for r in records if r.data["name"] == "reddit-like"]),
        "twitch": gate_table([r for r in records if r.data["name"] == "twitch"]),
        "ppi rebuilt": gate_table(rebuilt),
        "ppi finding": ppi_words(rebuilt),
        "ppi models": ppi_words(rebuilt, ("gat", "lgcn", "graphsage", "mlp")),
        "ppi epochs": benchmark_table("ppi"),
        "paper": "\n\n".join(
            f"**{paper_table_of(name).heading}**\n\n{paper_table(records, name, baselines)}"
            for name in RESULTS
        ),
        "three rules": rules_table(records),
        "mixhop gates": benchmark_table("mixhop_gates"),
        "gain size": size_words(gains),
        "gain claim": claim_words(gains),
        "gain correlations": correlation_table(gains),
        "gain where": "\n\n".join(
            words(gains) for words in (low_k_words, low_k_disc_words, stuck_words, control_words)
        ),
        "gain settings": cell_table(gains),
        "records of gcn": markdown_table([r for r in records if r.experiment.model == "gcn"]),
        "records of others": markdown_table([r for r in records if r.experiment.model != "gcn"]),
        "notes": notes(),
        "speed": speed(),
        "seeds in one pass": benchmark_table("seeds_in_one_pass"),
        "reweighting overhead": benchmark_table("reweighting_overhead"),
        "lanes": lanes_table(),
        "lane growth": benchmark_table("lane_growth"),
        "findings": findings_list(records, ROOT / "results"),
        "citation gains": citation_words(records),
        "raw features": raw_words(records),
        "learnt k": learnt_k_words(records),
        "corar": corar_words(records),
        "corar scaling": scaling_words(records),
        "stopping rules": stopping_words(records),
        "sure gains": sure_words(records),
        "suite": suite_words(),
        "astar speed": speed_words(),
        "astar recall": recall_table(),
        "dependencies": benchmark_table("dependencies"),
        "models": benchmark_table("models"),
        "ppi attention": benchmark_table("ppi_attention"),
        "streaming covariance": benchmark_table("streaming_covariance"),
        "reddit scale": benchmark_table("reddit_scale", leave_out=("gigabytes",)),
        "reddit epochs": epoch_words(),
        "full batch": full_batch_words(),
        "neighbor sampling": benchmark_table("neighbor_sampling"),
        "neighbor sampling growth": benchmark_table("neighbor_sampling_growth"),
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
    images = ROOT / "docs" / "images"
    save_figure(comparison_figure(comparison_panels(records)), images / "comparison.png")
    if (growth := growth_figure()) is not None:
        save_figure(growth, images / "sampling_growth.png")
    if (lane_growth := lane_growth_figure()) is not None:
        save_figure(lane_growth, images / "lane_growth.png")
    save_figure(gain_figure(gains), images / "gain_against_k.png")


if __name__ == "__main__":
    main()
