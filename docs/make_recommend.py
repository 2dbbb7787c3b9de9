"""Runs the commands of docs/recommend.md in order and writes what they print into the page.

python docs/make_recommend.py            # a few minutes
python docs/make_recommend.py --folder X # in folder X; outputs kept there are not made again

A command that serves is started, and ended after the last block.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent / "recommend.md"
BLOCK = re.compile(
    r"```sh\n(?P<command>[^`]*)```\n\n<!-- output -->\n.*?<!-- /output -->", re.DOTALL
)
SERVE = re.compile(r"```sh\n(drgcn recommend serve [^`]*)```")
OUTPUTS = "outputs"


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Standard output of a command, in bash."""
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Fills the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args().folder
    folder = (asked or Path(tempfile.mkdtemp())).resolve()
    (folder / OUTPUTS).mkdir(parents=True, exist_ok=True)
    programs = Path(sys.executable).parent
    environment = {**os.environ, "COLUMNS": "100", "PATH": f"{programs}:{os.environ['PATH']}"}
    text = PAGE.read_text(encoding="utf-8")
    serving = SERVE.search(text)
    server: subprocess.Popen[str] | None = None
    pieces, end = [], 0
    try:
        for number, block in enumerate(BLOCK.finditer(text)):
            if serving and server is None and block.start() > serving.start():
                words = serving[1].split()
                server = subprocess.Popen(
                    words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
                )
                assert server.stdout is not None
                server.stdout.readline()  # says that it is ready
            kept = folder / OUTPUTS / f"{number}.txt"
            if not kept.exists():
                kept.write_text(run(block["command"], folder, environment), encoding="utf-8")
            output = kept.read_text(encoding="utf-8").rstrip()
            shown = f"```sh\n{block['command']}```\n\n<!-- output -->\n"
            pieces.append(text[end : block.start()] + shown)
            pieces.append(f"```\n{output}\n```\n<!-- /output -->")
            end = block.end()
    finally:
        if server is not None:
            server.terminate()
            server.wait()
    PAGE.write_text("".join([*pieces, text[end:]]), encoding="utf-8")


if __name__ == "__main__":
    main()
