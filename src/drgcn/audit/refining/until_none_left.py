"""Find duplicates and refine, again and again, until no more are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from drgcn.audit.duplicates import DuplicateGroups, find_duplicates
from drgcn.audit.duplicates.pairs import Evidence
from drgcn.audit.refining.merging import FeatureRule
from drgcn.audit.refining.refine import refine
from drgcn.audit.refining.refined import Refined
from drgcn.data.features import Features
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

EVIDENCE: Final[tuple[Evidence, ...]] = ("exact features", "near features", "text")
_ROUNDS: Final = 10


def refine_duplicates(
    data: Data,
    texts: Sequence[str] | None = None,
    *,
    evidence: Sequence[Evidence] = ("exact features", "text"),
    drop: Iterable[int] | Mapping[int, str] = (),
    feature_rule: FeatureRule = "first",
    remove_features: Iterable[int] = (),
    new_features: Features | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Refined:
    """Merge what :func:`drgcn.audit.duplicates.find_duplicates` finds.

    How alike nodes must be depends on the whole dataset. So merging some can bring up others, and
    it is done until the result has no duplicates left by the same evidence. (Taking columns out or
    replacing features may make new ones: look again after it.)

    Args:
        data: One graph; it is not changed.
        texts: Texts of the nodes, empty where there is none.
        evidence: What makes nodes duplicates. Near features also join different papers of one
            subject, so they are left out unless asked for.
        drop: Nodes to leave out, with a reason each if it is a mapping.
        feature_rule: How features of merged nodes are made.
        remove_features: Columns to take out; they still count when duplicates are looked for.
        new_features: Features to use instead, one row per old node; the old ones are compared.
        seed: Seed of the search.
        progress: Called after each round with its number and the groups it found.

    Raises:
        InputError: If rounds do not end, or nodes, columns and shapes do not fit the graph.
    """
    unknown = [kind for kind in evidence if kind not in EVIDENCE]
    if unknown or not evidence:
        found = ", ".join(map(repr, unknown)) or "nothing"
        raise InputError(f"Expected evidence out of {', '.join(EVIDENCE)}; found {found}.")
    drop = dict(drop) if isinstance(drop, Mapping) else list(drop)
    groups: list[list[int]] = []
    reasons: list[str] = []
    for number in range(_ROUNDS):
        merged = refine(
            data, groups, drop, reasons=reasons, feature_rule=feature_rule, texts=texts
        )
        new = find_duplicates(merged.data, merged.texts, seed=seed)
        listed = new.groups(*evidence)
        if progress is not None:
            progress(number, len(listed))
        if not listed:
            return refine(
                data,
                groups,
                drop,
                reasons=reasons,
                feature_rule=feature_rule,
                remove_features=remove_features,
                new_features=new_features,
                texts=texts,
            )
        groups, reasons = _joined(merged, groups, reasons, listed, new, evidence)
    raise InputError(
        f"Expected duplicates to end after {_ROUNDS} rounds of merging; there were still some. "
        "Refine with groups of your own."
    )


def _joined(
    merged: Refined,
    groups: list[list[int]],
    reasons: list[str],
    listed: Iterable[Sequence[int]],
    found: DuplicateGroups,
    evidence: Sequence[Evidence],
) -> tuple[list[list[int]], list[str]]:
    """All groups so far in the numbers of the old graph: the new ones swallow those they meet."""
    members = merged.node_map.members()
    why = {group[0]: reason for group, reason in zip(map(sorted, groups), reasons, strict=True)}
    together = {min(group): group for group in groups}
    for group in listed:
        kept = [members[node][0] for node in group]
        old = sorted(node for number in group for node in members[number])
        kinds = {why.pop(node) for node in kept if node in why}
        for node in kept:
            together.pop(node, None)
        kinds |= {p.evidence for p in found.pairs(*evidence) if len(p.within(group))}
        together[old[0]] = old
        why[old[0]] = " and ".join(
            sorted({kind for words in kinds for kind in words.split(" and ")})
        )
    return list(together.values()), [why[node] for node in together]
