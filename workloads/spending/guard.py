"""The spending guard as its pod runs it: counts what the machines of a namespace cost, warns, and pauses them at the limit.

Its sum is in a ConfigMap that only it writes, each time with the resource version it read. Time is the process's own clock while it
runs, and the API server's between two processes; a gap counts in full, at the larger of the sizes before and after it. A pause is a
ResourceQuota that admits no pod with GPUs, and then the deletion of those there are: whoever scales the servers is not fought over.
It writes one line of JSON for each step, and an Event beside it. docs/decisions/0068-stopped-in-time.md argues each part.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
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
MANAGER: Final = "spending-guard"
GPU: Final = "nvidia.com/gpu"
NONE_OF_THEM: Final = {f"requests.{GPU}": "0"}
MOST_GAP_SECONDS: Final = 86_400.0
"""Most that one gap counts: a clock that is wrong by a year must not spend a year's money."""
CLOCK_JUMP_SECONDS: Final = 120.0
"""Between two looks the API server's clock and the process's may differ by so much."""
AT_ONCE: Final = 20
"""Pods that are deleted in one turn: a fleet of hundreds goes in minutes, and the API server has other work."""
WAKE_SECONDS: Final = 300.0
"""How long ReplicaSets are woken after a pause: an API server may know the quota a moment longer than it is there."""
SOON_SECONDS: Final = 5.0
"""Until the next turn while something is under way."""
ANSWER_SECONDS: Final = 20.0
_LEVELS: Final = {"started": "INFO", "resumed": "NOTICE", "warned": "WARNING", "blind": "WARNING", "paused": "ERROR"}


class RefusedError(Exception):
    """The API server said no; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Kubernetes' API with a service account's token, which is read anew for each request: the kubelet renews it."""

    date: float
    """The API server's clock at its last answer, seconds since 1970."""

    def __init__(self, url: str, account: Path) -> None:
        self._url, self._account = url, account
        authority = account / "ca.crt"
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=str(authority))
            # Python 3.13 asks for extensions that some clusters' authorities lack (Twingate/kubernetes-operator#1128); chain, name and
            # dates are checked all the same.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The answer, or None where there is no such object. Raises RefusedError, and OSError without an answer."""
        headers = {"Authorization": f"Bearer {(self._account / 'token').read_text().strip()}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)  # noqa: S310 - one fixed host
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                self.date = parsedate_to_datetime(answer.headers["Date"]).timestamp()
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:300]
            if error.code == 404:
                return None
            raise RefusedError(error.code, f"{method} {path}: {error.code} {said}") from None


