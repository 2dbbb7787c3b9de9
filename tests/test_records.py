"""Records of any kind: written once, read back, and set aside where they are damaged."""

import json
import os
import warnings
from dataclasses import asdict, dataclass
from typing import ClassVar

import pytest

from drgcn.errors import DrgcnWarning, InputError
from drgcn.records import (
    Record,
    dump_facts,
    identity_of,
    load_sealed,
    readable_name,
    set_aside_damaged,
)


@dataclass(frozen=True)
class Note(Record):
    """A kind of record with two facts."""

    kind: ClassVar = "a note"
    format: ClassVar = 1

    name: str
    seeds: dict[str, float]

    @property
    def file_name(self):
        return readable_name([self.name, "seeds", "0"])

    def dumps(self):
        return dump_facts({"format": self.format, **asdict(self)}, by_line="seeds")

    @classmethod
    def from_facts(cls, facts):
        if not facts["seeds"]:
            raise ValueError("it has no seeds")
        return cls(**facts)


NOTE = Note("some + words", {"0": 0.8, "1": 0.9})


def test_a_record_read_back_is_the_record(tmp_path):
    path = NOTE.save(tmp_path / "new")
    assert path.name == "some-words-seeds-0.json"
    assert Note.read_folder(tmp_path / "new") == {path: NOTE}
    assert Note.read_folder(tmp_path / "none") == {}


def test_a_record_is_json_with_one_line_per_seed():
    text = NOTE.dumps()
    assert json.loads(text)["seeds"] == NOTE.seeds
    assert sum(line.startswith('    "') for line in text.splitlines()) == 2


def test_a_record_that_was_changed_is_refused_and_one_without_a_digest_is_read(tmp_path):
    path = NOTE.save(tmp_path)
    text = path.read_text()
    assert Note.loads(text) == Note.loads(NOTE.dumps()) == NOTE
    assert Note.loads(json.dumps(json.loads(text))) == NOTE  # laid out otherwise
    path.write_text(text.replace("0.8", "0.9"))
    with pytest.raises(InputError, match="it was changed since"):
        Note.read(path)


@pytest.mark.timeout(20)
def test_a_pipe_keeps_nobody_waiting(tmp_path):
    path = NOTE.save(tmp_path)
    pipe = tmp_path / "a-seeds-0.json"
    os.mkfifo(pipe)
    with pytest.warns(DrgcnWarning, match="a pipe"):
        assert Note.read_folder(tmp_path) == {path: NOTE}
    with pytest.raises(OSError, match="a pipe"):
        load_sealed(pipe)


@pytest.mark.parametrize("digest", [None, "", 0, False, [], "0" * 64])
def test_a_digest_that_is_there_has_to_be_the_right_one(tmp_path, digest):
    facts = json.loads(NOTE.sealed())
    with pytest.raises(InputError, match="it was changed since"):
        Note.loads(json.dumps(facts | {"sha256": digest}))
    (tmp_path / "facts.json").write_text(json.dumps(facts | {"sha256": digest}))
    with pytest.raises(ValueError, match="it was changed since"):
        load_sealed(tmp_path / "facts.json")


def test_a_record_is_never_overwritten(tmp_path):
    path = NOTE.save(tmp_path)
    before = path.read_text()
    with pytest.raises(InputError, match="never overwritten"):
        Note(NOTE.name, {"0": 0.1}).save(tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == before


DAMAGED = {
    "": "it is empty",
    "{": "it is no whole JSON from line 1 on",
    "[]": "it is not of format 1",
    '{"format": 99}': "it is not of format 1",
    '{"format": 1}': "it has no seeds",
    '{"format": 1, "name": "a", "seeds": {}}': "it has no seeds",
    '{"format": 1, "seeds": 3, "odd": 1}': "Note.__init__() got an unexpected keyword argument",
}


@pytest.mark.parametrize(("text", "reason"), DAMAGED.items())
def test_a_file_that_is_no_record_is_named_and_left_out(text, reason, tmp_path):
    odd = tmp_path / "odd-seeds-0.json"
    odd.write_text(text)
    path = NOTE.save(tmp_path)
    with pytest.warns(DrgcnWarning, match=r"odd-seeds-0\.json") as caught:
        assert Note.read_folder(tmp_path) == {path: NOTE}
    assert len(caught) == 1
    assert odd.read_text() == text
    with pytest.raises(InputError) as refused:
        Note.read(odd)
    assert str(refused.value).startswith(f"Expected a note; {odd} is none ({reason}")
    assert str(refused.value).endswith(". Remove or repair it.")


def test_bytes_and_folders_in_place_of_a_record_are_left_out(tmp_path):
    path = NOTE.save(tmp_path)
    (tmp_path / "a-seeds-0.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b-seeds-0.json").mkdir()
    with pytest.warns(DrgcnWarning, match="cannot be read") as caught:
        assert Note.read_folder(tmp_path) == {path: NOTE}
    assert len(caught) == 2


def test_half_a_record_is_set_aside_with_its_reason(tmp_path):
    whole = NOTE.save(tmp_path)
    path = Note("other", NOTE.seeds).save(tmp_path)
    (tmp_path / "notes.json").write_text("{")  # by its name no record: left alone
    half = path.read_bytes()[:30]
    path.write_bytes(half)
    (line,) = set_aside_damaged(Note, tmp_path)
    aside = tmp_path / "damaged" / path.name
    assert path.name in line
    assert "no whole JSON" in line
    assert "\n" not in line
    assert aside.read_bytes() == half
    assert "no whole JSON" in aside.with_suffix(".reason.txt").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Note.read_folder(tmp_path) == {whole: NOTE}
    assert set_aside_damaged(Note, tmp_path) == []
    assert set_aside_damaged(Note, tmp_path / "nowhere") == []
    assert (tmp_path / "notes.json").read_text() == "{"


def test_the_same_file_may_be_damaged_twice(tmp_path):
    for text in ("", "{", "[]"):
        (tmp_path / NOTE.file_name).write_text(text)
        assert len(Note.damaged(tmp_path)) == 1
        assert len(set_aside_damaged(Note, tmp_path)) == 1
    kept = sorted((tmp_path / "damaged").glob("*.json"))
    assert sorted(p.read_text() for p in kept) == ["", "[]", "{"]


def test_an_identity_is_that_of_the_values_alone():
    assert identity_of([{"a": 1, "b": 2}, "x"]) == identity_of([{"b": 2, "a": 1}, "x"])
    assert identity_of([{"a": 1}]) != identity_of([{"a": 2}])
