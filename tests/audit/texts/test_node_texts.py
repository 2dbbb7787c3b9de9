from __future__ import annotations

import json
from pathlib import Path

import pytest

from drgcn.audit.texts import NodeTexts
from drgcn.errors import InputError, MissingDataError


def test_texts_come_in_node_order_with_their_kinds(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        {"index": 1, "text": "b\u2028c", "kind": "title", "more": 3},
        {"index": 0, "text": "", "kind": "abstract"},
        {"index": 2, "text": "d", "kind": "title"},
    ]
    dumped = (json.dumps(line, ensure_ascii=False) for line in lines)
    path.write_text("\n".join(dumped) + "\n\n", encoding="utf-8")
    nodes = NodeTexts.read(path)
    assert nodes.texts == ("", "b\u2028c", "d")
    assert nodes.kinds == {"title": 2, "abstract": 1}


def test_kinds_are_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"index": 0, "text": "a"}')
    assert NodeTexts.read(path).kinds == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"{", "line 1: expected a JSON object"),
        (b'{"index": 0, "text": "\xff"}', "line 1: expected a JSON object"),
        (b"[0]", "line 1: expected a JSON object, found a list"),
        (b'{"text": "a"}', 'line 1: expected "index"'),
        (b'{"index": true, "text": "a"}', 'line 1: expected "index".*True'),
        (b'{"index": -1, "text": "a"}', 'line 1: expected "index".*-1'),
        (b'{"index": 0}', 'line 1: expected "text" to be a string, found None'),
        (b'{"index": 0, "text": "a"}\n' * 2, "line 2: node 0 has a text already"),
        (b'{"index": 0, "text": "a"}\n{"index": 2, "text": "b"}', "node 1 is not there"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        NodeTexts.read(path)


def test_missing_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        NodeTexts.read(tmp_path / "none.jsonl")
    with pytest.raises(MissingDataError, match=r"refined.cora_text\.jsonl.*--text"):
        NodeTexts.of_dataset(tmp_path, "Cora")
