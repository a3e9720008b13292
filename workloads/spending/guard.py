"""The spending guard's program: counts the cost of a namespace's machines, warns, and pauses them at the limit.

The sum is in a ConfigMap that only the guard writes, with optimistic locking. Time is the process's monotonic clock while it
runs, and the API server's clock between two processes. A gap counts in full, at the larger of the sizes before and after it. A pause is a
ResourceQuota that admits no pod with GPUs, then the deletion of existing ones; replicas keep their number.
It logs each step as one line of JSON. docs/decisions/0068-stopped-in-time.md gives the reasons.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import os
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

STATE: Final = "spending"
QUOTA: Final = "spending-pause"
GPU: Final = "nvidia.com/gpu"
NONE_OF_THEM: Final = {f"requests.{GPU}": "0"}
# Upper bound of one gap: a clock that is wrong by a year must not add a year's cost.
MOST_GAP_SECONDS: Final = 86_400.0
# Tolerated difference between the API server's clock and the process's between two turns.
CLOCK_JUMP_SECONDS: Final = 120.0
# Pods deleted per turn: bounds the load on the API server; a fleet of hundreds still ends within minutes.
AT_ONCE: Final = 20
# How long to wake ReplicaSets after a pause: an API server may enforce a deleted quota a little longer.
WAKE_SECONDS: Final = 300.0
# A failure is logged after this long, and repeatedly while it lasts, so that an alert stays open.
LASTS_SECONDS: Final = 120.0
AGAIN_SECONDS: Final = 300.0
# Until the next turn after a failure or while work is in progress.
SOON_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 20.0
_WHY_RESUMED: Final = {
    "limit": "the limit is higher, or gone",
    "until": "the moment is later, or gone",
    "unknown": "the sum is trusted again, or unknown does not pause any more",
    "": "a pause was found that this sum knows nothing of",
}
_LEVELS: Final = {"started": "INFO", "resumed": "NOTICE", "warned": "WARNING", "blind": "WARNING", "paused": "ERROR"}


class Api:
    """Kubernetes API client with a service account token, read for each request because the kubelet renews it."""

    date: float
    """The API server's clock at its last answer, seconds since 1970."""

    def __init__(self, url: str, account: Path) -> None:
        self._url, self._account = url, account
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=str(account / "ca.crt"))
            # Python 3.13 requires extensions that some clusters' CAs do not have (Twingate/kubernetes-operator#1128); chain, name and
            # dates are still verified.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The response, or None if the object does not exist. Raises OSError if refused or unreachable."""
        headers = {"Authorization": f"Bearer {(self._account / 'token').read_text().strip()}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)  # noqa: S310 - one fixed host
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                self.date = parsedate_to_datetime(answer.headers["Date"]).timestamp()
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            # The reason, e.g. of a webhook.
            with contextlib.suppress(ValueError, TypeError, KeyError, OSError, http.client.HTTPException):
                error.msg = str(json.loads(error.read())["message"])[:500]
            raise


class Guard:
    """One sum and one limit. `turn` reads, counts and acts; the next turn recovers a failed one."""

    def __init__(self, api: Api, config: dict[str, Any]) -> None:
        self._api, self._config = api, config
        self._core = f"/api/v1/namespaces/{config['namespace']}"
        self._sets = f"/apis/apps/v1/namespaces/{config['namespace']}/replicasets"
        self._state: dict[str, Any] = {}
        self._version = self._uid = ""
        self._saved_at = self._counted_to = self._ahead = 0.0
        self._written = ""
        self._has_started = self._is_settled = False
        # Failures: since when, and when to log next.
        self._troubles: dict[str, tuple[float, float]] = {}
        self._refused: dict[str, str] = {}
        self._stuck: set[str] = set()

    def turn(self) -> float:
        """Read, count, store the sum, act; returns seconds until the next turn. Raises OSError if the API server is unreachable."""
        config = self._config
        if not self._version:
            self._load()
        state, pods = self._state, self._api.ask("GET", f"{self._core}/pods")["items"]
        here = {pod["spec"]["nodeName"] for pod in pods if _has_machine(pod)}
        steady = self._is_steady()
        self._count(here)
        state["unpriced"] = config["unknown"]
        if not self._has_started:
            self._has_started = True
            self._start()
        reason = self._reason(here, steady=steady)
        self._warn(reason)
        self._refused = {}
        self._keep()
        soon = False
        if reason and config["then"] == "pause":
            soon = self._pause(reason, pods)
        elif state["reason"] or not self._is_settled:
            self._resume(reason)
        if state["counted"] < state["wakeUntil"]:
            self._wake()
            soon = True
        self._keep()
        self._end(*(what for what in self._troubles if what not in self._refused))
        for what, why in self._refused.items():
            self._last(what, f"it may not {what}: {why}")
        return SOON_SECONDS if soon else float(config["intervalSeconds"])

    def fail(self, error: Exception) -> None:
        """Records a turn without a response; the next successful turn counts the whole gap."""
        if isinstance(error, urllib.error.HTTPError) and error.code == 409:
            self._version = ""  # conflicting write: read again
        else:
            self._last("count", f"the control plane cannot be asked, and the gap will be counted: {error}")

    # What does not work

    def _last(self, what: str, message: str) -> None:
        now = time.monotonic()
        since, due = self._troubles.setdefault(what, (now, now + LASTS_SECONDS))
        if now >= due:
            self._troubles[what] = since, now + AGAIN_SECONDS
            self._tell("blind", f"{message} (for {(now - since) / 60:.0f} min)")

    def _end(self, *ended: str) -> None:
        for what in ended:
            since, due = self._troubles.pop(what)
            if due > since + LASTS_SECONDS:  # it was logged
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
        found = _found(self._api.ask("GET", f"{self._core}/configmaps/{STATE}"))
        self._version, self._uid = found["metadata"]["resourceVersion"], found["metadata"]["uid"]
        text, today = (
            (found.get("data") or {}).get("state"),
            f"{datetime.fromtimestamp(self._api.date, UTC):%Y-%m-%dT%H:%M:%SZ}",
        )
        lost, kept, gap = "", None, 0.0
        if text is not None:
            kept = _read(text)
            lost = "" if kept else f"the sum was unreadable on {today}"
            gap = self._api.date - kept["at"] if kept else 0.0
        if self._state and (kept is None or kept["at"] <= self._saved_at):
            return  # this process has a newer sum
        if kept is None or kept["since"] != self._config["since"]:
            gap, kept = 0.0, {"usd": 0.0, "counted": 0.0, "since": self._config["since"], "from": today, "nodes": {}}
            kept |= {"warned": 0.0, "reason": "", "owed": 0.0, "unknown": lost, "unpriced": [], "wakeUntil": 0.0}
            # Unknown whether a pause exists.
            self._is_settled = False
        if gap > MOST_GAP_SECONDS:
            kept["unknown"] = lost = f"nobody counted for {gap / 3600:.0f} h until {today}; 24 h of them are in the sum"
        elif gap < -CLOCK_JUMP_SECONDS:
            lost = f"the API server's clock went back by {-gap:.0f} s"
        self._state = kept
        if lost:
            self._tell("blind", lost)
        self._counted_to = time.monotonic() - min(max(gap, 0.0), MOST_GAP_SECONDS)

    def _start(self) -> None:
        state, unknown = self._state, self._config["unknown"]
        lower = f"; a lower bound, as no price is known of: {', '.join(unknown)}" if unknown else ""
        severity = "WARNING" if unknown else _LEVELS["started"]
        self._tell("started", f"counting since {state['from']}{lower}", unpriced=unknown, severity=severity)

    def _keep(self) -> None:
        """Writes the sum if it changed."""
        text = json.dumps(self._state)
        if text == self._written:
            return
        body = {"metadata": {"resourceVersion": self._version}, "data": {"state": text}}
        path = f"{self._core}/configmaps/{STATE}"
        try:
            kept = _found(self._api.ask("PATCH", path, body, "application/merge-patch+json"))
        except urllib.error.HTTPError as error:
            if error.code == 409:
                raise
            self._refused.setdefault("keep the sum", str(error))
        else:
            self._version, self._saved_at = kept["metadata"]["resourceVersion"], self._state["at"]
            self._written = text

    def _is_steady(self) -> bool:
        """Whether the API server's clock advanced like the process's since the last turn."""
        before, self._ahead = self._ahead, self._api.date - time.monotonic()
        steady = not before or abs(self._ahead - before) <= CLOCK_JUMP_SECONDS
        if not steady:
            self._tell(
                "blind", f"the API server's clock jumped by {self._ahead - before:+.0f} s; the sum does not follow it"
            )
        return steady

    def _count(self, here: set[str]) -> None:
        """Adds the cost since the last count: machines seen at either end in full, plus their idle minutes."""
        state, now = self._state, time.monotonic()
        before, elapsed = state["counted"], now - self._counted_to
        after, self._counted_to = before + elapsed, now
        idle, price, rate = (
            self._config["idleSeconds"],
            self._config["usdPerMachineHour"],
            self._config["usdPerHourFixed"],
        )
        cost, known, state["nodes"] = rate * elapsed, dict.fromkeys(sorted(here), (before, True)) | state["nodes"], {}
        for node, (at, was_here) in known.items():
            seen = after if was_here or node in here else at
            cost += price * max(0.0, min(after, seen + idle) - before)
            if node in here or seen + idle > after:
                state["nodes"][node] = (seen, node in here)
                rate += price
        state |= {"usd": state["usd"] + cost / 3600, "counted": after, "at": self._api.date, "usdPerHour": rate}

    # The verdict

    def _reason(self, here: set[str], *, steady: bool) -> str:
        config, state = self._config, self._state
        # Cost still to come if everything stops now. Zero while paused, so that the same limit does not resume.
        ends = config["graceSeconds"] + config["idleSeconds"]
        owed = len(here) * config["usdPerMachineHour"] * ends / 3600
        state["owed"] = max(owed, state["owed"] if state["reason"] else 0.0)
        if config["limitUsd"] is not None and state["usd"] + state["owed"] >= config["limitUsd"]:
            return "limit"
        until = config["until"] and datetime.fromisoformat(config["until"]).timestamp()
        if until and (self._api.date >= until if steady else state["reason"]):
            return "until"
        return "unknown" if config["onUnknown"] == "pause" and (config["unknown"] or state["unknown"]) else ""

    def _warn(self, reason: str) -> None:
        """Logs each step once when it is passed; a higher limit resets steps."""
        limit, state = self._config["limitUsd"], self._state
        passed = max((one for one in self._config["warnAt"] if limit and state["usd"] >= one * limit), default=0.0)
        if reason and self._config["then"] == "warn":
            passed = 1.0
        if passed > state["warned"]:
            self._tell("warned", f"{reason or f'{passed:.0%} of the limit'} reached", share=passed)
        state["warned"] = passed

    # What is done

    def _pause(self, reason: str, pods: list[dict[str, Any]]) -> bool:
        """Applies the quota, then deletes GPU pods; returns whether work remains."""
        # Owned by the ConfigMap: without a guard nothing else would delete it.
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": STATE, "uid": self._uid}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": NONE_OF_THEM}}
        quota |= {"metadata": {"name": QUOTA, "ownerReferences": [owner]}}
        # Applied, not created: permission to create cannot be limited to a name.
        path = f"{self._core}/resourcequotas/{QUOTA}?fieldManager=spending-guard&force=true"
        made = self._try("pause", "PATCH", path, quota, "application/apply-patch+yaml")
        if not made:
            return False
        if self._state["reason"] != reason:
            self._state["reason"] = reason
            self._tell("paused", f"paused by {reason}; a higher limit or a later moment in the stack file resumes")
        if made.get("status", {}).get("hard") != NONE_OF_THEM:
            return True  # not enforced yet: a pod deleted now would be replaced
        left = [pod["metadata"] for pod in pods if _has_gpus(pod) and not pod["metadata"].get("deletionTimestamp")]
        # Pods that could not be deleted come last, so that they do not block others.
        left.sort(key=lambda pod: pod["uid"] in self._stuck)
        self._stuck &= {pod["uid"] for pod in left}
        for pod in left[:AT_ONCE]:
            self._delete(pod)
        return any(pod["uid"] not in self._stuck for pod in left)

    def _delete(self, pod: dict[str, Any]) -> None:
        precondition = {"preconditions": {"uid": pod["uid"]}}
        try:
            self._api.ask("DELETE", f"{self._core}/pods/{pod['name']}", precondition)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # already replaced by another pod of the same name
                self._stuck.add(pod["uid"])
                self._refused.setdefault("delete pods", f"{pod['name']}, {error}")

    def _resume(self, reason: str) -> None:
        gone = self._try("take the pause back", "DELETE", f"{self._core}/resourcequotas/{QUOTA}")
        if gone is False:
            return
        self._is_settled, before = True, self._state["reason"]
        if gone is not None or before:
            why = f"then is warn, and {reason} is still reached" if reason else _WHY_RESUMED[before]
            self._state |= {"reason": "", "wakeUntil": self._state["counted"] + WAKE_SECONDS}
            self._tell("resumed", f"resumed: {why}")

    def _wake(self) -> None:
        """Makes refused ReplicaSets retry; otherwise they do so after up to 17 minutes.

        Any change of a ReplicaSet triggers its controller, so the smallest permission suffices: to remove the refusal from its
        status. The first refusal remains and names the quota that the terminating pods still used.
        """
        for one in (self._try("wake servers", "GET", self._sets) or {"items": ()})["items"]:
            conditions = one.get("status", {}).get("conditions") or []
            others = [each for each in conditions if not is_refusal(each)]
            if others != conditions:
                path = f"{self._sets}/{one['metadata']['name']}/status"
                body = {"status": {"conditions": others}}
                self._try("wake servers", "PATCH", path, body, "application/merge-patch+json")

    def _tell(self, step: str, message: str, **more: Any) -> None:
        state, config = self._state, self._config
        line = {"event": "spending", "step": step, "severity": _LEVELS[step], "message": message, **more}
        line |= {name: round(state.get(name, 0.0), 2) for name in ("usd", "usdPerHour")}
        line |= {name: config[name] for name in ("namespace", "limitUsd", "until")}
        line |= {"machines": len(state.get("nodes", ())), "reason": state.get("reason", "")}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def _found(state: Any) -> Any:
    if state is None:
        raise OSError(f"ConfigMap {STATE} is missing; pulumi up makes it")
    return state


