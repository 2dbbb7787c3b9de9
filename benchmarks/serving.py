"""How fast does the endpoint answer, and what do many clients cost it?

An export of random clicks and an untrained LightGCN is served by a process of its own, and asked
for lists of 50 items without the seen ones, one user a request: by a few connections, by many,
and by many beside a crowd that is connected and silent. Then some ask for the largest answers
that are allowed. One row for each; every request waits for the answer to the one before it on
its connection, and client and server share the machine.

    python benchmarks/serving.py
    python benchmarks/serving.py --requests 500 --items 5000    # a trial
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from measuring import write_csv

from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.model import ModelOptions, build_model
from drgcn.recommend.serving import ExportSettings, LoadedRun, export

_USERS = 20_000
_CLICKS = 20  # of a user, on average
_KIND = torch.device("cpu")
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Load:
    """What clients ask for.

    Attributes:
        connections: Connections that ask.
        requests: Requests on all of them together.
        idle: Connections that are silent.
        users: Users of a request.
        n: Length of a list.
    """

    connections: int
    requests: int
    idle: int = 0
    users: int = 1
    n: int = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--idle", type=int, default=2000, help="connections that are silent")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    loads = (
        Load(8, args.requests),
        Load(64, args.requests),
        Load(64, args.requests, idle=args.idle),
        Load(16, max(16, args.requests // 50), users=256, n=500),
    )
    with tempfile.TemporaryDirectory() as folder:
        write_export(Path(folder) / "export", args.items)
        rows = []
        for load in loads:
            rows.append({"items": args.items, **measured(Path(folder) / "export", load)})
            print(rows[-1], flush=True)
    write_csv("serving", rows, _KIND, args.out)


def write_export(folder: Path, items: int) -> None:
    """An export of random clicks, some items far more popular than others."""
    generator = torch.Generator().manual_seed(0)
    user = torch.randint(_USERS, (_CLICKS * _USERS,), generator=generator)
    item = (torch.rand(user.numel(), generator=generator) ** 2 * items).long()
    data = ClickData(ClickGraph.from_pairs(user, item, _USERS, items), name="random")
    model = build_model(data, data.graph, ModelOptions(model="lightgcn"))
    export(LoadedRun(model, {}, data), folder, ExportSettings(queries=100))


def measured(folder: Path, load: Load) -> dict[str, object]:
    """The row of a load, with a server of its own."""
    command = [sys.executable, "-c", "from drgcn.cli import main; main()"]
    command += ["recommend", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"http://127.0.0.1:(\d+)", server.stdout.readline())
        assert found is not None
        start = memory(server.pid, "VmRSS")
        done = asyncio.run(ask_all(int(found[1]), server.pid, load))
        end, peak = memory(server.pid, "VmRSS"), memory(server.pid, "VmHWM")
    finally:
        server.terminate()
        code = server.wait()
    p50, p99 = (torch.tensor(done.times).quantile(torch.tensor([0.5, 0.99])) * 1000).tolist()
    statuses = done.statuses
    failed = sum(count for status, count in statuses.items() if status >= 500 and status != 503)
    return {
        **asdict(load),
        "p50_ms": f"{p50:.2f}",
        "p99_ms": f"{p99:.2f}",
        "per_second": f"{load.requests / done.seconds:.0f}",
        "cpu_ms": f"{1000 * done.cpu_seconds / load.requests:.2f}",
        "status_200": statuses[200],
        "status_503": statuses[503],
        "other_5xx": failed,
        "idle_left": done.idle,
        "start_mib": f"{start:.0f}",
        "peak_mib": f"{peak:.0f}",
        "end_mib": f"{end:.0f}",
        "exit_code": code,
    }


def memory(process: int, name: str) -> float:
    """MiB that a process holds, or has held at most."""
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 2**10


def cpu_seconds(process: int) -> float:
    """Seconds that a process has computed for."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Done:
    """What came of a load, without the requests that warm up.

    Attributes:
        times: Seconds of each request.
        statuses: Answers by status.
        seconds: From the first request to the last answer.
        cpu_seconds: Seconds that the server computed for meanwhile.
        idle: Silent connections that are still there.
    """

    times: list[float]
    statuses: Counter[int]
    seconds: float
    cpu_seconds: float
    idle: int


async def ask_all(port: int, server: int, load: Load) -> Done:
    """Send the requests of a load, and read their answers."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(load.idle)]
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(load.connections)]
    times: list[float] = []
    statuses: Counter[int] = Counter()
    generator = torch.Generator().manual_seed(1)

    async def ask(line: Line, share: int) -> None:
        for _ in range(share):
            users = torch.randint(_USERS, (load.users,), generator=generator).tolist()
            begin = time.perf_counter()
            status = await answer(line, users, load.n)
            times.append(time.perf_counter() - begin)
            statuses[status] += 1

    async def share_out(number: int) -> None:
        shares = [(number + place) // len(lines) for place in range(len(lines))]
        await asyncio.gather(*map(ask, lines, shares))

    await share_out(max(len(lines), load.requests // 50))  # warms up
    times.clear()
    statuses.clear()
    begin, busy = time.perf_counter(), cpu_seconds(server)
    await share_out(load.requests)
    seconds, busy = time.perf_counter() - begin, cpu_seconds(server) - busy
    left = sum(not reader.at_eof() for reader, _ in silent)
    for _, writer in (*silent, *lines):
        writer.close()
    return Done(times, statuses, seconds, busy, left)


async def answer(line: Line, users: list[int], n: int) -> int:
    """The status of one request, whose answer is read to its end."""
    body = json.dumps({"users": users, "n": n, "exclude_seen": True}).encode()
    line[1].write(
        b"POST /recommend HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(body), body)
    )
    head = await line[0].readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    await line[0].readexactly(int(length[1]))
    return int(head.split(b" ", 2)[1])


if __name__ == "__main__":
    main()
