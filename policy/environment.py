"""Whether a stack is production: by what it is declared to be, by its labels, or by what it runs on."""

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
    why="what the stack is: production, or anything else; unset: by the environment label of its resources, and a "
    "reservation without such a label counts as production",
)


def why_production(resources: Sequence[Resource], settings: Settings) -> str:
    """Why a stack counts as production, empty where it does not.

    Servers and namespaces say it first, then whatever else carries a label; the first that says anything decides.
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
            return f"{server.pod.resource.label} runs on the reservation {name}, and nothing says that it is a test"
    return ""


def _labels(resource: Resource) -> Iterator[tuple[str, str]]:
    places: list[Any] = []
    if resource.is_kubernetes:
        places.append(dig(resource.props, "metadata", "labels"))
        if resource.kind == "StorageClass":
            # Labels for the disks themselves, as the driver takes them: "team=llm,environment=production".
            text = str(dig(resource.props, "parameters", "labels") or "")
            places.append(dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair))
    elif resource.type.startswith("gcp:"):
        places += [dig(resource.props, "resourceLabels"), dig(resource.props, "labels")]
    for place in places:
        for key in LABELS:
            if (value := dig(place, key)) is not None:
                yield key, str(value)
