"""The command line: a file for each verb or two, and nothing heavy imported before a verb runs."""

# Until main begins, Ctrl-C ends in Python's own traceback: imported here is what takes no time.
import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # the module typing takes longer than all of these
if TYPE_CHECKING:
    from types import FrameType

_SOON = 0.02  # seconds


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2, Ctrl-C in 130."""
    interruption = _Interruption()
    try:
        interruption.awaited()
        from drgcn.cli import verbs

        verbs.run()
    except (Exception, KeyboardInterrupt) as error:
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
    abort, or by going on. What fails after Ctrl-C fails because of it, whatever it says.

    Attributes:
        came: Whether it was pressed.
    """

    def __init__(self) -> None:
        self.came = False
        self._before = signal.getsignal(signal.SIGINT)

    def awaited(self) -> None:
        """Answer to Ctrl-C from now on, unless it is ignored, as in the background of a shell."""
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._stop)

    def over(self) -> None:
        """Leave Ctrl-C as it was before, until Python itself ends, which it would do aloud."""
        if self.came:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._before)
            atexit.register(signal.signal, signal.SIGINT, _end_at_once)

    def _stop(self, _: int, frame: "FrameType | None") -> None:
        self.came = True
        while frame is not None and frame.f_code is not main.__code__:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
                signal.signal(signal.SIGALRM, self._stop)
                signal.setitimer(signal.ITIMER_REAL, _SOON)
                return
            frame = frame.f_back
        raise KeyboardInterrupt


def _end_at_once(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)
