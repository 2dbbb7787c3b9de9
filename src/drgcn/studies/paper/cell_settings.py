"""What a page says of one cell, and the recipe that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from drgcn.data.catalog import describe, names
from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.cell_recipe import CellRecipe
from drgcn.studies.paper.table_cell import Quantity
from drgcn.studies.recipes import recipe
from drgcn.studies.scaling import usual_scaling

_SCALINGS = Literal["row", "standard", "none"]
_HINTS: Final[dict[str, Any]] = {
    **get_type_hints(Experiment),
    **{"normalize": _SCALINGS, "quantity": Quantity, "reason": str, "needs": str, "stand_in": str},
}
_ROW: Final = ("model", "reweight", "norm", "pre_activation")


@dataclass(frozen=True)
class CellSettings:
    """Settings of an experiment by name, and what is said about the cell besides.

    Attributes:
        values: All of it; settings of :class:`Experiment`, and ``normalize``, ``quantity``,
            ``reason`` (why nothing is run), ``needs`` (what has to be there first) and
            ``stand_in``.
    """

    values: Mapping[str, Any]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> CellSettings:
        """Settings whose names and types are right."""
        for name, value in values.items():
            if name not in _HINTS:
                raise InputError(
                    f"Expected settings out of {', '.join(sorted(_HINTS))}; found {name}: correct "
                    "the page"
                )
            if not _fits(value, _HINTS[name]):
                raise InputError(
                    f"Expected {name} to be {_words(_HINTS[name])}; found {value!r}: correct it"
                )
        return cls(values)

    def get(self, name: str) -> Any:
        """A setting; ``None`` if nothing is said."""
        return self.values.get(name)

    @property
    def label(self) -> str | None:
        """The name of the row in our tables, of whatever model; ``None`` if none is named."""
        if "model" not in self.values:
            return None
        return Experiment("", "", **{k: self.values[k] for k in _ROW if k in self.values}).label

    def recipe(self) -> CellRecipe:
        """What to train: the model's recipe on the dataset, changed as the page says."""
        for name in ("dataset", "split", "model"):
            if name not in self.values:
                raise InputError(
                    f"Expected a {name}, or a reason why nothing is run; found neither: add one"
                )
        dataset, split = self.values["dataset"], self.values["split"]
        own = dataset not in names() and Path(dataset).exists()
        if not own and split not in describe(dataset).splits:
            raise InputError(
                f"Expected a split of {dataset}; found {split!r}: choose one of "
                f"{', '.join(describe(dataset).splits)}"
            )
        settings = Experiment.__dataclass_fields__.keys() & self.values.keys()
        experiment = recipe(**{name: self.values[name] for name in settings})
        usual = usual_scaling(dataset, experiment.model) or "none"  # as load does with own data
        return CellRecipe(experiment, self.values.get("normalize", usual))


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value of a page is of a type."""
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if hint is float:
        return type(value) in (int, float)
    return type(value) is (get_origin(hint) or hint)


def _words(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_words(one) for one in get_args(hint) if one is not type(None))
    plain = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
    return plain.get(hint, "a table of names with values")
