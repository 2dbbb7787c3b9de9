"""``drgcn reproduce``: train what fills the tables of the paper."""

from __future__ import annotations

import datetime
import json as jsonlib
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from drgcn._format import duration, plural
from drgcn.cli.options import (
    INTERRUPTED,
    DataRoot,
    Device,
    Json,
    Offline,
    Quiet,
    use_device,
    use_folder,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    from drgcn.studies.paper.table import PaperTable
    from drgcn.studies.records import RunRecord
    from drgcn.studies.reproduce.jobs import JobReport, SuiteRecord
    from drgcn.studies.reproduce.plan import Request
    from drgcn.studies.reproduce.processes import ProcessRunner
    from drgcn.studies.reproduce.ray import RayRunner
    from drgcn.studies.reproduce.status import PlanStatus, Results


def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables by name (see `drgcn studies list`), or `all`.",
            show_default="none, with --again",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many seeds, from 0.", show_default="the table's own, 20"),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Cells of one dataset, model or row, as in --only dataset=cora; may be repeated."
        ),
    ] = None,
    controls: Annotated[
        bool, typer.Option(help="Run the static and the constant gate beside every Dr cell.")
    ] = True,
    again: Annotated[
        Path | None,
        typer.Option(
            help="Train whatever has a record in this folder, too; into another --out, where all "
            "records are of one build then.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many jobs run at once.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads of each job.", show_default="its share of cores"),
    ] = None,
    device: Device = "auto",
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Run on a Ray cluster: auto, HOST:PORT of its head, or local (docs/cluster.md). "
            "There --jobs is how many jobs share a GPU.",
            show_default="processes of this machine",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan; train and download nothing.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the run records.")] = Path("results"),
    data_root: DataRoot = None,
    offline: Offline = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train every cell of one or more tables of the paper, over many seeds.

    Seeds with a record in --out are not trained again. What is cut off, by Ctrl-C or worse, goes
    on when the same command is given again, and several may run on one folder at once. A cell
    that fails is kept in failures/ with its traceback, and the rest goes on.

    Records of two builds (source, torch, PyG, machine) are not compared with each other. To have
    all of one build, train everything again into a new folder: drgcn reproduce all --again results
    --out results-new

    Exit code: 0 if all is recorded, 1 if something failed or nothing can be run, 2 for a wrong
    argument, 130 after Ctrl-C.

    Example: drgcn reproduce full semi --only dataset=cora --jobs 2
    """
    start = Start(datetime.datetime.now(datetime.UTC), time.perf_counter())
    try:
        from drgcn.studies.reproduce.plan import Request

        if not tables and again is None:
            raise InputError(
                "Expected tables by name, or `all`; found none. See them: drgcn studies list"
            )
        request = Request.of(tables or [], seeds, only or [], controls, _records_of(again, out))
        where = device if ray_address else str(use_device(device))
        if dry_run:
            status = _plan_status(request, out, data_root, offline=True, quiet=quiet)
            if json:
                print(jsonlib.dumps(plan_facts(request, status)))
            else:
                print_plan(request, status)
            raise typer.Exit(0)
        if not request.jobs:
            _print_nothing_to_run(request)
            raise typer.Exit(1)
        runner: ProcessRunner | RayRunner
        if ray_address is None:
            from drgcn.studies.reproduce.processes import ProcessRunner

            runner = ProcessRunner(jobs, threads)
        else:
            from drgcn.studies.reproduce.ray import RayRunner

            runner = RayRunner.at(ray_address, jobs, threads, device)
            where = runner.device
        options = RunOptions(out, where, data_root, offline, json, quiet)
        code = _run(request, runner, options, start)
    except KeyboardInterrupt:
        code = 130
    if code == 130:
        print(INTERRUPTED, file=sys.stderr)
    raise typer.Exit(code)


def _records_of(again: Path | None, out: Path) -> Sequence[RunRecord]:
    from drgcn.studies.records import load_records

    if again is None:
        return ()
    if again.resolve() == out.resolve():
        raise InputError(
            f"Expected --again to be another folder than --out, where nothing is trained twice; "
            f"found {again} for both. Give another --out."
        )
    found = load_records(again)
    if not found:
        raise InputError(f"Expected --again to hold run records; {again} has none. Leave it out.")
    return found


@dataclass(frozen=True)
class Start:
    """Moment at which the command was given."""

    time: datetime.datetime
    counter: float

    @property
    def seconds_since(self) -> float:
        """Seconds from then to now."""
        return time.perf_counter() - self.counter


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that do not change its jobs."""

    out: Path
    device: str
    data_root: Path | None
    offline: bool
    json: bool
    quiet: bool


