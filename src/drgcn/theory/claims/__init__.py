"""Every claim of the paper's theory that can be computed, checked anew whenever asked."""

from __future__ import annotations

from collections.abc import Iterator

from drgcn.errors import InputError
from drgcn.theory.claims import mean_field as claims_mean_field
from drgcn.theory.claims import measure as claims_measure
from drgcn.theory.claims import theorem_one as claims_theorem_one
from drgcn.theory.claims import theorems_two_three as claims_theorem_three
from drgcn.theory.claims import theorems_two_three as claims_theorem_two
from drgcn.theory.claims.evidence import Claim, Evidence

CLAIMS: tuple[Claim, ...] = (
    *claims_mean_field.CLAIMS,
    *claims_theorem_one.CLAIMS,
    *claims_theorem_two.THEOREM_TWO,
    *claims_measure.CLAIMS,
    *claims_theorem_three.THEOREM_THREE,
)


def verify() -> Iterator[Evidence]:
    """Runs the checks one after the other, in the order of the paper; a few seconds.

    Verdicts are computed from the numbers of this run, not stored.
    """
    for claim in CLAIMS:
        yield claim.run()


def claim(name: str) -> Claim:
    """The claim of this name."""
    for found in CLAIMS:
        if found.name == name:
            return found
    raise InputError(f"No claim is called {name!r}; there are: {[c.name for c in CLAIMS]}.")
