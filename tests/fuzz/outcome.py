"""What a reader made of a file: sound data, a refusal in a sentence, or a defect."""

from __future__ import annotations

import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

from drgcn.errors import DrgcnError, DrgcnWarning

#: Seconds of work within which any small file must be read or refused.
PATIENCE = 10
# Seconds of the clock, for what waits; a machine may be busy with other things.
_LATEST = 8 * PATIENCE


class HangError(BaseException):
    """Raised in a reader that takes too long; no ``except Exception`` catches it."""


@dataclass(frozen=True)
class Outcome:
    """Result of one input; ``words`` are those of the refusal or of the traceback."""

    kind: Literal["accepted", "refused", "unsound", "traceback", "hang"]
    words: str = ""

    @property
    def defect(self) -> bool:
        return self.kind not in ("accepted", "refused")


def outcome_of(read: Callable[[], Any], check: Callable[[Any], None]) -> Outcome:
    """Call a reader, and check what it returns."""
    try:
        with _patience(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DrgcnWarning)
            # torch prints these once per process.
            warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
            found = read()
    except DrgcnError as refusal:
        sentence = str(refusal)
        single = len(sentence) < 2_000 and "\n" not in sentence.strip()
        return Outcome("refused" if single else "unsound", sentence)
    except HangError:
        return Outcome("hang", traceback.format_exc(limit=-3))
    except Exception:
        return Outcome("traceback", traceback.format_exc())
    try:
        check(found)
    except AssertionError:
        return Outcome("unsound", traceback.format_exc())
    return Outcome("accepted")


@contextmanager
def _patience() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise HangError

    numbers = (signal.SIGALRM, signal.SIGPROF)
    before = [signal.signal(number, stop) for number in numbers]
    signal.setitimer(signal.ITIMER_REAL, _LATEST)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def check_graph(data: Any) -> None:
    """Check that a graph is one: finite features, edges and masks within it, labels known."""
    nodes, classes = data.num_nodes, data.dataset.classes
    values = data.x if data.x.layout == torch.strided else data.x.values()
    assert nodes == len(data.x) == len(data.y) == data.dataset.nodes
    assert bool(values.isfinite().all())
    assert data.edge_index.dtype == torch.long
    assert data.edge_index.shape[0] == 2
    assert not data.edge_index.numel() or int(data.edge_index.min()) >= 0
    assert not data.edge_index.numel() or int(data.edge_index.max()) < nodes
    assert len(data.dataset.class_names) == classes
    assert all(isinstance(name, str) for name in data.dataset.class_names)
    if data.y.dim() == 1:
        assert -1 <= int(data.y.min()) <= int(data.y.max()) < classes
    parts = [data.train_mask, data.val_mask, data.test_mask]
    assert all(mask.dtype == torch.bool and mask.shape == (nodes,) for mask in parts)
    assert int(sum(mask.long() for mask in parts).max()) <= 1
    if data.y.dim() == 1:
        assert all(bool((data.y[mask] >= 0).all()) for mask in parts)