def _run(
    request: Request, runner: ProcessRunner | RayRunner, options: RunOptions, start: Start
) -> int:
    """Run what is missing, print the tables, record the run; return the exit code."""
    from drgcn.records import set_aside_damaged
    from drgcn.studies.records import RunRecord
    from drgcn.studies.reproduce.backend import run_suite, suite_record
    from drgcn.studies.reproduce.progress import ProgressView

    out, data_root, device = options.out, options.data_root, options.device
    new = not out.exists()
    use_folder(out)
    for line in set_aside_damaged(RunRecord, out):
        print(line, file=sys.stderr)
    status = _plan_status(request, out, data_root, offline=options.offline, quiet=options.quiet)
    if status.runnable and not options.quiet:
        print(counts(request, status), file=sys.stderr)
    print_unrunnable(request, status, file=sys.stderr)
    blocked = request.blocked_tables(status)
    if not status.runnable:
        print_blocked(blocked)
        if new:
            with suppress(OSError):  # another run may have come to use it
                out.rmdir()
        return 1
    with ProgressView(status.todo, quiet=options.quiet) as view:
        reports, ending = run_suite(
            status, out, runner, view=view, data_root=data_root, device=device
        )
    record = suite_record(
        request,
        runner,
        status,
        reports,
        ending,
        started=start.time,
        wall=start.seconds_since,
        device=device,
    )
    if ending == "disk full":
        done = sum(bool(report.trained) for report in reports)
        print(
            f"error: there is no room left to write in {out}: free some, and run the same command "
            f"again to go on after {done} of {len(status.todo)} jobs",
            file=sys.stderr,
        )
        return 1
    if status.todo:
        record.save(out)
    if ending == "interrupted":
        return 130
    if options.json:
        facts = {"suite": asdict(record), "filled": filled_facts(request, _results(status, out))}
        print(jsonlib.dumps(facts))
    else:
        print_tables(request.tables, _results(status, out))
        print_ending(record)
    print_failures(reports)
    print_blocked(blocked)
    return 1 if record.failed or blocked else 0


def _print_nothing_to_run(request: Request) -> None:
    from drgcn.studies.reproduce.status import PlanStatus

    nothing = PlanStatus((), (), ())
    print_unrunnable(request, nothing, file=sys.stderr)
    print_blocked(request.blocked_tables(nothing))


def _plan_status(
    request: Request, out: Path, data_root: Path | None, *, offline: bool, quiet: bool
) -> PlanStatus:
    from rich.console import Console

    from drgcn.studies.records import load_records
    from drgcn.studies.reproduce.status import plan_status

    with Console(stderr=True, quiet=quiet).status("reading data") as spinner:
        return plan_status(
            request.jobs,
            load_records(out),
            data_root=data_root,
            offline=offline,
            reading=lambda dataset: spinner.update(f"reading {dataset}"),
        )


def _results(status: PlanStatus, out: Path) -> Results:
    from drgcn.studies.records import load_records
    from drgcn.studies.reproduce.status import results_of

    return results_of(status.runnable, load_records(out))


def print_plan(request: Request, status: PlanStatus) -> None:
    """Print the jobs with seeds to train, the costliest first, and what cannot be run."""
    from rich.console import Console

    from drgcn.reporting.tables import Table

    whole = sum(planned.cost for planned in status.todo)
    rows = []
    for planned in status.todo:
        share = f"{100 * planned.cost / whole:.1f} %" if whole else ""
        missing = f"{len(planned.missing)} of {len(planned.job.seeds)}"
        rows.append((planned.job.name, missing, share))
    if rows:
        Console().print(Table(("job", "seeds missing", "share of the cost"), rows).rich())
    print(counts(request, status))
    print_unrunnable(request, status)


