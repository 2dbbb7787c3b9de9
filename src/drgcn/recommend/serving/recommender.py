"""Lists of items for users of an export, for visitors and for items, under the rules of a shop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import several_names
from drgcn.recommend.retrieval.blocks import ItemBlocks
from drgcn.recommend.retrieval.exact import exact_top, pair_scores
from drgcn.recommend.retrieval.index import FaissIndex
from drgcn.recommend.retrieval.ranking import TopItems, with_ones
from drgcn.recommend.serving.export_folder import ExportFolder
from drgcn.recommend.serving.exporting import MANY_SEEN
from drgcn.recommend.serving.ids import as_texts, known_rows
from drgcn.sampling import CSRGraph

_NAMED = 20  # values of a category that a message names


@dataclass(frozen=True, eq=False)
class RankedLists(TopItems):
    """Lists of users or visitors.

    Attributes:
        fallback: Whether a list is that of the popular items, since the model knows nothing of
            the user ``[queries]``; its scores are numbers of clicks, by their age if the model's
            scores know of it.
    """

    fallback: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))


@dataclass(frozen=True, eq=False)
class ItemFilter:
    """Rows of the items that lists may hold, ascending.

    Attributes:
        only: These alone; ``None`` for all.
        never: None of these.
    """

    only: Tensor | None = None
    never: Tensor | None = None


@dataclass(frozen=True)
class ItemRules:
    """Rules of a shop about the items in its lists.

    Attributes:
        allow: Ids of the only items that may be listed. (default: all)
        deny: Ids of items that may not.
        categories: For each column of categories that is named the values that an item may have;
            one without a value does not pass.
    """

    allow: Sequence[int | str] | None = None
    deny: Sequence[int | str] = ()
    categories: Mapping[str, Sequence[int | str]] = field(default_factory=dict)

    @property
    def are_none(self) -> bool:
        """True if all items may be listed."""
        return self.allow is None and not self.deny and not self.categories

    def rows(
        self, export: ExportFolder, skip_unknown: bool = False, option: str = "skip_unknown"
    ) -> tuple[ItemFilter | None, int]:
        """Return the items that pass, and how many unknown ids were left out.

        Args:
            export: The items.
            skip_unknown: Leave out unknown ids instead of refusing them.
            option: What the caller calls that, for the message.
        """
        if self.are_none:
            return None, 0
        lists = [list(self.allow or ()), list(self.deny)]
        (allowed, unknown), (denied, more) = (
            known_rows(export.item_lookup, ids, skip_unknown, option, "items") for ids in lists
        )
        if self.allow is None and not self.categories:
            return ItemFilter(never=denied.unique()), unknown + more
        passes = torch.ones(export.num_items, dtype=torch.bool)
        if self.allow is not None:
            passes.fill_(False)[allowed] = True
        for name, values in self.categories.items():
            passes &= _has_category(export, name, values)
        passes[denied] = False
        return ItemFilter(only=passes.nonzero()[:, 0]), unknown + more


def _has_category(export: ExportFolder, name: str, values: Sequence[int | str]) -> Tensor:
    import pyarrow.compute as pc

    table = export.item_categories
    several = several_names(table.numeric_names)
    if name not in (names := (*table.category_names, *several)):
        raise InputError(
            f"Expected a category of items among {', '.join(names) or 'none'}; found {name!r}."
        )
    if name in several:
        # Each value is a column of zeros and ones: any of those asked for may be one.
        known = [column.removeprefix(f"{name}: ") for column in several[name]]
        places = [known.index(text) for text in map(str, values) if text in known]
        wrong = [value for value in values if str(value) not in known]
        if wrong or not places:
            raise _other_values(name, known, wrong)
        columns = [table.numeric_names.index(several[name][place]) for place in places]
        return (table.numeric[:, columns] == 1).any(dim=1)
    column = table.category_names.index(name)
    texts = table.category_values[column]
    codes = pc.index_in(as_texts(values, "categories").cast(texts.type), value_set=texts)
    if codes.null_count or not len(codes):
        pairs = zip(values, codes, strict=True)
        wrong = [value for value, code in pairs if not code.is_valid]
        raise _other_values(name, texts.to_pylist(), wrong)
    wanted = torch.tensor(codes.to_pylist(), dtype=torch.int32)
    return torch.isin(table.categories[:, column], wanted)


def _other_values(name: str, known: Sequence[Any], wrong: Sequence[Any]) -> InputError:
    return InputError(
        f"Expected values of {name!r} that items have ({_named(known)}); found "
        f"{_named(wrong) or 'none'}."
    )


def _named(values: Sequence[Any]) -> str:
    more = f" and {len(values) - _NAMED:,} more" if len(values) > _NAMED else ""
    return ", ".join(map(repr, values[:_NAMED])) + more


@dataclass(frozen=True, eq=False)
class Explanation:
    """The parts of one score.

    Attributes:
        score: The score of the user and the item.
        clicked: Rows of the items that the user has clicked, those that speak for it most first.
        parts: Part of the score that comes from each.
        rest: Part that comes from the user: its own embedding, its attributes, and biases. All
            parts, the rest and the popularity add up to the score.
        popularity: Part that comes from the popularity of the item.
    """

    score: float
    clicked: Tensor
    parts: Tensor
    rest: float
    popularity: float = 0.0


@dataclass(frozen=True, eq=False)
class Visitors:
    """Users who are not in an export.

    Attributes:
        clicked: Rows of the items that each has clicked; ``None`` if nobody's clicks are given.
        attributes: Attributes of each by name; ``None`` if nobody's are given.
    """

    clicked: Sequence[Tensor] | None = None
    attributes: Sequence[Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        sizes = {len(part) for part in (self.clicked, self.attributes) if part is not None}
        if len(sizes) != 1 or 0 in sizes:
            raise InputError(
                f"Expected clicked items or attributes of at least one visitor, or both of as "
                f"many visitors; found {' and '.join(map(str, sorted(sizes))) or 'neither'}."
            )

    def __len__(self) -> int:
        return len(self.clicked if self.clicked is not None else self.attributes or ())

    def clicks(self, num_items: int) -> CSRGraph:
        """Each visitor's items, each once and in order."""
        given = self.clicked if self.clicked is not None else [torch.empty(0)] * len(self)
        parts = [rows.long().unique() for rows in given]
        size = torch.tensor([len(rows) for rows in parts])
        return CSRGraph(F.pad(size.cumsum(0), (1, 0)), torch.cat(parts), num_items)


