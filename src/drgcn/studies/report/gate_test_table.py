"""The families of comparisons of Dr as tables, and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drgcn.studies.report.gate_tests import BASELINES, LEVEL, GateTest, counts
from drgcn.studies.report.interval_svg import interval_pictures
from drgcn.studies.report.text_table import TextTable

_HEADS: Final = (
    "setting",
    *("difference [95 %]", "p (t, Holm)", "p (flip, Holm)", "seeds", "Dr is"),
)
_KINDS: Final = {"up": "above", "down": "below", "unsure": "unsure"}


def gate_test_table(tests: Sequence[GateTest], against: str | None) -> TextTable:
    """One family: Dr against one other row, wherever both are on record."""
    name = BASELINES[against]
    rows = [
        (
            *(f"{one.dataset}, {one.split}: {one.model}", str(one.test.gain)),
            *(p_words(one.p_holm), p_words(one.flip_holm), str(one.test.seeds)),
            one.sign + ("" if one.agreed else "; flip differs"),
        )
        for one in tests
    ]
    return TextTable(
        name=f"dr-{name.split()[0]}",
        title=f"Dr against {_article(against)}",
        heads=_HEADS,
        rows=tuple(rows),
        notes=(family_words(tests, against),),
        kinds=tuple(_KINDS[one.sign] for one in tests),
        pictures=tuple(interval_pictures([one.test.gain for one in tests])),
    )


def family_words(tests: Sequence[GateTest], against: str | None) -> str:
    """What was tested, how often, and how it is corrected."""
    short = min((one.test.seeds for one in tests), default=0)
    words = (
        f"A family of {len(tests)} paired t-tests over seeds that both rows have, corrected by "
        f"Holm's method at {100 * LEVEL:.0f} %. Intervals are of one comparison each, not "
        f"corrected. The sign-flip test (flip) assumes no normal distribution, and is corrected "
        f"the same way: it stands there as a check, and the last column says where it differs."
    )
    if tests and 2.0 ** (1 - short) * len(tests) > LEVEL:
        words += f" Over {short} seeds it cannot fall below {2.0 ** (1 - short):.2g} by itself."
    return words


def count_words(tests: Sequence[GateTest], against: str | None) -> str:
    """How a family came out, in one sentence."""
    found = counts(tests)
    real = [one for one in tests if not one.synthetic]
    words = (
        f"Dr against {_article(against)}: of {len(tests)} comparisons, corrected for their "
        f"number, Dr is surely up in {found['up']}, surely down in {found['down']}, and makes no "
        f"sure difference in {found['unsure']}"
    )
    if len(real) < len(tests) and found["up"] + found["down"]:
        of_real = counts(real)
        words += (
            f" (without made-up data: up in {of_real['up']}, down in {of_real['down']}, of "
            f"{len(real)})"
        )
    return words + "."


def p_words(p: float) -> str:
    """A p-value to two digits; small ones as a bound."""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def _article(against: str | None) -> str:
    return "the plain model" if against is None else f"the {BASELINES[against]}"
