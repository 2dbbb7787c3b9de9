"""``refine``: a dataset without its duplicates, once or until no more are found, as a folder."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from drgcn._io import file_digest, whole_folder
from drgcn.audit.duplicates import DuplicateGroups, find_duplicates
from drgcn.audit.duplicates.features import Evidence
from drgcn.audit.graph_view import GraphView
from drgcn.audit.refining.merging import (
    EdgeAccount,
    FeatureRule,
    LabelConflict,
    NodeMap,
    merge_edges,
    merge_features,
    merge_labels,
    merge_masks,
)
from drgcn.data.assemble import RawGraph, assemble
from drgcn.data.checks import from_texts
from drgcn.data.features import Features, numeric_matrix
from drgcn.data.loader import load
from drgcn.data.splits import AnyLabels, Masks
from drgcn.data.tables import ACCOUNT
from drgcn.errors import DrgcnWarning, InputError, warn
from drgcn.records import sealed
from drgcn.reporting.tables import Table

if TYPE_CHECKING:
    from torch_geometric.data import Data


EVIDENCE: Final[tuple[Evidence, ...]] = ("exact features", "near features", "text")
_ROUNDS: Final = 10
FILES = {
    "nodes.parquet": "a row per node: id, features, label, split; the id is the old number",
    "edges.csv": "a row per undirected edge, by ids",
    "node_map.csv": "a row per old node: its new number, and why it went if it did",
    ACCOUNT: "what was done, in numbers, with label conflicts and the rules",
    "text.jsonl": "the text of each node, by new number",
}


@dataclass(frozen=True)
class Refined:
    """Refined dataset with an account of nodes, edges, labels and features.

    Attributes:
        data: The new graph, as :func:`drgcn.data.load` would give it.
        node_map: Fate of every old node.
        edges: Counts of edges before and after.
        conflicts: Groups whose members had different labels.
        left_training: Old training nodes that were taken out of training because what they were
            merged with is validated or tested on.
        feature_rule: How features of merged nodes were made.
        removed_features: Old numbers of the columns that were taken out.
        replaced_features: Whether the features are new ones.
        has_split: Whether the old graph had a split.
        texts: Texts of the new nodes, if those of the old ones were given.
    """

    data: Data
    node_map: NodeMap
    edges: EdgeAccount
    conflicts: tuple[LabelConflict, ...]
    left_training: tuple[int, ...]
    feature_rule: FeatureRule
    removed_features: tuple[int, ...] = ()
    replaced_features: bool = False
    has_split: bool = True
    texts: tuple[str, ...] | None = None

    @property
    def changed(self) -> bool:
        """True if anything was merged, dropped, removed or replaced."""
        counts = self.node_map.counts
        return (
            bool(counts["merged"] or counts["dropped"] or self.removed_features)
            or self.replaced_features
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; the map is a table of its own."""
        info = self.data.dataset
        return {
            "refined from": dict(info.options),
            "nodes": {"before": len(self.node_map.fates), **self.node_map.counts},
            "edges": asdict(self.edges),
            "features": {
                "columns": info.features,
                "rule for merged nodes": self.feature_rule,
                "removed columns": list(self.removed_features),
                "replaced": self.replaced_features,
            },
            "split": {
                "train": info.train,
                "val": info.val,
                "test": info.test,
                "rule for merged nodes": "test if a member is in test, else val, else train",
                "nodes that left training": list(self.left_training),
            },
            "class names": list(info.class_names),
            "label conflicts": [asdict(conflict) for conflict in self.conflicts],
            "content hash": info.content_hash,
        }


