"""Audits and refines every dataset at hand, and fills the tables of docs/audit.md.

Text between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is replaced. CoraR and CiteseerR are read
from ``--refined-root`` where that is given, since their features are often built elsewhere. With
``--check`` nothing is written, and the exit code says whether anything would change.

    python docs/make_audits.py --data-root DATA [--refined-root OTHER] [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

from drgcn.audit.graph_view import GraphView
from drgcn.audit.hygiene import zero_rows
from drgcn.audit.leaks.predictors import lookup_finding, lookup_scores
from drgcn.audit.refining.refine import EVIDENCE, refine_until_stable
from drgcn.audit.report import AuditReport, audit
from drgcn.cli.audit import printed_results, read_texts
from drgcn.data import load
from drgcn.data.assemble import undirected
from drgcn.data.downloader import data_root
from drgcn.data.readers import read_pickle
from drgcn.reporting.tables import Table

PAGE: Final = Path(__file__).parent / "audit.md"
REFINED: Final = ("corar", "citeseerr")
SETS: Final = (
    *("cora", "citeseer", "pubmed", *REFINED, "amazon-photo", "coauthor-cs", "blogcatalog"),
    *("tolokers", "chameleon-filtered", "squirrel-filtered", "twitch"),
    *("digits", "wine", "breast-cancer"),
)
HEADS: Final = (
    *("dataset", "split", "nodes", "edges", "loops, repeats removed", "isolated", "pieces"),
    *("no features", "constant columns", "copies: equal", "copies: near", "train and test"),
    *("labels differ", "features beyond chance", "largest class", "beside training"),
    *("adjusted homophily", "serious", "warning"),
)
IDENTITY_HEADS: Final = (
    *("split", "part", "nodes", "proteins of training", "look-up table, micro-F1"),
    *("on these", "on the others", "the majority"),
)
# Texts of this kind were made out of the features, and would repeat them.
GUESSED: Final = "recovered bag of words"
# Stem of the authors' files for the set that was refined from each.
AUTHORS: Final = {"cora": ("CoraR", "corax"), "citeseer": ("CiteseerR", "citeseerx")}


def audit_row(root: Path, name: str) -> list[str]:
    """A line of the large table."""
    data = load(name, root, normalize="none", sparse=True, offline=True)
    report = audit(data)
    loops, repeats = _number(report, "self-loops"), _number(report, "repeated edges")
    group = report.finding("duplicate groups")
    assert group is not None
    homophily = _number(report, "homophily", "adjusted")
    exposure = _number(report, "exposure of the test", "share beside a training node")
    return [
        name,
        data.dataset.split,
        f"{report.facts['nodes']:,}",
        f"{report.facts['undirected edges']:,}",
        f"{loops:,}, {repeats:,}",
        f"{_number(report, 'isolated nodes', 'isolated'):,}",
        f"{_number(report, 'components', 'components'):,}",
        f"{_number(report, 'nodes without features', 'nodes'):,}",
        f"{_number(report, 'constant features', 'constant'):,}",
        f"{_number(report, 'exact duplicates', 'copies'):,}",
        f"{_number(report, 'near duplicates', 'copies'):,}",
        f"{group.numbers['groups in train and test']:,}",
        f"{group.numbers['groups with different labels']:,}",
        _telling(report),
        f"{_number(report, 'class balance', 'largest test share'):.0%}",
        f"{exposure:.0%}",
        "-" if homophily is None else f"{homophily:.2f}",
        str(report.counts["serious"]),
        str(report.counts["warning"]),
    ]


def _number(report: AuditReport, finding: str, key: str = "removed when loading") -> Any:
    found = report.finding(finding)
    assert found is not None, finding
    return found.numbers.get(key)


def _telling(report: AuditReport) -> str:
    found = report.finding("features that give the class away")
    assert found is not None
    if "found" not in found.numbers:
        return "-"
    return f"{found.numbers['found']:,} of {found.numbers['features']:,}"


def refined_rows(root: Path, name: str) -> list[list[str]]:
    """Lines of the table of refined sets: ours by kinds of evidence, then the authors'."""
    data = load(name, root, split="full", normalize="none", sparse=True, offline=True)
    texts = read_texts(root / "text" / f"{name}_planetoid_text.jsonl", [GUESSED])
    empty = np.flatnonzero(zero_rows(GraphView.of(data).x)).tolist()
    exact, near, text = EVIDENCE
    rows = [
        [name, "as published", f"{data.dataset.nodes:,}", f"{data.dataset.edges:,}", *[""] * 4]
    ]
    for kinds in ([exact], [exact, text], [exact, near, text]):
        refined = refine_until_stable(
            data, texts, evidence=kinds, drop=dict.fromkeys(empty, "no features")
        )
        counts = refined.node_map.counts
        rows.append(
            [
                name,
                " or ".join(kinds),
                f"{counts['kept']:,}",
                f"{refined.edges.after:,}",
                f"{counts['merged']:,}",
                f"{counts['dropped']:,}",
                f"{len(refined.conflicts):,}",
                f"{len(refined.left_training):,}",
            ]
        )
    title, stem = AUTHORS[name]
    adjacency = read_pickle(root / "refined" / f"{stem}_adj.pkl").tocoo()
    pairs = np.stack([adjacency.row, adjacency.col]).astype(np.int64)
    edges = undirected(pairs, adjacency.shape[0]).edge_index.shape[1] // 2
    rows.append(
        [title, "the authors, by hand", f"{adjacency.shape[0]:,}", f"{edges:,}", *[""] * 4]
    )
    return rows


