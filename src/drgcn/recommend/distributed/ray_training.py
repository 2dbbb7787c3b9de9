"""Ranks on a Ray cluster, started and started again by Ray Train."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drgcn.errors import DrgcnError, InputError, how_to_install


def run_on_ray(
    function: Callable[[dict[str, Any]], None],
    config: dict[str, Any],
    *,
    ranks: int,
    folder: Path,
    cuda: bool = False,
    cpus: int = 1,
    restarts: int = 3,
) -> None:
    """Runs a function on so many ranks of the cluster this process is connected to, and waits.

    If a process or a node dies, Ray ends the other ranks, places all of them anew on what is
    left, and starts again. Checkpoints are ours, not Ray's: those are uploaded in the background,
    and a failure would cost up to two intervals between them.

    Args:
        function: What each rank runs. The process group is there when it is called.
        config: Its argument, plain values.
        ranks: How many processes; never fewer, for results depend on it in the last bits.
        folder: A folder that all nodes see. Ray refuses to run if one does not.
        cuda: Whether each rank takes a GPU, and speaks NCCL.
        cpus: CPUs of each rank.
        restarts: How often ranks may be started again.

    Raises:
        InputError: If Ray Train is not installed.
        DrgcnError: If ranks died more often than that.
    """
    try:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
        from ray.train.v2.api.exceptions import TrainingFailedError
    except ImportError as error:
        raise InputError(
            f"Expected Ray Train 2.60; it cannot be imported ({error}). On every machine of the "
            f"cluster: {how_to_install('cluster')}"
        ) from None
    resources = {"CPU": cpus, "GPU": 1} if cuda else {"CPU": cpus}
    # A name of its own for every launch: Ray would take up its own notes of an earlier one.
    storage, name = folder.absolute() / ".ray", f"launch-{secrets.token_hex(4)}"
    trainer = TorchTrainer(
        function,
        train_loop_config=config,
        scaling_config=ScalingConfig(
            num_workers=ranks, use_gpu=cuda, resources_per_worker=resources
        ),
        run_config=RunConfig(
            name=name,
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=restarts),
        ),
        torch_config=TorchConfig(backend="nccl" if cuda else "gloo"),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise DrgcnError(
            f"The ranks failed more than {restarts} times, last with: {lines[-1].strip()}. "
            "The checkpoint is kept: the same command goes on from it."
        ) from error
    finally:
        shutil.rmtree(storage, ignore_errors=True)
