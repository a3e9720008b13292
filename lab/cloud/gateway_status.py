"""Status of Gateways, routes, pools and policies, as GKE's Gateway controller writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from lab.control_plane.api import Manifest

CONTROLLER: Final = "networking.gke.io/gateway"
GATEWAY_GROUP: Final = "gateway.networking.k8s.io"
POOL_GROUP: Final = "inference.networking.k8s.io"
HEALTHY: Final = "networking.gke.io/GatewayHealthy"
"""GKE's additional condition. Source: public `kubectl describe gateway` outputs of GKE 1.30 to 1.34."""

Holds = Literal["True", "False", "Unknown"]
Condition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a reference is resolved; otherwise the reason and message."""

    reason: str = ""
    message: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it is resolved."""
        return not self.reason


GOOD: Final = Verdict()


def condition(of: Manifest, type_: str, status: Holds, reason: str, message: str = "", *, now: str) -> Condition:
    """A condition; `now` is its last transition."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "observedGeneration": of["metadata"].get("generation", 1),
    }


def gateway_status(gateway: Manifest, *, address: str, routes: Mapping[str, int], now: str) -> Manifest:
    """Of a Gateway: Programmed once it has an address; otherwise False without a message, as in the article.

    Newer GKE versions sometimes add an error message.
    """
    done = bool(address)
    conditions = [
        condition(gateway, "Scheduled", "True", "Scheduled", now=now),
        condition(gateway, "Accepted", "True", "Accepted", now=now),
        condition(gateway, "Programmed", "True" if done else "False", "Programmed" if done else "Pending", now=now),
        condition(gateway, "Ready", "True" if done else "False", "Ready" if done else "Pending", now=now),
    ]
    if done:
        conditions.append(condition(gateway, HEALTHY, "True", "Healthy", now=now))
    status: Manifest = {
        "conditions": conditions,
        "listeners": [
            _listener(gateway, listener, done, routes.get(listener["name"], 0), now) for listener in _listeners(gateway)
        ],
    }
    status["addresses"] = [{"type": "IPAddress", "value": address}] if done else []
    return status


def _listeners(gateway: Manifest) -> list[Manifest]:
    return list(gateway["spec"].get("listeners") or ())


def _listener(gateway: Manifest, listener: Manifest, done: bool, routes: int, now: str) -> Manifest:
    return {
        "name": listener["name"],
        "attachedRoutes": routes,
        "supportedKinds": [{"group": GATEWAY_GROUP, "kind": "HTTPRoute"}],
        "conditions": [
            condition(gateway, "ResolvedRefs", "True", "ResolvedRefs", now=now),
            condition(gateway, "Accepted", "True", "Accepted", now=now),
            condition(gateway, "Programmed", "True" if done else "False", "Programmed" if done else "Pending", now=now),
            condition(gateway, "Conflicted", "False", "NoConflicts", now=now),
        ],
    }


def route_status(route: Manifest, parents: Sequence[Manifest], resolved: Verdict, *, now: str) -> Manifest:
    """Of an HTTPRoute: one entry per accepting Gateway."""
    conditions = [
        condition(
            route,
            "ResolvedRefs",
            "True" if resolved.is_good else "False",
            resolved.reason or "ResolvedRefs",
            resolved.message,
            now=now,
        ),
        condition(route, "Accepted", "True", "Accepted", now=now),
        condition(
            route,
            "Reconciled",
            "True" if resolved.is_good else "False",
            "ReconciliationSucceeded" if resolved.is_good else "ReconciliationFailed",
            now=now,
        ),
    ]
    entries = [{"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions} for parent in parents]
    return {"parents": entries}


def pool_status(pool: Manifest, gateways: Iterable[Manifest], resolved: Verdict, *, now: str) -> Manifest:
    """Of an InferencePool: one entry per Gateway with a route to it."""
    conditions = [
        condition(pool, "Accepted", "True", "Accepted", now=now),
        condition(
            pool,
            "ResolvedRefs",
            "True" if resolved.is_good else "False",
            resolved.reason or "ResolvedRefs",
            resolved.message,
            now=now,
        ),
    ]
    parents = [
        {
            "parentRef": {
                "group": GATEWAY_GROUP,
                "kind": "Gateway",
                "name": gateway["metadata"]["name"],
                "namespace": gateway["metadata"]["namespace"],
            },
            "controllerName": CONTROLLER,
            "conditions": conditions,
        }
        for gateway in gateways
    ]
    return {"parents": parents}


def policy_status(policy: Manifest, attached: Verdict, *, now: str) -> Manifest:
    """Of a HealthCheckPolicy or GCPBackendPolicy."""
    good = attached.is_good
    one = condition(
        policy, "Attached", "True" if good else "False", attached.reason or "Attached", attached.message, now=now
    )
    return {"conditions": [one]}


def with_old_times(old: Any, new: Any) -> Any:
    """The new status; unchanged conditions keep their transition time."""
    if isinstance(new, dict):
        if isinstance(old, dict) and "lastTransitionTime" in new and old.get("status") == new.get("status"):
            return {**new, "lastTransitionTime": old.get("lastTransitionTime", new["lastTransitionTime"])}
        before = old if isinstance(old, dict) else {}
        return {key: with_old_times(before.get(key), item) for key, item in new.items()}
    if isinstance(new, list):
        return [with_old_times(_counterpart(old, index, item), item) for index, item in enumerate(new)]
    return new


def _counterpart(old: Any, index: int, item: Any) -> Any:
    """The old list's entry of the same type or name, else at the same index."""
    entries = old if isinstance(old, list) else []
    for key in ("type", "name"):
        if isinstance(item, dict) and key in item:
            return next((entry for entry in entries if isinstance(entry, dict) and entry.get(key) == item[key]), None)
    return entries[index] if index < len(entries) else None


def same(old: Any, new: Any) -> bool:
    """Whether two statuses are equal, apart from times."""
    return bool(_timeless(old) == _timeless(new))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _timeless(item) for key, item in value.items() if key != "lastTransitionTime"}
        return {key: item for key, item in kept.items() if item not in ([], {}, None)}
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    return value
