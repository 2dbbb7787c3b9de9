"""``drgcn recommend train`` on several ranks: what starts them, and what each of them does."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from drgcn._io import explain_system_error
from drgcn.cli.options import Gate
from drgcn.cli.recommend.train_inputs import Model, Targets
from drgcn.errors import DrgcnError, InputError
from drgcn.parent_death import die_with_parent
from drgcn.recommend.distributed.run_state import read_attempts, saved_step
from drgcn.recommend.model.run_folder import CHECKPOINT

if TYPE_CHECKING:
    from drgcn.recommend.model.objectives import TrainSettings


_REFUSED = ".refused"
_OWN = ("workers", "ray_address", "restarts")
_KINDS = {"folder": Path, "out": Path, "model": Model, "gate": Gate, "targets": Targets}


def launch(asked: Mapping[str, Any], settings: TrainSettings) -> None:
    """Starts ranks that run the command, and waits until the run is written.

    Args:
        asked: All options of the command by name.
        settings: What they come to.

    Raises:
        InputError: If the ranks refused the input, with their words.
        DrgcnError: If they died too often.
    """
    ranks, address, restarts = (asked[name] for name in _OWN)
    out = Path(asked["out"]).absolute()
    # LightGCN draws one negative for each click if its loss is BPR.
    drawn = settings.negatives if (asked["model"], settings.loss) != ("lightgcn", "bpr") else 0
    for name, number in (("--batch-size", settings.batch_size), ("--negatives", drawn)):
        if number % ranks:
            raise InputError(
                f"Expected {name} divisible by --workers {ranks}; found {number}. Choose another."
            )
    config = {name: value for name, value in asked.items() if name not in _OWN}
    config |= {"folder": Path(asked["folder"]).absolute(), "out": out}
    refused = out / _REFUSED
    refused.unlink(missing_ok=True)
    try:
        if address is None:
            words = _with_torchrun(config, ranks, restarts)
        else:
            words = _on_ray(config, ranks, restarts, address)
    except DrgcnError:
        if not refused.exists():
            raise
        words = ""
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        raise typer.Exit(130) from None
    said = refused.read_text(encoding="utf-8") if refused.exists() else ""
    refused.unlink(missing_ok=True)
    if not is_finished(out):
        raise InputError(said) if said else DrgcnError(words)


def train_rank(config: dict[str, Any]) -> None:
    """One rank of a run; the same on one host and on a cluster.

    What it refuses is written down and no failure: starting it again would not help.

    Args:
        config: The options of ``drgcn recommend train`` as plain values.
    """
    from drgcn._io import disk_is_full
    from drgcn.cli.recommend.train import train

    options = {name: _KINDS.get(name, _same)(value) for name, value in config.items()}
    out = options["out"]
    if is_finished(out):  # a rank died when all was done
        return
    try:
        train(**options, workers=1, ray_address=None, restarts=0)
    except DrgcnError as error:
        (out / _REFUSED).write_text(str(error), encoding="utf-8")
    except Exception as error:
        if not disk_is_full(error):
            raise
        # There may be room for a line: what did not fit was removed.
        with suppress(OSError):
            (out / _REFUSED).write_text(explain_system_error(error) or "", encoding="utf-8")
        raise


def is_finished(out: Path) -> bool:
    """Whether a run was written to the end."""
    from drgcn.recommend.model.run_folder import SETTINGS

    return (out / SETTINGS).exists()


def _with_torchrun(config: Mapping[str, Any], ranks: int, restarts: int) -> str:
    """Runs ranks on this machine; returns what to say if the run is not finished then."""
    import torch

    from drgcn.cli.options import use_device
    from drgcn.recommend.distributed.launch import run_with_torchrun

    device = use_device(config["device"])
    if device.type == "cuda" and torch.cuda.device_count() < ranks:
        raise InputError(
            f"Expected a GPU for each of --workers {ranks}; found {torch.cuda.device_count()}."
        )
    plain = json.dumps({**config, "device": device.type}, default=str)
    code = run_with_torchrun(
        "drgcn.cli.recommend.train_ranks",
        [plain],
        ranks=ranks,
        restarts=restarts,
        threads=config["threads"],
    )
    return (
        f"The ranks failed more than {restarts} times (torchrun ended with code {code}). The "
        "checkpoint is kept: the same command goes on from it."
    )


def _on_ray(config: Mapping[str, Any], ranks: int, restarts: int, address: str) -> str:
    """The same on a cluster."""
    from drgcn.ray_cluster import RayShare, connect
    from drgcn.recommend.distributed.launch import run_on_ray

    cpus = config["threads"] or 1
    connect(address, cpus * ranks)
    import ray

    shares = {"cuda": RayShare(cpus, 1.0), "cpu": RayShare(cpus, 0.0)}
    device = config["device"]
    if device == "auto":
        device = "cuda" if shares["cuda"].room(ray.nodes()) >= ranks else "cpu"
    if device not in shares:
        raise InputError(f"Expected --device cpu, cuda or auto on Ray; found {device!r}.")
    room = shares[device].expect_room(ray.nodes(), address)
    if room < ranks:
        raise InputError(
            f"Expected room for --workers {ranks} in the Ray cluster at {address}; found it for "
            f"{room}. Add nodes with `ray start --address`, or choose other --workers, --threads "
            "or --device."
        )
    plain = json.loads(json.dumps({**config, "device": device, "threads": cpus}, default=str))
    with RayProgress(Path(config["out"])):
        run_on_ray(
            train_rank,
            plain,
            ranks=ranks,
            folder=Path(config["out"]),
            cuda=device == "cuda",
            cpus=cpus,
            restarts=restarts,
        )
    return "The ranks ended without an error, but the run was not written."


def _same(value: Any) -> Any:
    return value


if __name__ == "__main__":  # what torchrun starts
    die_with_parent(signal.SIGKILL)
    try:
        train_rank(json.loads(sys.argv[1]))
    except typer.Exit as ending:
        sys.exit(ending.exit_code)


_LOOK_EVERY = 5.0


class RayProgress:
    """Prints a line when ranks start, and when a checkpoint has been written.

    What ranks print stays in Ray's logs on their nodes, but all of them see the run's folder.

    Args:
        out: Folder of the run.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.attempts = len(read_attempts(out))
        self.step = saved_step(out / CHECKPOINT)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> RayProgress:
        self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.ended.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.ended.wait(_LOOK_EVERY):
            attempts = read_attempts(self.out)
            for attempt in attempts[self.attempts :]:
                hosts = ", ".join(sorted({rank["host"] for rank in attempt["ranks"]}))
                count = len(attempt["ranks"])
                _say(f"{count} ranks on {hosts} start from step {attempt['step']}")
            self.attempts = len(attempts)
            step = saved_step(self.out / CHECKPOINT)
            if step > self.step:
                self.step = step
                _say(f"step {step} saved")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
