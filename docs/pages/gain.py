"""The study of gains as tables, sentences and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from drgcn.reporting.tables import Table
from drgcn.studies.advice.gain import Cell, Finding, GainStudy
from drgcn.studies.comparison import k_words

_COLUMNS: dict[str, Callable[[Cell], str]] = {
    "dataset": lambda c: c.title,
    "split": lambda c: c.split,
    "scaling": lambda c: c.normalize,
    "Dr - plain [95 %]": lambda c: str(c.over_plain),
    "Dr - static [95 %]": lambda c: str(c.over_static or "-"),
    "learnt K": lambda c: k_words([c.k_1, c.k_2]),
    "stuck %": lambda c: percent(c.saturation),
    "stuck at the start %": lambda c: percent(c.numbers.saturation_risk),
    "K*_2": lambda c: short(c.numbers.k_range_2),
    "K*_4": lambda c: short(c.numbers.k_range_4),
    "K_disc": lambda c: short(c.numbers.k_disc),
    "K_std": lambda c: short(c.numbers.k_std),
    "spread": lambda c: short(c.numbers.spread),
}
_SIGNS = {-1: "below 0", 0: "-", 1: "above 0"}


def cell_table(study: GainStudy) -> str:
    """One line per setting: what Dr gained, and what might have told so."""
    rows = [[column(cell) for column in _COLUMNS.values()] for cell in study.cells]
    return Table(list(_COLUMNS), rows).markdown()


def correlation_table(study: GainStudy) -> str:
    """One line per predictor: its correlation with the gain, and how much hangs on one dataset."""
    head = ["the gain of Dr against", "if small K helped", "Spearman [95 %]", "p", "p (Holm)"]
    head += ["one dataset left out", "Pearson", "one dataset left out", "settings", "datasets"]
    rows = []
    for found in study.findings:
        c = found.correlation
        name, other = c.weightiest, c.pearson_weightiest
        rows.append(
            [
                found.predictor.words,
                _SIGNS[found.predictor.expected],
                f"{c.spearman:+.2f} [{c.low:+.2f}, {c.high:+.2f}]",
                f"{c.p:.2f}",
                f"{found.p_holm:.2f}",
                f"{min(c.without.values()):+.2f} to {max(c.without.values()):+.2f}; "
                f"most by {name}, {c.without[name]:+.2f}",
                f"{c.pearson:+.2f}",
                f"most by {other}, {c.pearson_without[other]:+.2f}",
                str(c.observations),
                str(c.clusters),
            ]
        )
    return Table(head, rows).markdown()


def percent(share: float | None) -> str:
    """A share as a whole percentage; a dash where it is unknown."""
    return "-" if share is None else f"{100 * share:.0f}"


def short(value: float | None) -> str:
    """Two digits after the point, or one that counts where these would be zero."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0g}"


# The least learnt K of a first layer that the paper calls "around 1" (its Table 5).
AROUND_ONE = 0.90


def size_words(study: GainStudy) -> str:
    """How much was compared, and on how many datasets Dr gained or lost."""
    means = study.mean_gains.values()
    up, down = sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)
    left_out = f" Not measured, and left out: {'; '.join(study.unmeasured)}." * bool(
        study.unmeasured
    )
    unsure = sum(not cell.plain.sure for cell in study.real)
    return (
        f"There are {len(study.real)} settings (dataset, split, scaling) on {len(means)} "
        f"datasets. Dr surely gained in some setting of {_listed(study.gained)}, and surely lost "
        f"in some setting of {_listed(study.lost)}. The mean difference is above zero on {up} "
        f"datasets and below on {down} (sign test: p = {study.sign_p:.2f}); in {unsure} settings "
        f"nothing is sure ({_correction(study)}).{left_out}"
    )


def claim_words(study: GainStudy) -> str:
    """Whether the gain goes with K in the direction of the paper's claim."""
    if not study.findings:
        return "There are too few datasets to correlate anything."
    expected = [found for found in study.findings if found.predictor.expected]
    fitting = [f for f in expected if f.correlation.spearman * f.predictor.expected > 0]
    sure = [found.predictor.words for found in study.findings if found.sure]
    open_to = max(max(abs(f.correlation.low), abs(f.correlation.high)) for f in study.findings)
    return (
        f"Rank correlations with the sign that they would have if a small K, or a spread that "
        f"leaves room for one, came with a gain: {len(fitting)} of {len(expected)}. After "
        f"Holm's correction for {len(study.findings)} looks, "
        + (f"sure are: {', '.join(sure)}." if sure else "no correlation is sure.")
        + f" The intervals reach as far as {open_to:.2f} from zero."
    )


def low_k_words(study: GainStudy) -> str:
    """What Dr did wherever its gate learnt a K well below one."""
    return _where(
        study,
        f"the first gate learnt a K below {AROUND_ONE:.2f}, the least that the paper calls around "
        f"one",
        [(f"K {c.k_1:.4g}", c) for c in study.real if c.k_1 < AROUND_ONE],
    )


def low_k_disc_words(study: GainStudy) -> str:
    """What Dr did wherever the features that tell classes apart are the quieter ones."""
    shares = [(cell.numbers.k_disc, cell) for cell in study.real]
    low = [(f"K {k:.4g}", cell) for k, cell in shares if k is not None and k < 1]
    return _where(study, "K of weights by class share is below one", low)


