"""One process of ``drgcn recommend train``: choose clicks, train, write the run, print it."""

from __future__ import annotations

import json as jsonlib
import os
import shutil
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from drgcn._format import plural
from drgcn._io import file_digest, write_whole
from drgcn.cli.options import ProgressLine, expect_folder, use_device, use_folder
from drgcn.cli.recommend.train_options import (
    Targets,
    TrainOptions,
    clicks_source,
    is_known,
    open_clicks,
    parse_popularity,
)
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.clicks.data import (
    MANIFEST,
    click_weights,
    earlier_hashes,
    expect_ages,
    has_ages,
)
from drgcn.recommend.clicks.splits import (
    FEW_TARGETS,
    ClickSplit,
    SplitRule,
    hold_out,
    split_clicks,
)
from drgcn.recommend.distributed.group import (
    ATTEMPTS,
    Exchange,
    GroupExchange,
    joined_ranks,
    note_attempt,
    read_attempts,
    shared_clicks,
)
from drgcn.recommend.model import save_run
from drgcn.recommend.model.fitting import Fit, Fitting, Stopping, choose_half_life, popular_recall
from drgcn.recommend.model.run_folder import (
    CHECKPOINT,
    CHOICE,
    CONFIG,
    HISTORY,
    RECORD,
    SETTINGS,
    WEIGHTS,
    Origin,
    build_model,
    clear_left,
    load_run,
    relative_source,
)
from drgcn.recommend.model.training import TrainProgress
from drgcn.recommend.retrieval.ranking import Popularity
from drgcn.records import environment, load_sealed

_SHARED = ".clicks-"
_HOLD_OUT = 0.1


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """Options with nothing left open, and the clicks.

    Attributes:
        options: The options.
        data: All clicks.
        origin: The model to go on from; ``None`` for fresh weights.
    """

    options: TrainOptions
    data: ClickData
    origin: Origin | None = None


@dataclass(frozen=True, eq=False)
class ChosenClicks:
    """Clicks of a training.

    Attributes:
        day: The day that is held back; ``None`` for none.
        graph: Clicks that make neighbours.
        targets: Clicks to learn; ``None`` for those of the graph.
        validation: The same clicks, some of them held out; ``None`` if nothing validates.
    """

    day: int | None
    graph: ClickGraph
    targets: ClickGraph | None
    validation: ClickSplit | None = None


def prepare(options: TrainOptions) -> PreparedRun:
    """Read the clicks and make ranks the folder of the run, or refuse what cannot work."""
    if (options.out / SETTINGS).exists():
        _clear(options.out)
        raise InputError(
            f"Expected --out without a finished run; {options.out} holds one already."
        )
    if "RANK" not in os.environ:  # a rank finds what others have begun
        _refuse_foreign_files(options.out)
    data = open_clicks(options.data, options.data_root)
    if options.content_hash not in (None, data.content_hash):
        raise InputError(
            f"Expected clicks with the content hash {str(options.content_hash)[:12]}; "
            f"{options.data} has {data.content_hash[:12]}. Give the clicks that the settings were "
            f"written for, or leave --content-hash out."
        )
    last, seen = _held_back(data.graph, options), data.graph.num_clicks
    held = 0
    if options.split is not None:
        counts = split_clicks(data, SplitRule.parse(options.split)).counts
        held, seen = counts["test"], seen - counts["test"]
    elif last is not None and data.graph.days is not None:
        held, seen = (
            int(part.sum()) for part in (data.graph.days == last, data.graph.days < last)
        )
    options = options.resolved(seen, data.users is not None or data.items is not None)
    own = options.split is not None or _has_validation(data, last)
    if options.validated and options.hold_out is None and not own:
        options = replace(options, hold_out=_HOLD_OUT)
    # Which check their values.
    options.settings(), options.stopping(data.graph.num_items), options.model_options()
    if any(options.half_lives):
        expect_ages(data)
    if any(one.half_life for one in _popularities(options, data)):
        expect_ages(data, "--popularity")
    origin = None if options.from_run is None else _open_origin(options.from_run, data, options)
    # Several ranks meet in the folder; one process makes it when there is something to write.
    (use_folder if "RANK" in os.environ else expect_folder)(options.out)
    if os.environ.get("RANK", "0") == "0":
        _warn_of_sizes(held, seen, options.split)
    return PreparedRun(replace(options, content_hash=data.content_hash), data, origin)


