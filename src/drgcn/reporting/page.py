"""Self-contained HTML pages that share one base template and style sheet."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from drgcn._io import write_whole


def render_html(package: str, template: str, **values: Any) -> str:
    """Fill a template that extends ``base.html.jinja``: no script, no other file, no network.

    Args:
        package: Package that the template lies in.
        template: Its file name.
        values: Values of its variables; text is escaped.
    """
    return _environment(package, escaped=True).get_template(template).render(**values)


def render_words(package: str, template: str, macro: str, **values: Any) -> list[str]:
    """Fill a macro of a template of sentences; return its lines, without empty ones.

    Args:
        package: Package that the template lies in.
        template: Its file name.
        macro: Name of the macro.
        values: Its arguments.
    """
    module = _environment(package, escaped=False).get_template(template).module
    lines = str(getattr(module, macro)(**values)).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


@cache
def _environment(package: str, *, escaped: bool) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader(__package__, "")]),
        autoescape=escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def write_html(path: Path, package: str, template: str, **values: Any) -> Path:
    """Write the page of :func:`render_html`, with the folders above it; return its path."""
    return write_whole(path, render_html(package, template, **values))
