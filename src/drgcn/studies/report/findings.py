"""The main findings of some records, in sentences that are counted from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drgcn.studies.report.cell_verdict import CellVerdict, count_verdicts
from drgcn.studies.report.gate_test_table import count_words
from drgcn.studies.report.gate_tests import GateTest
from drgcn.studies.report.paper_section import JudgedTable
from drgcn.studies.report.tables import merge
from drgcn.studies.reproduce.many import many
from drgcn.studies.run_record import RunRecord


def findings(
    records: Sequence[RunRecord],
    judged: Sequence[JudgedTable],
    families: Mapping[str | None, Sequence[GateTest]],
) -> list[str]:
    """What was run, how the paper's numbers came out, and what Dr did."""
    found = [size_words(records)]
    if any(one.trained for one in judged):
        found += paper_words(judged)
    found += [count_words(tests, against) for against, tests in families.items() if tests]
    return found


def size_words(records: Sequence[RunRecord]) -> str:
    """How much was trained."""
    rows = merge(records)
    sets = {str(record.data["name"]) for record, _ in rows}
    models = {record.experiment.model for record, _ in rows}
    seeds = sum(len(seeds) for _, seeds in rows)
    return (
        f"{many(seeds, 'trained network')}: {many(len(rows), 'experiment')} with "
        f"{many(len(models), 'model')} on {many(len(sets), 'dataset')}."
    )


def paper_words(judged: Sequence[JudgedTable]) -> list[str]:
    """How many of the paper's numbers were reproduced, and why others were not tried."""
    trained = [one for table in judged if not table.counts_data for one in table.found]
    printed = [one for one in trained if one.cell.printed is not None]
    count = count_verdicts(printed)
    comparable = count["reproduced"] + count["above"] + count["below"]
    verbs = {name: "was" if number == 1 else "were" for name, number in count.items()}
    words = [
        f"Of {len(printed)} results that the paper prints, each as often as it is printed, "
        f"{comparable} can be compared: {count['reproduced']} "
        f"{'is' if count['reproduced'] == 1 else 'are'} reproduced, {count['above']} of "
        f"ours {'lies' if count['above'] == 1 else 'lie'} above and {count['below']} below. "
        f"{count['not comparable']} {verbs['not comparable']} run on other "
        f"data, on another machine or with fewer seeds, and {count['not run']} "
        f"{verbs['not run']} not run. If "
        f"every number were equal in truth, one interval in twenty would still miss it."
    ]
    data = [one for table in judged if table.counts_data for one in table.found]
    if counted := [one for one in data if one.values]:
        words.append(_data_words(counted, len(data)))
    return words


def _data_words(counted: Sequence[CellVerdict], printed: int) -> str:
    equal = sum(one.verdict == "reproduced" for one in counted)
    return (
        f"Of {printed} numbers that the paper prints about its data, {len(counted)} stand in "
        f"these records, and {equal} of them are the same."
    )
