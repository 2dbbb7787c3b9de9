"""The command line: a file for each verb or two, and nothing heavy imported before a verb runs."""

# Until main begins, Ctrl-C ends in Python's own traceback: imported here is what takes no time.
import os
import signal
import sys

TYPE_CHECKING = False  # the module typing takes longer than all of these
if TYPE_CHECKING:
    from types import FrameType

_SOON = 0.02  # seconds


def main() -> None:
    """Run the command line and end: bad input in one sentence and exit code 2, Ctrl-C in 130."""
    interruption = _Interruption()
    try:
        from drgcn.cli import verbs

        verbs.run()
    except (Exception, KeyboardInterrupt) as error:
        interruption.over()
        from drgcn.errors import was_interrupted

        if interruption.came or was_interrupted(error):
            print("interrupted", file=sys.stderr)
            # Python keeps in mind an interruption that went through an eval, and would end by the
            # signal after all; it forgets it at the next.
            eval("0")
            sys.exit(130)
        verbs.end(error)
    finally:
        interruption.over()


class _Interruption:
    """Ctrl-C, in the command line alone.

    Imports are not stopped in their middle: libraries in C answer that with a traceback, with an
    abort, or by going on. What fails after Ctrl-C fails because of it, whatever it says. When the
    verb is over it ends the process at once: Python, which is ending, would do so aloud.

    Attributes:
        came: Whether it was pressed.
    """

    def __init__(self) -> None:
        self.came = self._over = False
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # in the background of a shell
            signal.signal(signal.SIGINT, self._stop)

    def over(self) -> None:
        """End the process at once from now on."""
        self._over = True
        if self.came:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop(self, _: int, frame: "FrameType | None") -> None:
        self.came = True
        if self._over:
            os.write(2, b"interrupted\n")
            os._exit(130)
        while frame is not None and frame.f_code is not main.__code__:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
                signal.signal(signal.SIGALRM, self._stop)
                signal.setitimer(signal.ITIMER_REAL, _SOON)
                return
            frame = frame.f_back
        raise KeyboardInterrupt
