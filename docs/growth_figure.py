"""Pictures of what a sampled batch, and an epoch of a pass, cost as their parts grow."""

from __future__ import annotations

from benchmark_tables import files, machine_of, rows_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

_MARKS = {"nothing": "*", "nodes": "o", "edges": "s", "batch": "^", "fan_outs": "D"}
_WORDS = {"nothing": "512 nodes, fan-outs 10 10", "fan_outs": "fan-outs"}
_PANELS = (("median_ms_per_batch", "milliseconds a batch"), ("peak_mb", "peak megabytes a batch"))
_PASS_PANELS = (("ms_per_epoch", "milliseconds an epoch"), ("peak_mib", "peak MiB"))
_NETWORKS = {"GCN": ("o", "#555555"), "GCN, Dr": ("s", "#0072B2")}


def growth_figure(way: str = "tree") -> Figure | None:
    """Time and memory of a batch against the edges drawn, for the first machine on file."""
    found = files("neighbor_sampling_growth")
    if not found:
        return None
    rows = [row for row in rows_of(found[0]) if row["way"] == way]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    figure.suptitle(f"A batch costs what it draws ({machine_of(found[0])})", fontsize=11)
    for axes, (column, label) in zip(figure.subplots(1, 2), _PANELS, strict=True):
        for grows, mark in _MARKS.items():
            chosen = [row for row in rows if row["grows"] == grows]
            axes.scatter(
                [int(row["edges_per_batch"]) / 1e3 for row in chosen],
                [float(row[column]) for row in chosen],
                marker=mark,
                s=70 if grows == "nothing" else 36,
                label=_WORDS.get(grows, f"{grows} x 3, x 10"),
                alpha=0.8,
            )
        axes.set(
            xlabel="thousand edges drawn a batch", ylabel=label, xlim=(0, None), ylim=(0, None)
        )
        axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    return figure


def lane_growth_figure() -> Figure | None:
    """Time and memory of an epoch of a pass against networks, nodes and edges, each multiplied
    alone, for a GPU if one was measured."""
    found = sorted(files("lane_growth"), key=lambda path: "NVIDIA" not in path.name)
    if not found:
        return None
    rows = rows_of(found[0])
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    base = ", ".join(f"{int(rows[0][name]):,} {name}" for name in ("lanes", "nodes", "edges"))
    figure.suptitle(f"An epoch of a pass, from {base} ({machine_of(found[0])})", fontsize=11)
    panels = figure.subplots(2, 3, sharex="col", sharey="row")
    for line, (column, label) in zip(panels, _PASS_PANELS, strict=True):
        line[0].set_ylabel(label)
        for axes, grows in zip(line, ("lanes", "nodes", "edges"), strict=True):
            _draw_growth(axes, [row for row in rows if row["grows"] == grows], grows, column)
    for axes, grows in zip(panels[1], ("lanes", "nodes", "edges"), strict=True):
        axes.set_xlabel(grows)
    panels[0, 0].legend(fontsize=8)
    return figure


def _draw_growth(axes: Axes, rows: list[dict[str, str]], grows: str, column: str) -> None:
    """Draw what every network costs, and a line of what grows in proportion."""
    for network, (mark, colour) in _NETWORKS.items():
        own = [row for row in rows if row["network"] == network]
        sizes, costs = ([float(row[name]) for row in own] for name in (grows, column))
        axes.plot(sizes, costs, marker=mark, ms=4, color=colour, label=network)
    ends = [sizes[0], sizes[-1]]
    line = [costs[0] * size / sizes[0] for size in ends]
    axes.plot(ends, line, "--", lw=1, color="#999999", label="in proportion")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes], rotation=20)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.grid(alpha=0.25)
