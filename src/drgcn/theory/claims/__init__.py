"""Claims of the paper's theory, each with a check that is run anew."""

from __future__ import annotations

from collections.abc import Iterator

from drgcn.theory.claims import section_3_1, section_3_2
from drgcn.theory.claims.evidence import Claim, Evidence

#: In the order of the paper.
CLAIMS: tuple[Claim, ...] = (*section_3_1.CLAIMS, *section_3_2.CLAIMS)


def verify() -> Iterator[Evidence]:
    """Run all checks in the order of the paper; a few seconds.

    Verdicts are computed from the numbers of this run, not stored.
    """
    for claim in CLAIMS:
        yield claim.run()
