"""Holds our duplicates against nodes that the authors removed; fills docs/audit-removed.md.

Reads Planetoid's and the refined graphs, the texts of the nodes and LINQS' ``cora.content`` from
the data root. Prints what it found; ``--write`` puts it between ``<!-- duplicates -->`` and
``<!-- /duplicates -->``, and ``--check`` says by its exit code whether that would change the page.

    python docs/make_duplicates.py --data-root DATA --write
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from pages.removed_nodes import AgainstRemoved
from scipy.stats import hypergeom

from drgcn.audit.duplicates import DuplicateGroups, find_duplicates
from drgcn.audit.duplicates.groups import connected_groups
from drgcn.audit.duplicates.texts import pieces, plain_words
from drgcn.data import load
from drgcn.data.downloader import data_root
from drgcn.data.readers import read_pickle
from drgcn.reporting.tables import Table

PAGE: Final = Path(__file__).parent / "audit-removed.md"
# What the paper's appendix states: duplicated papers, papers they are, papers without a trace.
STATED: Final = {"cora": (32, 13, 9), "citeseer": (161, 80, 55)}
# Texts that were made out of the features would repeat them.
NO_TEXT: Final = ("recovered bag of words", "none")
LEVELS: Final = (0.5, 0.7, 0.9)
SHOWN: Final = 25
AGREEMENT: Final = (
    *("set", "removed numbers", "evidence, similarity", "our nodes in groups"),
    *("groups with a removed node", "share", "removed nodes in our groups"),
    "over those the paper merged",
)
UNSEEN: Final = ("set", "highest similarity", "groups", "texts begin alike", "with twins")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """A dataset with its duplicates and with what the authors removed."""

    name: str
    nodes: int
    found: DuplicateGroups
    removed: tuple[int, ...]
    texts: tuple[str, ...]
    edges: frozenset[tuple[int, int]]
    refined_edges: frozenset[tuple[int, int]]

    def pairs(self, kind: str, level: float) -> Ints:
        """Pairs by features, by text, by both or by either, from a similarity on."""
        near, text = self.found.near.pairs, self.found.text
        features = np.concatenate([self.found.exact.nodes, near.nodes[near.score >= level]])
        if kind == "equal features":
            return self.found.exact.nodes
        if kind == "features":
            return features
        texts = text.pairs.nodes[text.pairs.score >= level] if text else features[:0]
        if kind == "text":
            return texts
        one, other = (set(map(tuple, pairs.tolist())) for pairs in (features, texts))
        chosen = one & other if kind == "features and text" else one | other
        return np.array(sorted(chosen), dtype=np.int64).reshape(-1, 2)

    def against(self, kind: str, level: float, removed: tuple[int, ...]) -> AgainstRemoved:
        """Our groups of a kind against removed nodes."""
        return AgainstRemoved.of(connected_groups(self.pairs(kind, level), self.nodes), removed)


def read(root: Path, name: str) -> Source:
    """Load a dataset, find its duplicates, and see which nodes the refined graph lacks."""
    data = load(name, root, offline=True)
    with (root / "text" / f"{name}_planetoid_text.jsonl").open(encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    texts = tuple("" if e["kind"] in NO_TEXT else e["text"] for e in entries)
    kept = np.loadtxt(root / "refined" / f"{name}r_to_planetoid_index.csv", dtype=np.int64)
    adjacency = read_pickle(root / "refined" / f"{name}x_adj.pkl").tocoo()
    refined = zip(kept[adjacency.row].tolist(), kept[adjacency.col].tolist(), strict=True)
    nodes = int(data.num_nodes)
    return Source(
        name=name,
        nodes=nodes,
        found=find_duplicates(data, texts),
        removed=tuple(np.setdiff1d(np.arange(nodes), kept).tolist()),
        texts=texts,
        edges=frozenset((min(e), max(e)) for e in map(tuple, data.edge_index.T.tolist())),
        refined_edges=frozenset((min(e), max(e)) for e in refined if e[0] != e[1]),
    )


def nodes_on_lines(root: Path, lines: tuple[int, ...]) -> dict[int, int]:
    """Planetoid's nodes of the papers on some lines of ``cora.content``, counted from one.

    Papers are matched by their features. Papers with equal features take the nodes with these
    features in turn: they have the same label and neighbours too, so it does not matter which.
    """
    x = load("cora", root, offline=True, normalize="none").x.numpy().astype(np.int8)
    waiting: dict[bytes, list[int]] = {}
    for node, row in enumerate(x):
        waiting.setdefault(row.tobytes(), []).append(node)
    content = (root / "linqs-cora" / "cora.content").read_text(encoding="utf-8").splitlines()
    order = [
        waiting[np.array(line.split()[1:-1], dtype=np.int8).tobytes()].pop(0) for line in content
    ]
    return {line: order[line - 1] for line in lines}


def labels_agree(root: Path, name: str) -> bool:
    """Whether every node of the refined graph has the label of its node of Planetoid."""
    kept = np.loadtxt(root / "refined" / f"{name}r_to_planetoid_index.csv", dtype=np.int64)
    refined = np.asarray(read_pickle(root / "refined" / f"{name}x_labels.pkl")).argmax(axis=1)
    return bool((load(name, root, offline=True).y.numpy()[kept] == refined).all())


def agreement(source: Source, reading: str, removed: tuple[int, ...]) -> list[list[str]]:
    """Rows of the main table."""
    _, _, untraced = STATED[source.name]
    merged = len(removed) - untraced
    rows = []
    for kind in ("equal features", "features", "text", "features and text", "either"):
        for level in LEVELS[:1] if kind == "equal features" else LEVELS:
            result = source.against(kind, level, removed)
            members = sum(map(len, result.groups))
            words = kind if kind == "equal features" else f"{kind}, {level:g} or more"
            precision = "" if not result.groups else f"{result.precision:.2f}"
            rows.append(
                [
                    *(source.name, reading, words, f"{members} in {len(result.groups)}"),
                    *(f"{len(result.seen)}", precision),
                    f"{len(result.explained)} of {len(removed)}",
                    f"{len(result.explained) / merged:.2f}",
                ]
            )
    return rows


def map_holds(source: Source, labels_agree: bool) -> str:
    """Whether what is called removed is really what the refined graph lacks."""
    gone = set(source.removed)
    inside = {edge for edge in source.edges if not set(edge) & gone}
    return (
        f"{source.name}: of {len(inside):,} edges of Planetoid between nodes that were kept, "
        f"{len(inside & source.refined_edges):,} are in the refined graph, which has "
        f"{len(source.refined_edges - inside):,} others; labels "
        f"{'agree on all nodes' if labels_agree else 'differ'}."
    )


def lines_or_nodes(source: Source, lines: dict[int, int]) -> str:
    """The evidence that Cora's removed positions are lines of another file."""
    groups = source.found.groups("exact features")
    grouped = sum(map(len, groups))
    words = []
    for removed in (source.removed, tuple(lines.values())):
        hits = len(AgainstRemoved.of(groups, removed).explained)
        words.append((hits, hypergeom.sf(hits - 1, source.nodes, grouped, len(removed))))
    expected = len(lines) * grouped / source.nodes
    new = sorted(source.refined_edges - source.edges)
    carried = {edge: _carriers(source, edge, lines) for edge in new}
    none = {node: node for node in source.removed}
    by_removed = sum(1 for edge in new if _carriers(source, edge, none))
    shown = ", ".join(f"{a}-{b} ({', '.join(map(str, carried[a, b])) or 'none'})" for a, b in new)
    return (
        f"CoraR lacks the nodes {', '.join(map(str, source.removed))} of Planetoid's numbering. "
        f"Of these {len(lines)}, {words[0][0]} have features equal to another's, as {grouped} "
        f"nodes do; of nodes drawn blindly {expected:.1f} are expected (chance of as many: "
        f"{words[0][1]:.2g}). Read as line numbers of LINQS' `cora.content`, counted from one, "
        f"the same numbers name {words[1][0]} of the {grouped} (chance: {words[1][1]:.1g}). CoraR "
        f"has {len(new)} edges that Planetoid has not. With the lines whose papers have an edge "
        f"to one of the two ends: {shown}. Nodes that were removed have an edge to an end of "
        f"{by_removed} of them."
    )


