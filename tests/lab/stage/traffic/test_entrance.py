"""What clients see at a Service and at a gateway's route, with and without ready pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lab.cloud.gateway_split import Backend
from lab.stage.traffic.entrance import RouteEntrance, ServiceEntrance
from tests.support.rows import each_row

SERVERS, CANARY = {"app": "server"}, {"app": "server-canary"}
READY = {"server": ["http://a", "http://b"], "server-canary": ["http://c"]}


def seen(canary: Backend, ready: Mapping[str, list[str]]) -> Counter[str]:
    """What a hundred requests meet, beside servers of weight 60."""
    split = (Backend(name="servers", weight=60, selector=SERVERS), canary)
    entrance = RouteEntrance(lambda: split, lambda labels: ready.get(labels["app"], []))
    chosen = [entrance.choose() for _ in range(100)]
    return Counter(one.backend if one.url else one.loss for one in chosen)


ROWS: dict[str, tuple[Backend, dict[str, list[str]], dict[str, int]]] = {
    "a share": (Backend(name="canary", weight=40, selector=CANARY), READY, {"servers": 60, "canary": 40}),
    "weight 0": (Backend(name="canary", weight=0, selector=CANARY), READY, {"servers": 100}),
    "no ready pod": (
        Backend(name="canary", weight=40, selector=CANARY),
        {**READY, "server-canary": []},
        {"servers": 60, "no endpoint": 40},
    ),
    "no such pool": (Backend(name="canary", weight=40, selector=None), READY, {"servers": 60, "server error": 40}),
}


@each_row("canary, ready, expected", ROWS.values())
def test_each_backend_answers_its_share_or_loses_it(
    canary: Backend, ready: dict[str, list[str]], expected: dict[str, int]
) -> None:
    assert seen(canary, ready) == expected


def test_a_route_without_a_backend_loses_every_request() -> None:
    chosen = RouteEntrance(lambda: (), lambda _: ["http://a"]).choose()
    assert (chosen.url, chosen.loss) == (None, "no endpoint")


def test_a_retry_goes_to_another_server_where_there_is_one() -> None:
    both, alone = ServiceEntrance(lambda: ["http://a", "http://b"]), ServiceEntrance(lambda: ["http://a"])
    assert {both.choose(other_than="http://a").url for _ in range(20)} == {"http://b"}
    assert alone.choose(other_than="http://a").url == "http://a"
    assert ServiceEntrance(list).choose().url is None
