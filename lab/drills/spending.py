"""The spending guard: its limit is reached and raised; failures do not falsify its sum, and users cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts.cost import SECONDS_PER_HOUR
from facts.names import spending_namespace
from lab.control_plane.api import CONFIG_MAP, DEPLOYMENT, POD, REPLICA_SET, ApiRefusedError, ClusterApi, Kind, Manifest
from lab.drills.conditions import all_of, needs_servers
from lab.drills.drill import Drill, Proof
from lab.drills.requests import requests_during
from lab.stage.variants import varied
from settings.derived.spending import Rates, rates
from settings.problems import SettingsError
from workloads.names import SPENDING_APP
from workloads.spending.guard import LASTS_SECONDS, QUOTA, ROLE, is_refusal
from workloads.spending.spending import REMOVAL_SECONDS
from workloads.spending.store import STATE
from workloads.spending.verdict import GPU

if TYPE_CHECKING:
    from lab.stage.stage import Stage
    from lab.stage.update_report import UpReport
    from settings.stack import Settings

USD: Final = 40.0
"""Price of a node-hour in the drills, so that every stack has one; close to Spot in Europe."""
LAG_WALL_SECONDS: Final = 1.0
"""Kubernetes' controllers, from a pause to the end of the pods. Measured: a third of it."""
RUN_UP_SECONDS: Final = 1800.0
"""From the guard's restart to the pause: the drill's requests have begun by then, on a busy machine, too."""
NOTICED_SECONDS: Final = 300.0
"""Ten intervals of the guard."""
JUMP_SECONDS: Final = 30 * 86_400.0
RESOURCE_QUOTA: Final = Kind("v1", "ResourceQuota")
SERVICE_ACCOUNT: Final = Kind("v1", "ServiceAccount")
_RBAC: Final = "rbac.authorization.k8s.io"


def _sections(limit: float, **more: Any) -> dict[str, Any]:
    terms = {"limit": limit, "then": "pause", **more}
    return {"spending": terms, "capacity": {"usdPerNodeHour": USD}, "benchmark": {"enabled": False}}


def _guarded(stage: Stage, proof: Proof, limit: float) -> tuple[Manifest, Rates]:
    """Add a guard to the running stack; returns its first state and the prices it was given."""
    _up(stage, proof, "pulumi up adds the guard to a running stack", limit)
    state = stage.until("the guard's first count", lambda: state_of(stage), 600)
    return state, rates(varied(stage.opened, _sections(limit)).settings)


def _up(stage: Stage, proof: Proof, statement: str, limit: float) -> UpReport:
    report = stage.up(_sections(limit))
    proof.succeeds(statement, report)
    return report


