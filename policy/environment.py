"""Whether a stack is production: by what its own resources say, so that a rule needs no stack's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rule import Resource, Setting, Settings, dig, listed

KEYS: Final = ("environment", "env")
ENVIRONMENTS: Final = Setting(
    name="productionEnvironments",
    type="array",
    default=["production", "prod"],
    why="Values of the label `environment` (or `env`) on any of the stack's resources that make it production",
)


def is_production(resources: Sequence[Resource], settings: Settings) -> bool:
    """Whether any resource carries the label of a production environment."""
    wanted = {str(one).lower() for one in listed(settings[ENVIRONMENTS.name])}
    return any(value.lower() in wanted for one in resources for value in _environments(one))


def words_for(settings: Settings) -> str:
    """How a message says that a stack is production."""
    return f"labelled {KEYS[0]}: {' or '.join(str(one) for one in listed(settings[ENVIRONMENTS.name]))}"


def _environments(resource: Resource) -> Iterator[str]:
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
        for key in KEYS:
            if (value := dig(place, key)) is not None:
                yield str(value)
