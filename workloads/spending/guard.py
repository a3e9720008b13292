"""The spending guard's program: counts the cost of a namespace's machines, warns, and pauses them at the limit.

The guard and its sum are in a namespace of their own, where users of the servers' namespace can write nothing. The sum is in a
ConfigMap, written with optimistic locking. Time is the process's monotonic clock while it runs, and the API server's clock between two
processes. A gap counts in full, at the larger of the sizes before and after it. A pause is a ResourceQuota that admits no pod with
accelerators, then the deletion of existing ones; replicas keep their number. A pause does not wait for the sum to be stored; its end
does. It logs each step as one line of JSON. docs/decisions/18-spending.md gives the reasons.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sys
import time
import urllib.error
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from workloads.spending.api import Api
from workloads.spending.total import WHY_RESUMED, DamagedSumError, Sum, Terms

STATE: Final = "spending"
QUOTA: Final = "spending-pause"
ROLE: Final = "spending-guard"
"""The guard's Role in the servers' namespace; it owns the quota."""
GPU: Final = "nvidia.com/gpu"
ACCELERATORS: Final = ("nvidia.com/", "google.com/tpu")
"""Beginnings of the names of resources for which GKE adds dear machines."""
CLOSED: Final = dict.fromkeys(
    (f"requests.{GPU}", "requests.google.com/tpu", "count/resourceclaims.resource.k8s.io"), "0"
)
"""A pause's quota."""
# Upper bound of one gap: a clock that is wrong by a year must not add a year's cost.
MOST_GAP_SECONDS: Final = 86_400.0
# Tolerated difference between the API server's clock and the process's between two turns.
CLOCK_JUMP_SECONDS: Final = 120.0
# Pods deleted per turn: bounds the load on the API server; a fleet of hundreds still ends within minutes.
AT_ONCE: Final = 20
# Longest shutdown of a deleted pod, as on Autopilot: a pod may ask for years.
MOST_GRACE_SECONDS: Final = 600
# How long to wake ReplicaSets after a pause: an API server may enforce a deleted quota a little longer.
WAKE_SECONDS: Final = 300.0
# A failure is logged after this long, and repeatedly while it lasts, so that an alert stays open.
LASTS_SECONDS: Final = 120.0
AGAIN_SECONDS: Final = 300.0
# Until the next turn after a failure or while work is in progress.
SOON_SECONDS: Final = 5.0
ALIVE: Final = "/run/spending/turn"
"""A file that each turn touches; the pod is Ready while it is new."""
_APPLY: Final = "application/apply-patch+yaml"
_AS_GUARD: Final = "fieldManager=spending-guard&force=true"
_NOT_OVER: Final = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
_LEVELS: Final = {"started": "INFO", "resumed": "NOTICE", "warned": "WARNING", "blind": "WARNING", "paused": "ERROR"}


class Pod(NamedTuple):
    """What the guard keeps of a pod."""

    name: str
    uid: str
    node: str
    has_gpus: bool
    grace_seconds: float
    """Of its deletion, once it is deleted; else what it asks for."""
    is_deleted: bool


