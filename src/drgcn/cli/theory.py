"""``drgcn theory``: check the claims of the paper's theory."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drgcn.cli.options import Json, ProgressLine, Quiet

if TYPE_CHECKING:
    from drgcn.theory.claims.evidence import Evidence


def theory(
    json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    quiet: Quiet = False,
) -> None:
    """Check every claim of the paper's theory and say which hold, with numbers.

    Takes a few seconds. Example: drgcn theory --html theory.html
    """
    from drgcn.theory.claims import CLAIMS, verify

    found: list[Evidence] = []
    width = max(len(claim.name) for claim in CLAIMS)
    with ProgressLine("checking claims", quiet) as line:
        line.show(CLAIMS[0].name, 0.0)
        for evidence in verify():
            found.append(evidence)
            if not json:
                # One line as soon as it is known, and the reason below it.
                print(f"{evidence.name:<{width}}  {evidence.verdict:<18}  {evidence.where}")
                print(f"{'':<{width}}  {evidence.words}")
                print(f"{'':<{width}}  {_numbers(evidence)}\n")
            line.show(f"{len(found)} of {len(CLAIMS)}", len(found) / len(CLAIMS))
    if html is not None:
        _write_page(found, html)
    if json:
        print(jsonlib.dumps({"claims": [asdict(evidence) for evidence in found]}))
        return
    print(_summary(found))
    if html is not None:
        print(html)


def _numbers(evidence: Evidence) -> str:
    return "; ".join(f"{name}: {value:.4g}" for name, value in evidence.numbers.items())


def _summary(found: Sequence[Evidence]) -> str:
    verdicts = [evidence.verdict for evidence in found]
    seconds = sum(evidence.seconds for evidence in found)
    return (
        f"{len(found)} claims: {verdicts.count('holds')} hold, "
        f"{verdicts.count('holds after repair')} hold after repair, "
        f"{verdicts.count('fails')} fail; {seconds:.1f} s."
    )


def _write_page(found: Sequence[Evidence], path: Path) -> None:
    from drgcn.reporting.page import write_html

    values = {"title": "The theory, checked", "summary": _summary(found), "rows": found}
    write_html(path, "drgcn.cli", "theory.html.jinja", **values)