def _read(text: str) -> dict[str, Any] | None:
    """The sum, or None if it is incomplete or invalid."""
    try:
        state = json.loads(text)
        numbers = [state[name] for name in ("usd", "counted", "at", "warned", "owed", "wakeUntil")]
        numbers += [seen for seen, _ in state["nodes"].values()]
        words = [state["reason"], state["unknown"], state["from"], state["since"] or "", *state["unpriced"]]
        sound = all(0 <= one < math.inf for one in numbers) and all(isinstance(one, str) for one in words)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return state if sound and state["reason"] in _WHY_RESUMED else None


def _has_gpus(pod: dict[str, Any]) -> bool:
    amounts = (one.get("resources", {}).get("limits", {}).get(GPU, "0") for one in pod["spec"]["containers"])
    return any(amount != "0" for amount in amounts)


def _has_machine(pod: dict[str, Any]) -> bool:
    is_over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return _has_gpus(pod) and bool(pod["spec"].get("nodeName")) and not is_over


def is_refusal(condition: dict[str, Any]) -> bool:
    """Whether a ReplicaSet's condition shows a pod refused by a GPU quota."""
    message = condition.get("message", "")
    return condition["type"] == "ReplicaFailure" and "exceeded quota" in message and GPU in message


def main() -> None:
    """Runs turns until the pod ends."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=json.loads, required=True)
    parser.add_argument("--api", default=f"https://{host}:{port}")
    parser.add_argument("--account", type=Path, default=Path("/var/run/secrets/kubernetes.io/serviceaccount"))
    given = parser.parse_args()
    # Process 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    guard = Guard(Api(given.api, given.account), given.config)
    while True:
        try:
            pause = guard.turn()
        except (OSError, ValueError, http.client.HTTPException) as error:
            guard.fail(error)
            pause = SOON_SECONDS
        time.sleep(pause)


if __name__ == "__main__":
    main()
