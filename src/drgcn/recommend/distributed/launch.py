"""Start and restart ranks with torchrun on one host or Ray Train on a cluster."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drgcn._processes import available_cores, die_with_parent
from drgcn.errors import DrgcnError, InputError, how_to_install

# After a restart, ranks must not meet in the store of the attempt before: gloo would read the
# address of a dead process there and give up ("Connection refused").
RESTART_SETTING = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def torchrun_command(
    module: str, arguments: Sequence[str], ranks: int, restarts: int
) -> list[str]:
    """The command that starts so many processes of a module on this machine.

    Args:
        module: What is run, as with ``python -m``.
        arguments: Its arguments.
        ranks: How many processes.
        restarts: How often all of them are started again if one dies.
    """
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr=127.0.0.1",
        f"--nproc-per-node={ranks}",
        f"--max-restarts={restarts}",
        "-m",
        module,
        *arguments,
    ]


def torchrun_environment(ranks: int, threads: int | None = None) -> dict[str, str]:
    """The variables for it: those of this process, and what restarts and threads need.

    Args:
        ranks: How many processes share the machine.
        threads: CPU threads of each. (default: its share of the cores)
    """
    found = {**os.environ, **RESTART_SETTING}
    share = max(available_cores() // ranks, 1)
    if threads is not None or "OMP_NUM_THREADS" not in found:
        found["OMP_NUM_THREADS"] = str(threads or share)
    if sys.platform == "linux":
        found.setdefault("GLOO_SOCKET_IFNAME", "lo")  # host names need not resolve
    return found


def run_with_torchrun(
    module: str,
    arguments: Sequence[str],
    *,
    ranks: int,
    restarts: int = 3,
    threads: int | None = None,
    extra: Mapping[str, str] | None = None,
) -> int:
    """Run a module on so many ranks of this machine, and wait; return torchrun's exit code.

    If a rank dies, all are started again; they go on from the last checkpoint.

    Args:
        module: What is run, as with ``python -m``.
        arguments: Its arguments.
        ranks: How many processes.
        restarts: How often they may be started again.
        threads: CPU threads of each. (default: its share of the cores)
        extra: Further variables.
    """
    command = torchrun_command(module, arguments, ranks, restarts)
    environment = torchrun_environment(ranks, threads) | dict(extra or {})
    # The function runs between fork and exec; this process has one thread that matters, this one.
    with subprocess.Popen(command, env=environment, preexec_fn=die_with_parent) as process:
        try:
            return process.wait()
        except BaseException:  # Ctrl-C reaches torchrun as well, which then ends its ranks
            process.terminate()
            process.wait()
            raise


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
    """Run a function on so many ranks of the cluster this process is connected to, and wait.

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
