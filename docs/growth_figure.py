"""The picture of what a sampled batch costs as graph, batch and fan-out grow."""

from __future__ import annotations

from benchmark_tables import files, machine_of, rows_of
from matplotlib.figure import Figure

_MARKS = {"nothing": "*", "nodes": "o", "edges": "s", "batch": "^", "fan_outs": "D"}
_WORDS = {"nothing": "512 nodes, fan-outs 10 10", "fan_outs": "fan-outs"}
_PANELS = (("median_ms_per_batch", "milliseconds a batch"), ("peak_mb", "peak megabytes a batch"))


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
