"""Routers between clients and servers: a server dies, a router dies or leaves, both are full, and keys are checked.

HAProxy is the real program, with the pod's own configuration (lab/cloud/routers). A stack without routers gets them for the drill.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from facts.texts import plural
from lab.cloud.routers.files import stored_value
from lab.cloud.routers.program import LEAST_TIMEOUT_WALL_SECONDS, require_programs
from lab.cloud.spot import kill_containers
from lab.control_plane.api import POD
from lab.drills.conditions import all_of, needs_servers, simulated_servers
from lab.drills.drill import Drill, Proof
from lab.results.result import DrillBrokenOffError
from lab.stage.traffic.client import STREAM_WALL_SECONDS, Asking, Seen, format_statuses, in_turn, results
from lab.stage.traffic.outcomes import format_losses
from workloads.names import ROUTER_APP

if TYPE_CHECKING:
    from lab.cloud.routers.routers import Routers
    from lab.stage.stage import Stage
    from lab.stage.traffic.outcomes import TrafficReport
    from settings.stack import Settings

SERVERS: Final = 2
"""Least servers: what one cannot answer, another does."""
OPEN_WALL_SECONDS: Final = 5.0
"""Longest wait until requests have reached their servers. Measured: tenths of a second."""
LEAVING_SHARE: Final = 0.25
"""Length of the streams of a router that ends, of its time for them: its programs run in wall time, and a busy machine's streams do not."""
STREAMS: Final = 12
ROUTER_START_SECONDS: Final = 900.0
"""Longest wait for router pods: nodes for them, image, probe."""
_LIMITS: Final[Mapping[str, Any]] = {"maxInFlight": 2, "maxQueued": 3, "queueSeconds": 30}
KEY_NAME: Final = "vllm-api-key"
_KEY: Final = stored_value(f"projects/project/secrets/{KEY_NAME}/versions/latest")


def _server_dies(stage: Stage, proof: Proof) -> None:
    routers = _routed(stage, proof)
    dying, *_ = stage.ready_pods()
    servers = stage.servers_now
    name = dying["metadata"]["name"]
    secrets = _internal(stage, routers)
    stage.traffic.start()
    stage.traffic.settle()
    with Asking(stage.settings.serving.model.id) as asking:
        urls = in_turn(routers.endpoints(), STREAMS)
        streams = asking.send(urls, tokens=_tokens(stage))
        whole = asking.send(urls, tokens=_tokens(stage), stream=False)
        at_dying = _until_open(stage, 2 * STREAMS)[name]
        stage.timeline.note("pod", name, "the server dies with requests in flight", mood="bad")
        died = stage.clock.now_seconds()
        kill_containers(stage.world, dying, exit_code=1, reason="Error")
    seen, answers = results(streams), results(whole)
    stage.until_ready(servers)
    stage.traffic.wait_for_endpoints(servers)
    stage.traffic.settle()
    report = stage.traffic.finish()
    lost = [one for one in (*seen, *answers) if not one.answered]
    proof.check(
        "only requests at the dead server are lost",
        0 < len(lost) <= at_dying,
        f"{len(lost)} of {2 * STREAMS} lost, {at_dying} were at it",
    )
    failed = [one for one in answers if not one.answered]
    clean = [one for one in failed if one.status in (502, 503) and one.whole]
    told = sorted({word for one in failed for word in one.tells(secrets)})
    proof.check(
        "a client without an answer yet sees one error of the router, without addresses",
        len(clean) == len(failed) and not told,
        format_statuses(failed) + (f", which tell {', '.join(told)}" if told else ""),
        empty="" if failed else "no such request was at the dead server",
    )
    cut = [one for one in seen if not one.answered]
    proof.check(
        "a client with part of an answer sees that it is cut",
        all(one.status in (200, 502) and not (one.status == 200 and one.whole) for one in cut),
        f"{plural(len(cut), 'stream')} ended early",
        empty="" if cut else "no stream was at the dead server",
    )
    _lost_later(stage, proof, report, died, "requests sent after its death are answered")