def _limit_reached(stage: Stage, proof: Proof) -> None:
    servers, machines = stage.settings.replicas, stage.machines_for(stage.settings.replicas)
    day = 24.0 * machines * USD
    lines, (_, prices) = len(stage.guards.lines), _guarded(stage, proof, day)
    left = _restart(stage)
    # The state of a guard that has counted for most of a day. It pauses before the limit by what the machines still cost then.
    placement = stage.settings.placement
    ahead = placement.grace_seconds + placement.idle_seconds + REMOVAL_SECONDS + RUN_UP_SECONDS
    earlier = json.dumps({**left, "usd": day - machines * USD * ahead / SECONDS_PER_HOUR, "warned": 0.8})
    stage.api.patch(CONFIG_MAP, STATE, home(stage), {"data": {"state": earlier}})
    started = stage.until("the next guard", lambda: stage.guards.logged("started", lines)[1:], 900)
    began, spent = stage.clock.now_seconds(), float(started[0]["usd"])
    with requests_during(stage, proof) as requests:
        stage.until("the pause", lambda: stage.guards.logged("paused", lines), 3600)
        stage.until("every replica to go", lambda: not stage.pods(), 1800)
        emptied = stage.clock.now_seconds()
        _up(stage, proof, "pulumi up succeeds during the pause", day)
    warned = [line["share"] for line in stage.guards.logged("warned", lines)]
    proof.check("the guard warned at 95 % before", warned == [0.95], f"at {warned}")
    proof.check("requests find no endpoint", requests.unserved > 0, f"{requests.unserved} requests")
    running = stage.meter.gpu_nodes.integral(began, emptied) * USD + (emptied - began) * prices.fixed
    stage.until_empty()
    gone = stage.meter.gpu_nodes.gone_at(emptied)
    idle = stage.settings.placement.idle_seconds + REMOVAL_SECONDS
    paid = (running + machines * idle * USD) / SECONDS_PER_HOUR
    # Two intervals of the guard, and the delay of controllers in wall time.
    slack = machines * USD * (60 + LAG_WALL_SECONDS * stage.clock.speed) / SECONDS_PER_HOUR
    counted = (state_of(stage) or {})["usd"] - spent
    proof.check(
        "its sum matches the cost of the nodes", abs(counted - paid) <= slack, f"${counted:,.2f} of ${paid:,.2f}"
    )
    total = f"${spent + paid:,.2f}; limit ${day:,.2f}, tolerance ${slack:,.2f}"
    proof.check("the total is within the limit when the last node is gone", spent + paid <= day + slack, total)
    proof.check("no replica is replaced", stage.meter.servers.now == 0, f"{stage.meter.servers.now} replicas")
    proof.figure("from the last replica to the last node", round((gone - emptied) / 60, 1), "min", "counted in advance")
    sets = stage.api.list_all(REPLICA_SET, stage.namespace)
    refused = sum(any(map(is_refusal, set_["status"].get("conditions", ()))) for set_ in sets)
    renewed = _up(stage, proof, "pulumi up with a higher limit succeeds", 2 * day).began_seconds
    stage.until("the quota to go", lambda: _quota(stage) is None, NOTICED_SECONDS)
    stage.until("new replicas", lambda: stage.meter.servers.now == servers, NOTICED_SECONDS)
    proof.check("ReplicaSets refused by the pause retry", refused > 0, f"{refused} were refused")
    back = stage.until_ready(servers)
    proof.figure("Ready again after raising the limit", round((back - renewed) / 60, 1), "min", "new node and start")


def _what_may_go_wrong(stage: Stage, proof: Proof) -> None:
    limit, lines = 1000.0 * stage.machines_for(stage.settings.replicas) * USD, len(stage.guards.lines)
    _, prices = _guarded(stage, proof, limit)

    def blind() -> str:
        return " ".join(str(line["message"]) for line in stage.guards.logged("blind", lines))

    named = _told(stage, "started", lines)[-1]["unpriced"]
    empty = "" if prices.unknown else "all prices are known"
    statement = "the guard names the unknown prices"
    proof.check(statement, set(named) == set(prices.unknown), ", ".join(named), empty=empty)
    try:
        varied(stage.opened, _sections(limit, onUnknown="pause"))
        verdict = "accepted"
    except SettingsError as error:
        verdict = error.problems[0].id
    statement = "onUnknown: pause is refused while prices are unknown"
    proof.check(statement, verdict == "spending-unknown-prices" or not prices.unknown, verdict)

    left = _restart(stage)
    state = _next(stage, left)
    _compare(proof, "a restarted guard counts the gap", left, state)
    stage.timeline.note("operator", "kube-apiserver", "down", mood="bad")
    stage.control_plane.restart_api_server(max(2.0, 2 * LASTS_SECONDS / stage.clock.speed))
    stage.until("the guard to report that it is blind", lambda: "cannot be asked" in blind(), 1200)
    after = _next(stage, state)
    _compare(proof, "time without the API server is counted", state, after)
    for jump in (JUMP_SECONDS, -JUMP_SECONDS):
        after = _jump(stage, proof, jump, after)
    proof.check(
        "nothing was paused", not stage.guards.logged("paused", lines), f"{stage.meter.ready_servers.now} Ready"
    )