def refine(
    data: Data,
    groups: Iterable[Sequence[int]] = (),
    drop: Iterable[int] | Mapping[int, str] = (),
    *,
    reasons: Sequence[str] | None = None,
    feature_rule: FeatureRule = "first",
    remove_features: Iterable[int] = (),
    new_features: Features | None = None,
    texts: Sequence[str] | None = None,
) -> Refined:
    """Merge duplicate nodes, drop nodes, and take out or replace features.

    A group becomes its first member: it has the edges of all members, the commonest label, and
    the strictest part of the split (test before val before train, so that nothing tested is
    trained on under another number). The new graph is undirected without loops or repeats, and
    its classes are numbered in the order of their names, both as :func:`drgcn.data.load` does.
    The same input gives the same result, and refining the result without groups changes nothing.

    Args:
        data: One graph, or several as one; it is not changed.
        groups: Nodes that are the same, group by group; no node in two groups.
        drop: Nodes to leave out, with a reason each if it is a mapping.
        reasons: Why each group is merged.
        feature_rule: ``"first"``, ``"mean"`` or ``"max"``, see
            :func:`drgcn.audit.refining.merging.merge_features`.
        remove_features: Columns to take out, such as those that give a label away.
        new_features: Features to use instead, one row per old node.
        texts: Texts of the old nodes, to go with the new ones.

    Example:
        >>> from drgcn.data import load
        >>> refined = refine(load("wine"), groups=[[0, 3, 9]], drop={5: "not a wine"})
        >>> refined.data.num_nodes, refined.node_map.counts
        (175, {'kept': 175, 'merged': 2, 'dropped': 1})

    Raises:
        InputError: If nodes, columns or shapes do not fit the graph.
    """
    view = GraphView.of(data)
    listed = [[int(node) for node in group] for group in groups]
    why = ["duplicate"] * len(listed) if reasons is None else list(reasons)
    if len(why) != len(listed):
        raise InputError(f"Expected {len(listed)} reasons, one a group; found {len(why)}.")
    node_map = NodeMap.make(view.nodes, listed, why, _reasons(drop))
    _check_graphs(view, listed)
    members = node_map.members()
    x = view.x if new_features is None else _replacement(new_features, view.nodes)
    removed = _columns(remove_features, x.shape[1])
    x = merge_features(x, members, feature_rule)
    x = x[:, np.setdiff1d(np.arange(x.shape[1]), removed)] if removed else x
    y, conflicts = merge_labels(view.y, members, view.class_names)
    y, names = _by_name(y, view.class_names)
    masks = Masks(*(view.mask(part) for part in Masks._fields))
    merged_masks = merge_masks(masks, members)
    place = node_map.new_numbers()
    pairs, account = merge_edges(view, place)
    refined = assemble(
        RawGraph(
            x=x,
            y=y,
            pairs=pairs,
            masks=merged_masks,
            split="given",
            class_names=names,
            feature_source="own" if view.info is None else view.info.feature_source,
            graph=view.graph[[nodes[0] for nodes in members]] if "graph" in data else None,
            graph_names=tuple(getattr(data, "graph_names", ())),
        ),
        name="refined" if view.info is None else f"{view.info.name}-refined",
        normalize="none",
        as_sparse=data.x.layout != torch.strided,
        options=_origin(view),
    )
    gone = masks.train & (place >= 0)
    gone[gone] = ~merged_masks.train[place[gone]]
    return Refined(
        data=refined,
        node_map=node_map,
        edges=account,
        conflicts=conflicts,
        left_training=tuple(np.flatnonzero(gone).tolist()),
        feature_rule=feature_rule,
        removed_features=tuple(removed),
        replaced_features=new_features is not None,
        has_split=any(mask.any() for mask in masks),
        texts=None if texts is None else _merged_texts(texts, view.nodes, members),
    )


def _reasons(drop: Iterable[int] | Mapping[int, str]) -> dict[int, str]:
    if isinstance(drop, Mapping):
        return {int(node): reason for node, reason in drop.items()}
    return {int(node): "dropped on request" for node in drop}


def _check_graphs(view: GraphView, groups: Sequence[Sequence[int]]) -> None:
    for group in groups:
        if len(set(view.graph[group].tolist())) > 1:
            raise InputError(
                f"Expected the nodes of a group in one graph; nodes {', '.join(map(str, group))} "
                "are in several, and merging them would join the graphs."
            )


def _replacement(features: Features, nodes: int) -> Features:
    x = numeric_matrix(features, "the new features")
    if x.shape[0] != nodes:
        raise InputError(
            f"Expected new features of the {nodes} nodes of the old graph; found {x.shape[0]} "
            "rows. The merging is done here."
        )
    return x


