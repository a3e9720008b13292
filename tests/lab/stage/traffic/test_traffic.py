"""Servers, Service and driver together, over real sockets."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from facts.names import CANARY_ENDING
from lab.cloud.gateway_split import Backend
from lab.results.clock import Clock
from lab.results.result import RehearsalError
from lab.simulators.model_server.timing import Request, ServerTiming
from lab.stage.traffic.driver import sample_rate
from lab.stage.traffic.pod_end import share_cut
from lab.stage.traffic.traffic import Load, Traffic, load_of, published_load
from tests.lab.stage.traffic.pods import NAMESPACE, ONE_API_SERVER, SERVER, FakeObjects, changed, pod
from tests.support.settings import make_settings

pytestmark = pytest.mark.slow

SPEED = 40.0
REQUEST = Request(input_tokens=768, output_tokens=384)
RECORD = ServerTiming(ttft_seconds=5.6, tpot_seconds=(24.0 - 5.6) / 383)
"""24 s a request, as the article rounds it."""
SHORT = ServerTiming(ttft_seconds=1.0, tpot_seconds=1.0 / 383)


class Cluster:
    """Pods, nodes and the traffic over them."""

    def __init__(
        self,
        timing: ServerTiming,
        speed: float,
        route: Callable[[], Sequence[Backend]] | None = None,
    ) -> None:
        self.clock = Clock(speed)
        self.pods, self.nodes = FakeObjects(), FakeObjects()
        self.traffic = Traffic(
            clock=self.clock,
            pods=self.pods,
            nodes=self.nodes,
            server=SERVER,
            namespace=NAMESPACE,
            model="Qwen/Qwen3.5-27B-FP8",
            load=Load(request=REQUEST, timing=timing, in_flight_per_server=2000),
            route=route,
        )

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 5
        while not condition():
            assert time.monotonic() < deadline, "it did not come to that in 5 s"
            time.sleep(0.002)

    def sleep(self, seconds: float) -> None:
        self.traffic.run_for(seconds)


@contextmanager
def cluster(
    *names: str, timing: ServerTiming = SHORT, speed: float = SPEED, args: tuple[str, ...] = ()
) -> Iterator[Cluster]:
    made = Cluster(timing, speed)
    for name in names:
        made.pods.put(pod(name, args=args))
    with made.traffic:
        made.traffic.wait_for_endpoints(len(names))
        yield made


def test_a_spot_notice_of_15_s_cuts_the_share_that_arithmetic_says() -> None:
    with cluster("a", "b", timing=RECORD, args=ONE_API_SERVER) as here:
        here.traffic.start(rate_per_second=4.0, retry=True)
        here.traffic.settle()
        going = here.pods.all()[0]
        here.pods.put(changed(going, notice=True))
        here.until(lambda: len(here.traffic.fleet.endings) == 1)
        here.pods.put(changed(going, notice=True, phase="Failed"))
        report = here.traffic.finish()
    (ended,) = report.endings
    assert (ended.pod, ended.reason, ended.stream_seconds) == ("a", "Spot notice", 15)
    assert ended.ending.in_flight >= 30
    assert report.share_cut == pytest.approx(share_cut(24.0, 15.0), abs=0.2)
    assert report.share_cut_expected == pytest.approx(0.375)
    # Without a retry exactly what was cut or sent to a server that was gone is lost, with one nothing is.
    assert report.losses.get("cut mid-stream", 0) + report.losses.get("cut before the first token", 0) == (
        ended.ending.cut + ended.ending.cut_late
    )
    assert report.lost_after_retry == 0
    assert report.lost_after_retry == 0
    assert report.cut_per_server == 750


def test_with_several_api_servers_a_notice_leaves_streams_the_sleep_alone() -> None:
    with cluster("a", "b", timing=RECORD) as here:
        here.traffic.start(rate_per_second=4.0)
        here.traffic.settle()
        here.pods.put(changed(here.pods.all()[0], notice=True))
        here.until(lambda: len(here.traffic.fleet.endings) == 1)
        report = here.traffic.finish()
    assert report.endings[0].stream_seconds == 5
    assert report.share_cut == pytest.approx(19 / 24, abs=0.2)
    assert report.lost == report.lost_after_retry > 0


def test_a_node_that_vanishes_takes_its_server_with_it_even_while_it_drains() -> None:
    with cluster("a", "b", timing=RECORD, args=ONE_API_SERVER) as here:
        here.traffic.start(rate_per_second=4.0)
        here.sleep(10)
        first, second = here.pods.all()
        here.nodes.put({"metadata": {"name": "node-of-a"}})
        here.nodes.put({"metadata": {"name": "node-of-b"}})
        here.pods.put(changed(second, notice=True))
        here.nodes.remove("node-of-a")
        here.nodes.remove("node-of-b")
        here.until(lambda: len(here.traffic.fleet.endings) == 2)
        here.pods.put(first)  # the control plane still believes it Ready
        here.until(lambda: not here.traffic.endpoints())
        report = here.traffic.finish()
    reasons = {ending.pod: ending.reason for ending in report.endings}
    assert reasons == {"a": "node gone", "b": "Spot notice"}
    assert report.share_cut == 1.0


def test_a_failing_canary_loses_its_share_of_the_route_and_no_more() -> None:
    canary = SERVER + CANARY_ENDING
    split = [
        Backend(name="servers", weight=75, selector={"app": SERVER}),
        Backend(name="canary", weight=25, selector={"app": canary}),
    ]
    here = Cluster(SHORT, SPEED, route=lambda: split)
    here.pods.put(pod("a"))
    here.pods.put(pod("c", labels={"app": canary}))
    with here.traffic:
        here.traffic.wait_for_endpoints(1)
        here.until(lambda: len(here.traffic.fleet.endpoints({"app": canary})) == 1)
        here.traffic.fail(canary)
        here.traffic.start(rate_per_second=4.0)
        here.sleep(20)
        report = here.traffic.finish()
        arrived = {app: here.traffic.accepted(app) for app in (SERVER, canary)}
    assert report.losses == {"server error": report.lost_at("canary")}
    assert report.lost_at("servers") == 0
    assert arrived == {SERVER: report.sent - report.lost, canary: report.lost}
    assert abs(report.lost - report.sent / 4) <= 0.5


def test_without_any_server_every_request_is_lost() -> None:
    with cluster() as here:
        here.traffic.start(rate_per_second=4.0, retry=True)
        here.sleep(20)
        report = here.traffic.finish()
    assert report.losses == {"no endpoint": report.sent}
    assert report.lost_after_retry == report.sent


def test_a_server_that_is_gone_before_its_endpoint_refuses_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster("a") as here:
        monkeypatch.setattr("lab.stage.traffic.fleet.ENDPOINT_DELAY_SECONDS", 30.0)  # a proxy that learns of it late
        here.traffic.start(rate_per_second=2.0)
        here.sleep(3)
        here.pods.put(changed(here.pods.all()[0], phase="Failed"))
        here.until(lambda: len(here.traffic.fleet.endings) == 1)
        here.sleep(6)
        report = here.traffic.finish()
    assert report.losses["refused"] >= 5


def test_the_sample_stays_within_what_a_machine_carries() -> None:
    assert sample_rate(12, Clock(60.0)) == pytest.approx(2.5)
    assert sample_rate(12, Clock(10.0)) == pytest.approx(15.0)
    assert sample_rate(1, Clock(10.0)) == 2.0


def test_leaving_frees_every_port_and_thread() -> None:
    with cluster("a", timing=RECORD) as here:
        (url,) = here.traffic.endpoints()
        here.traffic.start(rate_per_second=4.0)
        here.sleep(5)
    host, port = url.removeprefix("http://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=1)
    assert "traffic" not in {thread.name for thread in threading.enumerate()}


def test_what_changes_after_leaving_is_nobodys_business() -> None:
    with cluster("a") as here:
        pass
    here.pods.put(pod("b"))
    assert here.traffic.fleet.in_flight == 0


def test_a_report_needs_requests() -> None:
    with cluster("a") as here, pytest.raises(RehearsalError, match="no requests"):
        here.traffic.finish()


def test_waiting_for_servers_of_pods_that_never_come_says_so() -> None:
    with cluster("a") as here, pytest.raises(RehearsalError, match="1 of 2 server pods"):
        here.traffic.wait_for_endpoints(2, wall_seconds=0.1)


def test_a_sample_that_a_busy_machine_bent_is_called_so() -> None:
    with cluster("a", "b", timing=RECORD) as here:
        here.traffic.start(rate_per_second=4.0)
        here.traffic.settle()
        here.pods.put(changed(here.pods.all()[0], notice=True))
        here.until(lambda: len(here.traffic.fleet.endings) == 1)
        report = here.traffic.finish()

    def note(late_seconds: float) -> str:
        figures = dataclasses.replace(report, late_seconds=late_seconds).figures()
        return next(figure.note for figure in figures if figure.name == "streams cut in the sample")

    assert "--speed" not in note(1.0)
    assert " 24 s " in note(24.4)
    assert "--speed" in note(24.4)


def test_elsewhere_than_on_the_articles_machine_the_load_is_the_one_that_the_stack_declares() -> None:
    assert load_of(make_settings()) == published_load()
    engine = {"dataParallelSize": 1, "maxNumSeqs": 64}
    server = {"replicas": 1, "needs": {"concurrencyPerReplica": 64}, "engine": engine}
    known = load_of(make_settings(machine="a3-highgpu-1g", server=server))
    assert (known.name, known.in_flight_per_server) == ("declared", 64)
    assert known.timing != published_load().timing
    too_large = {"id": "google/gemma-3-27b-it"}  # no plan has times for what one L4 does not hold
    unknown = load_of(
        make_settings(machine="g2-standard-12", model=too_large, server={**server, "profile": "serve-chat"})
    )
    assert (unknown.name, unknown.timing) == ("declared", published_load().timing)
