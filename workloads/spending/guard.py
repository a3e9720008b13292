"""The spending guard's program: counts the cost of a namespace's machines, warns, and pauses them at the limit.

Each turn lists the pods, counts to this moment by the API server's clock, decides (verdict.py), acts and stores the sum. A pause is a
ResourceQuota that admits no pod with accelerators, then the deletion of existing ones; replicas keep their number. A lost or damaged
sum begins anew: at worst a limit is spent twice. Each step is one line of JSON in the log. docs/decisions/18-spending.md gives the
reasons.
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
from typing import Any, Final

from workloads.spending.api import Api
from workloads.spending.total import STATE, Sum, Terms
from workloads.spending.verdict import GPU, Pod, decide, pod_of, priority_of, share_of

QUOTA: Final = "spending-pause"
ROLE: Final = "spending-guard"
"""The guard's Role in the servers' namespace; it owns the quota."""
CLOSED: Final = dict.fromkeys(
    (f"requests.{GPU}", "requests.google.com/tpu", "count/resourceclaims.resource.k8s.io"), "0"
)
"""A pause's quota."""
# Longest shutdown of a deleted pod, as on Autopilot: a pod may ask for years.
MOST_GRACE_SECONDS: Final = 600
# A failure is logged after this long. It, a pause and a passed term are logged again while they last, so that an alert stays open.
LASTS_SECONDS: Final = 120.0
AGAIN_SECONDS: Final = 300.0
# The cost of an hour is logged this often, as monitoring counts these lines: facts/signals/logs.py.
RATE_SECONDS: Final = 60.0
# Until the next turn after a failure or while work is in progress.
SOON_SECONDS: Final = 5.0
ALIVE: Final = "/run/spending/turn"
"""A file that each turn touches; the pod is Ready while it is new."""
_APPLY: Final = "application/apply-patch+yaml"
_AS_GUARD: Final = "fieldManager=spending-guard&force=true"
_NOT_OVER: Final = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
_LEVELS: Final = {
    "started": "INFO",
    "resumed": "NOTICE",
    "warned": "WARNING",
    "over": "WARNING",
    "blind": "WARNING",
    "paused": "ERROR",
}