def _columns(columns: Iterable[int], width: int) -> list[int]:
    chosen = sorted({int(column) for column in columns})
    if chosen and not 0 <= chosen[0] <= chosen[-1] < width:
        wrong = next(column for column in chosen if not 0 <= column < width)
        raise InputError(f"Expected columns from 0 to {width - 1} to remove; found {wrong}.")
    if len(chosen) == width:
        raise InputError(f"Expected at least one feature to stay; all {width} are removed.")
    return chosen


def _by_name(y: AnyLabels, names: tuple[str, ...]) -> tuple[AnyLabels, tuple[str, ...]]:
    """Return labels numbered in the order of their names, without empty classes.

    Tables of nodes are read that way: the graph is then the same before writing and after.
    """
    if y.ndim == 2:
        return y, names
    words = [name.strip() for name in names]
    if len(set(words)) == len(words) and all(words):
        try:
            return from_texts([words[label] if label >= 0 else "" for label in y])
        except InputError:  # names that look like measured numbers
            pass
    return from_texts([str(label) if label >= 0 else "" for label in y])


def _merged_texts(
    texts: Sequence[str], nodes: int, members: Sequence[Sequence[int]]
) -> tuple[str, ...]:
    """Return, for each new node, the text of the first member that has one."""
    if len(texts) != nodes:
        raise InputError(f"Expected a text for each of {nodes} nodes; found {len(texts)}.")
    return tuple(
        next((texts[node] for node in group if texts[node].strip()), "") for group in members
    )


def _origin(view: GraphView) -> tuple[tuple[str, Any], ...]:
    info = view.info
    if info is None:
        return ()
    facts = {
        "name": info.name,
        "split": info.split,
        "normalize": info.normalize,
        "content hash": info.content_hash,
    }
    return tuple(facts.items())


