"""What the stages of the recommendation job cost as clicks grow: a table and a picture."""

from __future__ import annotations

from benchmark_tables import files, machine_of, rows_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drgcn.reporting.tables import Table

_SEARCHES = ("exact 50 best", "matrix product and topk", "faiss Flat")
_TRAINING = ("train, gate none", "train, gate dr")


def cost_table() -> str:
    """Rates of every stage by the number of clicks, one table a machine."""
    parts = []
    for path in files("recommend"):
        rates = _rates(rows_of(path))
        sizes = sorted({size for own in rates.values() for size in own})
        heads = ["a second, with clicks of", *(f"{size / 1e6:.1f} M" for size in sizes)]
        rows = [
            [stage, *(_short(own[size]) if size in own else "" for size in sizes)]
            for stage, own in rates.items()
        ]
        parts.append(f"{machine_of(path)}:\n\n{Table(heads, rows, left=1).markdown('cells')}")
    return "\n\n".join(parts) or "Not measured yet."


def search_words() -> str:
    """How many times as fast as a plain product the exact search is, at the largest size."""
    lines = []
    for path in files("recommend"):
        rates = _rates(rows_of(path))
        exact = rates["exact 50 best (users)"]
        size = max(exact)
        others = {
            name.removesuffix(" (users)"): exact[size] / own[size]
            for name, own in rates.items()
            if name.removesuffix(" (users)") in _SEARCHES[1:]
        }
        words = ", ".join(f"{ratio:.3g} times {name}" for name, ratio in others.items())
        lines.append(
            f"- {machine_of(path)}, {size / 1e6:.1f} M clicks: {_short(exact[size])} users a "
            f"second, {words}."
        )
    return "\n".join(lines)


def cost_figure() -> Figure | None:
    """Training and search against clicks, on every machine that was measured."""
    found = files("recommend")
    if not found:
        return None
    figure = Figure(figsize=(9.5, 3.6 * len(found)), layout="constrained")
    for path, pair in zip(found, figure.subplots(len(found), 2, squeeze=False), strict=True):
        rates = _rates(rows_of(path))
        _draw(pair[0], {stage: rates[f"{stage} (positives)"] for stage in _TRAINING})
        pair[0].set(title=machine_of(path), ylabel="positives a second")
        pair[0].set_ylim(bottom=0)
        names = [stage for stage in _SEARCHES if f"{stage} (users)" in rates]
        _draw(pair[1], {stage: rates[f"{stage} (users)"] for stage in names})
        pair[1].set(title="50 best of all items", ylabel="users a second", yscale="log")
    return figure


def _draw(axes: Axes, lines: dict[str, dict[int, float]]) -> None:
    for name, own in lines.items():
        axes.plot([size / 1e6 for size in own], list(own.values()), marker="o", label=name)
    sizes = sorted({size / 1e6 for own in lines.values() for size in own})
    axes.set(xlabel="million clicks", xscale="log")
    axes.set_xticks(sizes, [f"{size:.3g}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.margins(y=0.12)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)


def _rates(rows: list[dict[str, str]]) -> dict[str, dict[int, float]]:
    """By stage and unit, then by the number of clicks."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        own = found.setdefault(f"{row['stage']} ({row['of']})", {})
        own[int(row["clicks"])] = float(row["per_second"])
    return found


def _short(value: float) -> str:
    for unit, word in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{word}"
    return f"{value:.3g}"
