"""Recorded inputs of every Google Cloud type that the program can make, to be spoilt one by one."""

from __future__ import annotations

import copy
import functools
import re
from typing import Any

from fleet.preview.record.recording import Recording
from lab.providers.google.check import check_inputs
from lab.providers.google.complaint import Complaint
from tests.support.recorded import BENCHMARK, BUDGET, GATEWAY, recorded_platform

IP_ENDPOINT = {"ipEndpoint": {"enabled": True, "authorizedNetworks": [{"name": "office", "cidr": "203.0.113.0/24"}]}}
EVERYTHING: dict[str, Any] = {
    "gateway": {**GATEWAY, "hostname": "llm.fleet-tests.dev"},
    "benchmark": BENCHMARK,
    "budget": BUDGET,
    "capacity": {"mode": "calendar", "reservation": "january-b200"},
    "cluster": IP_ENDPOINT,
    "server": {"replicas": 8, "apiKeySecret": "api-key"},
    "weights": {"tokenSecret": "hf-token"},
    "registry": {"dockerHubUser": "fleetpulls", "dockerHubTokenSecret": "docker-hub"},
    "labels": {"team": "inference"},
    "monitoring": {
        "alerts": {
            "channels": [
                {"type": "email", "address": "oncall@fleet-tests.dev"},
                {"type": "slack", "channel": "#llm"},
                {"type": "pagerduty", "severities": ["page"]},
                {"type": "existing", "name": "projects/fleet-tests/notificationChannels/1"},
            ],
        }
    },
    "slackToken": "hushed-slack",
    "pagerdutyKey": "hushed-pager",
}


@functools.cache
def everything() -> Recording:
    """A stack that makes one of each type at least."""
    return recorded_platform(**EVERYTHING)


def inputs_of(type_: str, name: str = "") -> dict[str, Any]:
    """A copy of the inputs of the first resource of this type, whose name ends so."""
    found = [
        resource
        for resource in everything().resources
        if resource.type.endswith(f"/{type_}") and resource.name.endswith(name)
    ]
    return copy.deepcopy(dict(found[0].inputs))


def full_name(type_: str) -> str:
    """The whole token of a type such as `subnetwork:Subnetwork`."""
    return next(resource.type for resource in everything().resources if resource.type.endswith(f"/{type_}"))


def spoilt(type_: str, path: str, value: Any, name: str = "") -> tuple[Complaint, ...]:
    """What is found once the input at `path` (`a[0].b`) is `value`; None removes it."""
    inputs = inputs_of(type_, name)
    *above, last = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]
    at: Any = inputs
    for part in above:
        at = at[part] if isinstance(part, int) else at.setdefault(part, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return tuple(check_inputs(full_name(type_), inputs))
