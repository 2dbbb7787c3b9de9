"""Counts of requests and their times, in the text form that Prometheus reads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestMeter:
    """Counts, for each path of a fixed list, requests by status and the time they took.

    Args:
        paths: Paths counted by name; any other path counts as ``other``, so that nobody can fill
            memory with names.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = frozenset(paths)
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds: dict[str, float] = {}
        self._lists = 0

    def count(self, path: str, status: int, seconds: float) -> None:
        """Takes note of one answer."""
        path = path if path in self.paths else "other"
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] = self._seconds.get(path, 0.0) + seconds
            for limit in SECONDS:
                if seconds <= limit:
                    self._buckets[path, limit] += 1

    def count_lists(self, number: int) -> None:
        """Takes note of lists that were given."""
        with self._lock:
            self._lists += number

    def text(self) -> str:
        """All counts."""
        with self._lock:
            return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield "# HELP drgcn_requests_total Requests answered, by path and status."
        yield "# TYPE drgcn_requests_total counter"
        for (path, status), number in sorted(self._requests.items()):
            yield f'drgcn_requests_total{{path="{path}",status="{status}"}} {number}'
        for name, words, low, high in (
            ("refused", "Requests refused as bad (4xx).", 400, 500),
            ("errors", "Requests that failed on our side (5xx).", 500, 600),
        ):
            number = sum(n for (_, status), n in self._requests.items() if low <= status < high)
            yield f"# HELP drgcn_{name}_total {words}"
            yield f"# TYPE drgcn_{name}_total counter"
            yield f"drgcn_{name}_total {number}"
        yield "# HELP drgcn_lists_total Lists of items given."
        yield "# TYPE drgcn_lists_total counter"
        yield f"drgcn_lists_total {self._lists}"
        yield "# HELP drgcn_request_seconds Time from request to answer."
        yield "# TYPE drgcn_request_seconds histogram"
        for path, total in sorted(self._seconds.items()):
            count = sum(n for (where, _), n in self._requests.items() if where == path)
            for limit in SECONDS:
                number = self._buckets[path, limit]
                yield f'drgcn_request_seconds_bucket{{path="{path}",le="{limit}"}} {number}'
            yield f'drgcn_request_seconds_bucket{{path="{path}",le="+Inf"}} {count}'
            yield f'drgcn_request_seconds_sum{{path="{path}"}} {total:.6f}'
            yield f'drgcn_request_seconds_count{{path="{path}"}} {count}'
