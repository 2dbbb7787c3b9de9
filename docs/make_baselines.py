"""Remakes the tables of docs/baselines.md from the records in results/baselines.

Text between ``<!-- NAME -->`` and ``<!-- /NAME -->`` is replaced. With ``--check`` nothing is
written, and the exit code says whether anything would change.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from drgcn._format import duration
from drgcn.baselines import METHODS, baseline_records, method
from drgcn.baselines.run import accuracies, plain_settings
from drgcn.records import BaselineRecord, BaselineResult
from drgcn.reporting.tables import Table
from drgcn.studies.paper.page import paper_table_of
from drgcn.studies.records import BUILD

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "baselines.md"
SETS = ("cora", "citeseer", "pubmed")
NEAR = 2.0  # points
SEEDS = 20
# Yang et al. (2016). The paper's row has the better of both on each set.
PLANETOID = {
    "planetoid-t-script": {"cora": 75.7, "citeseer": 62.9, "pubmed": 75.7},
    "planetoid-t": {"cora": 75.7, "citeseer": 62.9, "pubmed": 75.7},
    "planetoid-i": {"cora": 61.2, "citeseer": 64.7, "pubmed": 77.2},
}
#: Methods that have more than one form, and what is not as it was published.
TITLES = {
    "manireg-inductive": "manireg-inductive: as quoted, without edges of test nodes",
    "manireg": "manireg: with the edges of test nodes",
    "semiemb-inductive": "semiemb-inductive: as quoted, without edges of test nodes, weight 1",
    "semiemb": "semiemb: with the edges of test nodes, weight chosen",
    "planetoid-t-script": "planetoid-t-script: as the authors' script",
    "planetoid-t": "planetoid-t: drawn contexts, Adam, more walks",
    "planetoid-i": "planetoid-i: drawn contexts, Adam, more walks",
}
Place = tuple[str, str, str]
Results = dict[Place, dict[int, BaselineResult]]


def main() -> None:
    """Fills the page, or checks it."""
    text = PAGE.read_text(encoding="utf-8")
    new = text
    for name, block in blocks().items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not place.search(new):
            sys.exit(f"{PAGE} has no place for {name!r}")
        new = place.sub(lambda found, block=block: f"{found[1]}{block}\n{found[2]}", new)
    if "--check" in sys.argv[1:]:
        sys.exit(int(new != text))
    PAGE.write_text(new, encoding="utf-8")


def blocks() -> dict[str, str]:
    """All tables by the names of their places."""
    records = list(baseline_records(ROOT / "results" / "baselines").values())
    usual = merged([one for one in records if not departures(one)])
    other = merged([one for one in records if departures(one)])
    return {
        "accuracies": accuracy_table(usual),
        "verdicts": verdicts(usual),
        "chosen": chosen_table(usual),
        "tried": tried_table(usual, other, builds_of(records)),
        "missing": missing_table(records, usual),
        "where": where(records),
    }


def departures(record: BaselineRecord) -> str:
    """Settings that are not the usual ones, in words."""
    usual = plain_settings(method(record.method))
    changed = {name: value for name, value in record.settings.items() if value != usual.get(name)}
    return ", ".join(f"{name} {value}" for name, value in changed.items())


def merged(records: list[BaselineRecord]) -> Results:
    """Results by dataset, method and what departs from its usual settings."""
    found: Results = {}
    for one in records:
        found.setdefault(place_of(one), {}).update(one.seeds)
    return found


def place_of(record: BaselineRecord) -> Place:
    """Dataset, method, and what departs from its usual settings."""
    return record.data["name"], record.method, departures(record)


def builds_of(records: list[BaselineRecord]) -> dict[Place, set[tuple[str, ...]]]:
    """Return the builds that trained the seeds of each row: source, libraries and machine."""
    found: dict[Place, set[tuple[str, ...]]] = {}
    for one in records:
        build = tuple(str(one.environment.get(name)) for name in BUILD)
        found.setdefault(place_of(one), set()).add(build)
    return found


def published(name: str) -> dict[str, float]:
    """The printed accuracies of a method by dataset."""
    if name in PLANETOID:
        return PLANETOID[name]
    row = METHODS[name].row
    cells = [cell for cell in paper_table_of("semi").printed if cell.row == row]
    return {cell.dataset: cell.printed.mean for cell in cells if cell.dataset and cell.printed}


def accuracy_table(results: Results) -> str:
    """Ours with the number of seeds, the published number in brackets, and the difference."""
    rows = []
    for name in METHODS:
        cells = []
        for dataset in SETS:
            printed = published(name).get(dataset)
            seeds = results.get((dataset, name, ""))
            quoted = "" if printed is None else f" ({printed})"
            if seeds is None:
                cells.append(f"-{quoted}")
                continue
            test, _ = accuracies(seeds)
            count = "no chance" if METHODS[name].deterministic else f"{test.seeds} seeds"
            difference = "" if printed is None else f", {test.mean - printed:+.1f}"
            cells.append(f"{test.words(1)}{quoted}{difference}; {count}")
        rows.append([TITLES.get(name, name), *cells])
    return Table(["", *SETS], rows).markdown()


def verdicts(results: Results) -> str:
    """Where ours and the published numbers agree."""
    kinds: dict[str, list[str]] = {"above": [], "within": [], "below": []}
    for name in METHODS:
        for dataset in SETS:
            seeds = results.get((dataset, name, ""))
            printed = published(name).get(dataset)
            if seeds is None or printed is None:
                continue
            difference = accuracies(seeds)[0].mean - printed
            kind = "within" if abs(difference) <= NEAR else "above" if difference > 0 else "below"
            kinds[kind].append(f"{name} on {dataset} ({difference:+.1f})")
    heads = {
        "above": f"More than {NEAR:g} points above the published number",
        "within": f"Within {NEAR:g} points of it",
        "below": f"More than {NEAR:g} points below it",
    }
    return "\n".join(
        f"- {heads[kind]}: {'; '.join(names) or 'none'}." for kind, names in kinds.items()
    )


def chosen_table(results: Results) -> str:
    """What validation chose, and the accuracy there."""
    rows = []
    for name in METHODS:
        for dataset in SETS:
            seeds = results.get((dataset, name, ""))
            if seeds is None:
                continue
            rows.append([name, dataset, f"{accuracies(seeds)[1].mean:.1f}", _choices(seeds)])
    heads = ["method", "dataset", "validation accuracy %", "chosen (seeds)"]
    return Table(heads, rows).markdown()


def _choices(seeds: dict[int, BaselineResult]) -> str:
    """How often each value was chosen; of steps and epochs the range."""
    words = []
    for key in next(iter(seeds.values())).chosen:
        values = [result.chosen[key] for result in seeds.values()]
        if key in ("step", "epoch"):
            words.append(f"{key} {min(values)} to {max(values)}")
            continue
        counted = {value: values.count(value) for value in sorted(set(values))}
        many = len(counted) > 1
        each = [f"{v:g}" if isinstance(v, float) else f"{v}" for v in counted]
        pairs = zip(each, counted.values(), strict=True)
        words.append(f"{key} " + ", ".join(f"{v} ({n})" if many else v for v, n in pairs))
    return "; ".join(words) or "nothing"


def tried_table(usual: Results, other: Results, builds: dict[Place, set[tuple[str, ...]]]) -> str:
    """Other settings beside the usual ones on the same seeds, marked if of other builds."""
    rows, marked = [], False
    for (dataset, name, words), seeds in sorted(other.items()):
        ours = usual.get((dataset, name, ""), {})
        same = {seed: ours[seed] for seed in seeds if seed in ours}
        test, val = accuracies(seeds)
        usual_test, usual_val = accuracies(same)
        both = builds[dataset, name, words] | builds.get((dataset, name, ""), set())
        mark = " †" if same and len(both) > 1 else ""
        marked |= bool(mark)
        rows.append(
            [
                f"{name} ({words}){mark}",
                dataset,
                f"{test.seeds}",
                f"{val.mean:.1f}" + (f" ({usual_val.mean:.1f})" if same else ""),
                f"{test.words(1)} ({usual_test.words(1)})" if same else test.words(1),
            ]
        )
    heads = ["tried", "dataset", "seeds", "validation % (usual)", "test % (usual)"]
    if not rows:
        return "No other settings on record."
    note = "\n\n† Not of one build with the usual ones: the difference may be the code's."
    return Table(heads, rows).markdown() + note * marked


def missing_table(records: list[BaselineRecord], results: Results) -> str:
    """Seeds that are not on record, and the time they take by the quickest record of theirs."""
    rows, whole, unknown = [], 0.0, 0
    for name in METHODS:
        wanted = 1 if METHODS[name].deterministic else SEEDS
        for dataset in SETS:
            missing = wanted - len(results.get((dataset, name, ""), {}))
            if missing <= 0:
                continue
            costs = [
                one.seconds / len(one.seeds)
                for one in records
                if (one.data["name"], one.method) == (dataset, name) and not departures(one)
            ]
            time = missing * min(costs) if costs else None
            whole, unknown = whole + (time or 0.0), unknown + (time is None)
            rows.append([name, dataset, f"{missing}", duration(time) if time else "not known"])
    if not rows:
        return "None."
    table = Table(["method", "dataset", "seeds to run", "time on one core"], rows).markdown()
    rest = f", and {unknown} of which no time is on record" if unknown else ""
    return f"{table}\n\nTogether {duration(whole)}{rest}."


def where(records: list[BaselineRecord]) -> str:
    """Hardware and versions behind the records."""
    kinds = sorted({(r.environment["device"], r.environment["torch"]) for r in records})
    words = "; ".join(f"{device}, torch {version}" for device, version in kinds)
    several = [
        f"{name} on {dataset} ({len(builds)})"
        for (dataset, name, changed), builds in builds_of(records).items()
        if len(builds) > 1 and not changed
    ]
    rows = f" Rows with seeds of several builds: {'; '.join(several)}." if several else ""
    return f"{len(records)} records, made on: {words}.{rows}"


if __name__ == "__main__":
    main()
