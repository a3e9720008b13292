"""The spending guard's program: counts the cost of a namespace's machines, warns, and pauses them at the limit.

Each turn observes the cluster, counts to this moment, decides (verdict.py) and acts. A pause is a ResourceQuota that admits no pod
with accelerators, then the deletion of existing ones; replicas keep their number. A pause does not wait for the sum to be stored; its
end does. Time is the process's monotonic clock while it runs, and the API server's clock between two processes. A gap counts in full,
at the larger of the sizes before and after it. Each step is one line of JSON in the log. docs/decisions/18-spending.md gives the reasons.
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
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from workloads.spending.api import Api
from workloads.spending.store import APPLY, AS_GUARD, REFUSED, Requests, Store
from workloads.spending.total import WHY_RESUMED, Sum, Terms
from workloads.spending.verdict import GPU, Action, Observed, Pod, Verdict, decide, pod_of, rung_of

QUOTA: Final = "spending-pause"
ROLE: Final = "spending-guard"
"""The guard's Role in the servers' namespace; it owns the quota."""
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
# A failure is logged after this long. It, a pause and a passed term are logged again while they last, so that an alert stays open.
LASTS_SECONDS: Final = 120.0
AGAIN_SECONDS: Final = 300.0
# The cost of an hour is logged this often, as monitoring counts these lines: facts/signals/logs.py.
RATE_SECONDS: Final = 60.0
# Until the next turn after a failure or while work is in progress.
SOON_SECONDS: Final = 5.0
ALIVE: Final = "/run/spending/turn"
"""A file that each turn touches; the pod is Ready while it is new."""
_NOT_OVER: Final = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
_LEVELS: Final = {
    "started": "INFO",
    "resumed": "NOTICE",
    "warned": "WARNING",
    "over": "WARNING",
    "blind": "WARNING",
    "paused": "ERROR",
}


class Troubles:
    """Failures that last, by what the guard cannot do. Logged after two minutes, every five, and when they end."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._since: dict[str, float] = {}
        self._next_line: dict[str, float] = {}

    def happened(self, what: str, message: str) -> None:
        """The guard failed to do `what` in this turn."""
        now = time.monotonic()
        since = self._since.setdefault(what, now)
        if now >= self._next_line.setdefault(what, now + LASTS_SECONDS):
            self._next_line[what] = now + AGAIN_SECONDS
            self._tell("blind", f"{message} (for {(now - since) / 60:.0f} min)")

    def was_told(self, what: str) -> bool:
        """Whether a failure lasts and was logged."""
        return what in self._since and self._next_line[what] > self._since[what] + LASTS_SECONDS

    def end_all_but(self, remaining: dict[str, str]) -> None:
        """Ends every failure that did not happen in this turn."""
        for what in [what for what in self._since if what not in remaining]:
            was_told, since = self.was_told(what), self._since.pop(what)
            del self._next_line[what]
            if was_told:
                self._tell("started", f"it can {what} again, after {(time.monotonic() - since) / 60:.0f} min")