def plan_facts(request: Request, status: PlanStatus) -> dict[str, object]:
    """Return the plan as plain values: jobs to be trained, and what cannot be run."""
    return {
        "tables": [table.name for table in request.tables],
        "seeds_recorded": status.recorded_seeds,
        "seeds_missing": status.missing_seeds,
        "jobs": [
            {
                "job": planned.job.name,
                "seeds_missing": len(planned.missing),
                "seeds": len(planned.job.seeds),
                "cost": planned.cost,
            }
            for planned in status.todo
        ],
        "lacking_data": dict(status.reasons),
        "unrunnable": {why: len(places) for why, places in request.unrunnable.items()},
    }


def filled_facts(request: Request, results: Results) -> dict[str, list[dict[str, str]]]:
    """Return what fills the tables, by their names: rows, columns and our numbers in words."""
    from drgcn.studies.reproduce.status import filled_cells

    return {
        table.name: [
            {"row": row, "column": column, "ours": words}
            for (row, column), words in filled_cells(table, results).items()
        ]
        for table in request.tables
    }


def counts(request: Request, status: PlanStatus) -> str:
    """Describe the plan in one sentence."""
    cells = request.cells_of(planned.job.key for planned in status.runnable)
    return (
        f"{plural(cells, 'cell')} of {plural(len(request.tables), 'table')}, "
        f"{plural(len(status.runnable), 'job')}: "
        f"{plural(status.recorded_seeds, 'seed')} on record, {status.missing_seeds:,} to be "
        f"trained in {plural(len(status.todo), 'job')}."
    )


def print_unrunnable(request: Request, status: PlanStatus, file: TextIO | None = None) -> None:
    """Print cells that cannot be run and why: data not at hand, or no recipe."""
    for dataset, reason in status.reasons.items():
        jobs = sum(planned.job.experiment.dataset == dataset for planned in status.lacking_data)
        print(f"not run, {plural(jobs, 'job')} on {dataset}: {reason}", file=file)
    for reason, places in request.unrunnable.items():
        names = ", ".join(dict.fromkeys(table.name for table, _ in places))
        print(f"nothing to run for {plural(len(places), 'cell')} of {names}: {reason}", file=file)


def print_tables(tables: Sequence[PaperTable], results: Results) -> None:
    """Print tables with our numbers above the printed ones, but for those without any."""
    from rich.console import Console
    from rich.markup import escape

    from drgcn.reporting.tables import Table
    from drgcn.studies.reproduce.status import filled_cells

    console = Console()
    for paper_table in tables:
        filled = filled_cells(paper_table, results)
        if not filled:
            continue
        rows = []
        for row in paper_table.rows:
            if not any((row, column) in filled for column in paper_table.columns):
                continue
            words = []
            for column in paper_table.columns:
                printed = paper_table.cell(row, column).printed
                paper = f"[dim]paper {escape(printed.text)}[/dim]" if printed else ""
                words.append("\n".join(filter(None, [filled.get((row, column), ""), paper])))
            rows.append([escape(row), *words])
        heads = ["", *map(escape, paper_table.columns)]
        table = Table(heads, rows, title=escape(paper_table.heading))
        console.print(table.rich(markup=True))
        print(
            f"{paper_table.name}: {len(filled)} of {plural(len(paper_table.cells), 'cell')} filled"
        )


def print_ending(record: SuiteRecord) -> None:
    """Print how much was trained, in what time, and how much was on record before."""
    before = f"{plural(record.seeds_recorded, 'seed')} on record before"
    others = ""
    if record.jobs_of_others:
        others = f"; {plural(record.jobs_of_others, 'job')} done meanwhile by another run"
    if not record.jobs:
        print(f"nothing was left to train: {before}{others}")
        return
    jobs, time = plural(record.jobs, "job"), duration(record.wall_seconds)
    print(f"{plural(record.seeds_trained, 'seed')} of {jobs} trained in {time}, {before}{others}")


def print_blocked(tables: Sequence[str]) -> None:
    """Print the tables of which nothing at all can be run here."""
    if tables:
        print(f"nothing can be run here for {', '.join(tables)}", file=sys.stderr)


def print_failures(reports: Sequence[JobReport]) -> None:
    """Print the jobs that failed."""
    failed = [report for report in reports if report.error is not None]
    if failed:
        print(f"{len(failed)} of {plural(len(reports), 'job')} failed:", file=sys.stderr)
    for report in failed:
        print(f"  {report.job.name}: {report.error}", file=sys.stderr)