def edge_words(root: Path) -> str:
    """Why Cora has three numbers of edges."""
    lines = (root / "linqs-cora" / "cora.cites").read_text(encoding="ascii").splitlines()
    listed = [tuple(line.split()) for line in lines]
    edges = {frozenset(pair) for pair in listed}
    mutual = len(set(listed)) - len(edges)
    info = load("cora", root, offline=True).dataset
    return (
        f"Cora's citation file lists {len(set(listed)):,} different citations. {mutual:,} pairs "
        "of papers cite each other and are listed both ways, so there are "
        f"{len(edges):,} undirected edges, or {2 * len(edges):,} entries in both directions. "
        "Planetoid's file lists every citation from both ends, "
        f"{2 * info.edges + info.duplicate_edges:,} entries; without the "
        f"{info.duplicate_edges:,} repeats that mutual citations make there, {info.edges:,} "
        "edges are left."
    )


def identity_words(root: Path) -> str:
    """Proteins of PPI in training and test, and what a table of their training labels reaches."""
    data = load("ppi-rebuilt", root, normalize="none", sparse=True, offline=True)
    view, printed = GraphView.of(data), printed_results(data)
    parts, metric = lookup_scores(view)
    counts, test = lookup_finding(view).numbers, parts["test"]
    assert test.table is not None
    below = sum(score < test.table for score in printed.values())
    differ = counts["things with different labels"]
    return (
        f"Of {test.nodes:,} test nodes, {test.seen:,} ({test.seen / test.nodes:.1%}) are proteins "
        f"of the training tissues. Of {counts['things']:,} proteins, {differ:,} have other labels "
        "in one tissue than in another. So a table of each protein's training labels, which sees "
        f"neither edges nor features, reaches {metric} {100 * test.table:.2f} on the test nodes, "
        f"and {below} of the {len(printed)} results of the paper's Table 3 are below that: "
        + ", ".join(f"{name.split(' (')[0]} {100 * s:.1f}" for name, s in printed.items())
        + "."
    )


def identity_rows(root: Path) -> list[list[str]]:
    """Lines of the table of look-ups: both splits of PPI, validation and test."""
    rows = []
    for split in ("published", "disjoint"):
        data = load("ppi-rebuilt", root, split=split, normalize="none", offline=True)
        for part, one in lookup_scores(GraphView.of(data))[0].items():
            scores = (one.table, one.table_on_seen, one.table_on_others, one.majority)
            words = ["-" if score is None else f"{100 * score:.2f}" for score in scores]
            rows.append([split, part, f"{one.nodes:,}", f"{one.seen:,}", *words])
    return rows


def contents(root: Path, refined_root: Path) -> dict[str, str]:
    """What stands between the marks."""
    homes = {name: refined_root if name in REFINED else root for name in SETS}
    refined_heads = (
        *("dataset", "duplicates by", "nodes", "edges", "merged", "dropped"),
        *("labels differ", "left training"),
    )
    audits = [audit_row(home, name) for name, home in homes.items()]
    refined = [row for name in AUTHORS for row in refined_rows(root, name)]
    return {
        "audits": Table(HEADS, audits).markdown(),
        "refined": Table(refined_heads, refined).markdown(),
        "edge counts": edge_words(root),
        "identity": identity_words(root),
        "identity table": Table(IDENTITY_HEADS, identity_rows(root)).markdown(),
    }


def main() -> None:
    """Fills the page, or checks that it is filled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--refined-root", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    root = data_root(given.data_root)
    found = contents(root, given.refined_root or root)
    old = PAGE.read_text(encoding="utf-8")
    new = filled(old, found)
    if given.check:
        sys.exit("the tables are not those of the data: run docs/make_audits.py" * (new != old))
    PAGE.write_text(new, encoding="utf-8")


def filled(page: str, found: dict[str, str]) -> str:
    """The page with every marked place filled anew."""
    for name, content in found.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        page = place.sub(lambda match, text=content: f"{match[1]}{text}\n{match[2]}", page)
    return page


if __name__ == "__main__":
    main()
