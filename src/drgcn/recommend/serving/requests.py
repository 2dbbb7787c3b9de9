"""Requests to the endpoint and their answers: lists of users and visitors, similar items, why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr
from pydantic.config import JsonDict

from drgcn.errors import InputError
from drgcn.recommend.retrieval.ranking import TopItems
from drgcn.recommend.serving.export_folder import ExportFolder
from drgcn.recommend.serving.ids import known_rows
from drgcn.recommend.serving.recommender import ItemRules, Recommender, Visitors
from drgcn.recommend.serving.server import HttpLimits

Id = StrictInt | StrictStr
_USUAL = 50  # items in a list, if a request does not say
#: Users whose lists depend on nobody who is searched with them. From 20 queries on, faiss computes
#: scores by a matrix product, which rounds otherwise.
TOGETHER = 16
MOST_ITEMS = 10_000  # ids of items in a request: to find a text takes some microseconds


class ItemList(BaseModel):
    """The list of one user, best first."""

    user: Id | None = Field(description="The id; null for a visitor.")
    items: list[Id]
    scores: list[float]
    fallback: bool = Field(
        description="True if nothing is known of the user: these are the most clicked items, and "
        "scores are numbers of clicks."
    )


class RecommendResponse(BaseModel):
    """Lists in the order of the request."""

    recommendations: list[ItemList]
    unknown: int = Field(description="Ids that were left out.")

    @property
    def num_lists(self) -> int:
        """Number of lists."""
        return len(self.recommendations)


class SimilarList(BaseModel):
    """Items like one item, best first; scores are cosines."""

    item: Id
    items: list[Id]
    scores: list[float]


class SimilarResponse(BaseModel):
    """Lists in the order of the request."""

    similar: list[SimilarList]
    unknown: int = Field(description="Ids that were left out.")

    @property
    def num_lists(self) -> int:
        """Number of lists."""
        return len(self.similar)


class ClickedPart(BaseModel):
    """A clicked item, and the part of the score that comes from it."""

    item: Id
    part: float


class WhyResponse(BaseModel):
    """The parts of a score, which add up to it with the rest and the popularity."""

    item: Id
    score: float
    clicked: list[ClickedPart] = Field(description="Those that speak for the item most first.")
    rest: float = Field(description="The part of the user's own embedding, attributes and biases.")
    popularity: float = Field(description="The part of the item's popularity.")

    @property
    def num_lists(self) -> int:
        """Number of lists: none."""
        return 0


def _either(one: str, *others: str) -> JsonDict:
    """JSON Schema of an object that has the one field or some of the others, and not null."""
    first, *rest = (
        {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
        for name in (one, *others)
    )
    return cast("JsonDict", {"oneOf": [first, {"anyOf": rest}]})


class _Request(BaseModel):
    """A request."""

    model_config = ConfigDict(extra="forbid")

    @property
    def num_lists(self) -> int:
        """Number of lists asked for."""
        return 1

    @property
    def shared(self) -> tuple[Any, ...] | None:
        """Settings that requests answered by one search share; ``None`` for one alone."""
        return None


class ListRequest(_Request):
    """A request for lists, and the rules about what may be in them."""

    n: StrictInt | None = Field(
        None, description="Length of a list. (default: 50, or the limit if that is less)"
    )
    allow: list[Id] | None = Field(None, description="The only items that may be listed.")
    deny: list[Id] = Field([], description="Items that may not be listed.")
    categories: dict[str, list[Id]] = Field(
        {}, description="For columns of items' attributes, the values that an item may have."
    )
    exact: StrictBool = Field(False, description="Score all items, without the index.")
    skip_unknown: StrictBool = Field(False, description="Leave out unknown ids, and count them.")

    def checked_n(self, number: int, limits: HttpLimits) -> int:
        """The length of the lists, if that and their number are within limits."""
        _check_items(self.allow or (), self.deny)
        if not 1 <= number <= limits.batch:
            raise InputError(f"Expected 1 to {limits.batch} users in a request; found {number}.")
        n = min(_USUAL, limits.n) if self.n is None else self.n
        if not 1 <= n <= limits.n:
            raise InputError(f"Expected n from 1 to {limits.n}; found {n}.")
        return n

    @property
    def rules(self) -> ItemRules:
        """The rules."""
        return ItemRules(self.allow, self.deny, self.categories)


class RecommendRequest(ListRequest):
    """Users by id; or visitors by the items they clicked, by attributes, or by both."""

    model_config = ConfigDict(json_schema_extra=_either("users", "clicked", "attributes"))

    users: list[Id] | None = Field(None, description="Ids of users, as in the data.")
    clicked: list[list[Id]] | None = Field(
        None, description="The items that each visitor has clicked, by id."
    )
    attributes: list[dict[str, Any]] | None = Field(
        None,
        description="Users that are not in the data, by their attributes. One that is not named, "
        "or null, is missing.",
    )
    exclude_seen: StrictBool = Field(False, description="Leave out what a user has clicked.")

    @property
    def num_lists(self) -> int:
        """Number of lists asked for."""
        return len(self.users or self.clicked or self.attributes or ())

    @property
    def shared(self) -> tuple[Any, ...] | None:
        """Settings that requests answered by one search share; ``None`` for one alone."""
        if not self.users or self.skip_unknown or not self.rules.are_none:
            return None
        return self.n, self.exclude_seen, self.exact

    def answer(self, recommender: Recommender, limits: HttpLimits) -> RecommendResponse:
        """The lists."""
        export = recommender.export
        visitors = self.clicked if self.clicked is not None else self.attributes
        if (self.users is None) == (visitors is None):
            raise InputError(
                "Expected either users, by id, or visitors, by clicked items or attributes; found "
                "both or neither."
            )
        n = self.checked_n(len(self.users or visitors or ()), limits)
        if self.exclude_seen and self.users is None and self.clicked is None:
            raise InputError(
                "Expected exclude_seen with users by id or with clicked items; users by "
                "attributes have seen nothing."
            )
        among, unknown = self.rules.rows(export, self.skip_unknown)
        options: dict[str, Any] = {"exclude_seen": self.exclude_seen, "exact": self.exact}
        owners: list[Any]
        if self.users is not None:
            rows, more = known_rows(export.user_lookup, self.users, self.skip_unknown)
            top = recommender.for_users(rows, n, among=among, **options)
            owners = export.user_lookup.listed(rows.numpy())
        else:
            found, more = _visitors(export, self.clicked, self.attributes, self.skip_unknown)
            top = recommender.for_visitors(found, n, among=among, **options)
            owners = [None] * len(found)
        parts = zip(owners, _lists(export, top), top.fallback.tolist(), strict=True)
        lists = [
            # Made of our own numbers, which need no check.
            ItemList.model_construct(user=owner, items=items, scores=scores, fallback=fallback)
            for owner, (items, scores), fallback in parts
        ]
        return RecommendResponse.model_construct(recommendations=lists, unknown=unknown + more)


def answers_together(
    requests: Sequence[RecommendRequest], recommender: Recommender, limits: HttpLimits
) -> list[RecommendResponse]:
    """Answers to requests that agree in what they must share, by one search if that changes
    nothing.

    Raises:
        InputError: If one of them cannot be answered.
    """
    index = None if requests[0].exact else recommender.export.index
    if index is not None and index.kind == "hnsw":  # finds other items in longer searches
        return [one.answer(recommender, limits) for one in requests]
    for one in requests:
        one.checked_n(one.num_lists, limits)
    ends = list(accumulate((one.num_lists for one in requests), initial=0))
    if ends[-1] > TOGETHER:
        raise InputError(f"Expected at most {TOGETHER} users; found {ends[-1]}.")
    every = [user for one in requests for user in one.users or ()]
    whole = requests[0].model_copy(update={"users": every})
    found = whole.answer(recommender, replace(limits, batch=TOGETHER)).recommendations
    return [
        RecommendResponse.model_construct(recommendations=found[a:b], unknown=0)
        for a, b in pairwise(ends)
    ]


class SimilarRequest(ListRequest):
    """Items by id."""

    items: list[Id] = Field(description="Ids of items, as in the data.")

    def answer(self, recommender: Recommender, limits: HttpLimits) -> SimilarResponse:
        """The lists."""
        export = recommender.export
        n = self.checked_n(len(self.items), limits)
        among, unknown = self.rules.rows(export, self.skip_unknown)
        rows, more = known_rows(export.item_lookup, self.items, self.skip_unknown, what="items")
        top = recommender.similar(rows, n, exact=self.exact, among=among)
        owners = export.item_lookup.listed(rows.numpy())
        lists = [
            SimilarList(item=owner, items=items, scores=scores)
            for owner, (items, scores) in zip(owners, _lists(export, top), strict=True)
        ]
        return SimilarResponse(similar=lists, unknown=unknown + more)


class WhyRequest(_Request):
    """An item; and a user by id, or a visitor by clicked items, attributes, or both."""

    model_config = ConfigDict(json_schema_extra=_either("user", "clicked", "attributes"))

    item: Id
    user: Id | None = None
    clicked: list[Id] | None = Field(None, description="The items that a visitor has clicked.")
    attributes: dict[str, Any] | None = Field(None, description="A visitor's attributes.")

    def answer(self, recommender: Recommender, _: HttpLimits) -> WhyResponse:
        """The parts of the score."""
        export = recommender.export
        is_visitor = self.clicked is not None or self.attributes is not None
        if is_visitor == (self.user is not None):
            raise InputError(
                "Expected either a user, by id, or a visitor, by clicked items or attributes; "
                "found both or neither."
            )
        item, _unknown = known_rows(export.item_lookup, [self.item], what="items")
        user: int | Visitors
        if self.user is not None:
            user = int(known_rows(export.user_lookup, [self.user])[0])
        else:
            clicked = None if self.clicked is None else [self.clicked]
            attributes = None if self.attributes is None else [self.attributes]
            user, _unknown = _visitors(export, clicked, attributes)
        found = recommender.why(int(item), user)
        ids = export.item_lookup.listed(found.clicked.numpy())
        parts = [
            ClickedPart(item=one, part=part)
            for one, part in zip(ids, found.parts.tolist(), strict=True)
        ]
        return WhyResponse(
            item=self.item,
            score=found.score,
            clicked=parts,
            rest=found.rest,
            popularity=found.popularity,
        )


def _visitors(
    export: ExportFolder,
    clicked: list[list[Id]] | None,
    attributes: list[dict[str, Any]] | None,
    skip_unknown: bool = False,
) -> tuple[Visitors, int]:
    """Visitors whose clicked items are given by id, and how many ids were left out."""
    if clicked is None:
        return Visitors(None, attributes), 0
    _check_items(*clicked)
    every = [known_rows(export.item_lookup, ids, skip_unknown, what="items") for ids in clicked]
    return Visitors([rows for rows, _ in every], attributes), sum(more for _, more in every)


def _check_items(*lists: Sequence[Id]) -> None:
    number = sum(map(len, lists))
    if number > MOST_ITEMS:
        raise InputError(
            f"Expected at most {MOST_ITEMS:,} ids of items in a request; found {number:,}."
        )


def _lists(export: ExportFolder, top: TopItems) -> list[tuple[list[Any], list[float]]]:
    """Ids and scores of each list."""
    real = top.items >= 0
    ids = export.item_lookup.listed(top.items[real].numpy())
    scores = top.scores[real].tolist()
    ends = accumulate(real.sum(dim=1).tolist(), initial=0)
    return [(ids[begin:end], scores[begin:end]) for begin, end in pairwise(ends)]
