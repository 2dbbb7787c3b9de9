"""Makes docs/when-it-helps.md, its pictures and the quote of the command line from results/gates.

python docs/make_gates.py
python docs/make_gates.py --check       # exit code 1 if page or quote would change
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure
from pictures import save_figure

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))

from gates_answer import (  # noqa: E402
    JUDGED,
    TABLES,
    Answer,
    NotWhole,
    Part,
    accuracy_table,
    answer,
    best_gate_table,
    chosen_exponents,
    depth_correlation,
    described,
    family_table,
    layer_k,
    load_part,
)
from gates_few_labels import (  # noqa: E402
    DEPTHS,
    HARM,
    LABELS,
    NORMS,
    PARTS,
    PRIMARY,
    ROWS,
    TRAINED,
    UNITS,
    UNSEEN,
    planned_settings,
    sets_of,
)

from drgcn._format import plural  # noqa: E402
from drgcn.stats import Decision, mean_interval  # noqa: E402

PAGE = ROOT / "docs" / "when-it-helps.md"
QUOTE = ROOT / "src" / "drgcn" / "studies" / "advice" / "gate_study.json"
RECORDS = ROOT / "results" / "gates"
_TEMPLATE = Path(__file__).parent / "pages" / "when_it_helps.md.jinja"
# Colour-blind safe (Okabe and Ito).
_COLOURS = ("#0072B2", "#009E73", "#999999", "#D55E00", "#CC79A7", "#E69F00")
_TITLES = {
    "few-labels": "Few labels",
    "full-labels": "60 % of the nodes",
    "dr-from-one": "Dr from one, where Dr lost",
    "ppi": "Several labels a node: PPI",
    "depth": "Depth",
    "models": "Other models",
    "scaling": "Scaling",
}
_SIGN = {"up": "a sure gain", "down": "a sure loss", "unsure": "no sure difference"}


def parts_of(records: Path) -> dict[str, Part]:
    """Return the parts that are whole: by the plan, nothing is looked at before."""
    found = {}
    for part in PARTS:
        with contextlib.suppress(NotWhole):
            found[part] = load_part(part, records, sets_of(part), planned_settings(part))
    return found


def page(parts: dict[str, Part]) -> str:
    """Return the text of the page."""
    tables = {
        part: "\n\n".join(table.markdown("none") for table in TABLES[part](parts[part]))
        for part in PARTS
        if part in parts and part != "few-labels"
    }
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        _TEMPLATE.read_text(encoding="utf-8")
    )
    return template.render(
        few=few_labels(parts["few-labels"]) if "few-labels" in parts else None,
        missing={part: _command(part) for part in PARTS if part not in parts},
        tables=tables,
        titles=_TITLES,
        depth=depth_words(parts["depth"]) if "depth" in parts else "",
        otherwise=otherwise(parts),
        size=size(parts),
    )


def _command(part: str) -> str:
    command = f"python benchmarks/gates_study.py --part {part}"
    if part not in TRAINED:
        command = f"drgcn reproduce {' '.join(sets_of(part))}"
    return f"{command} --device cuda"


def few_labels(part: Part) -> dict[str, str]:
    """Return the sentences and tables of the first part."""
    found = answer(part)
    labels = PRIMARY[0]
    exponents = sorted(chosen_exponents(part, labels).items())
    return {
        "verdict": verdict(part, found),
        "primary": f"At {labels} labels a class `class-share` over plain with as many choices: "
        f"{_judged(found.family[PRIMARY])}.",
        "shuffled": "Over the same weights on dimensions drawn at random: "
        f"{_judged(found.family[labels, 'class-share', 'shuffled-class-share'])}.",
        "unseen": f"On the units that nobody had looked at before ({', '.join(UNSEEN)}): "
        f"{found.unseen} points, without a test.",
        "pseudo": "With labels spread along edges first (`class-share-pseudo`): "
        f"{_judged(found.family[labels, 'class-share-pseudo', 'plain, tuned'])}; over its "
        "shuffled self: "
        + _judged(found.family[labels, "class-share-pseudo", "shuffled-class-share-pseudo"])
        + ".",
        "harm": " ".join(harm_words(found, *pair) for pair in JUDGED),
        "family": family_table(found).markdown("none"),
        "best": best_gate_table(part).markdown("none"),
        "units": str(len(UNITS)),
        "size": str(found.family[PRIMARY].family),
        "accuracies": accuracy_table(part, "", labels, ROWS).markdown("none"),
        "exponents": ", ".join(f"{e:g} {plural(count, 'time')}" for e, count in exponents),
        "k": k_words(part),
        "cost": cost_words(part),
    }


def _judged(decision: Decision) -> str:
    return f"{_SIGN[decision.sign]} ({decision.words})"


def verdict(part: Part, found: Answer) -> str:
    """Say in one sentence which gate is recommended, with the size of the study."""
    names = " and ".join(f"`{gate}`" for gate in found.recommended)
    size = f"{len(part.records)} real sets of {len(UNITS)} units, {part.splits} splits each"
    if names:
        return f"**With few labels use {names}** ({size}): the gain is sure, no set is harmed."
    return f"**No gate is recommended** ({size}): none passed all that the plan asks for."


def harm_words(found: Answer, row: str, against: str) -> str:
    """Say where a row is surely worse than what it is held against."""
    places = [f"{name} at {n}" for n, name in found.harmed(row, against)]
    where = f"surely harms {', '.join(places)}" if places else "surely harms no set"
    count = len(found.harm[row, against])
    return f"`{row}` {where} (of {count} sets and numbers of labels, against {against})."


def k_words(part: Part) -> str:
    """Say how uneven the gates leave the first layer, at five labels a class."""
    words = []
    for arm in ("class-share", "class-share-pseudo", "variance", "dr", "dr-one", "static"):
        first = [layer_k(part, name, "", arm, PRIMARY[0], "k") for name in part.records]
        known = [k[0] for k in first if k and not math.isnan(k[0])]
        if known:
            words.append(f"`{arm}` {mean(known):.2f} ({min(known):.2f} to {max(known):.2f})")
    return (
        "Without a gate K is 1. In front of the first layer, mean over sets (least to greatest), "
        f"measured gates over their exponents: {'; '.join(words)}."
    )


def cost_words(part: Part) -> str:
    """Say how long a network of each gate takes, beside a plain one of the same set."""
    words = []
    for arm in ("class-share", "class-share-pseudo", "dr", "dr-one"):
        ratios = []
        for name in part.records:
            own, plain = (part.entries.get((name, "", a, PRIMARY[0])) for a in (arm, "plain"))
            if own and plain and plain["seconds"] and own["seconds"]:
                each = [one["seconds"] / one["test"].size for one in (own, plain)]
                ratios.append(each[0] / each[1])
        if ratios:
            words.append(f"`{arm}` {mean(ratios):.2f}")
    return (
        "Time of a network over that of a plain one, mean over sets, as trained here in passes of "
        f"different size: {', '.join(words)}. An exponent chosen of four takes four trainings, as "
        "does a rate of dropout chosen of four."
    )


def otherwise(parts: dict[str, Part]) -> str:
    """Say what helps that is no gate, from the same records."""
    lines = []
    if (part := parts.get("few-labels")) is not None:
        found = [f"{n}: {described(part, '', n, 'plain, tuned', 'plain')}" for n in LABELS]
        lines.append(f"- Dropout chosen of four, by labels a class: {'; '.join(found)}.")
    if (part := parts.get("depth")) is not None:
        for norm in NORMS:
            gains = part.gains(str(DEPTHS[0]), 20, f"{norm} norm", "plain")
            found = [f"{name} {mean_interval(own)}" for name, own in gains.items()]
            lines.append(f"- A {norm} norm in two layers, over splits: {'; '.join(found)}.")
    if (part := parts.get("scaling")) is not None:
        found = []
        for name in part.records:
            pair = [part.tests(name, case, 20, "plain") for case in ("standard", "row")]
            found.append(f"{name} {mean_interval([a - b for a, b in zip(*pair, strict=True)])}")
        lines.append(f"- Standardised features over rows, over splits: {'; '.join(found)}.")
    return "\n".join(lines)


def depth_words(part: Part) -> str:
    """Say how the gain of Dr and its K go together over sets and depths."""
    found = depth_correlation(part)
    if found is None:
        return "K or the gain does not vary enough to correlate them."
    return (
        f"Rank correlation of the gain of Dr and the mean K of its layers over "
        f"{found.observations} sets and depths: {found.spearman:+.2f}, 95 % interval "
        f"{found.low:+.2f} to {found.high:+.2f} by drawing units. A description, not a test."
    )


def size(parts: dict[str, Part]) -> str:
    """Say how many networks there are, and what training them took."""
    lines = []
    for name, part in parts.items():
        entries = [entry for record in part.records.values() for entry in record["results"]]
        networks = sum(len(entry.get("test", ())) for entry in entries)
        seconds = sum(record["seconds"] for record in part.records.values())
        where = sorted(
            {
                f"{e['device']}, torch {e['torch']}"
                for record in part.records.values()
                for e in record["environments"]
            }
        )
        lines.append(f"- {name}: {networks:,} networks, {seconds:,.0f} s ({'; '.join(where)})")
    return "\n".join(lines) or "Nothing is trained yet."


def quote(part: Part) -> list[str]:
    """Return the answer in three lines, for the command line."""
    found = answer(part)
    labels = PRIMARY[0]
    primary = found.family[PRIMARY]
    spread = found.family[labels, "class-share-pseudo", "plain, tuned"]
    tuned = described(part, "", labels, "plain, tuned", "plain")
    one = found.family[labels, "dr-one", "plain"]
    gates = ", ".join(found.recommended)
    advised = f"Recommended there: {gates}." if gates else "No gate is recommended."
    return [
        f"Study of gates on {len(part.records)} real sets, {part.splits} splits each, {labels} "
        f"labels a class: class-share {primary.test.gain} points over plain with as many choices "
        f"({_SIGN[primary.sign]}), class-share-pseudo {spread.test.gain} ({_SIGN[spread.sign]}).",
        f"Dr that starts at one: {one.test.gain} points over plain ({_SIGN[one.sign]}); dropout "
        f"chosen on validation: {tuned}.",
        f"{advised} docs/when-it-helps.md has all numbers of labels, models and depths.",
    ]


def gain_figure(part: Part, labels: int = PRIMARY[0]) -> Figure:
    """Gain of every set with its interval over splits, sorted by that of class-share."""
    rows = ("class-share", "class-share-pseudo", "shuffled-class-share")
    gains = {row: part.gains("", labels, row, "plain, tuned") for row in rows}
    names = sorted(gains[rows[0]], key=lambda name: mean(gains[rows[0]][name]))
    figure = Figure(figsize=(8, 0.8 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots()
    for step, (row, colour) in enumerate(zip(rows, _COLOURS, strict=False)):
        own = [(place, gains[row][name]) for place, name in enumerate(names) if name in gains[row]]
        found = [mean_interval(values) for _, values in own]
        axes.errorbar(
            [one.mean for one in found],
            [place + 0.22 * (1 - step) for place, _ in own],
            xerr=[one.high - one.mean if math.isfinite(one.high) else 0.0 for one in found],
            fmt="o",
            ms=4,
            capsize=2,
            color=colour,
            label=row,
        )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axvline(HARM, color="black", linewidth=0.6, linestyle=":")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(f"points over plain, tuned at {labels} labels a class, 95 % over splits")
    axes.grid(axis="x", alpha=0.25)
    axes.legend(fontsize=8, loc="best")
    return figure


def depth_figure(part: Part) -> Figure:
    """Accuracy against depth, and K of every layer below it, a column for each set."""
    arms = ("plain", "dr", "dr-one", *(f"{norm} norm" for norm in NORMS))
    colours = dict(zip(arms, _COLOURS, strict=True))
    names = list(part.records)
    figure = Figure(figsize=(2.6 * len(names) + 1, 5.6), layout="constrained")
    grid = figure.subplots(2, len(names), squeeze=False, sharex=True)
    for column, name in enumerate(names):
        above, below = grid[:, column]
        above.set_title(name, fontsize=10)
        for arm, colour in colours.items():
            tests = [part.tests(name, str(depth), 20, arm) for depth in DEPTHS]
            above.plot(DEPTHS, [mean(t) for t in tests], "o-", ms=3, color=colour, label=arm)
        for arm, key, label in (
            ("plain", "k_even", "equal variances, plain"),
            ("dr", "k", "gate of dr"),
            ("dr-one", "k", "gate of dr-one"),
        ):
            _draw_k(below, part, name, arm, key, colours[arm], label)
        for axes in (above, below):
            axes.set_xscale("log", base=2)
            axes.set_xticks(DEPTHS, [str(depth) for depth in DEPTHS])
            axes.grid(alpha=0.25)
        below.set_xlabel("layers")
    grid[0, 0].set_ylabel("mean of the classes %")
    grid[1, 0].set_ylabel("K of each layer")
    grid[0, -1].legend(fontsize=7)
    grid[1, -1].legend(fontsize=7)
    return figure


def _draw_k(axes: Any, part: Part, name: str, arm: str, key: str, colour: str, label: str) -> None:
    points: list[tuple[int, float]] = []
    means: list[float] = []
    for depth in DEPTHS:
        k = [v for v in layer_k(part, name, str(depth), arm, 20, key) if not math.isnan(v)]
        points += [(depth, value) for value in k]
        means.append(mean(k) if k else math.nan)
    axes.plot(*zip(*points, strict=True), ".", ms=3, alpha=0.4, color=colour)
    axes.plot(DEPTHS, means, "-", color=colour, label=label)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the page, its pictures and the quote, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    parts = parts_of(RECORDS)
    few = parts.get("few-labels")
    made = {PAGE: page(parts)}
    if few is not None:
        made[QUOTE] = json.dumps({"lines": quote(few)}, indent=1) + "\n"
    stale = [
        path
        for path in (PAGE, QUOTE)
        if made.get(path) != (path.read_text(encoding="utf-8") if path.exists() else None)
    ]
    if options.check:
        return int(bool(stale))
    for path in stale:
        if path in made:
            path.write_text(made[path], encoding="utf-8")
        else:
            path.unlink()  # the records that it quoted are gone
    images = ROOT / "docs" / "images"
    if few is not None:
        save_figure(gain_figure(few), images / "gates_gain.png")
    if "depth" in parts:
        save_figure(depth_figure(parts["depth"]), images / "gates_depth.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
