"""Every number computed elsewhere is compared with ours, or named here with the reason why not."""

import pytest

from . import oracles, test_block_oracles
from .stability import test_oracles as stability_oracles
from .theory import test_oracles as theory_oracles

#: Reason by the case's id.
SKIPPED: dict[str, str] = {}
ANSWERED = [*test_block_oracles.ANSWERED, *stability_oracles.ANSWERED, *theory_oracles.ANSWERED]


@pytest.mark.skipif(not oracles.FILE, reason=oracles.WITHOUT_FILE)
def test_no_case_is_dropped():
    every = [case["id"] for case in oracles.CASES]
    answered = {case["id"] for case in ANSWERED}
    assert len(every) == len(set(every))
    assert sorted(answered | SKIPPED.keys()) == sorted(every)
    assert not answered & SKIPPED.keys()
    assert all(SKIPPED.values())
