"""Sets, rows and tests of the study of gates: the values that docs/study-plan.md speaks of.

gates_study.py trains them, gates_answer.py reads what came of it. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

# Sets by the unit that counts once in tests: graphs of one source say much the same.
UNITS: dict[str, tuple[str, ...]] = {
    "cora": ("cora", "graphs/cora_ml.npz"),
    "citeseer": ("citeseer", "graphs/citeseer_full.npz"),
    "pubmed": ("pubmed",),
    "dblp": ("graphs/dblp.npz",),
    "amazon-photo": ("amazon-photo",),
    "coauthor-cs": ("coauthor-cs",),
    "blogcatalog": ("blogcatalog",),
    "flickr": ("graphs/flickr.npz",),
    "tolokers": ("tolokers",),
    "chameleon": ("chameleon-filtered",),
    "squirrel": ("squirrel-filtered",),
    "twitch": tuple(f"twitch:{g}" for g in ("ENGB", "ES", "FR", "RU", "ZHTW")),
    "digits": ("digits",),
    "breast-cancer": ("breast-cancer",),
    "wine": ("wine",),
}
SETS = tuple(name for unit in UNITS.values() for name in unit)
UNIT_OF = {name: unit for unit, sets in UNITS.items() for name in sets}
# Units of which no set was looked at with class-share before the plan.
UNSEEN = ("dblp", "flickr", "twitch")
STANDARDISED = ("breast-cancer", "wine", "digits", "tolokers")
LABELS = (1, 2, 5, 10, 20)
SIXTY = 60  # per cent of the nodes, in place of a number of labels a class
# Splits from 0 on were looked at before the plan was written.
FIRST_SPLIT = 1000

DROPOUTS = (0.5, 0.2, 0.65, 0.8)
DECAYS = (5e-4, 0.0, 5e-3, 5e-2)
EXPONENTS = (0.0, 0.25, 0.5, 0.75)
# Labels are spread along edges where they are fewest.
SPREAD_LABELS = (1, 2, 5)
POWERS = (0.0, -0.5, -0.25, 0.25)
# Where rows are run of which no test of the first part speaks.
UNTESTED_LABELS = (5,)
MODELS = ("gat", "graphsage", "mixhop", "mlp")
DEPTHS = (2, 4, 8, 16)
NORMS = ("batch", "layer", "pair")
SCALINGS = ("none", "row", "standard")
DEEP = ("cora", "citeseer", "pubmed", "amazon-photo", "digits")
# One set of each unit, of at most 8,000 nodes.
ACROSS_MODELS = (
    *("cora", "citeseer", "amazon-photo", "blogcatalog", "graphs/flickr.npz"),
    *("chameleon-filtered", "squirrel-filtered", "twitch:ZHTW", "digits", "breast-cancer", "wine"),
)
MODEL_LABELS = (5,)
SCALED = ("digits", "breast-cancer", "wine", "tolokers", "cora", "pubmed")
# Recipes in which Dr as published lost, or may have: the model, the split and the sets.
LOST: dict[str, tuple[str, ...]] = {
    "mixhop public": ("citeseer",),
    "gat public": ("cora", "citeseer", "pubmed"),
    "gat full": ("cora", "citeseer", "pubmed"),
    "gcn raw": ("digits", "breast-cancer", "wine"),
}
PPI_SPLITS = ("published", "disjoint")

# Parts in the order they are run, each with its splits and the seeds of a split.
PARTS: dict[str, tuple[int, int]] = {
    "few-labels": (10, 2),
    "dr-from-one": (1, 20),
    "ppi": (1, 20),
    "depth": (10, 2),
    "full-labels": (10, 2),
    "scaling": (10, 2),
    "models": (10, 2),
}
RECIPES = ("dr-from-one", "ppi")
#: Parts that gates_study.py trains; that on PPI is a table of `drgcn reproduce`.
TRAINED = tuple(part for part in PARTS if part != "ppi")
EPOCHS = 400


def planned_settings(part: str) -> dict[str, int | str]:
    """Return epochs, splits and seeds of a part as the plan has them."""
    epochs = "recipe" if part in RECIPES else EPOCHS
    splits, seeds = PARTS[part]
    return {"epochs": epochs, "splits": splits, "seeds": seeds}


Choices = dict[str, tuple[float, ...]]


class Cell(NamedTuple):
    """Networks with so many labels: all choices, on all splits, of all seeds.

    ``labels`` is a number a class, :data:`SIXTY`, or 0 for the split of a recipe.
    """

    labels: int
    choices: Choices


class Pass(NamedTuple):
    """Networks of one kind on one set, which one call of ``fit`` trains.

    ``case`` is where the axis of the part is: a model, a depth, a scaling, a recipe.
    """

    case: str
    arm: str
    cells: tuple[Cell, ...]


def sets_of(part: str) -> tuple[str, ...]:
    """Return the sets of a part."""
    if part == "ppi":
        return ("ppi-rebuilt",)
    if part == "dr-from-one":
        return tuple(dict.fromkeys(name for sets in LOST.values() for name in sets))
    return {"depth": DEEP, "scaling": SCALED, "models": ACROSS_MODELS}.get(part, SETS)


def passes_of(part: str, name: str) -> list[Pass]:
    """Return what a part trains on a set."""
    recipe = (Cell(0, {}),)
    if part == "ppi":
        arms = ("plain", "dr", "dr-one", "static", "constant")
        return [Pass(split, arm, recipe) for split in PPI_SPLITS for arm in arms]
    if part == "dr-from-one":
        cases = [case for case, sets in LOST.items() if name in sets]
        arms = ("plain", "dr", "dr-one", "dr-exp")
        return [Pass(case, arm, recipe) for case in cases for arm in arms]
    if part == "depth":
        arms = ("plain", "dr", "dr-one", *(f"{norm} norm" for norm in NORMS))
        one = {"weight_decay": DECAYS[:1], "dropout": DROPOUTS[:1]}
        return [Pass(str(d), arm, (Cell(20, one),)) for d in DEPTHS for arm in arms]
    if part == "models":
        arms = ("plain", "class-share", "shuffled-class-share", "dr", "dr-one")
        return [_pass(model, arm, MODEL_LABELS) for model in MODELS for arm in arms]
    if part == "scaling":
        return [_pass(scaling, arm, (20,)) for scaling in SCALINGS for arm in ARMS]
    if part == "full-labels":
        return [_pass("", arm, (SIXTY,)) for arm in ARMS]
    passes = [
        _pass("", arm, UNTESTED_LABELS if arm in UNTESTED else LABELS, wide=True) for arm in ARMS
    ]
    return passes + [_pass("", arm, SPREAD_LABELS) for arm in SPREAD]


ARMS = (
    *("plain", "class-share", "shuffled-class-share", "variance"),
    *("dr", "dr-one", "dr-exp", "static", "constant"),
)
UNTESTED = ("variance", "static", "constant")
SPREAD = ("class-share-pseudo", "shuffled-class-share-pseudo")
# Rows of sixteen choices, for five labels a class of the first part alone.
AT_FIVE = ("class-share and dropout", "plain, tuned more")
# The gate that validation chooses, plain among them: as many as were trained at a place.
BEST = "best gate"
GATES = ("class-share", "class-share-pseudo", "dr", "dr-one", "dr-exp")
ROWS = ("plain", "plain, tuned", BEST, *ARMS[1:4], *SPREAD, *AT_FIVE, *ARMS[4:])
# Numbers of labels that count as few.
FEW_LABELS = (1, 2, 5, 10)


def _pass(case: str, arm: str, labels: Sequence[int], *, wide: bool = False) -> Pass:
    return Pass(case, arm, tuple(Cell(n, _choices(arm, wide and n == 5)) for n in labels))


def _choices(arm: str, wide: bool) -> Choices:
    """Return what is trained of an arm: an exponent of 0 is the plain network, and not again.

    Decay comes first: lanes in a row that share it share an optimiser.
    """
    decays = DECAYS if arm == "plain" and wide else DECAYS[:1]
    tuned = arm == "plain" or (arm == "class-share" and wide)
    found: Choices = {"weight_decay": decays, "dropout": DROPOUTS if tuned else DROPOUTS[:1]}
    if "class-share" in arm:
        found["exponent"] = EXPONENTS[1:]
    if arm == "variance":
        found["exponent"] = POWERS[1:]
    return found


def row_settings(row: str) -> list[tuple[str, dict[str, float]]]:
    """Return the choices of a row, each an arm and a setting of it, the published one first."""
    usual = {"weight_decay": DECAYS[0], "dropout": DROPOUTS[0]}
    if row == BEST:
        found = [choice for gate in GATES for choice in row_settings(gate)]
        return [choice for place, choice in enumerate(found) if choice not in found[:place]]
    if row == "plain, tuned":
        return [("plain", usual | {"dropout": rate}) for rate in DROPOUTS]
    if row == "plain, tuned more":
        pairs = product(DROPOUTS, DECAYS)
        return [("plain", {"weight_decay": decay, "dropout": rate}) for rate, decay in pairs]
    if row == "variance" or "class-share" in row:
        arm = row.removesuffix(" and dropout")
        rates = DROPOUTS if arm != row else DROPOUTS[:1]
        powers = POWERS if arm == "variance" else EXPONENTS
        settings = [usual | {"dropout": rate, "exponent": e} for e, rate in product(powers, rates)]
        plain = [("plain", {n: v for n, v in s.items() if n != "exponent"}) for s in settings]
        return [
            (arm, setting) if setting["exponent"] else same
            for setting, same in zip(settings, plain, strict=True)
        ]
    return [(row, usual)]


# The family of tests of the first part: each row against another.
TESTS = (
    ("class-share", "plain, tuned"),
    ("class-share", "shuffled-class-share"),
    ("class-share and dropout", "plain, tuned more"),
    ("class-share-pseudo", "plain, tuned"),
    ("class-share-pseudo", "shuffled-class-share-pseudo"),
    ("dr-one", "plain"),
    ("dr-exp", "plain"),
)
PRIMARY = (5, "class-share", "plain, tuned")
_AT = dict.fromkeys(AT_FIVE, (5,)) | dict.fromkeys(SPREAD, SPREAD_LABELS)
FAMILY = tuple((n, *pair) for n in LABELS for pair in TESTS if n in _AT.get(pair[0], LABELS))
# A set is harmed where the interval of its gain lies below.
HARM = -0.2
