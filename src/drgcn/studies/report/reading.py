"""How a report is to be read: what its numbers are, and what its words mean."""

from __future__ import annotations

from typing import Final

from drgcn.studies.report.gate_tests import LEVEL
from drgcn.studies.report.printed_difference import PAPER_RUNS

READING: Final = (
    "Means with standard deviations (n - 1) over seeds, in percent. Every seed was tested once, "
    "at the epoch its stopping rule kept.",
    f"Difference to the paper: ours less the printed number, with a 95 % interval by Welch's "
    f"method. Both sides have a deviation of their own; what the paper prints behind ± is taken "
    f"as the standard deviation over {PAPER_RUNS} runs, which it says all its methods were given. "
    f"Where no deviation is printed, the number is taken as it stands and only ours vary: such "
    f"numbers are mostly quoted from others.",
    f"Verdict: reproduced, if the interval holds zero or the difference is smaller than what the "
    f"printed digits leave out; above or below, if neither; not comparable on other features, on "
    f"made-up data, on another machine, or with fewer than {PAPER_RUNS} seeds. Many seeds make a "
    f"small difference a sure one: look at its size, too. The pictures of a table share one "
    f"scale; an arrow means further out.",
    f"Dr against another row: paired by seed, t-tests corrected by Holm's method at "
    f"{100 * LEVEL:.0f} % within each family, with a sign-flip test as a check.",
)