def _warn_of_sizes(held: int, seen: int, split: str | None) -> None:
    """Tell of too few clicks to test by, or to learn from."""
    if 0 < held < FEW_TARGETS:
        more = "" if split else " Hold back more, as by --split time:0.1."
        print(
            f"warning: only {plural(held, 'click')} held back for test, fewer than "
            f"{FEW_TARGETS:,}: an evaluation will be uncertain.{more}",
            file=sys.stderr,
        )
    if seen < held:
        print(
            f"warning: {held:,} clicks are held back for test, and {seen:,} are left to learn "
            f"from. Hold back fewer, as by --split random:0.1.",
            file=sys.stderr,
        )


def _popularities(options: TrainOptions, data: ClickData) -> tuple[Popularity, ...]:
    """Terms for the popularity of items to choose from."""
    found = parse_popularity(options.popularity, has_ages(data))
    return tuple(Popularity(*one) for one in found)


def _open_origin(run: Path, data: ClickData, options: TrainOptions) -> Origin:
    """Read the run to go on from; refuse one of other clicks, or another model, or one that has
    learnt what is held back."""
    model, facts = load_run(run)
    training, path = facts["training"], Path(options.data)
    grew = not is_known(options.data) and (path / MANIFEST).is_file()
    if training.get("content_hash") not in (
        data.content_hash,
        *(earlier_hashes(path) if grew else ()),
    ):
        raise InputError(
            f"Expected the clicks that {run} was trained on, or those with others that joined "
            f"them (`ingest --append`); found another set in {options.data}. Train without --from."
        )
    last, day = training.get("last_day"), training.get("day")
    if last is None and day is not None and not data.parts:
        last = int(day) - 1  # runs of earlier versions say no more
    origin = Origin(model, file_digest(run / WEIGHTS), last)
    _expect_unlearnt(run, data, options, last)
    build_model(data, data.graph, options.model_options(), origin)  # which compares the two
    return origin


def _expect_unlearnt(run: Path, data: ClickData, options: TrainOptions, last: int | None) -> None:
    """Refuse to validate or test by clicks that the run to go on from has learnt."""
    held = _first_held_back(data, options)
    if held is None and not options.validated:
        return
    if data.graph.days is None or data.parts or last is None:
        if data.parts and not options.validated:
            return
        raise InputError(
            f"Expected days that tell which clicks {run} has learnt from; found none. Give "
            f"--epochs or --steps, and --all-days: nothing else can validate or be tested."
        )
    newest = chosen_clicks(data, options).graph.day_range[1] if options.split is None else None
    if newest is not None and options.validated and newest <= last:
        raise InputError(
            f"Expected clicks after day {last}, the last that {run} has learnt from, to validate "
            f"by; found none. Add some (`ingest --append`), or give --epochs or --steps."
        )
    if held is not None and held <= last:
        raise InputError(
            f"Expected what is held back to lie after day {last}, the last that {run} has learnt "
            f"from; found clicks of day {held}. Hold back fewer days, or learn from all of them "
            f"(--all-days)."
        )


def _first_held_back(data: ClickData, options: TrainOptions) -> int | None:
    """The first day of clicks that are for validation or test alone; ``None`` for none.

    Where validation is drawn from the last days, it keeps to later ones by itself.
    """
    if options.split is None:
        return _held_back(data.graph, options)
    if data.graph.days is None:
        return 0
    found = split_clicks(data, SplitRule.parse(options.split))
    part = found.validation if options.validated else found.test
    return int(data.graph.days_of(part.targets).min())


def _last_day(data: ClickData, clicks: ChosenClicks, options: TrainOptions) -> int | None:
    """The last day that is learnt from; ``None`` if clicks have no days."""
    if data.graph.days is None or data.parts:
        return None
    learnt = clicks.graph if clicks.targets is None else clicks.targets
    if options.split is None:
        return learnt.day_range[1]
    return int(data.graph.days_of(learnt).max())  # whose own days are numbers of parts


def _clear(out: Path) -> None:
    """Remove what a finished run needs no more; a kill may have left it."""
    clear_left(out)
    for folder in out.glob(f"{_SHARED}*"):
        shutil.rmtree(folder, ignore_errors=True)  # who has mapped the clicks keeps them


