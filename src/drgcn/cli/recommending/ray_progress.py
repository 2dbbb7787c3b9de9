"""How a run on a cluster stands, told by the files it leaves."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import TracebackType

from drgcn.recommend.distributed.run_state import read_attempts, saved_step
from drgcn.recommend.model.run_folder import CHECKPOINT

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
