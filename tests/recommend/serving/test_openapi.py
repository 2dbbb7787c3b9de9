"""Requests made from the OpenAPI page, and answers compared with it."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from drgcn.recommend.serving import ExportSettings, LoadedRun, export
from drgcn.recommend.serving.server import HttpLimits, ServedExport

pytest.importorskip("fastapi")
schemathesis = pytest.importorskip("schemathesis")

# What a request may be refused for that has the form of the page: facts of the export, and rules
# between fields that JSON Schema cannot say.
FACTS = (
    "Expected ids of ",
    "Expected items that the model knows",
    "Expected a user of whom",
    "Expected a category of items",
    "Expected values of ",
    "Expected attributes among",
    "Expected a finite number",
    "Expected a model that knows users by attributes",
    "Expected categories that are text",
    "Expected exclude_seen with",
    "Expected clicked items or attributes of ",
    "Expected an export with clicks",
    "Expected a text",
    "Expected the category",
)
LIMITS = HttpLimits(n=20, batch=4)
SOUND = {
    "/recommend": {"users": ["u07"], "n": 3},
    "/similar": {"items": [17]},
    "/why": {"item": 17, "user": "u07"},
}
OPERATIONS = (*SOUND, "/healthz", "/metrics")


def page_of(folder, token=None):
    """The page, and the headers that open it."""
    from drgcn.recommend.serving.http import build_app

    app = build_app(ServedExport(folder), LIMITS, token=token)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=headers), headers


@pytest.fixture(scope="module", params=["sage", "light", "closed"])
def page(request, shop, tmp_path_factory):
    """The page of a model with attributes, of one without, and of a server with a token."""
    if request.param == "light":
        folder = tmp_path_factory.mktemp("light") / "export"
        export(LoadedRun.open(shop / "light"), folder, ExportSettings(n=5))
        return page_of(folder)
    return page_of(shop / "export", "a" * 32 if request.param == "closed" else None)


def known(value, name="users"):
    """The same request with ids, categories and attributes that the shop has."""
    if isinstance(value, dict):
        if name in ("attributes", "categories"):
            names = ("a", "b", "c") if name == "attributes" else ("place", "kind")
            shown = [1.5, 0] if name == "attributes" else [["1"], ["2"]]
            return dict(zip(names[: len(value)], shown, strict=False))
        return {key: known(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [known(part, name) for part in value]
    if isinstance(value, bool) or value is None or name == "n":
        return value
    number = len(str(value)) if isinstance(value, str) else int(value)
    return f"u{number % 60:02}" if name in ("user", "users") else 10 * (number % 400) + 7


def has_odd_header(case):
    """True where it is the token that is wrong, which must not be made good."""
    parts = {} if case.meta is None else case.meta.components
    return any(
        (place.value, part.mode.value) == ("header", "negative") for place, part in parts.items()
    )


def check(page, path, examples, mode):
    """The statuses of requests, each of which is compared with the page."""
    schema, headers = page
    operation = next(one.ok() for one in schema.get_all_operations() if one.ok().path == path)
    statuses = Counter()
    checks = schemathesis.checks.CHECKS
    left_out = [checks.get_one("positive_data_acceptance"), checks.get_one("ignored_auth")]

    def compare(case):
        answer = case.call(headers={} if has_odd_header(case) else headers)
        statuses[answer.status_code] += 1
        case.validate_response(answer, excluded_checks=left_out)
        if mode == "positive" and answer.status_code == 422:
            assert answer.json()["detail"].startswith(FACTS), answer.json()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],  # a failure is told as it is found
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def each(case):
        compare(case)
        if mode == "positive" and path in SOUND:
            case.body = known(case.body)
            compare(case)

    if path in SOUND:
        compare(operation.Case(body=SOUND[path], media_type="application/json"))
        assert statuses == {200: 1}
        statuses.clear()
    each()
    return statuses


def check_both(page, path, examples):
    check(page, path, examples, "positive")
    if path in SOUND:  # the others take nothing that could be wrong
        assert not check(page, path, examples, "negative")[200]


@pytest.mark.parametrize("path", OPERATIONS)
def test_the_page_is_true(page, path):
    check_both(page, path, 8)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("path", SOUND)
def test_the_page_is_true_of_many_requests(page, path):
    check_both(page, path, 400)


def test_the_page_states_limits_and_the_token(shop):
    def described(token):
        return page_of(shop / "export", token)[0].raw_schema

    plain, closed = described(None), described("a" * 32)
    assert "401" not in str(plain)
    for path in OPERATIONS:
        for facts in closed["paths"][path].values():
            asked = path != "/healthz"
            assert ("401" in facts["responses"], "security" in facts) == (asked, asked)
    fields = plain["components"]["schemas"]["RecommendRequest"]["properties"]
    assert fields["users"]["anyOf"][0]["maxItems"] == 4
    assert fields["n"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 20}
