"""Canaries: an offline trial that crashes, and one among the gateway's users that fails and loses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from facts.names import CANARY_ENDING
from facts.texts import plural
from lab.cloud.gateway import ROUTE_SECONDS
from lab.cloud.spot import kill_containers
from lab.cloud.world import restarts_of
from lab.drills.conditions import all_of, has_gateway, needs_servers, room_for_one_more
from lab.drills.drill import Drill, Proof
from lab.drills.requests import requests_during
from lab.stage.traffic.outcomes import format_losses

if TYPE_CHECKING:
    from lab.stage.stage import Stage
    from lab.stage.traffic.outcomes import TrafficReport

_ENGINE: Final = {"engine": {"extraEnv": {"VLLM_LOGGING_LEVEL": "INFO"}}}
_QUOTA: Final = "ResourceQuota/gpu"
_CRASHES_AFTER: Final = 600.0
"""Simulated seconds."""
_GONE_SECONDS: Final = 3_600.0
_PERCENT: Final = 40
"""Of the users' requests."""
_SAMPLE_SECONDS: Final = 240.0


def _crash(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    with requests_during(stage, proof) as requests:
        _starts_beside(stage, proof, _ENGINE, "a canary")
        stage.clock.sleep(_CRASHES_AFTER)
        (canary,) = _canaries(stage)
        kill_containers(stage.world, canary, exit_code=1, reason="Error")
        stage.until("the canary's containers to restart", lambda: any(map(restarts_of, _canaries(stage))), 60)
    (after,) = _canaries(stage)
    restarts = after["status"]["containerStatuses"][0]["restartCount"]
    proof.check("its restart count is visible to the verdict", restarts == 1, plural(restarts, "restart"))
    proof.check(
        "no replica is affected", _lowest(stage, began) == servers, f"{_lowest(stage, began)} of {servers} Ready"
    )
    proof.check("the replicas lose no request", requests.report is not None and not requests.report.lost, "none lost")
    proof.succeeds("aborting it succeeds", stage.up())
    stage.until("the canary to go", lambda: not _canaries(stage), _GONE_SECONDS)


def _among_users(stage: Stage, proof: Proof) -> None:
    pool, canary, users = stage.settings.gateway.pool, stage.server + CANARY_ENDING, stage.traffic
    declared: dict[str, Any] = {**_ENGINE, "weight": _PERCENT}
    settings = stage.varied({"rollout": declared}).settings
    assert settings.canary_pool is not None

    users.wait_for_endpoints(stage.settings.replicas)
    users.start()
    _starts_beside(stage, proof, declared, "a canary among users", f"HTTPRoute/{pool}")
    _until_route(stage, settings.canary_pool, lambda _: True)
    starting = users.finish()
    proof.check("users lose no request while it starts", not starting.lost, _lost(starting))

    arrived, sample = _sample(stage, canary)
    share = f"{arrived} of {sample.sent}"
    # Weighted turns: to within half a request, whatever the sample's size.
    of_users = proof.check(
        f"{_PERCENT} % of the users' requests reach it", abs(arrived - sample.sent * _PERCENT / 100) <= 0.5, share
    )
    proof.check("all are answered", not sample.lost, _lost(sample))
    if not of_users:
        return

    users.start()
    users.settle()
    stage.traffic.fail(canary)
    users.settle()
    halted_at = stage.clock.now_seconds()
    proof.succeeds("pulumi up with weight 0 succeeds", stage.up({"rollout": {**declared, "weight": 0}}))
    _until_route(stage, settings.canary_pool, lambda weight: not weight)
    proof.figure(
        "from weight 0 to its effect",
        round(stage.clock.now_seconds() - halted_at),
        "s",
        "assumed, of the load balancer",
    )
    failing = users.finish()
    at_canary = failing.lost_at(settings.canary_pool)
    proof.figure("requests that failed at the canary", at_canary, "", f"of {failing.sent} sent, a sample")
    proof.check(
        "the replicas lose no request", failing.lost == at_canary, f"{failing.lost - at_canary} lost at the replicas"
    )

    arrived, sample = _sample(stage, canary)
    proof.check("with weight 0 no request reaches the canary", arrived == 0, f"{arrived} of {sample.sent}")
    proof.check("users lose no request", not sample.lost, _lost(sample))


def _sample(stage: Stage, canary: str) -> tuple[int, TrafficReport]:
    """Requests that reached the canary, by its own count, and what became of all that were sent."""
    before = stage.traffic.accepted(canary)
    stage.traffic.start()
    stage.traffic.run_for(_SAMPLE_SECONDS)
    report = stage.traffic.finish()
    return stage.traffic.accepted(canary) - before, report


def _until_route(stage: Stage, pool: str, holds: Callable[[int], bool]) -> None:
    """Wait until the route in effect has this pool with such a weight."""
    stage.until(
        f"the changed route to {pool} to take effect",
        lambda: any(backend.name == pool and holds(backend.weight) for backend in stage.backends()),
        3 * ROUTE_SECONDS,
    )


def _lost(report: TrafficReport) -> str:
    return f"{format_losses(report.losses)} of {report.sent}"


def _starts_beside(stage: Stage, proof: Proof, canary: dict[str, Any], what: str, *also: str) -> None:
    """`pulumi up` with a canary. `also`: objects that change besides the quota."""
    before = stage.fingerprints()
    proof.succeeds(f"pulumi up with {what} succeeds", stage.up({"rollout": canary}))
    after = stage.fingerprints()
    changed = {name for name, known in before.items() if after.get(name) != known}
    seen = ", ".join(sorted(changed)) or "nothing"
    names = " and the route" if also else ""
    proof.check(f"of the existing objects only the GPU quota{names} changes", changed <= {_QUOTA, *also}, seen)


def _canaries(stage: Stage) -> list[Any]:
    return stage.pods(stage.server + CANARY_ENDING)


def _lowest(stage: Stage, began: float) -> int:
    return stage.meter.ready_servers.lowest(began)


DRILLS = (
    Drill(
        name="canary-among-users",
        title="A canary among the gateway's users fails",
        proves="it gets its share of the requests, and weight 0 takes all of them back without loss",
        play=_among_users,
        skip=all_of(has_gateway, needs_servers(), room_for_one_more),
    ),
    Drill(
        name="canary-crashes",
        title="An offline trial crashes after ten minutes",
        proves="replicas and their requests are not affected, and the restart is visible",
        play=_crash,
        skip=all_of(needs_servers(), room_for_one_more),
    ),
)
