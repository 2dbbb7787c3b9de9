"""What ``--help`` says of every verb, and the options behind it.

``files/interface.json`` must never change: it is what scripts of users rely on. The texts may be
made anew when their words change on purpose, see :mod:`tests.golden.goldens`.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import typer
from typer.testing import CliRunner

import drgcn.cli.verbs

from .goldens import FILES, UPDATE, expect_json, expect_text

_LAYOUT = ("typer", "rich")
_TYPES = {str: "text", int: "integer", float: "float", bool: "boolean", Path: "path"}
_TYPES[datetime.datetime] = "datetime"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def _verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from _verbs(child, (*path, name))


def _all_verbs() -> dict[str, Any]:
    command = typer.main.get_command(drgcn.cli.verbs.app)
    return {" ".join(("drgcn", *path)): found for path, found in _verbs(command)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return "computed" if callable(value) else str(value)


def _type(parameter: Any) -> dict[str, Any]:
    """What a value has to be; typer keeps it in one place, and click, where typer has it, in
    another."""
    if hasattr(parameter, "type"):
        kind = parameter.type
        name = kind.name.removesuffix(" range")
        choices, limits = getattr(kind, "choices", None), kind
    else:
        kind = parameter.type_descriptor.annotation
        kind = get_args(kind)[0] if get_origin(kind) is list else kind
        choices = [*kind] if issubclass(kind, Enum) else None
        name, limits = "choice" if choices else _TYPES[kind], parameter
    found = {"name": name, "choices": choices and _plain(list(choices))}
    return found | {edge: getattr(limits, edge, None) for edge in ("min", "max")}


def _parameter(parameter: Any) -> dict[str, Any]:
    names = ("required", "nargs", "multiple", "hidden", "envvar", "is_eager", "is_flag", "count")
    found = {name: _plain(getattr(parameter, name, None)) for name in names}
    return found | {
        "name": parameter.name,
        "kind": parameter.param_type_name,
        "options": [*parameter.opts],
        "off_options": [*parameter.secondary_opts],
        "default": _plain(parameter.default),
        "type": _type(parameter),
    }


def test_verbs_have_the_options_they_always_had():
    found = {
        name: {
            "parameters": [_parameter(one) for one in verb.params],
            "hidden": bool(verb.hidden),
            "deprecated": bool(verb.deprecated),
            "verbs": sorted(getattr(verb, "commands", {})),
        }
        for name, verb in _all_verbs().items()
    }
    expect_json("interface", found)


@pytest.mark.parametrize("name", sorted(_all_verbs()))
def test_help_says_what_it_always_said(name, monkeypatch):
    layout = {package: importlib.metadata.version(package) for package in _LAYOUT}
    # Another typer or rich lays the same words out otherwise.
    if not UPDATE and (FILES / "help" / "layout.txt").read_text().split() != [*layout.values()]:
        pytest.skip(f"the texts were laid out by other versions of {' and '.join(_LAYOUT)}")
    for key in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "DRGCN_DATA"):
        monkeypatch.delenv(key, raising=False)
    fixed = {"COLUMNS": "100", "LINES": "50", "TERM": "dumb", "NO_COLOR": "1"}
    words = [*name.split()[1:], "--help"]
    result = CliRunner().invoke(drgcn.cli.verbs.app, words, env=fixed, prog_name="drgcn")
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in _STYLE.sub("", result.stdout).splitlines()]
    if UPDATE:
        expect_text("help/layout.txt", "\n".join(layout.values()) + "\n")
    expect_text(f"help/{name.replace(' ', '-')}.txt", "\n".join(lines) + "\n")


def test_every_text_belongs_to_a_verb():
    known = {f"{name.replace(' ', '-')}.txt" for name in _all_verbs()} | {"layout.txt"}
    assert {path.name for path in (FILES / "help").glob("*.txt")} == known
