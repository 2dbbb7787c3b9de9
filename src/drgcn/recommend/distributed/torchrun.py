"""Ranks on one host, started and started again by torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from drgcn.recommend.distributed.parent_death import die_with_parent

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
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--local-addr", "127.0.0.1", f"--nproc-per-node={ranks}"),
        *(f"--max-restarts={restarts}", "-m", module, *arguments),
    ]


def torchrun_environment(ranks: int, threads: int | None = None) -> dict[str, str]:
    """The variables for it: those of this process, and what restarts and threads need.

    Args:
        ranks: How many processes share the machine.
        threads: CPU threads of each. (default: its share of the cores)
    """
    found = {**os.environ, **RESTART_SETTING}
    share = max(len(os.sched_getaffinity(0)) // ranks, 1) if _is_linux() else 1
    if threads is not None or "OMP_NUM_THREADS" not in found:
        found["OMP_NUM_THREADS"] = str(threads or share)
    if _is_linux():
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
    """Runs a module on so many ranks of this machine, and waits; returns torchrun's exit code.

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


def _is_linux() -> bool:
    return sys.platform == "linux"
