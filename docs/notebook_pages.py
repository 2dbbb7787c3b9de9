"""Pages of the notebooks: run, with their pictures and what they print."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode


def make_pages(folder: Path) -> None:
    """Run each notebook of a folder and write its page beside it, unless it is there already."""
    for source in sorted(folder.glob("*.py")):
        digest = f"% {hashlib.sha256(source.read_bytes()).hexdigest()}\n"
        page = source.with_suffix(".md")
        if page.is_file() and page.read_text(encoding="utf-8").startswith(digest):
            continue
        notebook = jupytext.read(source)
        NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(folder))
        blocks = [block for cell in notebook.cells for block in _blocks(cell, source)]
        link = f"[Open it in Jupyter]({source.stem}.ipynb)"
        page.write_text(digest + "\n\n".join([blocks[0], link, *blocks[1:]]) + "\n", "utf-8")


def _blocks(cell: NotebookNode, source: Path) -> list[str]:
    """Return a cell as Markdown: its pictures, written beside the source and told by its ``alt``,
    code, and output."""
    if cell.cell_type == "markdown":
        return [cell.source]
    blocks = [f"```python\n{cell.source}\n```"]
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/png" in data:
            picture = base64.b64decode(data["image/png"])
            name = f"{source.stem}-{hashlib.sha256(picture).hexdigest()[:8]}.png"
            source.with_name(name).write_bytes(picture)
            blocks.insert(0, f"![{cell.metadata['alt']}]({name})")
        elif output.get("name") == "stderr":  # of the notebook's own machinery
            continue
        elif text := output.get("text", data.get("text/plain")):
            blocks.append(f"```text\n{text.rstrip()}\n```")
    return blocks
