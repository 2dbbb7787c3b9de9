"""Several ranks of ``drgcn recommend train``: start them with torchrun or Ray, and run one."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import typer

from drgcn._io import disk_is_full, explain_system_error
from drgcn._processes import die_with_parent
from drgcn.cli.options import INTERRUPTED, use_device, use_folder, use_threads
from drgcn.cli.recommend.train_options import Model, RankOptions, TrainOptions
from drgcn.cli.recommend.train_run import prepare, train_here
from drgcn.errors import DrgcnError, InputError
from drgcn.recommend.distributed.group import read_attempts, saved_step
from drgcn.recommend.distributed.launch import run_on_ray, run_with_torchrun
from drgcn.recommend.model.run_folder import CHECKPOINT, SETTINGS

_REFUSED = ".refused"  # file with the words of a rank that refused its input
_LOOK_EVERY = 5.0  # seconds between looks at the folder of a run on Ray


def launch(options: TrainOptions, ranks: RankOptions) -> None:
    """Start ranks that run the command, and wait until the run is written.

    Args:
        options: Options of the training.
        ranks: Number of ranks, and where they run.

    Raises:
        InputError: If the ranks refused the input, with their words.
        DrgcnError: If they died too often.
    """
    options = options.absolute()
    _expect_divisible(options, ranks.workers)
    refused, new = options.out / _REFUSED, not options.out.exists()
    use_folder(options.out)
    refused.unlink(missing_ok=True)
    try:
        if ranks.ray_address is None:
            failure = _with_torchrun(options, ranks)
        else:
            failure = _on_ray(options, ranks, ranks.ray_address)
    except DrgcnError:
        if not refused.exists():
            raise
        failure = ""
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        raise typer.Exit(130) from None
    refusal = refused.read_text(encoding="utf-8") if refused.exists() else ""
    refused.unlink(missing_ok=True)
    if not is_finished(options.out):
        if new:
            with suppress(OSError):  # there may be a checkpoint
                options.out.rmdir()
        raise InputError(refusal) if refusal else DrgcnError(failure)


def _expect_divisible(options: TrainOptions, workers: int) -> None:
    settings = options.settings()
    drawn = settings.negatives
    if options.model is Model.lightgcn and settings.loss == "bpr":
        drawn = 0  # it draws one negative for each click
    for name, number in (("--batch-size", settings.batch_size), ("--negatives", drawn)):
        if number % workers:
            raise InputError(
                f"Expected {name} divisible by --workers {workers}; found {number}. Choose "
                f"another."
            )


def train_rank(config: dict[str, Any]) -> None:
    """Run one rank; the same on one host and on a cluster.

    What it refuses is written down and no failure: starting it again would not help.

    Args:
        config: :class:`TrainOptions` as plain values.
    """
    options = TrainOptions.from_json(config)
    if is_finished(options.out):  # a rank died when all was done
        return
    try:
        use_threads(options.threads)
        train_here(prepare(options))
    except DrgcnError as error:
        (options.out / _REFUSED).write_text(str(error), encoding="utf-8")
    except Exception as error:  # several libraries write, and say so in their own ways
        if not disk_is_full(error):
            raise
        # There may be room for a line: what did not fit was removed.
        with suppress(OSError):
            (options.out / _REFUSED).write_text(
                explain_system_error(error) or "", encoding="utf-8"
            )
        raise


def is_finished(out: Path) -> bool:
    """True if a run was written to the end."""
    return (out / SETTINGS).exists()


def _with_torchrun(options: TrainOptions, ranks: RankOptions) -> str:
    """Run ranks on this machine; return the error to show if the run is not finished then."""
    device = use_device(options.device)
    if device.type == "cuda" and torch.cuda.device_count() < ranks.workers:
        raise InputError(
            f"Expected a GPU for each of --workers {ranks.workers}; found "
            f"{torch.cuda.device_count()}."
        )
    code = run_with_torchrun(
        "drgcn.cli.recommend.train_ranks",
        [json.dumps(replace(options, device=device.type).to_json())],
        ranks=ranks.workers,
        restarts=ranks.restarts,
        threads=options.threads,
    )
    return (
        f"The ranks failed more than {ranks.restarts} times (torchrun ended with code {code}). "
        "The checkpoint is kept: the same command goes on from it."
    )


def _on_ray(options: TrainOptions, ranks: RankOptions, address: str) -> str:
    """Run ranks on a cluster; return the error to show if the run is not finished then."""
    from drgcn.ray_cluster import RayShare, connect

    cpus = options.threads or 1
    connect(address, cpus * ranks.workers)
    import ray

    shares = {"cuda": RayShare(cpus, 1.0), "cpu": RayShare(cpus, 0.0)}
    device = options.device
    if device == "auto":
        device = "cuda" if shares["cuda"].room(ray.nodes()) >= ranks.workers else "cpu"
    if device not in shares:
        raise InputError(f"Expected --device cpu, cuda or auto on Ray; found {device!r}.")
    room = shares[device].expect_room(ray.nodes(), address)
    if room < ranks.workers:
        raise InputError(
            f"Expected room for --workers {ranks.workers} in the Ray cluster at {address}; found "
            f"it for {room}. Add nodes with `ray start --address`, or choose other --workers, "
            "--threads or --device."
        )
    with ray_progress(options.out):
        run_on_ray(
            train_rank,
            replace(options, device=device, threads=cpus).to_json(),
            ranks=ranks.workers,
            folder=options.out,
            cuda=device == "cuda",
            cpus=cpus,
            restarts=ranks.restarts,
        )
    return "The ranks ended without an error, but the run was not written."


@contextmanager
def ray_progress(out: Path) -> Iterator[None]:
    """Print a line when ranks start, and when a checkpoint has been written.

    The output of ranks stays in Ray's logs on their nodes, but all of them see the run's folder.

    Args:
        out: Folder of the run.
    """
    ended = threading.Event()
    known, saved = len(read_attempts(out)), saved_step(out / CHECKPOINT)

    def watch() -> None:
        nonlocal known, saved
        while not ended.wait(_LOOK_EVERY):
            attempts = read_attempts(out)
            for attempt in attempts[known:]:
                hosts = ", ".join(sorted({rank["host"] for rank in attempt["ranks"]}))
                count = len(attempt["ranks"])
                _print(f"{count} ranks on {hosts} start from step {attempt['step']}")
            known = len(attempts)
            step = saved_step(out / CHECKPOINT)
            if step > saved:
                saved = step
                _print(f"step {step} saved")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":  # what torchrun starts
    die_with_parent(signal.SIGKILL)
    try:
        train_rank(json.loads(sys.argv[1]))
    except typer.Exit as ending:
        sys.exit(ending.exit_code)
    except KeyboardInterrupt:  # the process that started the ranks says how to go on
        sys.exit(130)