class Guard:
    """One sum and one limit. The next turn recovers a failed one."""

    def __init__(self, api: Api, terms: Terms) -> None:
        self._api, self._terms = api, terms
        self._core = f"/api/v1/namespaces/{terms.namespace}"
        self._quota = f"{self._core}/resourcequotas/{QUOTA}"
        self._role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{terms.namespace}/roles/{ROLE}"
        self._replica_sets = f"/apis/apps/v1/namespaces/{terms.namespace}/replicasets"
        self._requests = Requests(api)
        self._store = Store(self._requests, terms)
        self._troubles = Troubles(self._tell)
        self._sum = Sum(since=terms.since)
        self._most_usd = 0.0
        self._counted_to = time.monotonic()
        self._clock_ahead = 0.0
        self._is_new = True
        """Whether this process has read no stored sum yet."""
        self._has_started = False
        self._is_settled = False
        """Whether no earlier guard's pause can be left."""
        self._next_line = 0.0
        """When a pause or a passed term is logged again, on the process's clock."""
        self._next_rate = 0.0
        """When the cost of an hour is logged next, on the process's clock."""
        self._rungs: dict[str, str] = {}
        """Of the machines that are counted, where prices differ by rung."""
        self._undeletable: set[str] = set()
        """UIDs of pods whose deletion was refused."""

    def turn(self) -> float:
        """Observe, count, decide, act; returns seconds until the next turn. Raises OSError if the API server is unreachable."""
        self._requests.refused.clear()
        if self._store.must_read:
            self._read_sum()
        observed = self._observe()
        self._count(observed)
        if not self._has_started:
            self._has_started = True
            self._tell_start()
        self._tell_rate()
        is_done = self._act(decide(self._sum, self._terms, observed), observed)
        self._troubles.end_all_but(self._requests.refused)
        for what, why in self._requests.refused.items():
            self._troubles.happened(what, f"it may not {what}: {why}")
        return self._terms.interval_seconds if is_done else SOON_SECONDS

    def fail(self, error: Exception) -> None:
        """Records a turn without a response; the next successful turn counts the whole gap."""
        self._troubles.happened("count", f"the control plane cannot be asked, and the gap will be counted: {error}")

    # Observe

    def _observe(self) -> Observed:
        pods = map(pod_of, self._api.each(f"{self._core}/pods?{_NOT_OVER}"))
        # A pod without GPUs keeps a machine too, if it stays after the last pod with GPUs.
        costly = [pod for pod in pods if pod.has_gpus or pod.node in self._sum.nodes]
        self._see_rungs({pod.node for pod in costly if pod.node} | self._sum.nodes.keys())
        return Observed(
            rungs=self._rungs,
            pods=costly,
            date=self._api.date,
            clock_is_steady=self._compare_clocks(),
            sum_is_unreadable=self._troubles.was_told("read the sum"),
            may_be_paused=bool(self._sum.reason) or not self._is_settled,
        )

    def _see_rungs(self, machines: set[str]) -> None:
        """Learns the rung of new machines. One that cannot be read counts as the dearest."""
        self._rungs = {node: self._rungs[node] for node in machines if node in self._rungs}
        for name in machines - self._rungs.keys() if self._terms.usd_per_rung_hour else ():
            node = self._requests.ask("read nodes", "GET", f"/api/v1/nodes/{name}")
            if node is REFUSED:
                return
            if node is not None:
                self._rungs[name] = rung_of(node["metadata"]["labels"])

    def _compare_clocks(self) -> bool:
        """Whether the API server's clock advanced like the process's since the last turn."""
        before, self._clock_ahead = self._clock_ahead, self._api.date - time.monotonic()
        jump = self._clock_ahead - before if before else 0.0
        if abs(jump) <= CLOCK_JUMP_SECONDS:
            return True
        self._tell("blind", f"the API server's clock jumped by {jump:+.0f} s; the sum does not follow it")
        return False

    # Count

    def _read_sum(self) -> None:
        """Continues the stored sum: a new process as it is, a running one only if another guard has counted more."""
        stored = self._store.read(is_first=self._is_new)
        if stored is None:
            return  # it counts in memory, and overwrites nothing that it has not read
        is_new, self._is_new = self._is_new, False
        names = {self._terms.name_of_sum(self._api.date), self._sum.since}
        same = stored.sum if stored.sum and stored.sum.since in names else None
        if is_new and stored.sum and self._terms.is_earlier(stored.sum.since, self._api.date):
            same = stored.sum  # counted to the end of its month, before this one begins
        if is_new and stored.problem:
            self._distrust(f"the stored sum {stored.problem}, on {self._today()}")
        if same and (is_new or same.usd > self._sum.usd):
            self._continue(same)
        elif not is_new:
            problem = stored.problem
            is_older = stored.sum and self._terms.is_earlier(stored.sum.since, self._api.date)
            if not problem and not is_older and not (same and same.usd >= self._store.usd):
                usd, since = (stored.sum.usd, stored.sum.since) if stored.sum else (0, None)
                problem = f"was changed to ${usd:,.2f} since {since}"
            if problem:
                self._tell("blind", f"the stored sum {problem}; this process writes its own again")

    def _continue(self, stored: Sum) -> None:
        """Counts on from a stored sum, including the time since it was stored."""
        gap = self._api.date - stored.at
        self._sum = stored
        self._counted_to = time.monotonic() - min(max(gap, 0.0), MOST_GAP_SECONDS)
        if gap > MOST_GAP_SECONDS:
            self._distrust(f"nobody counted for {gap / 3600:.0f} h until {self._today()}; 24 h of them are in the sum")
        elif gap < -CLOCK_JUMP_SECONDS:
            self._distrust(
                f"it was stored {-gap / 3600:.1f} h after {self._today()}: what nobody counted is not in the sum"
            )

    def _distrust(self, why: str) -> None:
        self._sum.unknown = why
        self._tell("blind", why)

    def _count(self, observed: Observed) -> None:
        """Counts to this moment."""
        total, now, date = self._sum, time.monotonic(), self._api.date
        elapsed, self._counted_to = now - self._counted_to, now
        if not total.began:
            total.since = self._terms.name_of_sum(date)
        # A clock that jumps begins no month.
        if observed.clock_is_steady and self._terms.is_earlier(total.since, date):
            elapsed -= self._end_month(observed, elapsed, date)
        total.count(observed.machines, elapsed, self._terms, observed.rungs)
        # Within a process a sum never falls.
        total.usd = self._most_usd = max(total.usd, self._most_usd)
        total.at, total.unpriced, total.began = self._api.date, list(self._terms.unknown), total.began or self._today()

    def _end_month(self, observed: Observed, elapsed: float, date: float) -> float:
        """Counts the seconds of `elapsed` before the month of `date`, and begins its sum; returns how many they were."""
        of_month = date - datetime.fromtimestamp(date, UTC).replace(day=1, hour=0, minute=0, second=0).timestamp()
        before = max(0.0, elapsed - of_month)
        self._sum.count(observed.machines, before, self._terms, observed.rungs)
        former, spent = self._sum.since, self._sum.usd
        self._sum.begin_month(self._terms.name_of_sum(date), date)
        if of_month <= elapsed:
            self._sum.unknown = ""  # all of this month is counted
        self._most_usd = self._store.usd = 0.0
        self._tell("started", f"a new month: counting from zero; {former} ended at ${spent:,.2f}")
        return before

    # Act

    def _act(self, verdict: Verdict, observed: Observed) -> bool:
        """Warns, pauses or resumes, and stores the sum; returns whether nothing is left to do."""
        total = self._sum
        total.owed = verdict.owed_usd
        if verdict.warned_share > total.warned:
            what = verdict.reason or f"{verdict.warned_share:.0%} of the limit"
            self._tell("warned", f"{what} reached", share=verdict.warned_share)
        total.warned = verdict.warned_share
        is_done = True
        if not verdict.reason:
            self._next_line = 0.0
        elif verdict.action is Action.PAUSE:
            is_done = self._pause(verdict.reason, observed.pods)
        else:
            self._tell_again("over", f"{verdict.reason} is reached, and then is warn")
        # Before a resume, so that the next process does not pause again by an older sum.
        is_stored = self._store.write(total)
        if is_stored and verdict.action is Action.RESUME:
            self._resume(verdict.reason)
        if total.counted < total.wake_until:
            self._wake()
            is_done = False
        return self._store.write(total) and is_done

    def _pause(self, reason: str, pods: list[Pod]) -> bool:
        """Applies the quota, then deletes pods on machines; returns whether nothing is left to delete."""
        # Owned by the Role, which goes with the stack's section: without a guard nothing else would delete it.
        role = self._requests.ask("read its role", "GET", self._role)
        kind = {name: role[name] for name in ("apiVersion", "kind")} if role else {}
        owner = [{**kind, "name": ROLE, "uid": role["metadata"]["uid"]}] if role else []
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": CLOSED}}
        quota |= {"metadata": {"name": QUOTA, "ownerReferences": owner}}
        # Applied, not created: permission to create cannot be limited to a name.
        applied = self._requests.ask("pause", "PATCH", f"{self._quota}?{AS_GUARD}", quota, APPLY)
        if not applied:
            return True
        if self._sum.reason != reason:
            self._sum.reason, self._next_line = reason, 0.0
        self._tell_again("paused", f"paused by {reason}; a higher limit or a later moment in the stack file resumes")
        if applied["spec"] != quota["spec"]:  # another's, with a scope, which no update can change
            self._requests.ask("pause", "DELETE", self._quota)
            return False
        if applied.get("status", {}).get("hard") != CLOSED:
            return False  # not enforced yet: a pod deleted now would be replaced
        remaining = [pod for pod in pods if not _ends_soon(pod)]
        # Pods that could not be deleted come last, so that they do not block others, and before them those without GPUs.
        remaining.sort(key=lambda pod: (pod.uid in self._undeletable, not pod.has_gpus))
        self._undeletable &= {pod.uid for pod in remaining}
        for pod in remaining[:AT_ONCE]:
            self._delete(pod)
        return all(pod.uid in self._undeletable for pod in remaining)

    def _delete(self, pod: Pod) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if pod.grace_seconds > MOST_GRACE_SECONDS:
            options["gracePeriodSeconds"] = MOST_GRACE_SECONDS
        try:
            self._api.ask("DELETE", f"{self._core}/pods/{pod.name}", options)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # already replaced by another pod of the same name
                self._undeletable.add(pod.uid)
                self._requests.refused.setdefault("delete pods", f"{pod.name}, {error}")

    def _resume(self, reason: str) -> None:
        """Deletes the quota. `reason`: the term that is still reached if `then` is warn."""
        deleted = self._requests.ask("take the pause back", "DELETE", self._quota)
        if deleted is REFUSED:
            return
        self._is_settled, before = True, self._sum.reason
        if deleted is not None or before:
            why = f"then is warn, and {reason} is still reached" if reason else WHY_RESUMED[before]
            self._sum.reason, self._sum.wake_until = "", self._sum.counted + WAKE_SECONDS
            self._tell("resumed", f"resumed: {why}")

    def _wake(self) -> None:
        """Makes refused ReplicaSets retry; otherwise they do so after up to 17 minutes.

        Any change of a ReplicaSet triggers its controller, so the smallest permission suffices: to remove the refusal from its
        status. The first refusal remains and names the quota that the terminating pods still used.
        """
        try:
            for replica_set in self._api.each(self._replica_sets):
                conditions = replica_set.get("status", {}).get("conditions") or []
                others = [condition for condition in conditions if not is_refusal(condition)]
                if others != conditions:
                    path = f"{self._replica_sets}/{replica_set['metadata']['name']}/status"
                    body = {"status": {"conditions": others}}
                    self._requests.ask("wake servers", "PATCH", path, body, "application/merge-patch+json")
        except urllib.error.HTTPError as error:
            self._requests.refused.setdefault("wake servers", str(error))

    # Tell

    def _today(self) -> str:
        return f"{datetime.fromtimestamp(self._api.date, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def _tell_start(self) -> None:
        unknown = self._terms.unknown
        lower = f"; a lower bound, as no price is known of: {', '.join(unknown)}" if unknown else ""
        severity = "WARNING" if unknown else _LEVELS["started"]
        self._tell("started", f"counting since {self._sum.began}{lower}", unpriced=unknown, severity=severity)

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
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + AGAIN_SECONDS
            self._tell(step, message)

    def _tell(self, step: str, message: str, **more: Any) -> None:
        total, terms = self._sum, self._terms
        line = {
            "event": "spending",
            "step": step,
            "severity": _LEVELS[step],
            "message": message,
            **more,
            "usd": round(total.usd, 2),
            "usdPerHour": round(total.usd_per_hour, 2),
            "machines": len(total.nodes),
            "namespace": terms.namespace,
            "limitUsd": terms.limit_usd,
            "until": terms.until,
            "reason": total.reason,
        }
        self._write(**line)

    @staticmethod
    def _write(**line: Any) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


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
