"""Whether a stack is production, by its setting, its labels or its reservation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pods import GKE, all_servers, servers
from rule import Resource, Setting, Settings, dig

LABELS: Final = ("environment", "env", "app.kubernetes.io/environment", "vllm-fleet.dev/environment")
PRODUCTION: Final = frozenset({"production", "prod", "live"})
ENVIRONMENT: Final = Setting(
    name="environment",
    type="string",
    why="production, or another environment; unset: the environment label of the resources, and a reservation without "
    "such a label counts as production",
)


def why_production(resources: Sequence[Resource], settings: Settings) -> str:
    """Why a stack counts as production, empty where it does not.

    The first label found decides: servers and namespaces first, then other resources.
    """
    declared = settings[ENVIRONMENT.name]
    if declared is not None:
        return f"the stack's environment is {declared}" if str(declared).lower() in PRODUCTION else ""
    fleet = [one for one in resources if servers(one)]
    namespaces = [one for one in resources if one.is_kubernetes and one.kind == "Namespace"]
    for one in (*fleet, *namespaces, *resources):
        for label, value in _labels(one):
            return f"{one.label} has the label {label}: {value}" if value.lower() in PRODUCTION else ""
    for server in all_servers(fleet):
        if name := server.pod.selector(f"{GKE}/reservation-name"):
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
    for place in places:
        for key in LABELS:
            if (value := dig(place, key)) is not None:
                yield key, str(value)
