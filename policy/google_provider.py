"""What a Google provider's configuration gives to resources that do not say it themselves.

In an update the resources' outputs have it, in a preview only the provider.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rule import Resource, dig, has, mapped

PROVIDER: Final = "pulumi:providers:gcp"


def projects(resources: Sequence[Resource]) -> set[str]:
    """Ids of the projects that a stack's resources and Google providers name."""
    return {
        str(dig(resource.props, "project"))
        for resource in resources
        if resource.type.startswith(("gcp:", PROVIDER)) and has(resource.props, "project")
    }


def default_labels(provider: Resource) -> Mapping[str, Any]:
    """Labels of every resource of this provider. The engine passes a provider's maps as JSON."""
    labels = dig(provider.props, "defaultLabels")
    return mapped(json.loads(labels) if isinstance(labels, str) else labels)
