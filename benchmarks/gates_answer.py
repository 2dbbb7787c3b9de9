"""Statistics of the study of gates, from its records and as its plan has them; no torch.

The gain of a set is the mean over its splits, of a unit the mean over its sets; tests are paired
over units, harm over the splits of a set, recipes over seeds.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt
from gates_few_labels import (
    AT_FIVE,
    BEST,
    DEPTHS,
    FAMILY,
    FEW_LABELS,
    HARM,
    LABELS,
    LOST,
    MODEL_LABELS,
    MODELS,
    NORMS,
    PPI_SPLITS,
    PRIMARY,
    RECIPES,
    ROWS,
    SCALINGS,
    SIXTY,
    UNIT_OF,
    UNITS,
    UNSEEN,
    passes_of,
    row_settings,
)

from drgcn.errors import InputError
from drgcn.reporting.tables import Table
from drgcn.stats import Correlation, Decision, Interval, correlate, decide, mean_interval, p_words
from drgcn.studies.experiment import recipe
from drgcn.studies.records import RunRecord, SeedResult, load_records

Array = npt.NDArray[np.float64]
Gains = dict[str, list[float]]
Choice = tuple[str, dict[str, float]]  # an arm and a setting of it
_SCALING_WORDS = {"none": "raw", "row": "rows", "standard": "standardised"}


def file_of(out: Path, part: str, name: str) -> Path:
    """Return the path of the record of a part and a set."""
    return out / part / f"{name.replace('/', '-').replace(':', '-')}.json"


def read_record(
    path: Path, part: str, name: str, settings: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Read a record, if there is one; refuse one of other settings, or of another plan."""
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        facts = [found[key] for key in ("format", "part", "set", "settings")]
        entries = {_key(entry): entry for entry in found["results"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"Expected a record of the study; {path} is none ({error}). Remove or repair it."
        ) from None
    if facts != ["drgcn gate study 1", part, name, dict(settings)]:
        raise InputError(
            f"Expected {path} of {part}, {name}, {dict(settings)}; found {facts[1:]}. Use another "
            f"--out, or the options that it was made with."
        )
    planned = _planned(part, name)
    for key, entry in entries.items():
        choices = {choice: list(values) for choice, values in planned.get(key, {}).items()}
        lanes = math.prod(map(len, choices.values())) * settings["splits"] * settings["seeds"]
        whole = "left_out" in entry or (entry.get("choices"), len(entry["test"])) == (
            choices,
            lanes,
        )
        if key not in planned or not whole:
            raise InputError(
                f"Expected {path} to hold networks of the plan; found others for {key}. Train "
                f"them anew in another --out."
            )
    return found


def _key(entry: Mapping[str, Any]) -> tuple[str, str, int]:
    return entry["case"], entry["arm"], entry["labels"]


def _planned(part: str, name: str) -> dict[tuple[str, str, int], Mapping[str, Sequence[float]]]:
    return {
        (one.case, one.arm, cell.labels): cell.choices
        for one in passes_of(part, name)
        for cell in one.cells
    }


@dataclass(frozen=True)
class Part:
    """Records of a part that is whole: all that the plan asks for is there.

    Attributes:
        name: Name of the part.
        records: Records by set.
        splits: Splits of a set.
        seeds: Networks of a split.
    """

    name: str
    records: dict[str, dict[str, Any]]
    splits: int
    seeds: int

    @cached_property
    def entries(self) -> dict[tuple[str, str, str, int], dict[str, Any]]:
        """Networks by set, case, arm and number of labels, with scores ``[*choices, splits,
        seeds]``; none where a set lacks nodes."""
        found = {}
        for name, record in self.records.items():
            for entry in record["results"]:
                if "left_out" not in entry:
                    shape = (*map(len, entry["choices"].values()), self.splits, self.seeds)
                    scores = {k: np.array(entry[k], float).reshape(shape) for k in ("val", "test")}
                    found[(name, *_key(entry))] = {**entry, **scores}
        return found

    def scores(
        self, name: str, case: str, labels: int, row: str
    ) -> list[tuple[Choice, Array, Array]]:
        """Return validation and test scores ``[splits, seeds]`` of a row's choices."""
        found = []
        for arm, setting in row_settings(row):
            entry = self.entries.get((name, case, arm, labels))
            if entry is None and row == BEST:
                continue  # not every gate is trained everywhere
            if entry is None:
                return []
            choices = entry["choices"]
            own = {key: value for key, value in setting.items() if key in choices}
            place = tuple(choices[key].index(own[key]) for key in choices)
            found.append(((arm, setting), entry["val"][place], entry["test"][place]))
        return found

    def chosen(self, name: str, case: str, labels: int, row: str) -> list[tuple[Choice, float]]:
        """Return for each split the choice best on its validation nodes, and its mean test.

        One with a network that diverged is never taken; of equals the first is.
        """
        choices = self.scores(name, case, labels, row)
        found = []
        for split in range(self.splits if choices else 0):
            means = [(c, v[split].mean(), t[split].mean()) for c, v, t in choices]
            usable = [one for one in means if not math.isnan(one[1])]
            nothing = (("", {}), 0, math.nan)
            choice, _, test = max(usable, key=lambda one: one[1], default=nothing)
            found.append((choice, float(test)))
        return found

    def tests(self, name: str, case: str, labels: int, row: str) -> list[float]:
        """Return the score in % on test nodes of each split, or of each seed of a recipe."""
        if self.name in RECIPES:
            found = self.scores(name, case, labels, row)
            return found[0][2][0].tolist() if found else []
        return [test for _, test in self.chosen(name, case, labels, row)]

    def gains(self, case: str, labels: int, first: str, second: str) -> Gains:
        """Return the gains of a row over another by set: of splits, or of seeds of a recipe.

        A set in which all choices of a row diverge on a split has none, nor one without nodes.
        """
        found = {}
        for name in self.records:
            pair = [self.tests(name, case, labels, row) for row in (first, second)]
            if not all(pair):
                continue
            gains = [a - b for a, b in zip(*pair, strict=True)]
            if not any(map(math.isnan, gains)):
                found[name] = gains
        return found


class NotWhole(InputError):  # noqa: N818 - a state of the records, not a fault
    """A part of which something is not trained yet."""


def load_part(part: str, out: Path, sets: Sequence[str], settings: Mapping[str, Any]) -> Part:
    """Read a part; refuse one that is not whole, which nobody should look at."""
    if part == "ppi":
        records = {name: _of_runs(out.parent, name, settings["seeds"]) for name in sets}
        return Part(part, records, settings["splits"], settings["seeds"])
    records = {}
    for name in sets:
        record = read_record(file_of(out, part, name), part, name, settings)
        known = set() if record is None else {_key(entry) for entry in record["results"]}
        lacking = [key for key in _planned(part, name) if key not in known]
        if record is None or lacking:
            raise NotWhole(
                f"Expected all of {part}; found {name} without {lacking[0]}. Run the part to its "
                f"end first: by the plan nothing is looked at before."
            )
        records[name] = record
    return Part(part, records, settings["splits"], settings["seeds"])


def _of_runs(folder: Path, name: str, seeds: int) -> dict[str, Any]:
    """Return the part on PPI as a record of the study: all its rows, of one build."""
    builds: dict[tuple[str, ...], dict[tuple[str, str], list[RunRecord]]] = {}
    planned = [(one.case, one.arm) for one in passes_of("ppi", name)]
    for record in load_records(folder):
        ran = record.experiment
        key = (ran.split, ran.reweight or "plain")
        if key in planned and ran == recipe(name, ran.split, "gat", reweight=ran.reweight):
            builds.setdefault(record.build, {}).setdefault(key, []).append(record)
    for rows in builds.values():
        scores = {key: _by_seed(found) for key, found in rows.items()}
        if all(scores.get(key, {}).keys() >= set(range(seeds)) for key in planned):
            break
    else:
        raise NotWhole(
            f"Expected all rows of GAT on {name}, {seeds} seeds each, of one build in {folder}. "
            f"Train them to the end first: drgcn reproduce {name} --only model=gat."
        )
    used = [record for found in rows.values() for record in found]
    results = [
        {
            "case": case,
            "arm": arm,
            "labels": 0,
            "choices": {},
            "val": [100 * scores[case, arm][seed].val_accuracy for seed in range(seeds)],
            "test": [100 * scores[case, arm][seed].test_accuracy for seed in range(seeds)],
        }
        for case, arm in planned
    ]
    return {
        "environments": [record.environment for record in used],
        "seconds": sum(record.seconds for record in used),
        "results": results,
    }


def _by_seed(records: Sequence[RunRecord]) -> dict[int, SeedResult]:
    return {seed: result for record in records for seed, result in record.seeds.items()}


def unit_gains(gains: Gains) -> dict[str, float]:
    """Return the gain of each unit: the mean over its sets of the mean over their splits."""
    found = {}
    for unit, sets in UNITS.items():
        own = [mean(gains[name]) for name in sets if name in gains]
        if own:
            found[unit] = mean(own)
    return found


@dataclass(frozen=True)
class Answer:
    """What the first part says, by the rules of the plan.

    Attributes:
        family: Decisions by number of labels, row and the row it is held against.
        units: Gains by unit of each of them.
        harm: For each row that might be recommended, decisions by number of labels and set.
    """

    family: dict[tuple[int, str, str], Decision]
    units: dict[tuple[int, str, str], dict[str, float]]
    harm: dict[tuple[str, str], dict[tuple[int, str], Decision]]

    def harmed(self, row: str, against: str) -> list[tuple[int, str]]:
        """Return where a row is surely worse, with an interval below -0.2 points."""
        found = self.harm[row, against]
        return [
            where for where, d in found.items() if d.sign == "down" and d.test.gain.high < HARM
        ]

    @property
    def unseen(self) -> Interval:
        """The primary comparison over the units that nobody had looked at."""
        return mean_interval(
            [gain for unit, gain in self.units[PRIMARY].items() if unit in UNSEEN]
        )

    @property
    def recommended(self) -> list[str]:
        """Gates that surely gain over plain, tuned and over their shuffled selves at five labels
        a class, and harm no set."""
        found = []
        for gate in ("class-share", "class-share-pseudo"):
            signs = {self.family[5, gate, f].sign for f in ("plain, tuned", f"shuffled-{gate}")}
            if signs == {"up"} and not self.harmed(gate, "plain, tuned"):
                found.append(gate)
        return found


# Rows whose harm is looked for, each with what it is held against.
JUDGED = (
    ("class-share", "plain, tuned"),
    ("class-share-pseudo", "plain, tuned"),
    (BEST, "plain, tuned"),
    ("dr-one", "plain"),
    ("dr-exp", "plain"),
)


def answer(part: Part) -> Answer:
    """Judge the family of the first part, and look for sets that are harmed."""
    units = {test: unit_gains(part.gains("", *test)) for test in FAMILY}
    decisions = decide([list(gains.values()) for gains in units.values()])
    harm = {}
    for pair in JUDGED:
        by_set = {
            (labels, name): gains
            for labels in LABELS
            for name, gains in part.gains("", labels, *pair).items()
        }
        harm[pair] = dict(zip(by_set, decide(list(by_set.values())), strict=True))
    return Answer(dict(zip(units, decisions, strict=True)), units, harm)


def recipe_family(part: Part) -> dict[tuple[str, str, str], Decision]:
    """Judge the gates of a recipe over plain, by case, set and gate: one family, by seeds."""
    ppi = part.name == "ppi"
    cases = {split: tuple(part.records) for split in PPI_SPLITS} if ppi else LOST
    gates = ("dr", "dr-one", "static", "constant") if ppi else ("dr", "dr-one", "dr-exp")
    gains = {
        (case, name, gate): found[name]
        for case, sets in cases.items()
        for gate in gates
        for found in [part.gains(case, 0, gate, "plain") if set(sets) & set(part.records) else {}]
        for name in sets
        if name in found
    }
    return dict(zip(gains, decide(list(gains.values())), strict=True))


def described(part: Part, case: str, labels: int, first: str, second: str) -> Interval:
    """Return the mean gain over units with its own interval: a description, not a test."""
    return mean_interval(list(unit_gains(part.gains(case, labels, first, second)).values()))


def layer_k(part: Part, name: str, case: str, arm: str, labels: int, key: str) -> list[float]:
    """Return K of every layer, the mean over the networks that have one; NaN without any."""
    entry = part.entries.get((name, case, arm, labels))
    if entry is None or key not in entry:
        return []
    columns = zip(*entry[key], strict=True)
    known = [[value for value in column if value is not None] for column in columns]
    return [mean(column) if column else math.nan for column in known]


def depth_correlation(part: Part) -> Correlation | None:
    """Correlate the gain of Dr with the mean K of its layers, over sets and depths by unit."""
    k, gain, units = [], [], []
    for depth in map(str, DEPTHS):
        for name, gains in part.gains(depth, 20, "dr", "plain").items():
            found = [v for v in layer_k(part, name, depth, "dr", 20, "k") if not math.isnan(v)]
            if found:
                k.append(mean(found))
                gain.append(mean(gains))
                units.append(UNIT_OF[name])
    try:
        return correlate(k, gain, units)
    except InputError:  # too few sets, in a trial
        return None


def report(part: str, out: Path, sets: Sequence[str], settings: Mapping[str, Any]) -> str:
    """Return the tables of a part as Markdown."""
    found = load_part(part, out, sets, settings)
    return "\n\n".join(table.markdown("none") for table in TABLES[part](found))


def _few_labels(part: Part) -> list[Table]:
    tables = [family_table(answer(part)), best_gate_table(part)]
    return tables + [accuracy_table(part, "", n) for n in LABELS]


def family_table(found: Answer) -> Table:
    """The family of tests."""
    rows = []
    for (labels, first, second), decision in found.family.items():
        test = decision.test
        rows.append(
            (
                str(labels),
                f"{first} over {second}",
                str(test.seeds),
                str(test.gain),
                "-" if math.isnan(decision.p_holm) else p_words(decision.p_holm),
                "-" if math.isnan(decision.flip_holm) else p_words(decision.flip_holm),
                {"up": "sure gain", "down": "sure loss", "unsure": "not sure"}[decision.sign],
            )
        )
    heads = ("labels a class", "comparison", "units", "points", "p, Holm", "p of sign flips", "")
    return Table(heads, rows, left=2)


def best_gate_table(part: Part) -> Table:
    """Mean gains over units of the gate that validation chooses, and what it chose: described."""
    rows = []
    units = {n: unit_gains(part.gains("", n, BEST, "plain, tuned")) for n in LABELS}
    for labels, gains in units.items():
        more = described(part, "", labels, BEST, AT_FIVE[1]) if labels == 5 else None
        taken = [part.chosen(name, "", labels, BEST) for name in part.records]
        arms = Counter(arm for splits in taken for (arm, _), _ in splits if arm)
        rows.append(
            (
                str(labels),
                str(max(len(part.scores(name, "", labels, BEST)) for name in part.records)),
                _interval_words(mean_interval(list(gains.values()))),
                "" if more is None else _interval_words(more),
                ", ".join(f"{arm} {count}" for arm, count in arms.most_common()),
            )
        )
    few = [[units[n][unit] for n in FEW_LABELS if unit in units[n]] for unit in UNITS]
    pooled = mean_interval([mean(gains) for gains in few if gains])
    span = f"{FEW_LABELS[0]} to {FEW_LABELS[-1]}"
    rows.append((span, "", _interval_words(pooled), "", ""))
    over = [f"{BEST} over {row}" for row in ("plain, tuned", AT_FIVE[1])]
    return Table(("labels a class", "choices", *over, "chosen"), rows, left=1)


def accuracy_table(part: Part, case: str, labels: int, rows: Sequence[str] = ROWS) -> Table:
    """Mean score on test nodes of rows by set."""
    rows = [row for row in rows if row not in AT_FIVE or (part.name, labels) == ("few-labels", 5)]
    cells = []
    for name in part.records:
        found = [part.tests(name, case, labels, row) for row in rows]
        if any(found):
            cells.append((name, *(_mean_words(tests) for tests in found)))
    title = "60 % of the nodes" if labels == SIXTY else f"{labels} labels a class"
    return Table((f"{title}, {case}" if case else title, *rows), cells, left=1)


def _mean_words(values: Sequence[float]) -> str:
    return f"{mean(values):.2f}" if values and not any(map(math.isnan, values)) else "-"


def described_table(
    part: Part, places: Sequence[tuple[str, str, int]], pairs: Sequence[tuple[str, str]]
) -> Table:
    """Mean gains over units with intervals; a place is a label, a case and a number of labels."""
    rows = [
        (label, *(_interval_words(described(part, case, labels, *pair)) for pair in pairs))
        for label, case, labels in places
    ]
    return Table(("", *(f"{first} over {second}" for first, second in pairs)), rows, left=1)


def _interval_words(found: Interval) -> str:
    return "-" if math.isnan(found.mean) else str(found)


_PAIRS = (
    ("class-share", "plain, tuned"),
    ("class-share", "shuffled-class-share"),
    ("plain, tuned", "plain"),
    ("dr", "plain"),
    ("dr-one", "plain"),
)


def full_labels_tables(part: Part) -> list[Table]:
    """Gains and accuracies with 60 % of the nodes to learn from."""
    return [
        described_table(part, [("60 % of the nodes", "", SIXTY)], _PAIRS),
        accuracy_table(part, "", SIXTY),
    ]


def models_tables(part: Part) -> list[Table]:
    """Gains by model and number of labels."""
    places = [(f"{model}, {n} labels", model, n) for model in MODELS for n in MODEL_LABELS]
    return [described_table(part, places, _PAIRS)]


def scaling_tables(part: Part) -> list[Table]:
    """Gains by scaling, and accuracies of every set in each."""
    places = [(_SCALING_WORDS[s], s, 20) for s in SCALINGS]
    pairs = (*_PAIRS, ("dr-exp", "plain"))
    return [
        described_table(part, places, pairs),
        *(accuracy_table(part, scaling, 20) for scaling in SCALINGS),
    ]


def recipe_tables(part: Part) -> list[Table]:
    """Gains over plain of a recipe's gates, by case and set."""
    rows = [
        (
            f"{name}, {case}",
            gate,
            f"{mean(part.tests(name, case, 0, 'plain')):.2f}",
            str(decision.test.gain),
            p_words(decision.p_holm),
            {"up": "sure gain", "down": "sure loss", "unsure": "not sure"}[decision.sign],
        )
        for (case, name, gate), decision in recipe_family(part).items()
    ]
    heads = ("recipe", "gate", "plain %", "gate over plain", "p, Holm", "")
    return [Table(heads, rows, left=2)]


def depth_tables(part: Part) -> list[Table]:
    """Accuracy and K of the first and last layer by depth."""
    arms = ("plain", "dr", "dr-one", *(f"{norm} norm" for norm in NORMS))
    rows = []
    for name in part.records:
        for depth in map(str, DEPTHS):
            tests = [_mean_words(part.tests(name, depth, 20, arm)) for arm in arms]
            k = layer_k(part, name, depth, "dr", 20, "k")
            even = layer_k(part, name, depth, "plain", 20, "k_even")
            words = [f"{one[0]:.2f} to {one[-1]:.2f}" if one else "-" for one in (k, even)]
            rows.append((name, depth, *tests, *words))
    heads = ("set", "layers", *arms, "K of dr, first to last", "K of equal variances, plain")
    return [Table(heads, rows, left=1)]


TABLES = {
    "few-labels": _few_labels,
    "full-labels": full_labels_tables,
    "dr-from-one": recipe_tables,
    "ppi": recipe_tables,
    "depth": depth_tables,
    "models": models_tables,
    "scaling": scaling_tables,
}


def chosen_exponents(part: Part, labels: int) -> Counter[float]:
    """Count the exponents of class-share that splits chose; 0 is the plain network."""
    return Counter(
        setting.get("exponent", 0.0)
        for name in part.records
        for (_, setting), _ in part.chosen(name, "", labels, "class-share")
    )