def _carriers(source: Source, edge: tuple[int, int], lines: dict[int, int]) -> list[int]:
    """Lines whose paper is joined to an end of an edge, which it may have brought along."""
    return [
        line
        for line, node in lines.items()
        if any((min(node, end), max(node, end)) in source.edges for end in edge)
    ]


def unexplained(source: Source, removed: tuple[int, ...]) -> str:
    """What is known of the removed nodes that are in none of our groups."""
    left = source.against("either", LEVELS[0], removed).unexplained
    known = [node for node in left if source.texts[node]]
    empty = [node for node in left if node in source.found.zero_rows]
    titles = "; ".join(f"{node} ({_title(source, node)})" for node in known)
    _, _, untraced = STATED[source.name]
    return (
        f"{source.name}: {len(left)} removed papers are in none of our groups (the paper could "
        f"not trace {untraced}). {len(empty)} of them have no features, "
        f"{len(left) - len(known) - len(empty)} features but no text here, and {len(known)} a "
        f"text: {titles or 'none'}."
    )


def unseen_counts(source: Source, removed: tuple[int, ...]) -> list[list[str]]:
    """Rows: our groups that were left in, by similarity and by whether texts begin alike."""
    rows = []
    for low, high in ((0.9, 2.0), (0.7, 0.9), (0.5, 0.7)):
        groups = [
            group
            for group in source.against("either", LEVELS[0], removed).unseen
            if low <= _best(source, group) < high
        ]
        alike = sum(_begin_alike(source, group) >= 0.7 for group in groups)
        twins = sum(1 for group in groups if len(source.found.twins.within(group)))
        band = f"{low:g} or more" if high > 1 else f"{low:g} to {high:g}"
        rows.append([source.name, band, f"{len(groups)}", f"{alike}", f"{twins}"])
    return rows


