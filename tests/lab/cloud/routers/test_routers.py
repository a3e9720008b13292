"""Router pods with the real HAProxy, and servers behind them: start, death and end, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.control_plane.api import CONFIG_MAP, Manifest
from lab.simulators.model_server.timing import Request, ServerTiming
from lab.stage.traffic.client import Asking
from lab.stage.traffic.traffic import Load
from tests.lab.cloud.fake_world import feed, until
from tests.lab.cloud.routers.play import NEEDS_HAPROXY, Play, objects_of, playing

pytestmark = [pytest.mark.slow, NEEDS_HAPROXY]
LOAD = Load(
    request=Request(input_tokens=768, output_tokens=384),
    timing=ServerTiming(ttft_seconds=1.0, tpot_seconds=0.05),
    in_flight_per_server=1000,
)
LONG_TOKENS = 1200
"""An answer of a second of the wall at speed 60."""


@pytest.fixture(scope="module")
def objects() -> list[Manifest]:
    return objects_of({"endpoint": {"kind": "leastRequest"}})


@pytest.fixture
def play(objects: list[Manifest], tmp_path: Path) -> Iterator[Play]:
    with playing(objects, LOAD, tmp_path) as made:
        yield made


def test_requests_are_answered_whoever_comes_or_goes(play: Play) -> None:
    play.add_server("server-0")
    play.add_router("router-0")
    play.traffic.wait_for_endpoints(1)
    play.traffic.start()
    play.add_server("server-1")
    play.add_router("router-1")
    play.traffic.wait_for_endpoints(2)
    play.servers.remove("server-0")
    play.traffic.settle()
    until(lambda: all(router.servers() == 1 for router in play.routers.pods()), "routers forget the server")
    play.traffic.settle()
    report = play.traffic.finish()
    after = report.outcomes[-5:]
    assert all(one.loss is None for one in after)
    # Those at the server that went; no request was refused.
    assert set(report.losses) <= {"cut mid-stream", "cut before the first token", "server error"}


def test_a_deleted_router_finishes_its_streams_and_is_not_found_any_more(play: Play) -> None:
    play.add_server("server-0")
    leaving = play.add_router("router-0")
    play.add_router("router-1")
    play.traffic.wait_for_endpoints(1)
    (router, _) = play.routers.pods()
    with Asking("Qwen/Qwen3.5-27B-FP8") as asking:
        streams = asking.send([router.url] * 5, tokens=LONG_TOKENS)
        until(lambda: sum(play.traffic.in_flight().values()) == 5, "requests at the server")
        play.delete(leaving, 600)
        until(lambda: len(play.routers.endpoints()) == 1, "routes without it")
    assert all(one.result().answered for one in streams)
    (ending,) = until(lambda: play.routers.endings, "its end")
    assert not ending.killed


def test_a_router_is_killed_at_the_end_of_a_short_grace_period(play: Play) -> None:
    play.add_server("server-0")
    leaving = play.add_router("router-0")
    play.traffic.wait_for_endpoints(1)
    with Asking("Qwen/Qwen3.5-27B-FP8") as asking:
        streams = asking.send([play.routers.pods()[0].url], tokens=LONG_TOKENS)
        until(lambda: sum(play.traffic.in_flight().values()) == 1, "the request at the server")
        play.delete(leaving, 20)
    assert not streams[0].result().whole
    (ending,) = until(lambda: play.routers.endings, "its end")
    assert ending.killed


def test_a_router_that_dies_is_restarted(play: Play) -> None:
    router = play.add_router("router-0")
    until(play.routers.endpoints, "a route")
    play.routers.crash("router-0")
    restarted = until(lambda: [body for _, _, body, part in play.api.patches if part == "status"], "its death is told")
    router["status"] |= {"containerStatuses": restarted[0]["status"]["containerStatuses"], "conditions": []}
    assert router["status"]["containerStatuses"][0]["restartCount"] == 1
    feed(play.world.pods, "modified", router)
    until(lambda: not play.routers.endpoints(), "no route")
    before = len(play.api.patches)
    until(lambda: len(play.api.patches) > before + 1 or play.routers.pods(), "it runs again")


def test_a_router_with_a_wrong_configuration_is_never_ready_and_says_why(
    objects: list[Manifest], tmp_path: Path
) -> None:
    with playing(objects, LOAD, tmp_path) as play:
        (config,) = (
            one
            for (kind, _), one in play.api.objects.items()
            if kind == CONFIG_MAP and "haproxy.cfg" in (one.get("data") or {})
        )
        text = config["data"]["haproxy.cfg"]
        wrong = {**config, "data": {"haproxy.cfg": text.replace("balance leastconn", "balance by-mood")}}
        play.api.objects[CONFIG_MAP, config["metadata"]["name"]] = wrong
        play.run_router("router-0")
        assert "balance" in until(lambda: play.routers.deaths, "its death")[0]
        assert not play.answers("router-0")
        assert not play.routers.endpoints()