def refine_until_stable(
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
    """Merge the duplicates that :func:`~drgcn.audit.duplicates.find_duplicates` finds, in rounds.

    The similarity asked for depends on the whole dataset, so merging some nodes can bring up other
    pairs. Rounds end when the result has no duplicates left by the same evidence. (Taking columns
    out or replacing features may make new ones: look again after it.)

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
    if texts is None and set(evidence) == {"text"}:
        raise InputError(
            "Expected texts, if they alone are to be evidence; found none. Give them (--text), or "
            "allow other evidence."
        )
    if data.get("edge_weight") is not None:
        warn("edge weights are not kept in a refined set")
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
        groups, reasons = _with_new_groups(merged, groups, reasons, listed, new, evidence)
    raise InputError(
        f"Expected duplicates to end after {_ROUNDS} rounds of merging; there were still some. "
        "Refine with groups of your own."
    )


def _with_new_groups(
    merged: Refined,
    groups: list[list[int]],
    reasons: list[str],
    listed: Iterable[Sequence[int]],
    found: DuplicateGroups,
    evidence: Sequence[Evidence],
) -> tuple[list[list[int]], list[str]]:
    """Return all groups so far in the numbers of the old graph, and their reasons.

    A new group takes in the earlier groups of its nodes.
    """
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


def write_refined(refined: Refined, folder: str | PathLike[str]) -> Path:
    """Write the folder; ``load(folder)`` then gives ``refined.data`` back.

    Everything is written under another name beside the folder, loaded and compared, and renamed
    at the end: a run that is cut off leaves no folder of this name.

    Args:
        refined: What to write.
        folder: A folder that does not exist yet.

    Returns:
        The folder.

    Raises:
        InputError: If the folder exists, or the tables cannot hold the dataset.
    """
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise InputError(f"Expected a folder that does not exist yet; {folder} is there already.")
    if refined.data.y.ndim == 2 or "graph" in refined.data:
        what = "several labels a node" if refined.data.y.ndim == 2 else "several graphs"
        raise InputError(
            f"Expected one graph with one label a node; found {what}, which tables of nodes and "
            "edges cannot hold. Save refined.data with torch.save instead."
        )
    with whole_folder(folder) as partial:
        _write_files(refined, partial)
        _check(refined, partial)
    return folder


def _write_files(refined: Refined, folder: Path) -> None:
    _write_nodes(refined, folder / "nodes.parquet")
    ids = [str(nodes[0]) for nodes in refined.node_map.members()]
    source, target = refined.data.edge_index.numpy()
    once = np.flatnonzero(source < target)
    lines = [f"{ids[source[edge]]},{ids[target[edge]]}\n" for edge in once]
    (folder / "edges.csv").write_text("source,target\n" + "".join(lines), encoding="utf-8")
    refined.node_map.write(folder / "node_map.csv")
    if refined.texts is not None:
        entries = [{"index": i, "text": text} for i, text in enumerate(refined.texts)]
        text = "".join(f"{json.dumps(entry)}\n" for entry in entries)
        (folder / "text.jsonl").write_text(text, encoding="utf-8")
    files = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
    facts = sealed(refined.to_dict() | {"files": files})
    account = json.dumps(facts, indent=2, ensure_ascii=False)
    (folder / ACCOUNT).write_text(account + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_readme(refined, folder), encoding="utf-8")


def _write_nodes(refined: Refined, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    data, info = refined.data, refined.data.dataset
    members = refined.node_map.members()
    x = data.x if data.x.layout == torch.strided else data.x.to_dense()
    columns: dict[str, Any] = {"id": pa.array([str(nodes[0]) for nodes in members])}
    columns |= {f"f{column}": pa.array(x[:, column].numpy()) for column in range(x.shape[1])}
    names = info.class_names
    columns["label"] = pa.array([names[label] if label >= 0 else "" for label in data.y.tolist()])
    if refined.has_split:
        words = np.full(info.nodes, "", dtype="<U5")
        for part in ("train", "val", "test"):
            words[data[f"{part}_mask"].numpy()] = part
        columns["split"] = pa.array(words.tolist())
    parquet.write_table(pa.table(columns), path)


def _check(refined: Refined, folder: Path) -> None:
    """Load the folder, and raise if anything would be read back differently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrgcnWarning)
        try:
            labelled = bool((refined.data.y >= 0).any())
            again = load(folder, require_labels=labelled)
        except InputError as error:
            words = str(error).replace(f"{folder}{os.sep}", "")
            raise InputError(f"The refined dataset cannot be written: {words}") from None
    kept = ["x", "y", "edge_index"]
    kept += ["train_mask", "val_mask", "test_mask"] if refined.has_split else []
    dense: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: (  # noqa: E731
        tensor if tensor.layout == torch.strided else tensor.to_dense()
    )
    for key in kept:
        if not torch.equal(dense(refined.data[key]), again[key]):
            raise InputError(
                f"The refined dataset cannot be written: {key} would be read back differently. "
                "Save refined.data with torch.save instead."
            )


def _readme(refined: Refined, folder: Path) -> str:
    account = refined.to_dict()
    nodes, edges, origin = account["nodes"], account["edges"], account["refined from"]
    files = [(f"`{file}`", what) for file, what in FILES.items() if (folder / file).is_file()]
    lines = [
        f"# {refined.data.dataset.name}",
        "",
        f"{nodes['kept']:,} of {nodes['before']:,} nodes: {nodes['merged']:,} were merged into "
        f"another node, {nodes['dropped']:,} dropped. {edges['after']:,} of {edges['before']:,} "
        f"undirected edges: {edges['inside']:,} were inside a group, {edges['repeated']:,} came "
        f"to repeat another, {edges['dropped']:,} went with dropped nodes. "
        f"{len(refined.conflicts):,} groups had members of different classes, and "
        f"{len(refined.left_training):,} training nodes left training.",
        "",
        f"Features of merged nodes: {refined.feature_rule}. Features were "
        f"{'not normalised' if origin.get('normalize', 'none') == 'none' else 'normalised'} when "
        "the set was refined, and are written as they were.",
        "",
        Table(("file", "what it holds"), files).markdown("cells"),
        "",
    ]
    return "\n".join(lines)
