"""The canary among users: what the alerts' expressions say of both sides, what it answers, and the way back to the servers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from facts.finding import Finding
from facts.signals.catalogue import catalogue
from facts.signals.model import RULES_INTERVAL_SECONDS
from facts.signals.series import REQUESTS_FLOOR, Series
from fleet.clients.errors import LiveError, Reason
from settings.derived.figures import figures
from settings.derived.watched import watched

if TYPE_CHECKING:
    from settings.stack import Settings

ALERTS: Final = ("RequestsFail", "FirstTokenSlow")
SHARED: Final = ("FirstTokenSlow",)
"""Alerts that speak against the canary only by the time in which they do not hold for the servers: both answer slowly under too much
load, and where `monitoring.alerts` declares no objective."""
GONE: Final = "CanaryGone"
GONE_SECONDS: Final = 60.0
SEEN_SHARE: Final = 0.9
"""Share of the time in which the canary must have had enough requests for the alerts' ratios. Assumed."""
FAILED_LOOKS: Final = 3
"""Looks in a row that fail before the canary is halted: what nobody sees must not serve users."""
NOT_READY: Final[frozenset[Reason]] = frozenset({"missing program", "credentials", "forbidden"})
"""Why a first look fails where this machine could never look: it says nothing of the canary."""
CREATOR: Final = "pulumi-kubernetes"
"""Field manager with which Pulumi creates; it applies later with this and a suffix. Source: pulumi-kubernetes, provider/pkg/ssa."""
_ROUTES: Final = "httproutes.gateway.networking.k8s.io"


class Samples(Protocol):
    """One series of an answer."""

    @property
    def samples(self) -> Sequence[tuple[float, float]]:
        """Seconds since 1970, value."""


class Prometheus(Protocol):
    """A `ManagedPrometheus`, or a rehearsal's."""

    def range(self, query: str, began: float, ended: float, step_seconds: int, /) -> Sequence[Samples]:
        """A range query. Raises LiveError."""


class Runs(Protocol):
    """A `Kubectl`, or a rehearsal's."""

    def run(self, *arguments: str, what: str, stdin: str | None = None) -> str:
        """Run kubectl and return its output. Raises LiveError."""


def speaks_against(findings: Iterable[Finding]) -> bool:
    """Whether a canary with these findings may not be promoted: one is an error, or too little is known."""
    return any(one.severity in ("error", "unknown") for one in findings)


def look(prometheus: Prometheus, settings: Settings, began: float, ended: float) -> tuple[Finding, ...]:
    """What held between two times, in seconds since 1970. An error speaks against the canary. Raises LiveError."""
    canary = settings.as_canary
    assert canary is not None

    def held(expr: str) -> tuple[float, ...]:
        return _times(prometheus.range(expr, began, ended, RULES_INTERVAL_SECONDS))

    found = list[Finding]()
    seen, other = watched(canary, figures(canary)), settings.without_canary
    of_servers = dict[str, frozenset[float]]()
    # The servers first: what they share is not the canary's.
    for side, observed in ((other, watched(other, figures(other))), (canary, seen)):
        alerts = catalogue(observed).alerts
        conditions = [(alert.name, alert.expr, float(alert.for_seconds)) for alert in alerts if alert.name in ALERTS]
        if side is canary:
            available = Series(seen).declared("kube_deployment_status_replicas_available")
            conditions.append((GONE, f"{available} == 0", GONE_SECONDS))
        for name, expr, for_seconds in conditions:
            times = held(expr)
            alone = tuple(at for at in times if at not in of_servers.get(name, ()))
            if side is other and name in SHARED:
                of_servers[name] = frozenset(times)
            seconds = longest(times)
            fires = seconds >= for_seconds
            is_shared = fires and longest(alone) < for_seconds
            found.append(
                Finding(
                    id=f"soak-{name}",
                    subject=side.server.name,
                    severity="passed" if not fires else "warning" if side is other or is_shared else "error",
                    found=f"held for {seconds:.0f} s" if fires else f"did not hold for {for_seconds:.0f} s",
                    why="it held for the servers as well, so it is not the canary's" if is_shared else "",
                )
            )
    requests = Series(seen).rate("vllm:request_success_total", "5m")
    steps = (ended - began) // RULES_INTERVAL_SECONDS + 1
    share = min(1.0, len(held(f"{requests} > {REQUESTS_FLOOR:g}")) / steps)
    found.append(
        Finding(
            id="soak-requests",
            subject=canary.server.name,
            severity="passed" if share >= SEEN_SHARE else "unknown",
            found=f"more than {REQUESTS_FLOOR:g} requests a second for {share:.0%} of the time",
            allowed=f"{SEEN_SHARE:.0%} or more",
            why="with fewer requests the alerts' ratios are not evaluated, so that nothing is known of the canary",
            write="a larger weight, or a longer time",
        )
    )
    return tuple(found)


