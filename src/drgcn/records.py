"""Records of results: one JSON file each, written once and never changed; where they were made."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import platform
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from drgcn._io import plain_file, write_once, write_whole
from drgcn._version import __version__
from drgcn.errors import InputError, warn

if TYPE_CHECKING:
    import torch


_DIGEST = "sha256"


class Record(ABC):
    """A result with all that is needed to judge and repeat it, as one JSON file.

    A subclass is a frozen dataclass with the facts of its kind. It says how they are named,
    dumped and checked; reading, writing and the handling of damaged files are the same for all.

    Attributes:
        kind: The record in words, for messages: ``"a run record"``.
        format: What the entry ``format`` of its files says.
        pattern: Pattern of its files' names.
    """

    kind: ClassVar[str]
    format: ClassVar[str | int]
    pattern: ClassVar[str] = "*-seeds-*.json"

    @property
    @abstractmethod
    def file_name(self) -> str:
        """Name of its file: readable, and unique to what was run."""

    @abstractmethod
    def dumps(self) -> str:
        """Return the record as JSON."""

    @classmethod
    @abstractmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Return the record with the facts of a file.

        Raises:
            ValueError, TypeError, KeyError, AttributeError, ArithmeticError: If they are not
                those of a record.
        """

    @classmethod
    def loads(cls, text: str, source: str = "this text") -> Self:
        """Read what :meth:`dumps` or :meth:`sealed` returned."""
        try:
            facts = json.loads(text, object_pairs_hook=without_repetition)
            if not isinstance(facts, dict) or facts.get("format") != cls.format:
                raise ValueError(f"it is not of format {cls.format}")
            facts = unsealed(facts)
            del facts["format"]
            return cls.from_facts(facts)
        except (*UNSOUND, InputError) as error:
            raise InputError(
                f"Expected {cls.kind}; {source} is none ({reason_of(error, text)}). Remove or "
                f"repair it."
            ) from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the record in a file."""
        try:
            text = plain_file(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"Expected {cls.kind}; {path} cannot be read ({error}). Remove or repair it."
            ) from None
        return cls.loads(text, str(path))

    @classmethod
    def read_folder(cls, folder: Path, pattern: str | None = None) -> dict[Path, Self]:
        """Read the records of a folder, in the order of names; other files are left alone.

        A file that should be a record and is none is named in a warning and left out: one
        damaged file must not keep the others from being read, nor be deleted by us.
        """
        found = {}
        for path in _files(folder, pattern or cls.pattern):
            try:
                found[path] = cls.read(path)
            except InputError as error:
                warn(f"left out a damaged record. {error}")
        return found

    @classmethod
    def read_all(cls, folder: Path) -> list[Self]:
        """Read the records of a folder, where a sum without one of them would be wrong."""
        return [cls.read(path) for path in _files(folder, cls.pattern)]

    @classmethod
    def damaged(cls, folder: Path) -> dict[Path, str]:
        """Return the files of a folder that should be records and are none, with the reason."""
        found = {}
        for path in _files(folder, cls.pattern):
            try:
                cls.read(path)
            except InputError as error:
                if path.exists():  # another process may have set it aside in this very moment
                    found[path] = str(error)
        return found

    def sealed(self) -> str:
        """Return the record as its file has it: as JSON with a digest of all its facts."""
        text = self.dumps()
        space = text[2 : text.index('"')]
        digest = identity_of([json.loads(text)])
        return text.removesuffix("\n}\n") + f',\n{space}"{_DIGEST}": "{digest}"\n}}\n'

    def save(self, folder: Path, name: str | None = None) -> Path:
        """Write the record whole or not at all, and never over another.

        Args:
            folder: Where to write, made if need be.
            name: Name of the file, if not its own.

        Raises:
            InputError: If there is a file of that name.
        """
        path = folder / (name or self.file_name)
        try:
            return write_once(path, self.sealed())
        except FileExistsError:
            raise InputError(f"{path} exists already; records are never overwritten.") from None


class SeedRecord(Record):
    """A record of the results of some seeds, by seed."""

    seeds: dict[int, Any]

    def save_or_find(self, folder: Path) -> tuple[Path, Self]:
        """Save the record unless another process has; return its path and the record there."""
        path, number = folder / self.file_name, 1
        while True:
            try:
                return write_once(path, self.sealed()), self
            except FileExistsError:
                with suppress(
                    InputError
                ):  # a damaged file has the name, and is not ours to delete
                    found = self.read(path)
                    if self.seeds.keys() <= found.seeds.keys():
                        return path, found  # another process was faster at the same work
            number += 1
            path = folder / f"{Path(self.file_name).stem}-{number}.json"


#: What values of a file can raise that are not those expected.
UNSOUND = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


def reason_of(error: Exception, text: str = "{") -> str:
    """Return in words why a text, or what was read of it, is not sound."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is no whole JSON from line {error.lineno} on" if text else "it is empty"
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).partition("\n")[0] or type(error).__name__


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts of a JSON file with a digest of all of them, for :func:`unsealed`."""
    return {**facts, _DIGEST: identity_of([json.loads(json.dumps(facts))])}


def unsealed(facts: Any) -> dict[str, Any]:
    """Return the facts of a JSON file without their digest, which files of earlier versions do
    not have; refuse those that were changed, with a ``ValueError``."""
    expect_object(facts, "it")
    left = {name: value for name, value in facts.items() if name != _DIGEST}
    digest = identity_of([left])
    if facts.get(_DIGEST, digest) != digest:
        raise ValueError(f"its {_DIGEST} should be {digest}: it was changed since")
    json.dumps(left, ensure_ascii=False).encode()  # JSON can write half a character
    return left


def load_sealed(path: Path) -> dict[str, Any]:
    """Read facts that were written with a digest.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is damaged, in one line.
    """
    text = plain_file(path).read_text(encoding="utf-8")
    try:
        return unsealed(json.loads(text, object_pairs_hook=without_repetition))
    except (ValueError, RecursionError) as error:
        raise ValueError(reason_of(error, text)) from None


#: A number that may be NaN or infinite, as a loss after training has diverged.
AnyFloat = Annotated[float, "not finite"]


def expect_object(values: Any, whose: str) -> None:
    """Refuse what is no JSON object, with a ``ValueError``."""
    if not isinstance(values, dict):
        raise ValueError(f"{whose} should be names with values")


def expect_fields(made: type, values: Any, whose: str) -> None:
    """Refuse values that are not those of a dataclass, by name and type, with a ``ValueError``.

    Fields that are dataclasses themselves, or hold them by name, are checked by themselves.
    """
    expect_object(values, whose)
    known = {f.name: (f.default, f.default_factory) for f in fields(made)}
    for name, defaults in known.items():
        if name not in values and defaults == (MISSING, MISSING):
            raise ValueError(f"{whose} has no {name}")
    if unknown := sorted(values.keys() - known):
        raise ValueError(f"{whose} has an unknown {unknown[0]}")
    expect_types(_types_of(made), values, whose)


def expect_types(types: Mapping[str, Any], values: dict[str, Any], whose: str) -> None:
    """Refuse values of other types than those given by name, with a ``ValueError``."""
    for name, value in values.items():
        if name in types and not _test_of(types[name])(value):
            shown = repr(value)
            shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
            raise ValueError(f"{whose} has {shown} as {name}")


def seed_number(name: str) -> int:
    """Return a seed from its name in a file, of which there is one: ``"7"``, and not ``"07"``."""
    if not (name.isascii() and name.isdecimal()) or str(int(name)) != name:
        raise ValueError(f"the seed {name!r} is no whole number as it is written here")
    return int(name)


@dataclass(frozen=True)
class BaselineResult:
    """Accuracies of one seed of a baseline.

    Attributes:
        test_accuracy: Accuracy on the test nodes, between 0 and 1.
        val_accuracy: The same on the validation nodes.
        chosen: Settings that were picked by validation accuracy.
    """

    test_accuracy: float
    val_accuracy: float
    chosen: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BaselineRecord(SeedRecord):
    """The results of one pass: a method with its settings in place of an experiment. It lies
    here for the report, which reads it without the methods.

    Attributes:
        method: Name of the baseline.
        settings: All its settings.
        data: What was loaded, with its content hash.
        environment: Versions and hardware.
        started: When, in UTC.
        seconds: How long all seeds of this record took together.
        seeds: Results by seed.
    """

    kind: ClassVar = "a record of a baseline"
    format: ClassVar = "drgcn baseline"

    method: str
    settings: dict[str, Any]
    data: dict[str, Any]
    environment: dict[str, Any]
    started: str
    seconds: float
    seeds: dict[int, BaselineResult]

    @property
    def identity(self) -> str:
        """The method with these settings on this very data."""
        return baseline_identity(self.method, self.settings, self.data["content_hash"])

    @property
    def file_name(self) -> str:
        """Name of its file: readable, and unique to method, settings, data and seeds."""
        seeds = f"seeds-{min(self.seeds)}-{max(self.seeds)}"
        words = [self.data["name"], self.data["split"], self.method, self.identity[:8]]
        return readable_name([*words, seeds])

    def dumps(self) -> str:
        """Return the record as JSON, with one line per seed."""
        facts = {"format": self.format} | {f.name: getattr(self, f.name) for f in fields(self)}
        facts["seconds"] = round(self.seconds, 3)
        facts["seeds"] = {seed: asdict(result) for seed, result in sorted(self.seeds.items())}
        return dump_facts(facts, by_line="seeds")

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> BaselineRecord:
        """Return the record with the facts of a file, checked by name, type and range."""
        expect_fields(cls, facts, "it")
        for seed, result in facts["seeds"].items():
            expect_fields(BaselineResult, result, f"seed {seed}")
            for name in ("test_accuracy", "val_accuracy"):
                if not 0 <= result[name] <= 1:
                    raise ValueError(f"seed {seed} has {result[name]} as {name}, no share")
        seeds = {seed_number(seed): BaselineResult(**one) for seed, one in facts["seeds"].items()}
        for name in ("name", "split", "content_hash"):
            if not isinstance(facts["data"].get(name), str):
                raise ValueError(f"its data has no {name}")
        if not seeds or facts["seconds"] < 0:
            raise ValueError("it has no seeds, or took less than no time")
        return cls(**{**facts, "seeds": seeds})


def baseline_identity(method: str, settings: dict[str, Any], content_hash: str) -> str:
    """Return a name for a method with its settings on this very data."""
    return identity_of([method, settings, content_hash])[:12]


def dump_facts(facts: Mapping[str, Any], by_line: str | None = None, indent: int = 2) -> str:
    """Return facts as JSON with one line per fact: small, and readable in a diff.

    Args:
        facts: Plain values by name.
        by_line: The fact, of names with values, that gets one line per name.
        indent: Spaces in front of a fact.
    """
    space = " " * indent
    lines = []
    for name, value in facts.items():
        text = json.dumps(value)
        if name == by_line:
            inner = [f'{2 * space}"{key}": {json.dumps(one)}' for key, one in value.items()]
            text = "\n".join(["{", ",\n".join(inner), space + "}"])
        lines.append(f'{space}"{name}": {text}')
    return "\n".join(["{", ",\n".join(lines), "}"]) + "\n"


def identity_of(facts: Sequence[Any]) -> str:
    """Return a hash of plain values: the same for equal values, whoever computes it."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def readable_name(words: Sequence[str]) -> str:
    """Return the name of a record's file, of words joined by dashes."""
    return re.sub(r"[^\w.-]", "-", "-".join(words).replace(" + ", "-")) + ".json"