class Guard:
    """One sum and one limit. `turn` reads, counts and acts; the next turn recovers a failed one."""

    def __init__(self, api: Api, terms: Terms) -> None:
        self._api, self._terms = api, terms
        self._core = f"/api/v1/namespaces/{terms.namespace}"
        self._state = f"/api/v1/namespaces/{terms.home}/configmaps/{STATE}"
        self._quota = f"{self._core}/resourcequotas/{QUOTA}"
        self._role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{terms.namespace}/roles/{ROLE}"
        self._sets = f"/apis/apps/v1/namespaces/{terms.namespace}/replicasets"
        self._sum = Sum(since=terms.since)
        self._counted_to, self._ahead = time.monotonic(), 0.0
        # The stored sum: its version, text and USD as last written here. A process reads it before its first write, and after a conflict.
        self._version = self._written = ""
        self._kept_usd = self._most_usd = 0.0
        self._is_new = self._must_read = True
        self._has_started = self._is_settled = False
        # Failures: since when, and when to log next.
        self._troubles: dict[str, tuple[float, float]] = {}
        self._refused: dict[str, str] = {}
        self._stuck: set[str] = set()

    def turn(self) -> float:
        """Read, count, act, store the sum; returns seconds until the next turn. Raises OSError if the API server is unreachable."""
        terms, self._refused = self._terms, {}
        if self._must_read:
            self._load()
        every = map(_pod, self._api.each(f"{self._core}/pods?{_NOT_OVER}"))
        # A pod without GPUs keeps a machine too, where it stays after the last that has.
        pods = [pod for pod in every if pod.has_gpus or pod.node in self._sum.nodes]
        steady = self._is_steady()
        machines = self._count(pods)
        if not self._has_started:
            self._has_started = True
            self._start()
        reason = self._reason(machines, steady=steady)
        self._warn(reason)
        pauses = bool(reason) and terms.then == "pause"
        soon = pauses and self._pause(reason, pods)
        if self._keep() and not pauses and (self._sum.reason or not self._is_settled):
            self._resume(reason)
        if self._sum.counted < self._sum.wake_until:
            self._wake()
            soon = True
        soon = not self._keep() or soon
        self._end(*(what for what in self._troubles if what not in self._refused))
        for what, why in self._refused.items():
            self._last(what, f"it may not {what}: {why}")
        return SOON_SECONDS if soon else terms.interval_seconds

    def fail(self, error: Exception) -> None:
        """Records a turn without a response; the next successful turn counts the whole gap."""
        self._last("count", f"the control plane cannot be asked, and the gap will be counted: {error}")

    # What does not work

    def _last(self, what: str, message: str) -> None:
        now = time.monotonic()
        since, due = self._troubles.setdefault(what, (now, now + LASTS_SECONDS))
        if now >= due:
            self._troubles[what] = since, now + AGAIN_SECONDS
            self._tell("blind", f"{message} (for {(now - since) / 60:.0f} min)")

    def _was_told(self, what: str) -> bool:
        since, due = self._troubles.get(what, (0.0, 0.0))
        return due > since + LASTS_SECONDS

    def _end(self, *ended: str) -> None:
        for what in ended:
            was_told, (since, _) = self._was_told(what), self._troubles.pop(what)
            if was_told:
                self._tell("started", f"it can {what} again, after {(time.monotonic() - since) / 60:.0f} min")

    def _try(self, what: str, *request: Any) -> Any:
        """The response, None if the object does not exist, False if refused; the turn continues and logs it at its end."""
        try:
            return self._api.ask(*request)
        except urllib.error.HTTPError as error:
            self._refused.setdefault(what, str(error))
            return False

    # The sum

    def _load(self) -> None:
        """Takes up the stored sum: a new process as it is, a running one only if another guard has counted more."""
        found = self._try("read the sum", "GET", self._state)
        if found is False:
            return  # it counts in memory, and writes over nothing that it has not read
        text = _text_of(found)
        if text is None and self._is_new:
            # Guards of earlier versions kept it beside the servers.
            former = self._try("read the sum", "GET", f"{self._core}/configmaps/{STATE}")
            if former is False:
                return
            text = _text_of(former)
        self._version = found["metadata"]["resourceVersion"] if found else ""
        stored, problem = None, "" if text or (found and self._is_new) else "is missing"
        try:
            stored = Sum.read(text) if text else None
        except DamagedSumError as error:
            problem = f"is damaged: {error}"
        is_same = stored is not None and stored.since == self._terms.since
        was_new, self._is_new, self._must_read = self._is_new, False, False
        if was_new:
            if problem:
                self._sum.unknown = f"the stored sum {problem}, on {self._today()}"
                self._tell("blind", self._sum.unknown)
        elif not problem and not (stored and is_same and stored.usd >= self._kept_usd):
            problem = f"was changed to ${stored.usd if stored else 0:,.2f} since {stored and stored.since}"
        if stored and is_same and (was_new or stored.usd > self._sum.usd):
            self._take(stored)
        elif problem and not was_new:
            self._tell("blind", f"the stored sum {problem}; this process writes its own again")

    def _take(self, stored: Sum) -> None:
        gap = self._api.date - stored.at
        lost = ""
        if gap > MOST_GAP_SECONDS:
            lost = f"nobody counted for {gap / 3600:.0f} h until {self._today()}; 24 h of them are in the sum"
        elif gap < -CLOCK_JUMP_SECONDS:
            lost = f"it was stored {-gap / 3600:.1f} h after {self._today()}: what nobody counted is not in the sum"
        self._sum, self._written = stored, ""
        self._counted_to = time.monotonic() - min(max(gap, 0.0), MOST_GAP_SECONDS)
        if lost:
            stored.unknown = lost
            self._tell("blind", lost)

    def _today(self) -> str:
        return f"{datetime.fromtimestamp(self._api.date, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def _start(self) -> None:
        unknown = self._terms.unknown
        lower = f"; a lower bound, as no price is known of: {', '.join(unknown)}" if unknown else ""
        severity = "WARNING" if unknown else _LEVELS["started"]
        self._tell("started", f"counting since {self._sum.began}{lower}", unpriced=unknown, severity=severity)

    def _keep(self) -> bool:
        """Stores the sum if it changed; False if what is stored must be read first."""
        text = self._sum.text()
        if self._must_read or text == self._written:
            return not self._must_read
        metadata = {"name": STATE, **({"resourceVersion": self._version} if self._version else {})}
        # Applied: this creates it again where it is missing.
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state": text}}
        try:
            kept = self._api.ask("PATCH", f"{self._state}?{_AS_GUARD}", body, _APPLY)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                self._refused.setdefault("keep the sum", str(error))
                return True
            kept = None
        self._must_read = kept is None
        if kept:
            self._version, self._written = kept["metadata"]["resourceVersion"], text
            self._kept_usd = self._sum.usd
        return not self._must_read

    def _is_steady(self) -> bool:
        """Whether the API server's clock advanced like the process's since the last turn."""
        before, self._ahead = self._ahead, self._api.date - time.monotonic()
        steady = not before or abs(self._ahead - before) <= CLOCK_JUMP_SECONDS
        if not steady:
            self._tell(
                "blind", f"the API server's clock jumped by {self._ahead - before:+.0f} s; the sum does not follow it"
            )
        return steady

    def _count(self, pods: list[Pod]) -> int:
        """Counts to this moment; returns the number of machines with pods."""
        total, now = self._sum, time.monotonic()
        here = {pod.node for pod in pods if pod.node}
        total.count(here, now - self._counted_to, self._terms)
        self._counted_to = now
        # Within a process a sum never falls.
        total.usd = self._most_usd = max(total.usd, self._most_usd)
        total.at, total.unpriced, total.began = self._api.date, list(self._terms.unknown), total.began or self._today()
        return len(here)

    # The verdict

    def _reason(self, machines: int, *, steady: bool) -> str:
        terms, total = self._terms, self._sum
        # Cost still to come if everything stops now. Zero while paused, so that the same limit does not resume.
        ends = terms.grace_seconds + terms.idle_seconds
        owed = machines * terms.usd_per_machine_hour * ends / 3600
        total.owed = max(owed, total.owed if total.reason else 0.0)
        if terms.limit_usd is not None and total.usd + total.owed >= terms.limit_usd:
            return "limit"
        until = terms.until and datetime.fromisoformat(terms.until).timestamp()
        if until and (self._api.date >= until if steady else total.reason):
            return "until"
        is_unknown = terms.unknown or total.unknown or self._was_told("read the sum")
        return "unknown" if is_unknown and terms.on_unknown == "pause" else ""

    def _warn(self, reason: str) -> None:
        """Logs each step once when it is passed; a higher limit resets steps."""
        terms, total = self._terms, self._sum
        limit = terms.limit_usd
        passed = max((one for one in terms.warn_at if limit and total.usd >= one * limit), default=0.0)
        if reason and terms.then == "warn":
            passed = 1.0
        if passed > total.warned:
            self._tell("warned", f"{reason or f'{passed:.0%} of the limit'} reached", share=passed)
        total.warned = passed

    # What is done

    def _pause(self, reason: str, pods: list[Pod]) -> bool:
        """Applies the quota, then deletes pods on machines; returns whether work remains."""
        # Owned by the Role, which goes with the stack's section: without a guard nothing else would delete it.
        role = self._try("read its role", "GET", self._role)
        owner = [{**_kind(role), "name": ROLE, "uid": role["metadata"]["uid"]}] if role else []
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": CLOSED}}
        quota |= {"metadata": {"name": QUOTA, "ownerReferences": owner}}
        # Applied, not created: permission to create cannot be limited to a name.
        made = self._try("pause", "PATCH", f"{self._quota}?{_AS_GUARD}", quota, _APPLY)
        if not made:
            return False
        if self._sum.reason != reason:
            self._sum.reason = reason
            self._tell("paused", f"paused by {reason}; a higher limit or a later moment in the stack file resumes")
        if made["spec"] != quota["spec"]:  # another's, with a scope, which no update can change
            self._try("pause", "DELETE", self._quota)
            return True
        if made.get("status", {}).get("hard") != CLOSED:
            return True  # not enforced yet: a pod deleted now would be replaced
        left = [pod for pod in pods if not _ends_soon(pod)]
        # Pods that could not be deleted come last, so that they do not block others, and before them those without GPUs.
        left.sort(key=lambda pod: (pod.uid in self._stuck, not pod.has_gpus))
        self._stuck &= {pod.uid for pod in left}
        for pod in left[:AT_ONCE]:
            self._delete(pod)
        return any(pod.uid not in self._stuck for pod in left)

    def _delete(self, pod: Pod) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if pod.grace_seconds > MOST_GRACE_SECONDS:
            options["gracePeriodSeconds"] = MOST_GRACE_SECONDS
        try:
            self._api.ask("DELETE", f"{self._core}/pods/{pod.name}", options)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # already replaced by another pod of the same name
                self._stuck.add(pod.uid)
                self._refused.setdefault("delete pods", f"{pod.name}, {error}")

    def _resume(self, reason: str) -> None:
        gone = self._try("take the pause back", "DELETE", self._quota)
        if gone is False:
            return
        self._is_settled, before = True, self._sum.reason
        if gone is not None or before:
            why = f"then is warn, and {reason} is still reached" if reason else WHY_RESUMED[before]
            self._sum.reason, self._sum.wake_until = "", self._sum.counted + WAKE_SECONDS
            self._tell("resumed", f"resumed: {why}")

    def _wake(self) -> None:
        """Makes refused ReplicaSets retry; otherwise they do so after up to 17 minutes.

        Any change of a ReplicaSet triggers its controller, so the smallest permission suffices: to remove the refusal from its
        status. The first refusal remains and names the quota that the terminating pods still used.
        """
        try:
            for one in self._api.each(self._sets):
                conditions = one.get("status", {}).get("conditions") or []
                others = [each for each in conditions if not is_refusal(each)]
                if others != conditions:
                    path, body = f"{self._sets}/{one['metadata']['name']}/status", {"status": {"conditions": others}}
                    self._try("wake servers", "PATCH", path, body, "application/merge-patch+json")
        except urllib.error.HTTPError as error:
            self._refused.setdefault("wake servers", str(error))

    def _tell(self, step: str, message: str, **more: Any) -> None:
        total, terms = self._sum, self._terms
        line = {"event": "spending", "step": step, "severity": _LEVELS[step], "message": message, **more}
        line |= {"usd": round(total.usd, 2), "usdPerHour": round(total.usd_per_hour, 2), "machines": len(total.nodes)}
        line |= {
            "namespace": terms.namespace,
            "limitUsd": terms.limit_usd,
            "until": terms.until,
            "reason": total.reason,
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def _text_of(found: Any) -> str | None:
    """The stored text of a ConfigMap, if there is one."""
    text = ((found or {}).get("data") or {}).get("state")
    return None if text is None else str(text)


def _kind(found: Any) -> dict[str, Any]:
    return {name: found[name] for name in ("apiVersion", "kind")}


def _pod(found: Any) -> Pod:
    """A pod, which has GPUs if any of its containers asks for some, be it a sidecar or one that runs only at the start."""
    metadata, spec = found["metadata"], found["spec"]
    has_gpus = bool(spec.get("resourceClaims")) or any(
        name.startswith(ACCELERATORS) and amount != "0"
        for one in (spec, *spec["containers"], *(spec.get("initContainers") or ()))
        for part in ("requests", "limits")
        for name, amount in ((one.get("resources") or {}).get(part) or {}).items()
    )
    is_deleted = bool(metadata.get("deletionTimestamp"))
    asked = metadata.get("deletionGracePeriodSeconds") if is_deleted else spec.get("terminationGracePeriodSeconds")
    node = spec.get("nodeName") or ""
    return Pod(metadata["name"], metadata["uid"], node, has_gpus, asked or 0, is_deleted)


def _ends_soon(pod: Pod) -> bool:
    return pod.is_deleted and pod.grace_seconds <= MOST_GRACE_SECONDS


def is_refusal(condition: dict[str, Any]) -> bool:
    """Whether a ReplicaSet's condition shows a pod refused by a GPU quota."""
    message = condition.get("message", "")
    return condition["type"] == "ReplicaFailure" and "exceeded quota" in message and GPU in message


def main() -> None:
    """Runs turns until the pod ends."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=lambda text: Terms(**json.loads(text)), required=True)
    parser.add_argument("--api", default=f"https://{host}:{port}")
    parser.add_argument("--account", type=Path, default=Path("/var/run/secrets/kubernetes.io/serviceaccount"))
    parser.add_argument("--alive", type=Path, default=Path(ALIVE))
    given = parser.parse_args()
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    guard = Guard(Api(given.api, given.account), given.config)
    while True:
        try:
            pause = guard.turn()
            given.alive.touch()
        except (OSError, ValueError, http.client.HTTPException) as error:
            guard.fail(error)
            pause = SOON_SECONDS
        time.sleep(pause)


if __name__ == "__main__":
    main()
