"""What the counts of label words say, in sentences made from them."""

from __future__ import annotations

from collections.abc import Mapping

from drgcn.studies.paper.leak_comparison import Counted, LeakComparison, distances
from drgcn.studies.paper.published_leaks import (
    PUBLISHED_TEXTS,
    published_leaks,
    published_totals,
)


def verdict_words(found: Mapping[str, LeakComparison]) -> str:
    """Which definition comes closest to each total, and that it is not the same one."""
    lines = []
    for name, comparison in found.items():
        papers, appeared, rate = published_totals(name)
        closest = comparison.closest
        by_total = min(comparison.counts, key=lambda c: abs(c.table.carriers - appeared))
        lines.append(
            f"- {name}: the paper has {appeared:,} of {papers:,} ({rate} %). Closest over all "
            f"cells is *{closest}*: {_count(closest)}. {_farthest(name, closest)} "
            f"Closest to the total alone is *{by_total}*: {_count(by_total)}."
        )
    counts = {
        rule: " and ".join(
            f"{_count(comparison.of(rule))} of {name}" for name, comparison in found.items()
        )
        for rule in ("all", "any")
    }
    same = len({comparison.closest.rule for comparison in found.values()}) == 1
    lines.append(
        "- The two sets are closest to the same rule. "
        if same
        else "- The two sets are closest to different rules, so the paper's two rates do not "
        "compare with each other. "
    )
    lines[-1] += f"By text alone, all words are carried by {counts['all']}; any word by " + (
        f"{counts['any']}."
    )
    return "\n".join(lines)


def coverage_words(found: Mapping[str, LeakComparison]) -> str:
    """Of how many papers there are words at all."""
    lines = []
    for name, comparison in found.items():
        kinds = "; ".join(
            f"{count:,} {kind}" for kind, count in sorted(comparison.known.kinds.items())
        )
        named = sum(word is not None for word in comparison.known.feature_names)
        lines.append(
            f"- {name}: {kinds}; words of the title for {comparison.known.titles:,} besides. The "
            f"word of {named:,} of {len(comparison.known.feature_names):,} features is known."
        )
        if name in PUBLISHED_TEXTS:
            backup, searched = PUBLISHED_TEXTS[name]
            lines[-1] += (
                f" The authors had titles and abstracts of {backup + searched:,} ({backup:,} from "
                f"a back-up, {searched} by searching)."
            )
    return "\n".join(lines)


def error_words(found: Mapping[str, LeakComparison]) -> str:
    """Cells of the paper that contradict one another, or the data."""
    lines = []
    usual = published_totals("cora")[0]
    for name, comparison in found.items():
        papers, _, _ = published_totals(name)
        cells = published_leaks(name)
        totals = {row.name: row.total for row in comparison.closest.table.rows}
        for label, cell in cells.items():
            if cell.total != totals[label]:
                lines.append(
                    f"- {name}: the paper counts {cell.total} papers of {label}, but "
                    f"{totals[label]} have this label; "
                    f"{papers - comparison.closest.table.labelled} papers have none."
                )
        rates = {label: 100 * cell.elsewhere / papers for label, cell in cells.items()}
        wrong = {
            label: rate
            for label, rate in rates.items()
            if abs(rate - cells[label].rate_elsewhere) > 0.051
        }
        by_other = all(
            abs(100 * cells[label].elsewhere / usual - cells[label].rate_elsewhere) < 0.051
            for label in wrong
        )
        if wrong and by_other:
            right = ", ".join(
                f"{label} {rate:.1f} % (printed {cells[label].rate_elsewhere} %)"
                for label, rate in wrong.items()
            )
            lines.append(
                f"- {name}: rates in other classes are divided by {usual:,}, the papers of cora. "
                f"Of {papers:,} they are {right}."
            )
    return "\n".join(lines)


def _farthest(name: str, counted: Counted) -> str:
    far = distances(name, counted.table)
    label = max(far, key=lambda key: far[key])
    total, (_, appeared, _) = sum(far.values()), published_totals(name)
    rest = sum(row.appeared for row in counted.table.rows if row.name != label)
    printed = appeared - published_leaks(name)[label].appeared
    return (
        f"The cells are {total:,} apart in all, {far[label]:,} of it in "
        f"{label.replace('_', ' ')}; the other classes have {rest:,} carriers (paper {printed:,})."
    )


def _count(counted: Counted) -> str:
    table = counted.table
    return f"{table.carriers:,} ({100 * table.rate:.1f} %)"