def watch(
    settings: Settings,
    prometheus: Prometheus,
    ask: Callable[[], tuple[Finding, ...]],
    *,
    seconds: float,
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> tuple[Finding, ...]:
    """Look and ask the canary until an error or until the time is over; returns what was found last.

    `ask`: its findings of the canary's answers. Raises LiveError where the first look lacks a login, a role or a program.
    Looks that fail FAILED_LOOKS times in a row are an error.
    """
    began, first, failed, last = now(), True, 0, tuple[Finding, ...]()
    while True:
        try:
            last = look(prometheus, settings, began, now())
            last, failed = (*last, *ask()), 0
        except LiveError as error:
            if first and error.reason in NOT_READY:
                raise
            failed += 1
            if failed == FAILED_LOOKS:
                last = (*last, Finding(id="soak-unseen", subject="the canary", found=str(error)))
        if any(one.severity == "error" for one in last) or (not failed and now() >= began + seconds):
            return last
        first = False
        pause(RULES_INTERVAL_SECONDS)


def halt_in_cluster(kubectl: Runs, settings: Settings) -> bool:
    """Send every request to the servers, at once. False where the route does not lead to the canary. Raises LiveError.

    Applied as Pulumi's own field manager: with another one the next `pulumi up` would report a conflict over the route.
    """
    name, pool = settings.gateway.pool, settings.canary_pool
    what = f"taking the users' requests from {pool}"
    asked = ("get", _ROUTES, name, "--show-managed-fields", "--output=json")
    route: dict[str, Any] = json.loads(kubectl.run(*asked, what=what))
    weights = {settings.gateway.pool_name: 100, pool: 0}
    backends = [one for rule in route["spec"]["rules"] for one in rule.get("backendRefs", ()) if one["name"] in weights]
    if pool not in {one["name"] for one in backends}:
        return False
    for one in backends:
        one["weight"] = weights[one["name"]]
    metadata = route["metadata"]
    managers = [one["manager"] for one in metadata.get("managedFields", ()) if one.get("operation") == "Apply"]
    manager = next((one for one in managers if one.startswith(CREATOR)), None)
    if manager is None:
        changed = json.dumps({"spec": {"rules": route["spec"]["rules"]}})
        patch = ("patch", _ROUTES, name, "--type=merge", f"--field-manager={CREATOR}", f"--patch={changed}")
        kubectl.run(*patch, what=what)
        return True
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata}
    applied: dict[str, Any] = {**{key: route[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept}
    arguments = ("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "--filename=-")
    kubectl.run(*arguments, what=what, stdin=json.dumps(applied))
    return True


def longest(times: tuple[float, ...]) -> float:
    """Seconds of the longest run without a missing step."""
    return max((end - begin for begin, end in _runs(times)), default=-1.0)


def _runs(times: tuple[float, ...]) -> Iterator[tuple[float, float]]:
    for place, at in enumerate(times):
        if place == 0 or at - times[place - 1] > 1.5 * RULES_INTERVAL_SECONDS:
            begin = at
        if place + 1 == len(times) or times[place + 1] - at > 1.5 * RULES_INTERVAL_SECONDS:
            yield begin, at


def _times(series: Sequence[Samples]) -> tuple[float, ...]:
    return tuple(sorted({at for one in series for at, _ in one.samples}))
