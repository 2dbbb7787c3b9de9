"""Self-contained HTML pages that share one base template and style sheet."""

from __future__ import annotations

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
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader(__package__, "")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template).render(**values)


def write_html(path: Path, package: str, template: str, **values: Any) -> Path:
    """Write the page of :func:`render_html`, with the folders above it; return its path."""
    return write_whole(path, render_html(package, template, **values))
