"""The words of advice: what the numbers say, what the records say, what is odd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drgcn.studies.advice.evidence import packaged
from drgcn.studies.advice.evidence_words import raw_against_standard, summary

# Where a few dimensions drown the others, where all are alike, where a gate starts out stuck.
_LOUD = 100.0
_EVEN = 0.9
_STUCK = 0.01
# Nothing was done to the features, or nothing is known of it.
_RAW = ("none", None)


def paragraph(numbers: Mapping[str, Any], normalize: str | None = None) -> str:
    """Plain words about the numbers of an advice, with the evidence on record."""
    sentences = [
        _expectation(numbers, normalize),
        "Only a comparison over seeds decides: drgcn train DATASET --compare.",
        f"The variances of the {numbers['features'] - numbers['constant']:,} features that vary "
        f"spread by {numbers['spread']:.2f} times their mean (0 if all were equal).",
        f"Giving each the same variance has K = {numbers['k_std']:.2g}; gates that differ by a "
        f"factor of 2 can bring K down to {numbers['k_range_2']:.2g}, of 4 to "
        f"{numbers['k_range_4']:.2g}.",
        "That is how far reweighting can even out the spread, not whether it helps.",
    ]
    if (k := numbers["k_disc"]) is not None:
        sentences.append(
            f"Weighting features by what they say of the training classes has K = {k:.2g}: "
            + (
                "the telling features are the quieter ones, which leaves Dr something to do."
                if k < 1
                else "the telling features are the louder ones already, and evening out the "
                "spread would work against them."
            )
        )
    if numbers["layer_k"]:
        k = ", ".join("undefined" if v is None else f"{v:.2f}" for v in numbers["layer_k"])
        stuck = ", ".join(f"{100 * v:.0f} %" for v in numbers["layer_saturation"])
        sentences.append(f"The blocks of the model have K {k}, and {stuck} of their gates stuck.")
    evidence = packaged()
    sentences += [summary(evidence.comparisons), evidence.study.words]
    if numbers["saturation_risk"] > _STUCK or (normalize in _RAW and numbers["loudest"] > _LOUD):
        sentences.append(raw_against_standard(evidence.comparisons))
    return " ".join(filter(None, sentences))


def _expectation(numbers: Mapping[str, Any], normalize: str | None) -> str:
    if normalize == "standard" or numbers["k_std"] > _EVEN:
        return "These features are on one scale already: the records let expect little of Dr."
    if numbers["k_disc"] is not None and numbers["k_disc"] < 1:
        return (
            "Here features of little variance say more of the classes than loud ones: Dr may "
            "help, and so may standardising, which costs nothing. Compare both."
        )
    if numbers["loudest"] > _LOUD:
        return "A few columns drown the others: standardise first, and see what is left for Dr."
    return "The records give no reason to expect much of Dr here, nor do they rule it out."


def warnings_for(
    numbers: Mapping[str, Any], normalize: str | None, signed: bool
) -> tuple[str, ...]:
    """What is odd about the features, one sentence each."""
    found = []
    if constant := numbers["constant"]:
        found.append(
            f"{constant:,} of {numbers['features']:,} features are constant; they are left out of "
            f"all numbers here."
        )
    if numbers["rows"] < numbers["features"]:
        found.append(
            f"there are fewer rows ({numbers['rows']:,}) than features "
            f"({numbers['features']:,}): covariances are of low rank, and every least K looks "
            f"better than it is."
        )
    if numbers["loudest"] > _LOUD:
        found.append(
            f"features have wildly different scales: the largest variance is "
            f"{numbers['loudest']:,.0f} times the median one. Standardise them "
            f"(normalize='standard')."
        )
    if signed and normalize == "row":
        found.append(
            "features with negative values were divided by their row sums, which may be near "
            "zero; use normalize='standard' or 'none'."
        )
    if numbers["saturation_risk"] > _STUCK:
        found.append(
            f"{100 * numbers['saturation_risk']:.0f} % of a Dr gate would be stuck at 0 or 1 "
            f"before training: the mean of the features is too large for it. Standardise them "
            f"(normalize='standard'), or take log(1 + x) of counts first."
        )
    return tuple(found)