def _refuse_foreign_files(out: Path) -> None:
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    own = (CHECKPOINT, CHOICE, CONFIG, ATTEMPTS, WEIGHTS, HISTORY, RECORD, ".")
    if names and not any(name.startswith(own) for name in names):
        raise InputError(
            f"Expected --out to be a new folder, or one of a run that was cut off; {out} holds "
            f"other files, such as {names[0]}. Choose another."
        )


def train_here(prepared: PreparedRun) -> None:
    """Train in this process; of several ranks, the first writes and prints the run."""
    options, data = prepared.options, prepared.data
    with joined_ranks(use_device(options.device)) as (exchange, device):
        clicks = _rank_clicks(prepared, exchange)
        recalls: dict[str, float] = {}
        if len(options.half_lives) > 1:
            options, recalls = _with_half_life(options, data, clicks)
            prepared = replace(prepared, options=options)
        settings = options.settings()
        fit = _fit_with_progress(prepared, clicks, exchange, device)
        options = replace(options, popularity=str(fit.popularity))
        if exchange.rank > 0:
            return
        source = clicks_source(options.data, options.data_root)
        facts = {
            "data": data.name,
            "content_hash": data.content_hash,
            "day": clicks.day,
            "split": options.split,
            "last_day": _last_day(data, clicks, options),
            **relative_source(source, options.out),
            "targets": options.targets.value,
            "popularity": fit.popularity.facts(),
            **asdict(replace(settings, steps=fit.steps)),
        }
        record = _record(data, clicks, fit, options, device)
        if recalls:
            record["half_life"] = {"chosen": options.half_life, "popular_recall": recalls}
        if fit.popularity_recalls:
            record["popularity"] = {
                "chosen": options.popularity,
                "recall": fit.popularity_recalls,
            }
        if prepared.origin is not None:
            record["from"] = {"run": str(options.from_run), "weights": prepared.origin.digest}
        if exchange.size > 1:
            record |= {"ranks": exchange.size, "attempts": len(read_attempts(options.out))}
        write_whole(options.out / CONFIG, options.to_toml())
        save_run(options.out, fit.model, facts, fit.losses, record)
        _clear(options.out)
        print_run(options.out, options.json)


def _with_half_life(
    options: TrainOptions, data: ClickData, clicks: ChosenClicks
) -> tuple[TrainOptions, dict[str, float]]:
    """Choose among half-lives by validation; returns the recall of each too."""
    stopping = options.stopping(data.graph.num_items)
    assert stopping is not None
    assert clicks.validation is not None
    tried = [days for days in options.half_lives if days is not None]
    found, recalls = choose_half_life(data, clicks.validation, stopping, tried)
    return replace(options, half_life="none" if found is None else f"{found:g}"), recalls


def chosen_clicks(data: ClickData, options: TrainOptions) -> ChosenClicks:
    """Choose the clicks to learn from by ``--day``, ``--all-days`` and ``--targets``."""
    graph, targets = data.graph, options.targets
    last = _held_back(graph, options)
    if options.split is not None:
        found = split_clicks(data, SplitRule.parse(options.split))
        validation = found.validation if options.validated else None
        return ChosenClicks(None, found.test.train, None, validation)
    if last is None:
        if options.day is not None or targets is Targets.last_day:
            raise InputError(
                "Expected clicks with days, and no --all-days, for --day and --targets last-day."
            )
        return ChosenClicks(None, graph, None)
    first, end = graph.day_range
    if last > end:
        raise InputError(
            f"Expected --day from {first + 1} to {end}, the days of the clicks; found {last}. "
            f"Choose another, or hold no day back with --all-days."
        )
    seen = graph.until(last)
    if not seen.num_clicks:
        raise InputError(
            f"Expected clicks before day {last}; found none. Days go from {first} to {end}. "
            f"Choose another --day, or hold back otherwise (--split random:0.1, --all-days)."
        )
    if targets is Targets.same:
        return ChosenClicks(last, seen, None)
    goal = seen.on(seen.day_range[1])
    before = seen.until(seen.day_range[1])
    if not before.num_clicks:
        raise InputError(
            f"Expected clicks on two days before day {last} for --targets last-day; found one."
        )
    return ChosenClicks(last, before, goal)