def set_aside_damaged(kind: type[Record], folder: Path) -> list[str]:
    """Move damaged records to ``folder/damaged``, each with a text that says why.

    Nothing is deleted: half a record may still tell somebody something. Returns one line for
    each file moved.
    """
    lines = []
    for path, reason in kind.damaged(folder).items():
        target = free_path(folder / "damaged" / path.name)
        target.parent.mkdir(exist_ok=True)
        try:
            path.rename(target)
        except FileNotFoundError:
            continue  # another process was faster
        write_whole(target.with_suffix(".reason.txt"), reason + "\n")
        lines.append(f"damaged record set aside in {target}, its seeds are run again: {reason}")
    return lines


def free_path(path: Path) -> Path:
    """Return the path, or one like it with a number, at which there is no file."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free


def environment(device: torch.device) -> dict[str, str | int]:
    """Return versions and hardware: what one needs to compare times, and to repeat numbers."""
    import torch

    found: dict[str, str | int] = {
        "drgcn": __version__,
        "source": source_hash(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": importlib.metadata.version("torch_geometric"),
        "device": device_name(device),
    }
    if device.type == "cpu":
        found["threads"] = torch.get_num_threads()
    return found


def device_name(device: torch.device) -> str:
    """Return the name of the hardware, in the words of its maker."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def source_hash() -> str:
    """Return a hash of the installed source files: it changes with the code, committed or not."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON for ``object_pairs_hook``; refuse a name that is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(n for n in names if names.count(n) > 1)!r} twice")
    return found


@cache
def _types_of(made: type) -> dict[str, Any]:
    return get_type_hints(made, include_extras=True)


@cache
def _test_of(kind: Any) -> Callable[[Any], bool]:
    """Return the test of a JSON value for a type; true and false are no numbers."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        tests = [_test_of(one) for one in inner]
        return lambda value: any(test(value) for test in tests)
    if origin is Literal:
        return lambda value: type(value) is str and value in inner
    if origin in (list, tuple):
        test = _test_of(inner[0])
        return lambda value: type(value) is list and all(map(test, value))
    if origin is dict and not is_dataclass(inner[1]):
        test = _test_of(inner[1])
        return lambda value: type(value) is dict and all(map(test, value.values()))
    if origin is dict or is_dataclass(kind):
        return lambda value: type(value) is dict
    if kind is float:
        return lambda value: type(value) in (int, float) and math.isfinite(value)
    if kind == AnyFloat:
        return lambda value: type(value) in (int, float)
    return lambda value: kind is Any or type(value) is kind


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern)) if folder.is_dir() else []