class Guard:
    """One sum and one limit. The next turn recovers a failed one, and counts the gap."""

    def __init__(self, api: Api, terms: Terms) -> None:
        self._api, self._terms = api, terms
        self._core = f"/api/v1/namespaces/{terms.namespace}"
        self._quota = f"{self._core}/resourcequotas/{QUOTA}"
        self._role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{terms.namespace}/roles/{ROLE}"
        self._state = f"/api/v1/namespaces/{terms.home}/configmaps/{STATE}"
        self._sum = Sum()
        self._has_read = False
        self._is_settled = False
        """Whether no earlier guard's pause can be left."""
        self._failing_since: float | None = None
        self._next_lines: dict[str, float] = {}
        """When what lasts is logged again, by its step."""
        self._next_rate = 0.0
        """When the cost of an hour is logged next."""
        self._priorities: dict[str, str] = {}
        """Of the machines that are counted, where prices differ by priority."""

    def turn(self) -> float:
        """Observe, count, decide, act; returns seconds until the next turn. Raises OSError if a request is refused or not answered."""
        pods = [pod_of(one) for one in self._api.each(f"{self._core}/pods?{_NOT_OVER}")]
        if not self._has_read:
            self._read_sum()
        total, terms, date = self._sum, self._terms, self._api.date
        # A pod without GPUs keeps a machine too, if it stays after the last pod with GPUs.
        costly = [pod for pod in pods if pod.has_gpus or pod.node in total.nodes]
        here = {pod.node for pod in costly if pod.node}
        self._see_priorities(here | total.nodes.keys())
        total.count(here, date, terms, self._priorities)
        if total.since != (name := terms.name_of_sum(date)):
            self._begin(name, f"a new sum; {total.since or 'the former'} ended at ${total.usd:,.2f}")
        self._tell_rate()
        reason = decide(total, terms, here, self._priorities, date)
        share = share_of(total, terms, reason)
        if share > total.warned:
            self._tell("warned", f"{reason or f'{share:.0%} of the limit'} reached", share=share)
        total.warned = share
        try:
            # Before it is stored: a pause must not need storage.
            is_done = self._act(reason, costly)
        finally:
            data = {"state": total.text()}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STATE}, "data": data}
            self._api.ask("PATCH", f"{self._state}?{_AS_GUARD}", body, _APPLY)
        self._failing_since = None
        return terms.interval_seconds if is_done else SOON_SECONDS

    def fail(self, error: Exception) -> None:
        """Records a turn that failed; the next successful turn counts the whole gap."""
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since >= LASTS_SECONDS:
            self._tell_again("blind", f"for {(now - self._failing_since) / 60:.0f} min it cannot do its work: {error}")

    def _read_sum(self) -> None:
        """Continues the stored sum, or begins one. Raises OSError: a sum that cannot be read now is not replaced."""
        stored = ((self._api.ask("GET", self._state) or {}).get("data") or {}).get("state")
        self._has_read = True
        try:
            self._sum = Sum.read(stored or "")
            self._tell("started", f"counting since {self._sum.began}", unpriced=self._terms.unknown)
        except ValueError:
            self._sum.at = self._api.date
            # Pulumi creates the ConfigMap without data for the first guard.
            self._begin(self._terms.name_of_sum(self._sum.at), "the stored sum is damaged" if stored else "a first sum")

    def _begin(self, name: str | None, why: str) -> None:
        """Starts a sum from zero: what runs goes on, and so does a pause until the next decision."""
        total = self._sum
        total.since, total.usd, total.warned, total.owed = name, 0.0, 0.0, 0.0
        total.began = f"{datetime.fromtimestamp(total.at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        unknown = self._terms.unknown
        lower = f"; a lower bound, as no price is known of: {', '.join(unknown)}" if unknown else ""
        self._tell("started", f"counting from zero: {why}{lower}", unpriced=unknown)

    def _see_priorities(self, machines: set[str]) -> None:
        """Learns the priority of new machines. One that cannot be read counts as the dearest."""
        self._priorities = {node: self._priorities[node] for node in machines if node in self._priorities}
        for name in machines - self._priorities.keys() if self._terms.usd_per_priority_hour else ():
            try:
                node = self._api.ask("GET", f"/api/v1/nodes/{name}")
            except urllib.error.HTTPError:
                continue
            if node is not None:
                self._priorities[name] = priority_of(node["metadata"]["labels"])

    def _act(self, reason: str, pods: list[Pod]) -> bool:
        """Pauses or resumes; returns whether nothing is left to do."""
        if reason and self._terms.then == "pause":
            return self._pause(reason, pods)
        if reason:
            self._tell_again("over", f"{reason} is reached, and then is warn")
        if self._sum.reason or not self._is_settled:
            deleted, before = self._api.ask("DELETE", self._quota), self._sum.reason
            self._is_settled, self._sum.reason = True, ""
            if deleted is not None or before:
                self._next_lines.clear()
                self._tell("resumed", f"resumed: {before or 'a pause that a former guard left'} holds no more")
        return True

    def _pause(self, reason: str, pods: list[Pod]) -> bool:
        """Applies the quota, then deletes pods on machines; returns whether nothing is left to delete."""
        # Owned by the Role, which goes with the stack's section: without a guard nothing else would delete it.
        try:
            role = self._api.ask("GET", self._role)
        except urllib.error.HTTPError:
            role = None
        kind = {name: role[name] for name in ("apiVersion", "kind")} if role else {}
        owner = [{**kind, "name": ROLE, "uid": role["metadata"]["uid"]}] if role else []
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": CLOSED}}
        quota |= {"metadata": {"name": QUOTA, "ownerReferences": owner}}
        # Applied, not created: permission to create cannot be limited to a name.
        applied = self._api.ask("PATCH", f"{self._quota}?{_AS_GUARD}", quota, _APPLY)
        if self._sum.reason != reason:
            self._sum.reason = reason
            self._next_lines.clear()
        self._tell_again("paused", f"paused by {reason}; a higher limit or a later moment in the stack file resumes")
        if applied.get("status", {}).get("hard") != CLOSED:
            return False  # not enforced yet: a pod deleted now would be replaced
        refused: urllib.error.HTTPError | None = None
        remaining = [pod for pod in pods if not (pod.is_deleted and pod.grace_seconds <= MOST_GRACE_SECONDS)]
        for pod in remaining:
            options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
            if pod.grace_seconds > MOST_GRACE_SECONDS:
                options["gracePeriodSeconds"] = MOST_GRACE_SECONDS
            try:
                self._api.ask("DELETE", f"{self._core}/pods/{pod.name}", options)
            except urllib.error.HTTPError as error:
                if error.code != 409:  # already replaced by another pod of the same name
                    refused = error
        if refused is not None:
            raise refused
        return not remaining

    def _tell_rate(self) -> None:
        """Logs what an hour costs, once a minute: a late line does not delay those after it, so a day has its number."""
        now, planned = time.monotonic(), self._next_rate
        if now < planned:
            return
        self._next_rate = (planned if now < planned + RATE_SECONDS else now) + RATE_SECONDS
        total, fixed = self._sum, self._terms.usd_per_hour_fixed
        self._write(
            event="spending-rate",
            severity="INFO",
            message=f"${total.usd_per_hour:,.2f} an hour",
            usdPerHour=round(total.usd_per_hour, 2),
            machinesUsdPerHour=round(total.usd_per_hour - fixed, 2),
            machines=len(total.nodes),
            namespace=self._terms.namespace,
        )

    def _tell_again(self, step: str, message: str) -> None:
        """Logs what lasts: at once, then every five minutes."""
        if time.monotonic() >= self._next_lines.get(step, 0.0):
            self._next_lines[step] = time.monotonic() + AGAIN_SECONDS
            self._tell(step, message)

    def _tell(self, step: str, message: str, **more: Any) -> None:
        total, terms = self._sum, self._terms
        severity = "WARNING" if more.get("unpriced") else _LEVELS[step]
        self._write(
            event="spending",
            step=step,
            severity=severity,
            message=message,
            **more,
            usd=round(total.usd, 2),
            usdPerHour=round(total.usd_per_hour, 2),
            machines=len(total.nodes),
            namespace=terms.namespace,
            limitUsd=terms.limit_usd,
            until=terms.until,
            reason=total.reason,
        )

    @staticmethod
    def _write(**line: Any) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Runs turns until the pod ends."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=lambda text: Terms(**json.loads(text)), required=True)
    parser.add_argument("--api", default=f"https://{host}:{port}")
    parser.add_argument("--account", type=Path, default=Path("/var/run/secrets/kubernetes.io/serviceaccount"))
    parser.add_argument("--alive", type=Path, default=Path(ALIVE))
    options = parser.parse_args()
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    guard = Guard(Api(options.api, options.account), options.config)
    while True:
        try:
            pause = guard.turn()
            options.alive.touch()
        except (OSError, ValueError, http.client.HTTPException) as error:
            guard.fail(error)
            pause = SOON_SECONDS
        time.sleep(pause)


if __name__ == "__main__":
    main()