def _held_back(graph: ClickGraph, options: TrainOptions) -> int | None:
    """The first day that is not learnt from; ``None`` if all are."""
    if graph.days is None or options.all_days or options.split is not None:
        return None
    return graph.day_range[1] if options.day is None else options.day


def _has_validation(data: ClickData, last: int | None) -> bool:
    """True if a part to validate by came with the clicks and is the last that is learnt from."""
    if "valid" not in data.parts or data.graph.days is None:
        return False
    day = data.parts.index("valid")
    return last == day + 1 and bool((data.graph.days == day).any())


def _validation(prepared: PreparedRun, graph: ClickGraph) -> ClickSplit:
    """Divide the clicks to learn from: as they came, by time, or by users."""
    data, options = prepared.data, prepared.options
    if options.hold_out is None:
        return hold_out(graph, day=data.parts.index("valid"))
    after = None if prepared.origin is None else prepared.origin.last_day
    return hold_out(graph, options.hold_out, by_time=not data.parts, after=after)


def _rank_clicks(prepared: PreparedRun, exchange: Exchange) -> ChosenClicks:
    """As :func:`chosen_clicks`, with validation; of several ranks, one makes the clicks and all
    map them."""
    data, options = prepared.data, prepared.options
    if not isinstance(exchange, GroupExchange):
        chosen = chosen_clicks(data, options)
        if not options.validated or chosen.validation is not None:
            return chosen
        return replace(chosen, validation=_validation(prepared, chosen.graph))
    exchange.expect_same("clicks", data.content_hash)
    last = _held_back(data.graph, options)
    name = f"{_SHARED}{data.content_hash[:16]}-{last}-{options.targets.value}"

    def make() -> tuple[ClickGraph, ClickGraph | None]:
        chosen = chosen_clicks(data, options)
        return chosen.graph, chosen.targets

    if last is None:  # as they are, which is mapped already
        chosen = chosen_clicks(data, options)
    else:
        chosen = ChosenClicks(last, *shared_clicks(make, options.out / name, exchange))
    if not options.validated or chosen.validation is not None:
        return chosen

    def divide() -> tuple[ClickGraph, ClickGraph]:
        split = _validation(prepared, chosen.graph)
        return split.train, split.targets

    folder = options.out / f"{name}-{options.hold_out}"
    train, targets = shared_clicks(divide, folder, exchange)
    assert targets is not None
    return replace(chosen, validation=ClickSplit(train, targets, "validation"))


def _fit_with_progress(
    prepared: PreparedRun, clicks: ChosenClicks, exchange: Exchange, device: torch.device
) -> Fit:
    """Train with a line of progress, that of the first rank."""
    options = prepared.options
    checkpoint, choice = options.out / CHECKPOINT, options.out / CHOICE
    if isinstance(exchange, GroupExchange):
        # The second of two trainings has begun where its checkpoint is there.
        note_attempt(options.out, checkpoint if checkpoint.exists() else choice, exchange)
    stopping = options.stopping(prepared.data.graph.num_items)
    quiet = options.quiet or exchange.rank > 0
    # Of several ranks, the process that started them says how to go on.
    with ProgressLine("training", quiet, resumes=exchange.size == 1) as line:
        line.show("making ready")
        best = 0.0

        def look(step: int, loss: float, recall: float) -> None:
            nonlocal best
            best = max(best, recall)
            # How many looks are left, patience decides: no time can be told.
            words = f"step {step}, loss {loss:.4f}, validation {100 * recall:.2f} %"
            line.show(f"{words}, best {100 * best:.2f} %")

        def progress(now: TrainProgress) -> None:
            what = "training" if stopping is None else "training on all clicks"
            words = f"{now.step} of {now.steps} steps, loss {now.loss:.4f}"
            line.show(words, now.step / now.steps, what)

        fitting = Fitting(
            prepared.data,
            options.model_options(),
            options.settings(),
            exchange,
            device,
            choice=choice,
            checkpoint=checkpoint,
            checkpoint_every=options.checkpoint_every,
            look=None if quiet else look,
            progress=None if quiet else progress,
            origin=prepared.origin,
            popularity=_popularities(options, prepared.data),
        )
        if stopping is None or clicks.validation is None:
            return fitting.fixed(clicks.graph, clicks.targets)
        if not options.refit:
            return fitting.validated(clicks.validation, stopping)
        return fitting.refitted(clicks.validation, stopping, clicks.graph)


