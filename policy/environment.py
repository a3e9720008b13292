"""Whether a stack is production, by its setting, its labels, its name or its reservation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from facts.production import LABELS, PRODUCTION, by_name
from pods import all_servers
from rule import Resource, Setting, Settings, dig
from tokens import GOOGLE_PROVIDER, RESERVATION_NAME

ENVIRONMENT: Final = Setting(
    name="environment",
    type="string",
    why="production, or another environment; unset: production where one environment label or the stack's name "
    "says so, or with a reservation and no such label",
)


def why_production(resources: Sequence[Resource], settings: Settings) -> str:
    """Why a stack counts as production, empty where it does not.

    One label is enough, and so is the stack's name: neither another label nor a renamed one takes production's rules away.
    """
    declared = settings[ENVIRONMENT.name]
    if declared is not None:
        return f"the stack's environment is {declared}" if str(declared).lower() in PRODUCTION else ""
    labels = [(resource, label, value) for resource in resources for label, value in _labels(resource)]
    for one, label, value in labels:
        if value.lower() in PRODUCTION:
            return f"{one.label} has the label {label}: {value}"
    stack = next(
        (parts[2] for resource in resources if len(parts := resource.urn.split(":", 3)) > 3 and parts[1] == "pulumi"),
        "",
    )
    if by_name(stack):
        return f"the stack's name is {stack}"
    for server in () if labels else all_servers(resources):
        if name := server.pod.selector(RESERVATION_NAME):
            return f"{server.pod.resource.label} uses the reservation {name}, and no environment label is set"
    return ""


def _labels(resource: Resource) -> Iterator[tuple[str, str]]:
    places: list[Any] = []
    if resource.is_kubernetes:
        places.append(dig(resource.props, "metadata", "labels"))
        if resource.kind == "StorageClass":
            # Labels of the disks, in the driver's format: "team=llm,environment=production".
            text = str(dig(resource.props, "parameters", "labels") or "")
            places.append(dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair))
    elif resource.type.startswith("gcp:"):
        places += [dig(resource.props, "resourceLabels"), dig(resource.props, "labels")]
    elif resource.type == GOOGLE_PROVIDER:
        # In a preview only the provider has them. The engine passes its maps as JSON.
        default = dig(resource.props, "defaultLabels")
        places.append(json.loads(default) if isinstance(default, str) else default)
    for place in places:
        for key in LABELS:
            if (value := dig(place, key)) is not None:
                yield key, str(value)