def _users_cannot(stage: Stage, proof: Proof) -> None:
    limit, lines = 1000.0 * stage.machines_for(stage.settings.replicas) * USD, len(stage.guards.lines)
    _guarded(stage, proof, limit)
    user = _editor(stage)
    _refused(stage, proof, user, "while the fleet runs")

    # Whoever may write there, as a cluster's administrator: the sum is the process's.
    state = _next(stage, state_of(stage) or {"counted": 0})
    for what, body in (("emptied", {"data": None}), ("set to 0", {"data": {"state": json.dumps({**state, "usd": 0})}})):
        told_before = len(stage.guards.lines)
        stage.api.patch(CONFIG_MAP, STATE, home(stage), body)
        state = stage.until("the sum", lambda: state_of(stage), 900) if what == "emptied" else _next(stage, state)
        _told(stage, "blind", told_before)
        proof.check(f"a sum that is {what} is restored, and told", state["usd"] > 0, f"${state['usd']:,.2f}")
    before = _next(stage, state)
    stage.api.delete(CONFIG_MAP, STATE, home(stage))
    after = stage.until("the sum to be there again", lambda: state_of(stage), NOTICED_SECONDS)
    proof.check("a deleted sum is restored", after["usd"] >= before["usd"], f"${after['usd']:,.2f}")

    node = stage.pods()[0]["spec"]["nodeName"]
    user.patch(DEPLOYMENT, stage.server, stage.namespace, {"spec": {"replicas": 0}}, subresource="scale")
    stage.until("the servers to go", lambda: not stage.pods(), 1800)
    # The quota counts the servers until its controller has seen them go.
    stage.until("room in the quota", lambda: not _try(lambda: user.create(_hidden(stage, "hidden", node))), 900)
    stage.api.patch(CONFIG_MAP, STATE, home(stage), {"data": {"state": json.dumps({**after, "usd": limit})}})
    stage.until("the pause", lambda: stage.guards.logged("paused", lines), 900)
    ended = stage.until("the hidden pod to go", lambda: stage.api.get(POD, "hidden", stage.namespace) is None, 900)
    proof.check("a pod with GPUs in a sidecar only is deleted", ended, "deleted")
    for how in ("sidecar", "init container"):
        tried = _try(lambda how=how: user.create(_hidden(stage, "later", node, how)))  # type: ignore[misc]
        proof.check(f"no pod with GPUs in {how} is admitted", "exceeded quota" in tried, tried[:80])
    _refused(stage, proof, user, "while it is paused")
    stage.api.delete(RESOURCE_QUOTA, QUOTA, stage.namespace)
    back = stage.until("the quota to be there again", lambda: _quota(stage), NOTICED_SECONDS)
    proof.check("a deleted quota is restored", bool(back), QUOTA)
    proof.succeeds("pulumi up without the section succeeds", stage.up())
    stage.until("the pause to go with the section", lambda: _quota(stage) is None, NOTICED_SECONDS)


def _refused(stage: Stage, proof: Proof, user: ClusterApi, when: str) -> None:
    """Check that a user of the servers' namespace with the role `edit` can neither stop the guard nor change its sum."""
    attempts = dict(_attempts(stage, user))
    open_ = [what for what, attempt in attempts.items() if "cannot" not in _try(attempt)]
    proof.check(
        f"a user with the role edit is refused, {when}", not open_, ", ".join(open_) or f"{len(attempts)} attempts"
    )


def _try(attempt: Callable[[], object]) -> str:
    """The refusal of an attempt; empty if it succeeded."""
    try:
        attempt()
    except ApiRefusedError as refusal:
        return refusal.message
    return ""


