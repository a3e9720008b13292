"""Cases of guards that stop nothing, Jobs without an end, and changes that Pulumi leaves alone."""

from __future__ import annotations

import json
from typing import Any

from tests.policy.case import (
    Edit,
    Props,
    Resources,
    change,
    delete,
    drop,
    get,
    of_resource,
    options,
    put,
    sound,
)

_GUARD, _ROLE, _BINDING, _JOB = "spending-deployment", "spending-role", "spending-binding", "weights-download"
_QUOTA, _CLUSTER = "namespace-gpu-quota", "cluster-autopilot"


def _told(**terms: Any) -> Edit:
    """A guard with other terms, whichever way its program writes their names."""

    def how(props: Props) -> None:
        command = get(props, "spec.template.spec.containers.0.command")
        place = next(index for index, word in enumerate(command) if word.startswith("--config="))
        config = json.loads(command[place].partition("=")[2])
        names = {key.replace("_", "").lower(): key for key in config}
        config |= {names[key]: value for key, value in terms.items()}
        command[place] = f"--config={json.dumps(config)}"

    return change(_GUARD, how)


def _gone(resources: Resources) -> None:
    for name, one in tuple(resources.items()):
        if name == "spending" or "spending" in one.parent.rpartition("::")[2]:
            del resources[name]


def _verbs(what: str, *verbs: str) -> Edit:
    def how(props: Props) -> None:
        for rule in props["rules"]:
            if what in rule["resources"]:
                rule["verbs"] = list(verbs)

    return change(_ROLE, how)


def _unreachable(resources: Resources) -> None:
    """Without the policies that let the guard out."""
    for name, one in tuple(resources.items()):
        spec = one.inputs.get("spec", {})
        if (
            one.type.endswith(":NetworkPolicy")
            and spec["podSelector"].get("matchLabels", {}).get("app") == "spending-guard"
        ):
            del resources[name]


def _asleep(props: Props) -> None:
    command = get(props, "spec.template.spec.containers.0.command")
    command[command.index("-c") + 1] = "import time; time.sleep(1e9)"


def _and_then(props: Props) -> None:
    get(props, "spec.template.spec.containers.0.command").append('--config={"limitUsd": null}')


_WEAK = {
    "no pod": delete(_GUARD),
    "no replica": put(_GUARD, "spec.replicas", value=0),
    "another program": put(_GUARD, "spec.template.spec.containers.0.command", value=["sleep", "infinity"]),
    "its options without its program": change(_GUARD, _asleep),
    "two limits": change(_GUARD, _and_then),
    "rights for a pod of one name": change(
        _ROLE, lambda props: [rule.update(resourceNames=["a"]) for rule in props["rules"]]
    ),
    "no limit": _told(limitusd=None),
    "machines for nothing": _told(usdpermachinehour=0),
    "no warning": _told(warnat=[]),
    "once in ten days": _told(intervalseconds=864_000),
    "another namespace": _told(namespace="default"),
    "no account": delete("spending-account"),
    "no token": put(_GUARD, "spec.template.spec.automountServiceAccountToken", value=False),
    "no role": delete(_ROLE),
    "a role without pods": _verbs("pods", "get"),
    "no role for its sum": delete("spending-own-role"),
    "no binding": delete(_BINDING),
    "a binding for another account": put(_BINDING, "subjects.0.name", value="other"),
    "a binding of another role": put(_BINDING, "roleRef.name", value="view"),
    "no way to the API server": _unreachable,
}

CASES = (
    *(of_resource("spending-guard-weak", what, edit, stack="prod") for what, edit in _WEAK.items()),
    of_resource("spending-guard-weak", "a limit of millions", _told(limitusd=3e6), stack="prod", mostUsd=300_000),
    of_resource("spending-guard-weak", "all of it is gone", _gone, stack="prod", mostUsd=300_000),
    of_resource("spending-guard-weak", "it does not pause", _told(then="wait"), stack="prod", pauses=True),
    sound("spending-guard-weak", "a lower limit", _told(limitusd=1000), stack="prod"),
    of_resource("job-without-end", "no deadline", drop(_JOB, "spec.activeDeadlineSeconds")),
    of_resource("job-without-end", "a million retries", put(_JOB, "spec.backoffLimit", value=1_000_000)),
    sound(
        "job-without-end",
        "forty retries of four pods",
        put(_JOB, "spec.backoffLimit", value=40),
        put(_JOB, "spec.completionMode", value="Indexed"),
        put(_JOB, "spec.completions", value=4),
    ),
    of_resource("protection-ignored", "a quota", options(_QUOTA, ignore_changes=("spec",))),
    of_resource(
        "protection-ignored", "an alert", options("alerting-GpusIdle", ignore_changes=("enabled",)), stack="prod"
    ),
    of_resource("protection-ignored", "a lock", options(_CLUSTER, ignore_changes=("deletionProtection",))),
    sound("protection-ignored", "a cluster's labels", options(_CLUSTER, ignore_changes=("resourceLabels",))),
)
