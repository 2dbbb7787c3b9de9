"""What the endpoint is asked, and what it answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

Id = StrictInt | StrictStr


class RecommendRequest(BaseModel):
    """Users by id, or by attributes alone."""

    model_config = ConfigDict(extra="forbid")

    users: list[Id] | None = Field(None, description="Ids of users, as in the data.")
    attributes: list[dict[str, Any]] | None = Field(
        None,
        description="Users that are not in the data, by their attributes. One that is not named, "
        "or null, is missing.",
    )
    n: StrictInt | None = Field(
        None, description="Length of a list. (default: 50, or the limit if that is less)"
    )
    exclude_seen: StrictBool = Field(False, description="Leave out what a user has clicked.")
    exact: StrictBool = Field(False, description="Score all items, without the index.")
    skip_unknown: StrictBool = Field(False, description="Leave out unknown ids, and count them.")


class ItemList(BaseModel):
    """The list of one user, best first."""

    user: Id | None = Field(description="The id; null for a user by attributes.")
    items: list[Id]
    scores: list[float]


class RecommendResponse(BaseModel):
    """Lists in the order of the request."""

    recommendations: list[ItemList]
    unknown: int = Field(description="Ids that were left out.")


class Health(BaseModel):
    """What is being served."""

    status: str
    users: int
    items: int
    model: str
    data: str
