"""The study of gains in sentences whose numbers are its own."""

from __future__ import annotations

from collections.abc import Sequence

from drgcn.studies.gain.cell import Cell
from drgcn.studies.gain.study import GainStudy

# The least learnt K of a first layer that the paper calls "around 1" (its Table 5).
AROUND_ONE = 0.90


def size_words(study: GainStudy) -> str:
    """How much was compared, and on how many datasets Dr gained or lost."""
    means = study.mean_gains.values()
    up, down = sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)
    left_out = f" Not measured, and left out: {'; '.join(study.unmeasured)}." * bool(
        study.unmeasured
    )
    unsure = sum(not cell.over_plain.sure for cell in study.real)
    return (
        f"There are {len(study.real)} settings (dataset, split, scaling) on {len(means)} "
        f"datasets. Dr surely gained in some setting of {_listed(study.gained)}, and surely lost "
        f"in some setting of {_listed(study.lost)}. The mean difference is above zero on {up} "
        f"datasets and below on {down} (sign test: p = {study.sign_p:.2f}); in {unsure} "
        f'settings its interval includes zero. "Surely" means that one 95 % interval, not '
        f"corrected for how many there are, excludes zero: were there no difference "
        f"anywhere, about one in twenty, here {len(study.real) / 20:.1f} settings, would look "
        f"sure by chance.{left_out}"
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
    compared = [(c.over_plain, c.over_static) for c in study.real if c.over_static is not None]
    above = sum(static.low > 0 for _, static in compared)
    below = sum(static.high < 0 for _, static in compared)
    both = sum(plain.low > 0 and static.low > 0 for plain, static in compared)
    gains = sum(plain.low > 0 for plain, _ in compared)
    return (
        f"Against a static gate, run in {len(compared)} settings, Dr is surely above in {above} "
        f"and surely below in {below}; of {gains} with a sure gain over the plain model, "
        f"{both} also have one over the static gate."
    )


def _where(study: GainStudy, words: str, cells: Sequence[tuple[str, Cell]]) -> str:
    if not cells:
        return f"In none of {len(study.real)} settings {words}."
    listed = "; ".join(
        f"{cell.dataset} ({cell.normalize}), {value}, Dr - plain {cell.over_plain}"
        for value, cell in cells
    )
    up = sum(cell.over_plain.low > 0 for _, cell in cells)
    down = sum(cell.over_plain.high < 0 for _, cell in cells)
    return (
        f"In {len(cells)} of {len(study.real)} settings {words}: {listed}. Dr surely gained in "
        f"{up} of them and surely lost in {down}."
    )


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"
