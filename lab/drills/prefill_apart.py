"""Prefill apart from decode in each server pod: prompts move, a part dies, and a pod with streams is deleted.

rank_servers.py and vllm-router are the pod's own; simulated servers, with vLLM's protocol of transfers, stand where vLLM would
(lab/cloud/routers, lab/simulators/model_server/vllm_command.py).
"""

from __future__ import annotations

import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.names import FIRST_ENGINE_PORT
from facts.signals.alerts import TRANSFER_FLOOR_GB_S
from facts.texts import plural
from lab.cloud.routers.program import require_programs
from lab.cloud.world import restarts_of
from lab.control_plane.api import POD
from lab.drills.drill import Drill, Proof
from lab.results.result import DrillBrokenOffError
from lab.simulators.model_server.vllm_command import STEP_SECONDS
from lab.stage.traffic.client import STREAM_WALL_SECONDS, Asking, Seen, format_statuses, in_turn, results

if TYPE_CHECKING:
    from lab.cloud.routers.router_pod import RouterPod
    from lab.cloud.routers.routers import Routers
    from lab.stage.stage import Stage
    from settings.stack import Settings

PROMPT_TOKENS: Final = 768
REQUESTS: Final = 8
STREAMS: Final = 8
WALL_SECONDS: Final = 60.0
"""Longest wait for programs of this machine. Measured: up to four seconds."""
_SCRAPE_WALL_SECONDS: Final = 10.0
_ROLES: Final = ("prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """Counters of the decode engines of all pods."""

    computed: float
    transferred: float
    bytes_: float
    seconds: float
    failed: float

    def since(self, before: _Moved) -> _Moved:
        return _Moved(
            computed=self.computed - before.computed,
            transferred=self.transferred - before.transferred,
            bytes_=self.bytes_ - before.bytes_,
            seconds=self.seconds - before.seconds,
            failed=self.failed - before.failed,
        )


def _moves(stage: Stage, proof: Proof) -> None:
    routers = _ready(stage)
    _prompts_move(stage, proof, routers, "prompts")


def _part_dies(stage: Stage, proof: Proof) -> None:
    routers = _ready(stage)
    for role, pod in zip(_ROLES, routers.server_pods(), strict=False):
        _one_dies(stage, proof, routers, role, pod)
    _prompts_move(stage, proof, routers, "prompts after both")


def _one_dies(stage: Stage, proof: Proof, routers: Routers, role: str, pod: RouterPod) -> None:
    secrets = [name for one in routers.server_pods() for name in (one.place.address, one.place.own, one.name)]
    restarts = _restarts(stage, pod.name)
    with Asking(stage.settings.serving.model.id) as asking:
        # Also whole answers: before the first token, an error can still be told.
        sent = _send(asking, routers, STREAMS, _tokens(stage))
        whole = _send(asking, routers, STREAMS, _tokens(stage), stream=False)
        _until(lambda: _running(routers) >= 2 * STREAMS, "requests at the servers")
        at_it = _running_at(pod)
        stage.timeline.note("pod", pod.name, f"its {role} engine dies with requests in flight", mood="bad")
        # The first engines read prompts, the last ones answer.
        place = 0 if role == "prefill" else stage.settings.serving.engine.data_parallel_size - 1
        pod.kill_program(f"--port={FIRST_ENGINE_PORT + place}")
        meanwhile = _send(asking, routers, REQUESTS, 1)
        _until(lambda: _restarts(stage, pod.name) > restarts, f"the pod to end without its {role} engine")
        proof.check(f"a dead {role} engine ends its pod", True, routers.deaths[-1].strip()[-80:])
    seen = results([*sent, *whole])
    # The pod answers its own router's probe until it ends.
    late = sum(not one.answered for one in results(meanwhile))
    proof.figure(f"lost at once after the death of {role}", late, "requests", f"of {REQUESTS}")
    lost = [one for one in seen if not one.answered]
    proof.check(
        f"without {role}, only requests of its pod are lost",
        len(lost) <= at_it,
        f"{len(lost)} of {len(seen)} lost, {at_it:.0f} were at it",
    )
    failed = [one for one in lost if one.status not in (0, 200)]
    told = sorted({word for one in failed for word in one.tells([*secrets, "Prefill request"])})
    proof.check(
        f"without {role}, an error tells no address",
        not told,
        f"tells {', '.join(told)}" if told else plural(len(failed), "error"),
        empty="" if failed else "no request got an error",
    )
    stage.until_ready(stage.servers)
    stage.traffic.wait_for_endpoints(stage.servers)
    with Asking(stage.settings.serving.model.id) as asking:
        again = results(_send(asking, routers, REQUESTS, 1))
    proof.check(
        f"with {role} back, every request is answered", all(one.answered for one in again), format_statuses(again)
    )


def _drains(stage: Stage, proof: Proof) -> None:
    routers = _ready(stage)
    leaving = routers.server_pods()[0]
    before, ended = _moved(routers), len(routers.server_endings)
    with Asking(stage.settings.serving.model.id) as asking:
        streams = asking.send([leaving.url] * STREAMS, tokens=_tokens(stage))
        _until(lambda: _running_at(leaving) >= STREAMS, "streams at the pod")
        stage.timeline.note("operator", leaving.name, "kubectl delete pod")
        stage.api.delete(POD, leaving.name, stage.namespace)
        # Sent while the routes to it last: read by its prefill, answered by its decode.
        late = _send(asking, routers, REQUESTS, 1)
    cut = [one for one in results(streams) if not one.answered]
    proof.check("a deleted pod finishes its streams", not cut, f"{len(cut)} of {STREAMS} cut")
    lost = [one for one in results(late) if not one.answered]
    proof.check("requests that come meanwhile are answered", not lost, f"{len(lost)} of {len(late)} lost")
    stage.until("the pod to end", lambda: len(routers.server_endings) > ended, 900.0)
    ending = routers.server_endings[ended]
    proof.check(
        "it ends by itself within its grace period",
        not ending.killed,
        f"{'killed' if ending.killed else 'ended'} after {ending.took_seconds:.0f} s",
    )
    stage.until_ready(stage.servers)
    stage.traffic.wait_for_endpoints(stage.servers)
    after = _moved(routers)
    proof.check("no transfer failed", after.failed <= before.failed, f"{after.failed - before.failed:.0f} failed")


def _prompts_move(stage: Stage, proof: Proof, routers: Routers, what: str) -> None:
    """Send prompts through the routers, and check that decode has fetched each."""
    before = _moved(routers)
    with Asking(stage.settings.serving.model.id) as asking:
        seen = results(_send(asking, routers, REQUESTS, 2))
    found = _moved(routers).since(before)
    proof.check(f"{what} are answered", all(one.answered for one in seen), format_statuses(seen))
    proof.check(
        f"{what} move: decode computes one token of each",
        (found.computed, found.transferred) == (REQUESTS, REQUESTS * (PROMPT_TOKENS - 1)),
        f"{found.computed:.0f} tokens computed, {found.transferred:.0f} transferred, for {REQUESTS}",
    )
    proof.check(f"{what}: no transfer fails", found.failed == 0, f"{found.failed:.0f} failed")
    speed = found.bytes_ / found.seconds / 1e9 if found.seconds else 0.0
    proof.check(f"{what}: bytes by seconds are counted", speed >= TRANSFER_FLOOR_GB_S, f"{speed:.1f} GB/s")


def _restarts(stage: Stage, name: str) -> int:
    pod = stage.world.pods.get(name, stage.namespace)
    return 0 if pod is None else restarts_of(pod)


def _ready(stage: Stage) -> Routers:
    """The stack's routers, which know every server."""
    assert stage.routers is not None
    require_programs("haproxy", "vllm-router")
    stage.until_ready(stage.servers)
    stage.traffic.wait_for_endpoints(stage.servers)
    routers = stage.routers
    _until(lambda: len(routers.endpoints()) == stage.settings.endpoint.router.replicas, "routers")
    return routers


def _send(asking: Asking, routers: Routers, number: int, tokens: int, *, stream: bool = True) -> Sequence[Future[Seen]]:
    return asking.send(
        in_turn(routers.endpoints(), number), tokens=tokens, stream=stream, prompt=range(1, PROMPT_TOKENS + 1)
    )


def _tokens(stage: Stage) -> int:
    """Tokens of an answer that takes STREAM_WALL_SECONDS."""
    return round(STREAM_WALL_SECONDS * stage.clock.speed / STEP_SECONDS)


def _moved(routers: Routers) -> _Moved:
    from fleet.clients.metrics_text import parse

    pages = [parse(_page(pod)) for pod in routers.server_pods()]

    def total(name: str, **labels: str) -> float:
        return sum(page.total(f"vllm:{name}", role="decode", **labels) or 0.0 for page in pages)

    return _Moved(
        computed=total("prompt_tokens_by_source_total", source="local_compute"),
        transferred=total("prompt_tokens_by_source_total", source="external_kv_transfer"),
        bytes_=total("nixl_bytes_transferred_sum"),
        seconds=total("nixl_xfer_time_seconds_sum"),
        failed=total("nixl_num_failed_transfers_total"),
    )


def _running(routers: Routers) -> float:
    return sum(_running_at(pod) for pod in routers.server_pods())


def _running_at(pod: RouterPod) -> float:
    """Requests at the engines of a pod, in whichever of the two."""
    from fleet.clients.metrics_text import parse

    page = parse(_page(pod))
    return sum(page.total(f"vllm:num_requests_{state}") or 0.0 for state in ("running", "waiting"))


def _page(pod: RouterPod) -> str:
    """Its page of metrics; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"{pod.status_url}/metrics", timeout=_SCRAPE_WALL_SECONDS) as answer:  # noqa: S310 - loopback
            return str(answer.read().decode())
    except OSError:
        return ""


def _until(condition: Callable[[], bool], what: str) -> None:
    """Wait for programs of this machine, which no simulated clock makes faster. Raises DrillBrokenOffError."""
    deadline = time.monotonic() + WALL_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise DrillBrokenOffError(f"waited {WALL_SECONDS:.0f} s for {what}")
        time.sleep(0.05)


def _has_shape(settings: Settings) -> str:
    if settings.server.shape is None:
        return "every engine reads prompts and answers (server.shape)"
    if sys.platform != "linux":
        return "each pod needs a loopback address of its own, which only Linux has"
    number = settings.server.fixed_replicas
    return "" if isinstance(number, int) and number > 1 else "the drill needs a fixed number of replicas, at least two"


DRILLS = (
    Drill(
        name="prefill-moves",
        title="Prompts move from prefill to decode",
        proves="decode computes one token of each prompt and fetches the others, without a failed transfer",
        play=_moves,
        skip=_has_shape,
        fast=False,
    ),
    Drill(
        name="prefill-part-dies",
        title="A prefill engine dies, then a decode engine",
        proves="a dead engine ends its pod, requests of other pods are answered, errors tell no address, and the pod comes back",
        play=_part_dies,
        skip=_has_shape,
        fast=False,
    ),
    Drill(
        name="prefill-drains",
        title="A pod with prefill and decode is deleted",
        proves="a deleted pod finishes its streams, requests that come meanwhile are answered, and no transfer fails",
        play=_drains,
        skip=_has_shape,
        fast=False,
    ),
)