class Guard:
    """One sum and one limit. `turn` looks, counts and acts; a turn that fails is made up for by the next."""

    def __init__(self, api: Api, config: dict[str, Any]) -> None:
        self._api, self._config = api, config
        self._core = f"/api/v1/namespaces/{config['namespace']}"
        self._sets = f"/apis/apps/v1/namespaces/{config['namespace']}/replicasets"
        self._state: dict[str, Any] = {}
        self._version = self._uid = ""
        self._saved_at = self._counted_to = self._looked_at = 0.0
        self._is_away = False

    def turn(self) -> float:
        """Look, count, act, and keep the sum; seconds until the next turn."""
        began = not self._state
        if not self._version:
            self._load()
        pods = self._api.ask("GET", f"{self._core}/pods")["items"]
        here = {pod["spec"]["nodeName"]: kind for pod in pods if (kind := self._kind(pod))}
        steady = self._is_steady()
        self._count(here)
        if began:
            self._tell("started", f"counting since {self._state['from']}")
            unknown = self._config["unknown"]
            if unknown and unknown != self._state["unpriced"]:
                self._tell("blind", f"prices unknown: {', '.join(unknown)}; the sum is a lower bound")
            self._state["unpriced"] = unknown
        self._is_away = False
        reason = self._reason(here, steady=steady)
        self._warn(reason)
        soon = False
        if reason and self._config["then"] == "pause":
            soon = self._pause(reason, pods)
        elif began or self._state["reason"]:
            self._resume()
        if self._state["counted"] < self._state["wakeUntil"]:
            self._wake()
            soon = True
        self._save()
        return SOON_SECONDS if soon else self._config["intervalSeconds"]

    def fail(self, error: Exception) -> None:
        """A turn found no answer. Said once for each outage; the next turn that succeeds counts the whole of it."""
        if isinstance(error, RefusedError) and error.status == 409:
            self._version = ""  # somebody else wrote: look again
        elif not self._is_away:
            self._is_away = True
            self._tell("blind", f"the control plane cannot be asked, and the gap will be counted: {error}")

    # The sum

    def _load(self) -> None:
        found = self._api.ask("GET", f"{self._core}/configmaps/{STATE}")
        if found is None:
            raise RefusedError(404, f"ConfigMap {STATE} is missing; pulumi up makes it")
        self._version, self._uid = found["metadata"]["resourceVersion"], found["metadata"]["uid"]
        text = (found.get("data") or {}).get("state")
        lost, kept, gap = "", None, 0.0
        if text is not None:
            try:
                kept = json.loads(text)
                gap = self._api.date - kept["at"]
            except (ValueError, TypeError, KeyError):
                kept, lost = None, f"the sum was unreadable on {self._today()}"
        if self._state and (kept is None or kept["at"] <= self._saved_at):
            return  # what this process knows is newer
        if kept is None or kept["since"] != self._config["since"]:
            gap, kept = 0.0, {"usd": 0.0, "counted": 0.0, "since": self._config["since"], "from": self._today()}
            kept |= {
                "nodes": {},
                "warned": 0.0,
                "reason": "",
                "owed": 0.0,
                "unknown": lost,
                "unpriced": [],
                "wakeUntil": 0.0,
            }
        if gap > MOST_GAP_SECONDS:
            kept["unknown"] = (
                f"nobody counted for {gap / 3600:.0f} h until {self._today()}; 24 h of them are in the sum"
            )
        self._state = kept
        if kept["unknown"] or gap < -CLOCK_JUMP_SECONDS:
            self._tell("blind", kept["unknown"] or f"the API server's clock went back by {-gap:.0f} s")
        self._counted_to = time.monotonic() - min(max(gap, 0.0), MOST_GAP_SECONDS)

    def _today(self) -> str:
        return f"{datetime.fromtimestamp(self._api.date, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def _is_steady(self) -> bool:
        """Whether the API server's clock went on as the process's did since the last look."""
        looked, self._looked_at = self._looked_at, self._api.date - time.monotonic()
        jump = self._looked_at - looked
        if looked and abs(jump) > CLOCK_JUMP_SECONDS:
            self._tell("blind", f"the API server's clock jumped by {jump:+.0f} s; the sum does not follow it")
            return False
        return True

    def _kind(self, pod: dict[str, Any]) -> str:
        """By which price a pod's machine counts; empty for one that has no machine, or none of its own."""
        if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return ""
        if _gpus(pod):
            return "gpu"
        app = (pod["metadata"].get("labels") or {}).get("app", "")
        return app if app in self._config["usdPerHourOf"] else ""

    def _count(self, here: dict[str, str]) -> None:
        """Add what the time since the last count cost: machines seen at either end of it in full, and their idle minutes."""
        state, now = self._state, time.monotonic()
        before, elapsed = state["counted"], now - self._counted_to
        tail, prices = self._config["idleSeconds"], self._config["usdPerHourOf"]
        self._counted_to = now
        since = self._config["since"]
        if since is not None and self._api.date < _seconds(since):
            elapsed = 0.0
        after = before + elapsed
        kept = {node: [kind, before, True] for node, kind in here.items()} | state["nodes"]
        rate, cost = self._config["usdPerHourFixed"], self._config["usdPerHourFixed"] * elapsed
        state["nodes"] = {}
        for node, (kind, at, was_here) in kept.items():
            seen = after if was_here or node in here else at
            cost += prices[kind] * max(0.0, min(after, seen + tail) - before)
            if node in here or seen + tail > after:
                state["nodes"][node] = [kind, seen, node in here]
                rate += prices[kind]
        state |= {"usd": state["usd"] + cost / 3600, "counted": after, "at": self._api.date, "usdPerHour": rate}

    def _owed(self, here: dict[str, str]) -> float:
        """What machines still cost when everything is stopped now: the pods' end, and the idle minutes."""
        seconds = self._config["graceSeconds"] + self._config["idleSeconds"]
        return float(sum(self._config["usdPerHourOf"][kind] for kind in here.values()) * seconds / 3600)

    # The verdict

    def _reason(self, here: dict[str, str], *, steady: bool) -> str:
        config, state = self._config, self._state
        # Paused, little is owed any more, and the same limit must not resume what it has just paused.
        state["owed"] = max(self._owed(here), state["owed"] if state["reason"] else 0.0)
        if config["limitUsd"] is not None and state["usd"] + state["owed"] >= config["limitUsd"]:
            return "limit"
        if config["until"] is not None and (self._api.date >= _seconds(config["until"]) if steady else state["reason"]):
            return "until"
        return "unknown" if config["onUnknown"] == "pause" and (config["unknown"] or state["unknown"]) else ""

    def _warn(self, reason: str) -> None:
        """Say once for each step that it is passed; steps that a higher limit takes back are said again."""
        limit, state = self._config["limitUsd"], self._state
        passed = 0.0
        if limit is not None:
            passed = max((share for share in self._config["warnAt"] if state["usd"] >= share * limit), default=0.0)
        if reason and self._config["then"] == "warn":
            passed = 1.0
        if passed > state["warned"]:
            self._tell("warned", f"{reason or f'{passed:.0%} of the limit'} reached", share=passed)
        state["warned"] = passed

    # What is done

    def _pause(self, reason: str, pods: list[dict[str, Any]]) -> bool:
        """Close the door, then send away who is inside; whether there is more to do."""
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": STATE, "uid": self._uid}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            # It goes with the ConfigMap: without a guard nobody could take it away.
            "metadata": {"name": QUOTA, "ownerReferences": [owner], "annotations": {"vllm-fleet.dev/reason": reason}},
            "spec": {"hard": NONE_OF_THEM},
        }
        # Applied and not created: rights to create cannot be for one name, those to apply can.
        path = f"{self._core}/resourcequotas/{QUOTA}?fieldManager={MANAGER}&force=true"
        made = self._api.ask("PATCH", path, quota, "application/apply-patch+yaml")
        if self._state["reason"] != reason:
            self._state["reason"] = reason
            self._tell("paused", f"paused by {reason}; a higher limit or a later moment in the stack file resumes")
        if made.get("status", {}).get("hard") != NONE_OF_THEM:
            return True  # not in force yet: a pod deleted now would be replaced
        left = [pod for pod in pods if _gpus(pod) and not pod["metadata"].get("deletionTimestamp")]
        for pod in left[:AT_ONCE]:
            precondition = {"preconditions": {"uid": pod["metadata"]["uid"]}}
            self._api.ask("DELETE", f"{self._core}/pods/{pod['metadata']['name']}", precondition)
        return bool(left)

    def _resume(self) -> None:
        gone = self._api.ask("DELETE", f"{self._core}/resourcequotas/{QUOTA}")
        if gone is not None or self._state["reason"]:
            self._state["wakeUntil"] = self._state["counted"] + WAKE_SECONDS
            self._tell("resumed", "resumed: the limit is higher, or the moment later")
        self._state["reason"] = ""

    def _wake(self) -> None:
        """Have ReplicaSets that were refused try again: by themselves they do after up to 17 minutes.

        Any change of a ReplicaSet has its controller look at once, so the smallest right is enough: to take back the refusal in its
        status. The first refusal stays there, and names the quota that the ending pods still filled.
        """
        for one in self._api.ask("GET", self._sets)["items"]:
            conditions = one.get("status", {}).get("conditions") or []
            others = [each for each in conditions if not is_refusal(each)]
            if others != conditions:
                path = f"{self._sets}/{one['metadata']['name']}/status"
                self._api.ask("PATCH", path, {"status": {"conditions": others}}, "application/merge-patch+json")

    # What is kept and said

    def _save(self) -> None:
        body = {"metadata": {"resourceVersion": self._version}, "data": {"state": json.dumps(self._state)}}
        path = f"{self._core}/configmaps/{STATE}?fieldManager={MANAGER}"
        at = self._state["at"]
        kept = self._api.ask("PATCH", path, body, "application/merge-patch+json")
        if kept is None:
            raise RefusedError(404, f"ConfigMap {STATE} is missing; pulumi up makes it")
        self._version, self._saved_at = kept["metadata"]["resourceVersion"], at

    def _tell(self, step: str, message: str, **more: Any) -> None:
        state, config = self._state, self._config
        figures = {"usd": round(state.get("usd", 0.0), 2), "usdPerHour": round(state.get("usdPerHour", 0.0), 2)}
        line = {"event": "spending", "step": step, "severity": _LEVELS[step], "message": message, **figures}
        line |= {"limitUsd": config["limitUsd"], "until": config["until"], "reason": state.get("reason", "")}
        line |= {"machines": len(state.get("nodes", ())), "namespace": config["namespace"], **more}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        event = {
            "metadata": {"generateName": f"{MANAGER}-", "namespace": config["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": STATE,
                "namespace": config["namespace"],
            },
            "reason": f"Spending{step.capitalize()}",
            "message": message,
            "type": "Normal" if step in ("started", "resumed") else "Warning",
            "source": {"component": MANAGER},
        }
        with contextlib.suppress(OSError, ValueError, RefusedError):  # the line is what counts
            self._api.ask("POST", f"{self._core}/events", event)


def _gpus(pod: dict[str, Any]) -> bool:
    amounts = (one.get("resources", {}).get("limits", {}).get(GPU, "0") for one in pod["spec"]["containers"])
    return any(amount != "0" for amount in amounts)


def is_refusal(condition: dict[str, Any]) -> bool:
    """Whether a ReplicaSet's condition says that a quota of GPUs kept a pod out."""
    message = condition.get("message", "")
    return condition["type"] == "ReplicaFailure" and "exceeded quota" in message and GPU in message


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def main() -> None:
    """Take turns until the pod ends."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=json.loads, required=True)
    parser.add_argument("--api", default=f"https://{host}:{port}")
    parser.add_argument("--account", type=Path, default=Path("/var/run/secrets/kubernetes.io/serviceaccount"))
    given = parser.parse_args()
    # The first process of a container ignores the signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    guard = Guard(Api(given.api, given.account), given.config)
    while True:
        try:
            pause = guard.turn()
        except (OSError, ValueError, RefusedError, http.client.HTTPException) as error:
            guard.fail(error)
            pause = SOON_SECONDS
        time.sleep(pause)


if __name__ == "__main__":
    main()
