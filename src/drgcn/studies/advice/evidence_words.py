"""What the comparisons on record say about Dr, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from drgcn.studies.advice.evidence import Comparison

_WORDS = {"standard": "standardising", "row": "row normalisation"}
# A gate with this share of its entries at either end is more switch than gate.
_MOSTLY_STUCK = 0.5


def summary(comparisons: Sequence[Comparison]) -> str:
    """What the comparisons on real data say, in plain words."""
    comparisons = [c for c in comparisons if not c.features.startswith("generated")]
    if not comparisons:
        return "There are no recorded comparisons to go by."
    scaled = [c for c in comparisons if c.scaled]
    up = sum(c.low > 0 for c in scaled)
    down = sum(c.high < 0 for c in scaled)
    sentences = [
        f"On record are {len(scaled)} comparisons on {len({c.dataset for c in scaled})} real "
        f"datasets (some of them many times: other splits, other models) with features that "
        f"were row-normalised or standardised: in {up} of them Dr surely gained, in {down} it "
        f"surely lost, in {len(scaled) - up - down} it made no sure difference (95 % intervals "
        f"over seeds; one in twenty would look sure by chance)."
    ]
    unscaled = [c for c in comparisons if not c.scaled]
    if unscaled:
        sentences.append(
            f"On features left as they were, of {len(unscaled)} comparisons on "
            f"{len({c.dataset for c in unscaled})} datasets, Dr surely gained in "
            f"{sum(c.low > 0 for c in unscaled)} and lost in {sum(c.high < 0 for c in unscaled)}."
        )
    top = max(comparisons, key=lambda c: c.low)
    if top.low > 0 and not top.scaled:
        sentences.append(
            f"The surest gain, {top.words}, is on {top.dataset} ({top.model}, {top.features} "
            f"features) with features left unscaled."
        )
        place = (top.dataset, top.split, top.model, top.features)
        again = [c for c in scaled if (c.dataset, c.split, c.model, c.features) == place]
        sentences += [
            f"With the same features after {_WORDS[c.normalize]} it is {c.words}." for c in again
        ]
    return " ".join(sentences)


def raw_against_standard(comparisons: Sequence[Comparison]) -> str:
    """What raw features cost that leave most of a gate stuck, beside the same features
    standardised; empty if no such pair is on record."""
    found = []
    for raw in comparisons:
        if raw.normalize != "none" or (raw.saturation or 0) < _MOSTLY_STUCK:
            continue
        place = (raw.dataset, raw.split, raw.model, raw.features, "standard")
        found += [
            f"on {raw.dataset} ({raw.model}) with raw features Dr made {raw.words}{_stuck(raw)}, "
            f"after standardising {after.words}{_stuck(after)}"
            for after in comparisons
            if (after.dataset, after.split, after.model, after.features, after.normalize) == place
        ]
    return f"On record: {'; '.join(found)}." if found else ""


def _stuck(comparison: Comparison) -> str:
    share = comparison.saturation
    return (
        "" if share is None else f" ({100 * share:.0f} % of its first gate stuck after training)"
    )