def _record(
    data: ClickData,
    clicks: ChosenClicks,
    fit: Fit,
    options: TrainOptions,
    device: torch.device,
) -> dict[str, Any]:
    graph, seconds = clicks.graph, sum(fit.seconds.values())
    tail = fit.losses[-max(fit.steps // 10, 1) :]
    steps = fit.steps
    if fit.plateau is not None and "refit" in fit.seconds:
        steps += fit.plateau.steps
    elif fit.plateau is not None:
        steps = fit.plateau.steps
    positives = steps * options.settings().batch_size
    record: dict[str, Any] = {
        "data": data.name,
        "content_hash": data.content_hash,
        "users": graph.num_users,
        "items": graph.num_items,
        "clicks": graph.num_clicks,
        "steps": fit.steps,
        "positives": positives,
        "seconds": seconds,
        "positives_per_second": positives / seconds,
        "loss": float(tail.mean()),
        "fingerprint": fit.fingerprint,
        "environment": environment(device),
    }
    stopping = options.stopping(graph.num_items)
    if fit.plateau is not None and clicks.validation is not None and stopping is not None:
        record["validation"] = {
            "split": clicks.validation.name,
            "clicks": clicks.validation.targets.num_clicks,
            "n": stopping.n,
            **fit.plateau.facts(),
            "popular_recall": popular_recall(clicks.validation, stopping),
            **_popular_by_age(data, clicks.validation, options, stopping),
            "refitted": options.refit,
            "history": fit.plateau.history,
        }
    if device.type == "cuda":
        record["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return record


def _popular_by_age(
    data: ClickData, validation: ClickSplit, options: TrainOptions, stopping: Stopping
) -> dict[str, float]:
    """Recall of popular items whose clicks count by their age, where those of the model do."""
    (half_life,) = options.half_lives
    if half_life is None:
        return {}
    weights = click_weights(data, validation.train, half_life)
    return {"popular_recall_by_age": popular_recall(validation, stopping, weights)}


def print_run(out: Path, json: bool) -> None:
    """Print steps, seconds, loss and validation of a finished run."""
    try:
        record = load_sealed(out / RECORD)
    except ValueError as error:
        raise InputError(
            f"Expected {out / RECORD} as it was written; {error}. Train again, into a new folder."
        ) from None
    if json:
        print(jsonlib.dumps({"run": str(out), **record}))
        return
    found = record.get("validation")
    if found:
        recall, popular = (100 * found[name] for name in ("best_recall", "popular_recall"))
        aged = found.get("popular_recall_by_age")
        words = "" if aged is None else f", by age of clicks {100 * aged:.2f} %"
        print(
            f"validation: Recall@{found['n']} {recall:.2f} % at step {found['best_step']:,}, "
            f"popular items {popular:.2f} %{words} ({found['clicks']:,} clicks held out)"
        )
        if found["stopped"] == "limit":
            print("it ended at the last epoch, not by patience: more may help (--epochs-max)")
    if tried := record.get("half_life"):
        print(f"half-life in days, chosen by lists of popular items: {tried['chosen']}")
    if tried := record.get("popularity"):
        recall = 100 * tried["recall"][tried["chosen"]]
        print(f"weight of popularity, by validation: {tried['chosen']}, Recall {recall:.2f} %")
    if found and _reached(record) <= found["popular_recall"]:
        print(
            "not above popular items on validation, so not worth serving as it is: try another "
            "--model, --lr or --channels"
        )
    again = " on all clicks, after validation," if found and found["refitted"] else ""
    print(
        f"{record['steps']:,} steps{again} in {record['seconds']:.1f} s, loss "
        f"{record['loss']:.4f} over the last tenth"
    )
    print(f"written to {out}")


def _reached(record: dict[str, Any]) -> float:
    """The recall on validation of the model, with the term for popularity that was chosen."""
    tried = record.get("popularity")
    own: float = record["validation"]["best_recall"]
    return max(own, tried["recall"][tried["chosen"]]) if tried else own
