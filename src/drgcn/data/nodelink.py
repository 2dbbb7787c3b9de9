"""Graphs in networkx's node-link JSON, as older and newer versions of networkx write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError


class NodeLink(NamedTuple):
    """The nodes as listed, and the edges as places in that list, shape ``[2, E]``."""

    nodes: list[dict[str, Any]]
    pairs: npt.NDArray[np.int64]


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputError: If the file is damaged or holds something else.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is damaged or no JSON file ({type(error).__name__}): fetch it again"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a JSON object, not a {type(content).__name__}")
    return content


def read_node_link(path: Path) -> NodeLink:
    """A graph from node-link JSON.

    Edges are listed under ``links`` (newer networkx: ``edges``). Their ends are ids, as networkx
    has written them since version 2, or else places in the list of nodes, as version 1 wrote them.
    """
    content = read_json(path)
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise InputError(f"{path} must list the nodes under 'nodes', but there are none")
    place: dict[str | int, int] = {}
    for number, node in enumerate(nodes):
        key = node.get("id") if isinstance(node, dict) else None
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise InputError(
                f"{path}: node {number} must have an id, a word or a whole number, but it is "
                f"{_short(node)}"
            )
        if key in place:
            raise InputError(
                f"{path}: the id {key!r} is at node {place[key]} and again at node {number}: ids "
                "must be unique"
            )
        place[key] = number
    links = content.get("links", content.get("edges"))
    if not isinstance(links, list):
        raise InputError(f"{path} must list the edges under 'links' or 'edges': fetch it again")
    return NodeLink(nodes, _pairs(links, place, path))


def _pairs(links: list[Any], place: dict[str | int, int], path: Path) -> npt.NDArray[np.int64]:
    ends = []
    for number, link in enumerate(links):
        try:
            ends += [link["source"], link["target"]]
        except (TypeError, KeyError):
            raise InputError(
                f"{path}: edge {number} must have a source and a target, but it is {_short(link)}"
            ) from None
    try:
        places = [place[end] for end in ends]
    except (KeyError, TypeError):  # not all are ids: they are places, or one is wrong
        for number, end in enumerate(ends):
            if type(end) is not int or not 0 <= end < len(place):
                raise InputError(
                    f"{path}: edge {number // 2} names {_short(end)}, which is neither the id nor "
                    f"the place of one of the {len(place)} nodes"
                ) from None
        places = ends
    return np.array(places, dtype=np.int64).reshape(-1, 2).T


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