def _attempts(stage: Stage, user: ClusterApi) -> Iterator[tuple[str, Callable[[], object]]]:
    for usd in ("0", "-1", "1e300", "NaN"):
        body = {"data": {"state": f'{{"usd": {usd}, "counted": {usd}}}'}}
        yield f"usd: {usd}", lambda body=body: user.patch(CONFIG_MAP, STATE, home(stage), body)  # type: ignore[misc]
    for kind, name, namespace in (
        (CONFIG_MAP, STATE, home(stage)),
        (DEPLOYMENT, SPENDING_APP, home(stage)),
        (SERVICE_ACCOUNT, SPENDING_APP, home(stage)),
        (Kind(f"{_RBAC}/v1", "RoleBinding"), SPENDING_APP, home(stage)),
        (Kind(f"{_RBAC}/v1", "RoleBinding"), ROLE, stage.namespace),
        (Kind(f"{_RBAC}/v1", "Role"), ROLE, stage.namespace),
        (RESOURCE_QUOTA, QUOTA, stage.namespace),
    ):
        yield (
            f"delete {kind} {namespace}/{name}",
            lambda kind=kind, name=name, namespace=namespace: user.delete(kind, name, namespace),  # type: ignore[misc]
        )
    yield (
        "delete its pods",
        lambda: [user.delete(POD, pod["metadata"]["name"], home(stage)) for pod in stage.pods(SPENDING_APP)],
    )
    none = {"spec": {"replicas": 0}}
    yield "scale it to 0", lambda: user.patch(DEPLOYMENT, SPENDING_APP, home(stage), none, subresource="scale")
    hard = {"spec": {"hard": {f"requests.{GPU}": "1000"}}}
    yield "raise the quota", lambda: user.patch(RESOURCE_QUOTA, QUOTA, stage.namespace, hard)
    token = f"/api/v1/namespaces/{home(stage)}/serviceaccounts/{SPENDING_APP}/token"
    yield "take its token", lambda: user.raw("POST", token, body={"spec": {}})


