"""How many seeds of a cell are on record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from drgcn.studies.paper.cell_recipe import CellRecipe
from drgcn.studies.run_record import RunRecord

#: Seeds by recipe and content of the data.
Recorded = Mapping[tuple[str, str], Mapping[str, set[int]]]


def recorded(records: Iterable[RunRecord]) -> Recorded:
    """The seeds on record by what was trained, how features were scaled, and their content.

    Records of data made with options of its own are left out: a recipe has none.
    """
    found: dict[tuple[str, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        if not record.data.get("options"):
            place = (record.experiment.identity(""), str(record.data.get("normalize")))
            found[place][record.data["content_hash"]] |= record.seeds.keys()
    return found


def seeds_of(job: CellRecipe, known: Recorded) -> int:
    """The seeds of a recipe on record; of several contents under one name, the most."""
    contents = known.get((job.experiment.identity(""), job.normalize), {})
    return max(map(len, contents.values()), default=0)