class Recommender:
    """Searches an export.

    Args:
        export: The export.
        device: Where exact searches are done.
    """

    def __init__(self, export: ExportFolder, device: torch.device | str = "cpu") -> None:
        self.export = export
        self.device = torch.device(device)

    def for_users(
        self,
        rows: Tensor,
        n: int,
        *,
        exclude_seen: bool = False,
        exact: bool = False,
        among: ItemFilter | None = None,
    ) -> RankedLists:
        """The lists of users by row; popular items for those of whom the model knows nothing."""
        seen = self.export.seen.rows(rows) if exclude_seen else None
        vectors = self.export.users.rows(rows)
        top = self.for_vectors(vectors, n, seen=seen, exact=exact, among=among)
        return self._with_fallback(top, self.export.known_users[rows], n, seen, among)

    def for_visitors(
        self,
        visitors: Visitors,
        n: int,
        *,
        exclude_seen: bool = False,
        exact: bool = False,
        among: ItemFilter | None = None,
    ) -> RankedLists:
        """The lists of visitors; popular items for those of whom the model knows nothing.

        Of clicked items count those that the model knows, by clicks of others or by attributes.
        """
        seen = visitors.clicks(self.export.num_items) if exclude_seen else None
        vectors, known = self._visitor_vectors(visitors)
        top = self.for_vectors(vectors, n, seen=seen, exact=exact, among=among)
        return self._with_fallback(top, known, n, seen, among)

    def for_vectors(
        self,
        vectors: Tensor,
        n: int,
        *,
        seen: CSRGraph | None = None,
        exact: bool = False,
        among: ItemFilter | None = None,
    ) -> TopItems:
        """The lists of vectors ``[q, d]``, on the CPU; -1 where there are fewer items.

        With an index, a user who has seen very many items, or whose list the index cannot fill,
        is searched exactly, and so is a list of certain items alone.

        Args:
            vectors: One for each list; as users have them, or without the column of popularity.
            n: Length of a list.
            seen: What must not come out, a row for each vector.
            exact: Do without the index.
            among: What may come out.
        """
        if n < 1:
            raise InputError(f"Expected n to be at least one; found {n}.")
        vectors = self._complete(vectors)
        index = None if exact or _is_narrow(among) else self.export.index
        if index is None:
            return self._best(self._item_blocks, vectors, n, seen, among)
        seen = self._excluded(len(vectors), seen, among)
        left_out = torch.zeros(len(vectors), dtype=torch.int64) if seen is None else seen.degree
        few = left_out <= MANY_SEEN
        top = _by_index(index, vectors, n, seen, few)
        full = (self.export.num_items - left_out).clamp(max=n)
        short = ((top.items >= 0).sum(dim=1) < full).nonzero()[:, 0]
        if short.numel():
            part = None if seen is None else seen.rows(short)
            again = self._best(self._item_blocks, vectors[short], n, part)
            top.items[short], top.scores[short] = again.items, again.scores
        return top

    def similar(
        self, items: Tensor, n: int, *, exact: bool = False, among: ItemFilter | None = None
    ) -> TopItems:
        """The items whose vectors point the same way as those of some items, by row.

        Scores are cosines. An item is not in its own list.
        """
        export = self.export
        if unknown := (~export.known_items[items]).nonzero()[:, 0].tolist():
            raise InputError(
                f"Expected items that the model knows something of; found "
                f"{len(unknown):,} that nobody has clicked, the first of them "
                f"{export.item_lookup.ids(items[unknown[:1]].numpy())[0]}."
            )
        own = CSRGraph(torch.arange(len(items) + 1), items, export.num_items)
        vectors = F.normalize(self._own_columns(export.items[items].float()), dim=1)
        if export.manifest.normalised:
            return self.for_vectors(vectors, n, seen=own, exact=exact, among=among)
        return self._best(self._unit_blocks, vectors, n, own, among)

    def popular(
        self,
        count: int,
        n: int,
        *,
        seen: CSRGraph | None = None,
        among: ItemFilter | None = None,
    ) -> TopItems:
        """So many lists of the most clicked items; scores are numbers of clicks, by their age if
        the model's scores know of it."""
        return self._best(self._popular_blocks, torch.ones(count, 1), n, seen, among)

    def why(self, item: int, user: int | Visitors) -> Explanation:
        """The parts of a score that come from the items that a user, or one visitor, clicked."""
        export, fold_in = self.export, self.export.fold_in
        length = None
        if isinstance(user, Visitors):
            if len(user) != 1:
                raise InputError(f"Expected one visitor; found {len(user)}.")
            vector, known = self._visitor_vectors(user)
            clicks, own = self._known_clicks(user), self._own(user)
        else:
            rows = torch.tensor([user])
            known, clicks = export.known_users[rows], export.seen.rows(rows)
            own = self._own_of_user(rows)
            vector = export.users.rows(rows)
            length = None if fold_in.lengths is None else fold_in.lengths[user]
        if not bool(known[0]):
            raise InputError(
                "Expected a user of whom the model knows something; found one without clicks on "
                "items that it knows, whose list is that of the popular items."
            )
        target = export.items[item].float()
        score = float(pair_scores(self._complete(vector)[0], target, "ip"))
        popularity = 0.0
        if export.manifest.popularity is not None:
            target, popularity = target[:-1], float(target[-1])
        parts = fold_in.contributions(clicks, own, target, length)
        order = parts.argsort(descending=True, stable=True)
        rest = score - popularity - float(parts.double().sum())
        return Explanation(score, clicks.col.long()[order], parts[order], rest, popularity)

    def _complete(self, vectors: Tensor) -> Tensor:
        """Vectors with the column of popularity, if the export has one."""
        manifest = self.export.manifest
        lacks = manifest.popularity is not None and vectors.size(1) == manifest.dim - 1
        return with_ones(vectors) if lacks else vectors

    def _own_columns(self, items: Tensor) -> Tensor:
        """Vectors of items without their popularity."""
        if self.export.manifest.popularity is None:
            return items
        return F.pad(items[:, :-1], (0, 1))

    def _visitor_vectors(self, visitors: Visitors) -> tuple[Tensor, Tensor]:
        """Their vectors, and of which the model knows anything."""
        if visitors.clicked is None:
            assert visitors.attributes is not None
            vectors = self.export.cold_users.vectors(visitors.attributes)
            return vectors, torch.ones(len(visitors), dtype=torch.bool)
        clicks = self._known_clicks(visitors)
        vectors = self.export.fold_in.vectors(clicks, self._own(visitors))
        return vectors, (clicks.degree > 0) | (visitors.attributes is not None)

    def _known_clicks(self, visitors: Visitors) -> CSRGraph:
        clicks = visitors.clicks(self.export.num_items)
        return _columns(clicks, self.export.known_items[clicks.col])

    def _own(self, visitors: Visitors) -> Tensor | None:
        export = self.export
        given = visitors.attributes
        if given is None and not export.manifest.cold_users:
            return export.fold_in.own(None, len(visitors))
        table = export.cold_users.encoded(given if given is not None else [{}] * len(visitors))
        return export.fold_in.own(table, len(visitors))

    def _own_of_user(self, rows: Tensor) -> Tensor | None:
        export = self.export
        if not export.manifest.cold_users:
            return export.fold_in.own(None, len(rows), rows)
        return export.fold_in.own(export.cold_users.table.rows(rows), len(rows), rows)

    def _with_fallback(
        self,
        top: TopItems,
        known: Tensor,
        n: int,
        seen: CSRGraph | None,
        among: ItemFilter | None,
    ) -> RankedLists:
        other = (~known).nonzero()[:, 0]
        if other.numel():
            part = None if seen is None else seen.rows(other)
            popular = self.popular(other.numel(), n, seen=part, among=among)
            top.items[other], top.scores[other] = popular.items, popular.scores
        return RankedLists(top.scores, top.items, top.widened, top.scanned, ~known)

    @cached_property
    def _item_blocks(self) -> ItemBlocks:
        items = self.export.items.to(self.device)
        return ItemBlocks.of(items, self.export.manifest.metric)

    @cached_property
    def _unit_blocks(self) -> ItemBlocks:
        return ItemBlocks.of(F.normalize(self._own_columns(self._item_blocks.items), dim=1))

    @cached_property
    def _popular_blocks(self) -> ItemBlocks:
        return ItemBlocks.of(self.export.item_popularity[:, None].float().to(self.device))

    def _best(
        self,
        blocks: ItemBlocks,
        vectors: Tensor,
        n: int,
        seen: CSRGraph | None,
        among: ItemFilter | None = None,
    ) -> TopItems:
        """Exact lists."""
        only = None if among is None else among.only
        if only is None:
            seen = self._excluded(len(vectors), seen, among)
        else:
            if not only.numel():
                return _empty_lists(len(vectors), n)
            blocks = ItemBlocks.of(blocks.items[only.to(self.device)], blocks.metric)
            seen = None if seen is None else _renumbered(seen, only)
        exclude = None if seen is None else seen.to(self.device)
        top = exact_top(vectors.to(self.device), blocks, n, exclude=exclude)
        items = top.items.cpu()
        if only is not None:
            items = torch.where(items >= 0, only[items.clamp(min=0)], -1)
        return TopItems(top.scores.cpu(), items, top.widened, top.scanned)

    def _excluded(
        self, count: int, seen: CSRGraph | None, among: ItemFilter | None
    ) -> CSRGraph | None:
        """Items that must not come out: what each has seen, and what nobody may see."""
        if among is None or among.never is None:
            return seen
        width = self.export.num_items
        pairs = (torch.arange(count)[:, None] * width + among.never).flatten()
        if seen is not None:
            pairs = torch.cat([pairs, seen.row * width + seen.col])
        pairs = pairs.unique()
        counts = torch.bincount(pairs // width, minlength=count)
        return CSRGraph(F.pad(counts.cumsum(0), (1, 0)), pairs % width, width)


def _is_narrow(among: ItemFilter | None) -> bool:
    return among is not None and among.only is not None


def _empty_lists(count: int, n: int) -> TopItems:
    return TopItems(
        torch.full((count, n), -torch.inf), torch.full((count, n), -1, dtype=torch.int64)
    )


def _columns(graph: CSRGraph, kept: Tensor) -> CSRGraph:
    """The graph with some of its entries."""
    counts = torch.bincount(graph.row[kept], minlength=graph.num_rows)
    return CSRGraph(F.pad(counts.cumsum(0), (1, 0)), graph.col[kept], graph.num_cols)


def _renumbered(graph: CSRGraph, only: Tensor) -> CSRGraph:
    """The entries in some columns, which are numbered anew."""
    place = torch.searchsorted(only, graph.col.long()).clamp(max=len(only) - 1)
    part = _columns(graph, only[place] == graph.col)
    return CSRGraph(part.rowptr, torch.searchsorted(only, part.col.long()), len(only))


def _by_index(
    index: FaissIndex, vectors: Tensor, n: int, seen: CSRGraph | None, few: Tensor
) -> TopItems:
    """Lists of the index for users who have seen few items; empty for the others."""
    if seen is None:
        return index.search(vectors, n)
    if bool(few.all()):
        return index.search(vectors, n, exclude=seen, exclude_rows=torch.arange(len(vectors)))
    top = _empty_lists(len(vectors), n)
    some = few.nonzero()[:, 0]
    if some.numel():
        exclude = seen.rows(some)
        found = index.search(
            vectors[some], n, exclude=exclude, exclude_rows=torch.arange(some.numel())
        )
        width = found.items.size(1)
        top.items[some, :width], top.scores[some, :width] = found.items, found.scores
    return top