def _editor(stage: Stage) -> ClusterApi:
    """A user whose only right is the built-in role `edit` in the servers' namespace."""
    name, metadata = "editor", {"name": "editor", "namespace": stage.namespace}
    stage.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": stage.namespace}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "edit"}
    binding = {"apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": metadata}
    stage.api.apply({**binding, "roleRef": role, "subjects": [subject]})
    path = f"/api/v1/namespaces/{stage.namespace}/serviceaccounts/{name}/token"
    token = stage.api.raw("POST", path, body={"spec": {}})["status"]["token"]
    config = json.loads(stage.control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    own = Path(stage.control_plane.folder) / "editor.kubeconfig"
    own.touch(mode=0o600)
    own.write_text(json.dumps(config), encoding="utf-8")
    return ClusterApi.from_kubeconfig(own)


def _hidden(stage: Stage, name: str, node: str, how: str = "sidecar") -> Manifest:
    """A pod that asks for GPUs in a container that runs beside or before the others."""
    plain: Manifest = {"name": "main", "image": "busybox:1.37", "securityContext": {"allowPrivilegeEscalation": False}}
    plain["securityContext"]["capabilities"] = {"drop": ["ALL"]}
    other = {**plain, "name": "other", "resources": {"limits": {GPU: "1"}}}
    other |= {"restartPolicy": "Always"} if how == "sidecar" else {}
    safe = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"nodeName": node, "securityContext": safe, "containers": [plain], "initContainers": [other]}
    metadata = {"name": name, "namespace": stage.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _quota(stage: Stage) -> Manifest | None:
    return stage.api.get(RESOURCE_QUOTA, QUOTA, stage.namespace)


def home(stage: Stage) -> str:
    """The guard's namespace."""
    return spending_namespace(stage.namespace)


def _jump(stage: Stage, proof: Proof, seconds: float, state: Manifest) -> Manifest:
    """Shift the API server's clock; returns the first count after it."""
    before, seen = _next(stage, state), len(stage.guards.lines)

    def jumped() -> Manifest | None:
        later = state_of(stage)
        return later if later is not None and abs(later["at"] - before["at"]) > JUMP_SECONDS / 2 else None

    stage.guards.clock_off_seconds += seconds
    _told(stage, "blind", seen)
    after = stage.until("the guard's count after the jump", jumped, NOTICED_SECONDS)
    added, passed = after["usd"] - before["usd"], after["at"] - before["at"] - seconds + 2 * 60
    held = 0 <= added <= _due(before, passed)
    proof.check(f"a clock jump of {seconds:+.0f} s adds nothing", held, f"${added:,.2f} in {passed / 60:.0f} min")
    return after


def _compare(proof: Proof, statement: str, before: Manifest, after: Manifest) -> None:
    """Check the cost counted between two states against the time between them, by the API server's clock."""
    passed, added = after["at"] - before["at"], after["usd"] - before["usd"]
    due = _due(before, passed)
    # The Date header has whole seconds, and the clocks are read a moment apart: about a minute at speed 120.
    proof.check(statement, abs(added - due) <= 0.05 * due + _due(before, 60), f"${added:,.2f} in {passed:.0f} s")


def _due(state: Manifest, seconds: float) -> float:
    return float(seconds * state["usdPerHour"] / SECONDS_PER_HOUR)


def state_of(stage: Stage) -> Manifest | None:
    """The guard's stored state; None before its first count."""
    found = stage.api.get(CONFIG_MAP, STATE, home(stage))
    text = ((found or {}).get("data") or {}).get("state")
    return None if text is None else dict(json.loads(text))


def _next(stage: Stage, than: Manifest) -> Manifest:
    """The guard's next state."""

    def newer() -> Manifest | None:
        state = state_of(stage)
        return state if state is not None and state["counted"] > than["counted"] else None

    return stage.until("the guard to count again", newer, 900)


def _told(stage: Stage, step: str, since: int) -> list[dict[str, Any]]:
    """A guard's log lines of a step; they are read a moment after what it writes into the cluster."""
    return stage.until(f"the guard's line {step}", lambda: stage.guards.logged(step, since), NOTICED_SECONDS)


def _restart(stage: Stage) -> Manifest:
    """Delete the guard's pod; returns the state it left."""
    (pod,) = stage.pods(SPENDING_APP)
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    stage.timeline.note("operator", name, "kubectl delete pod")
    stage.api.delete(POD, name, home(stage))
    stage.until("the guard to end", lambda: uid not in stage.guards.running(), 300)
    return state_of(stage) or {}


def _countable(settings: Settings) -> str:
    """Only where a pause reduces cost."""
    return "reserved nodes are billed whether they run or not" if rates(settings).paid_anyway else ""


def _limited(settings: Settings) -> str:
    """Only stacks with a spending limit, and small ones, which get one for the drill."""
    has = settings.spending is not None or settings.replicas <= 2
    return "" if has else "the stack has no spending section and more than two replicas"


DRILLS = (
    Drill(
        name="spending-limit",
        title="The spending limit is reached under load, then raised",
        proves="the fleet is paused within the limit, pulumi up does not undo the pause, and a higher limit ends it",
        play=_limit_reached,
        skip=all_of(needs_servers(), _countable, _limited),
    ),
    Drill(
        name="spending-blind",
        title="The spending guard restarts, loses the API server and gets a wrong time",
        proves="gaps are counted, clock jumps add nothing, and unknown prices are named",
        play=_what_may_go_wrong,
        skip=all_of(needs_servers(), _countable),
        fast=False,
    ),
    Drill(
        name="spending-tampered",
        title="A user of the namespace tries to stop the spending guard",
        proves="the role edit can neither stop the guard nor change its sum, and a changed sum is restored",
        play=_users_cannot,
        skip=all_of(needs_servers(), _countable),
        fast=False,
    ),
)