def _router_dies(stage: Stage, proof: Proof) -> None:
    routers = _routed(stage, proof)
    dying, leaving, *_ = routers.pods()
    with Asking(stage.settings.serving.model.id) as asking:
        at_dying = asking.send([dying.url] * STREAMS, tokens=_tokens(stage))
        at_other = asking.send([leaving.url] * STREAMS, tokens=_tokens(stage))
        _until_open(stage, 2 * STREAMS)
        stage.timeline.note("pod", dying.name, "the router is killed", mood="bad")
        routers.crash(dying.name)
    cut = sum(not one.answered for one in results(at_dying))
    proof.check("a killed router cuts its own streams", cut == STREAMS, f"{cut} of {STREAMS} cut")
    cut = sum(not one.answered for one in results(at_other))
    proof.check("the other router's streams continue", cut == 0, f"{cut} of {STREAMS} cut")
    proof.check("its pod restarts it", bool(_until_routers(stage, routers, 2)), "Ready again")

    stage.traffic.wait_for_endpoints(stage.servers_now)
    stage.traffic.start()
    stage.traffic.settle()
    ended = len(routers.endings)
    with Asking(stage.settings.serving.model.id) as asking:
        finish = stage.settings.endpoint.router.drain_seconds * LEAVING_SHARE
        streams = asking.send([leaving.url] * STREAMS, tokens=_tokens(stage, stage.clock.wall_seconds(finish)))
        _until_open(stage, STREAMS)
        stage.timeline.note("operator", leaving.name, "kubectl delete pod")
        stage.api.delete(POD, leaving.name, stage.namespace)
    cut = sum(not one.answered for one in results(streams))
    proof.check("a deleted router finishes its streams", cut == 0, f"{cut} of {STREAMS} cut")
    stage.until("the router to end", lambda: len(routers.endings) > ended, ROUTER_START_SECONDS)
    ending = routers.endings[ended]
    proof.check(
        "it ends by itself within its grace period",
        not ending.killed,
        f"{'killed' if ending.killed else 'ended'} after {ending.took_seconds:.0f} s",
    )
    _until_routers(stage, routers, 2)
    stage.traffic.settle()
    report = stage.traffic.finish()
    proof.check("clients lose no request by it", not report.lost, f"{format_losses(report.losses)} of {report.sent}")


def _router_full(stage: Stage, proof: Proof) -> None:
    routers = _routed(stage, proof, endpoint={"kind": "leastRequest", "router": _LIMITS})
    router = routers.pods()[0]
    runs, waits = _LIMITS["maxInFlight"] * stage.servers_now, _LIMITS["maxQueued"]
    with Asking(stage.settings.serving.model.id) as asking:
        running = asking.send([router.url] * runs, tokens=_tokens(stage))
        most = max(_until_open(stage, runs).values())
        waiting = asking.send([router.url] * waits, tokens=1)
        stage.until("the queue to fill", lambda: router.queued() == waits or None, 60.0)
        began = time.monotonic()
        refused = results(asking.send([router.url] * 5, tokens=1))
        at_once = time.monotonic() - began
    # A stream takes longer than the queue's limit.
    late, answered = results(waiting), results(running)
    proof.check(
        "no server gets more than its limit",
        most <= _LIMITS["maxInFlight"],
        f"at most {most} of {_LIMITS['maxInFlight']}",
    )
    proof.check("those in flight are answered", all(one.answered for one in answered), format_statuses(answered))
    _refusals(
        proof, "beyond the queue, 429 with Retry-After at once", refused, 429, at_once < LEAST_TIMEOUT_WALL_SECONDS
    )
    _refusals(proof, "after the queue's time, 503 with Retry-After", late, 503, True)
    with Asking(stage.settings.serving.model.id) as asking:
        again = results(asking.send([router.url] * runs, tokens=1))
    proof.check("afterwards it answers again", all(one.answered for one in again), format_statuses(again))


def _authorization(stage: Stage, proof: Proof) -> None:
    routers = _routed(stage, proof, server={"apiKeySecret": KEY_NAME})
    url, secrets = routers.endpoints()[0], _internal(stage, routers)
    stage.traffic.require(_KEY)
    try:
        with Asking(stage.settings.serving.model.id) as asking:
            _keys_are_checked(proof, asking, url, secrets)
            (one,) = results(asking.send([url], tokens=1, headers={"Authorization": f"Bearer {_KEY}"}))
            proof.check("with the key, an answer", one.answered, str(one.status))
        written = [router.name for router in routers.pods() if _KEY in router.logs]
        proof.check("no key is in the routers' logs", not written, ", ".join(written) or "none")
    finally:
        stage.traffic.require("")


def _keys_are_checked(proof: Proof, asking: Asking, url: str, secrets: Sequence[str]) -> None:
    for what, given in (("a wrong key", {"Authorization": "Bearer wrong"}), ("no key", {})):
        (one,) = results(asking.send([url], tokens=1, headers=given))
        proof.check(f"with {what}, 401", one.status == 401, str(one.status))
        told = one.tells([*secrets, _KEY])
        proof.check(f"with {what}, the answer tells nothing internal", not told, ", ".join(told) or "nothing")