def unseen_examples(source: Source, removed: tuple[int, ...]) -> list[list[str]]:
    """The groups left in that are most alike, with how their texts begin."""
    groups = source.against("either", LEVELS[0], removed).unseen
    readable = [group for group in groups if all(source.texts[node] for node in group)]
    order = sorted(readable, key=lambda group: (-_best(source, group), group))
    return [
        [
            *(source.name, " ".join(map(str, group)), _scores(source, group)),
            " / ".join(_title(source, node) for node in group),
        ]
        for group in order[:SHOWN]
    ]


def _best(source: Source, group: tuple[int, ...]) -> float:
    return max(pairs.within(group).score.max(initial=0) for pairs in source.found.pairs())


def _scores(source: Source, group: tuple[int, ...]) -> str:
    parts = []
    for pairs in source.found.pairs():
        inside = pairs.within(group)
        if len(inside):
            parts.append(f"{pairs.evidence.removeprefix('near ')} {inside.score.max():.2f}")
    return ", ".join(parts)


def _title(source: Source, node: int) -> str:
    text = re.sub(r"[|\s]+", " ", source.texts[node]).strip()
    return text if len(text) <= 60 else text[:60].rsplit(" ", 1)[0] + " ..."


def _begin_alike(source: Source, group: tuple[int, ...]) -> float:
    """Of the two most alike members, the similarity of the first eight telling words."""
    runs = [set(pieces(plain_words(source.texts[node])[:8])) for node in group]
    pairs = [(a, b) for place, a in enumerate(runs) for b in runs[place + 1 :] if a and b]
    return max((len(a & b) / len(a | b) for a, b in pairs), default=0.0)


def report(root: Path) -> str:
    """Everything between the marks."""
    cora, citeseer = read(root, "cora"), read(root, "citeseer")
    lines = nodes_on_lines(root, cora.removed)
    as_lines = tuple(sorted(lines.values()))
    readings = (
        (cora, "as nodes", cora.removed),
        (cora, "as lines", as_lines),
        (citeseer, "as nodes", citeseer.removed),
    )
    rows = [row for reading in readings for row in agreement(*reading)]
    left_in = ((cora, as_lines), (citeseer, citeseer.removed))
    counts = [row for one in left_in for row in unseen_counts(*one)]
    examples = [row for one in left_in for row in unseen_examples(*one)]
    parts = [
        Table(AGREEMENT, rows).markdown("cells"),
        "",
        "The paper states: "
        + "; ".join(
            f"{name}, {copies} duplicated papers that are {papers}, so {copies - papers} merged, "
            f"and {lost} without a trace"
            for name, (copies, papers, lost) in STATED.items()
        )
        + ".",
        "",
        lines_or_nodes(cora, lines),
        "",
        *(
            map_holds(source, labels_agree(root, source.name)) + "\n"
            for source in (cora, citeseer)
        ),
        unexplained(cora, as_lines),
        "",
        unexplained(citeseer, citeseer.removed),
        "",
        "Our groups without a removed node:",
        "",
        Table(UNSEEN, counts).markdown("cells"),
        "",
        f"The {SHOWN} of each set that are most alike and have texts, with how these begin (Cora's"
        " are abstracts without stop words, or lists of words):",
        "",
        Table(("set", "nodes", "highest similarity", "texts"), examples).markdown("cells"),
    ]
    return "\n".join(parts)


def main() -> None:
    """Print, write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = report(data_root(args.data_root))
    if not args.write and not args.check:
        print(text)
        return
    old = PAGE.read_text(encoding="utf-8")
    place = re.compile(r"(<!-- duplicates -->\n).*?(<!-- /duplicates -->)", re.DOTALL)
    new = place.sub(lambda match: f"{match[1]}{text}\n{match[2]}", old)
    if args.write:
        PAGE.write_text(new, encoding="utf-8")
    elif new != old:
        sys.exit(
            "docs/audit-removed.md is not what the data say: run docs/make_duplicates.py --write"
        )


if __name__ == "__main__":
    main()