def stuck_words(study: GainStudy) -> str:
    """What Dr did wherever most of its gate is stuck before training."""
    risks = [(cell.numbers.saturation_risk, cell) for cell in study.real]
    return _where(
        study,
        "more than half of the first gate is stuck before training",
        [(f"{100 * risk:.0f} %", cell) for risk, cell in risks if risk > 0.5],
    )


def control_words(study: GainStudy) -> str:
    """Whether a gain comes from reading the data."""
    compared = [(c.plain, c.static) for c in study.real if c.static is not None]
    if not compared:
        return "Nothing was run with a static gate."
    signs = [static.sign for _, static in compared]
    over_plain = [static for plain, static in compared if plain.sign == "up"]
    both = sum(static.sign == "up" for static in over_plain)
    return (
        f"Against a static gate, run in {len(compared)} settings, Dr is surely above in "
        f"{signs.count('up')} and surely below in {signs.count('down')} "
        f"({compared[0][1].correction}); of {len(over_plain)} with a sure gain over the plain "
        f"model, {both} also have one over the static gate."
    )


def _where(study: GainStudy, words: str, cells: Sequence[tuple[str, Cell]]) -> str:
    if not cells:
        return f"In none of {len(study.real)} settings {words}."
    listed = "; ".join(
        f"{cell.dataset} ({cell.normalize}), {value}, Dr - plain {cell.over_plain}"
        for value, cell in cells
    )
    signs = [cell.plain.sign for _, cell in cells]
    return (
        f"In {len(cells)} of {len(study.real)} settings {words}: {listed}. Dr surely gained in "
        f"{signs.count('up')} of them and surely lost in {signs.count('down')} "
        f"({_correction(study)})."
    )


def _correction(study: GainStudy) -> str:
    return f"{study.cells[0].plain.correction}, all that are on record"


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"


# Colour-blind safe (Okabe and Ito).
_SCALINGS = {
    "none": ("raw", "#D55E00"),
    "row": ("row-normalised", "#0072B2"),
    "standard": ("standardised", "#009E73"),
}
_LOG = ("k_std", "spread")
# Columns that hardly vary drive K of 1/std to any depth: what lies below is drawn at the edge.
_FLOOR = 1e-10
_OUTLIERS = 1.5


def gain_figure(study: GainStudy) -> Figure:
    """One panel per predictor, the gain with its 95 % interval over it; synthetic data hollow."""
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    panels = figure.subplots(2, 3, sharey=True)
    for axes, found in zip_longest(panels.flat, study.findings):
        if found is None:
            axes.set_visible(False)
        else:
            _draw(axes, study.cells, found)
    for axes in panels[:, 0]:
        axes.set_ylabel("Dr - plain, points of accuracy")
    figure.legend(handles=_legend(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw(axes: Axes, cells: Sequence[Cell], found: Finding) -> None:
    predictor, c = found.predictor, found.correlation
    axes.axhline(0, color="#999999", lw=0.8, zorder=0)
    for cell in cells:
        value = predictor.value(cell)
        if value is None:
            continue
        x = _shown(value, found)
        colour = _SCALINGS[cell.normalize][1]
        over = cell.over_plain
        axes.errorbar(
            x,
            over.mean,
            yerr=[[over.mean - over.low], [over.high - over.mean]],
            fmt="<" if x > value else "o",
            ms=5,
            color=colour,
            mfc="white" if cell.synthetic else colour,
            elinewidth=0.9,
            alpha=0.85,
        )
    if predictor.name in _LOG:
        axes.set_xscale("log")
    axes.margins(x=0.08)
    _label_outliers(axes, cells, found)
    axes.set_xlabel(predictor.words)
    axes.set_title(
        f"rank correlation {c.spearman:+.2f} [{c.low:+.2f}, {c.high:+.2f}]", fontsize=10
    )
    axes.grid(alpha=0.25)


def _label_outliers(axes: Axes, cells: Sequence[Cell], found: Finding) -> None:
    """Names the farthest cell of a dataset and scaling, on the side where there is more room."""
    farthest: dict[tuple[str, str], Cell] = {}
    for cell in sorted(cells, key=lambda each: abs(each.over_plain.mean)):
        if abs(cell.over_plain.mean) >= _OUTLIERS:
            farthest[cell.dataset, cell.normalize] = cell
    for cell in farthest.values():
        value = found.predictor.value(cell)
        if value is None:
            continue
        point = (_shown(value, found), cell.over_plain.mean)
        across = axes.transAxes.inverted().transform(axes.transData.transform(point))[0]
        left = across > 0.5
        label = axes.annotate(
            cell.dataset if cell.dataset != "twitch" else f"twitch {cell.split}",
            point,
            xytext=(-6 if left else 6, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )
        label.set_in_layout(False)  # else panels shrink to make room for it


def _shown(value: float, found: Finding) -> float:
    return max(value, _FLOOR) if found.predictor.name in _LOG else value


def _legend() -> list[Line2D]:
    marks = [("o", colour, colour, words) for words, colour in _SCALINGS.values()]
    marks.append(("o", "#555555", "white", "synthetic, not counted"))
    marks.append(("<", "#555555", "#555555", "further left"))
    return [
        Line2D([], [], marker=marker, ls="", color=colour, mfc=inside, label=words)
        for marker, colour, inside, words in marks
    ]