def _routed(
    stage: Stage,
    proof: Proof,
    *,
    endpoint: Mapping[str, Any] | None = None,
    server: Mapping[str, Any] | None = None,
) -> Routers:
    """The stack with routers and two servers at least, both Ready; a stack without gets them. Raises DrillBrokenOffError."""
    assert stage.routers is not None
    require_programs("haproxy")
    sections: dict[str, Any] = {}
    if not stage.settings.has_router or endpoint:
        sections["endpoint"] = dict(endpoint or {"kind": "leastRequest"})
    if stage.servers < SERVERS or server:
        sections["server"] = {"replicas": max(SERVERS, stage.servers), **(server or {})}
    if sections:
        proof.succeeds("pulumi up with routers succeeds", stage.up(sections))
        stage.until_ready(max(SERVERS, stage.servers))
    routers = stage.routers
    _until_routers(stage, routers, stage.varied(sections).settings.endpoint.router.replicas)
    stage.traffic.wait_for_endpoints(stage.servers_now)
    return routers


def _until_routers(stage: Stage, routers: Routers, number: int) -> bool:
    return stage.until(
        plural(number, "router"),
        lambda: len(stage.ready_pods(ROUTER_APP)) == number == len(routers.endpoints()) or None,
        ROUTER_START_SECONDS,
        lambda: f"{len(routers.endpoints())} serve; {' '.join(routers.deaths[-1:])}",
    )


def _tokens(stage: Stage, wall_seconds: float = STREAM_WALL_SECONDS) -> int:
    """Tokens of an answer that takes that long."""
    timing = stage.traffic.load.timing
    return round((wall_seconds * stage.clock.speed - timing.ttft_seconds) / timing.tpot_seconds)


def _until_open(stage: Stage, number: int) -> dict[str, int]:
    """Wait until that many requests at least are at the servers; open requests by pod."""
    deadline = time.monotonic() + OPEN_WALL_SECONDS
    while True:
        found = stage.traffic.in_flight()
        if sum(found.values()) >= number:
            return found
        if time.monotonic() > deadline:
            raise DrillBrokenOffError(f"{sum(found.values())} of {number} requests reached a server")
        time.sleep(0.01)


def _internal(stage: Stage, routers: Routers) -> list[str]:
    """Words that no client may read: addresses and names of servers and pods."""
    pods = [*stage.ready_pods(), *stage.ready_pods(ROUTER_APP)]
    names = [pod["metadata"]["name"] for pod in pods]
    return [*names, *(routers.network.address(pod["metadata"]["uid"]) for pod in pods), "svc.cluster.local"]


def _refusals(proof: Proof, statement: str, seen: Sequence[Seen], status: int, in_time: bool) -> None:
    right = [one for one in seen if one.status == status and "retry-after" in one.headers]
    proof.check(statement, len(right) == len(seen) and in_time, format_statuses(seen) + ("" if in_time else ", late"))


def _lost_later(stage: Stage, proof: Proof, report: TrafficReport, since: float, statement: str) -> None:
    """Check the requests sent half a second of wall time after that: its loopback server has closed by then."""
    later = [one for one in report.outcomes if one.sent_seconds > since + stage.clock.speed / 2]
    losses = Counter(one.first_loss for one in later if one.first_loss is not None)
    proof.check(statement, not losses, f"{format_losses(losses)} of {len(later)} lost")


def _can_have_routers(settings: Settings) -> str:
    """Not where requests enter elsewhere, or another server would need weights of its own."""
    if sys.platform != "linux":
        return "each router needs a loopback address of its own, which only Linux has"
    if shutil.which("haproxy") is None:
        return "HAProxy is not installed, which routers run (apt-get install haproxy)"
    if settings.gateway.enabled:
        return "requests enter by the gateway"
    alone = settings.replicas < SERVERS and not settings.weights.has_volume
    return "weights downloaded from the hub allow only one replica" if alone else ""


_SKIP: Final = all_of(needs_servers(), simulated_servers, _can_have_routers)

DRILLS = (
    Drill(
        name="router-server-dies",
        title="A server dies behind the routers",
        proves="its own requests alone are lost, each with one clean error, and new ones go elsewhere",
        play=_server_dies,
        skip=_SKIP,
    ),
    Drill(
        name="router-dies",
        title="A router is killed, another is deleted",
        proves="a killed router cuts its own streams alone, and a deleted one finishes them",
        play=_router_dies,
        skip=_SKIP,
    ),
    Drill(
        name="router-full",
        title="More requests than routers may take",
        proves="servers get no more than their limit, the queue is bounded, and the rest is told when to come again",
        play=_router_full,
        skip=_SKIP,
        fast=False,
    ),
    Drill(
        name="router-authorization",
        title="Keys through the routers",
        proves="a client's key is checked, and refusals and logs tell nothing internal",
        play=_authorization,
        skip=_SKIP,
        fast=False,
    ),
)
