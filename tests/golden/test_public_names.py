"""The names that packages offer, and how they are called: what users may import."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import drgcn
import drgcn.audit.duplicates
import drgcn.baselines
import drgcn.data
import drgcn.nn
import drgcn.recommend.clicks
import drgcn.recommend.distributed
import drgcn.recommend.model
import drgcn.recommend.retrieval
import drgcn.recommend.serving
import drgcn.recommend.study
import drgcn.recommend.synthetic
import drgcn.sampling
import drgcn.stability
import drgcn.theory
import drgcn.training

from .goldens import expect_json

PACKAGES: dict[str, ModuleType] = {
    "drgcn": drgcn,
    "drgcn.audit.duplicates": drgcn.audit.duplicates,
    "drgcn.baselines": drgcn.baselines,
    "drgcn.data": drgcn.data,
    "drgcn.nn": drgcn.nn,
    "drgcn.recommend.clicks": drgcn.recommend.clicks,
    "drgcn.recommend.distributed": drgcn.recommend.distributed,
    "drgcn.recommend.model": drgcn.recommend.model,
    "drgcn.recommend.retrieval": drgcn.recommend.retrieval,
    "drgcn.recommend.serving": drgcn.recommend.serving,
    "drgcn.recommend.study": drgcn.recommend.study,
    "drgcn.recommend.synthetic": drgcn.recommend.synthetic,
    "drgcn.sampling": drgcn.sampling,
    "drgcn.stability": drgcn.stability,
    "drgcn.theory": drgcn.theory,
    "drgcn.training": drgcn.training,
}


def _arguments(thing: Any) -> Any:
    """Names, kinds and defaults of the arguments of what can be called."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    found = []
    for one in parameters:
        default = "required" if one.default is one.empty else repr(one.default)
        # An address or a place in the package is no part of how it is called.
        default = "an object" if " at 0x" in default or "drgcn." in default else default
        found.append([one.name, str(one.kind), default])
    return found


def _methods(thing: Any) -> dict[str, Any]:
    """The same of the methods that a class defines itself."""
    if not inspect.isclass(thing):
        return {}
    names = [name for name in vars(thing) if not name.startswith("_")]
    return {name: _arguments(getattr(thing, name)) for name in sorted(names)}


def test_packages_offer_the_names_they_always_offered():
    expect_json("public_names", {name: sorted(one.__all__) for name, one in PACKAGES.items()})


def test_every_name_on_offer_is_there():
    missing = [
        f"{place}.{name}"
        for place, package in PACKAGES.items()
        for name in package.__all__
        if not hasattr(package, name)
    ]
    assert missing == []


def test_public_names_are_called_as_they_always_were():
    found: dict[str, Any] = {}
    for place, package in PACKAGES.items():
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                found.setdefault(place, {})[name] = {
                    "arguments": _arguments(thing),
                    "methods": _methods(thing),
                }
    expect_json("public_signatures", found)
