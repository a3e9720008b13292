"""A Kubernetes provider without a cluster: objects are their inputs and what a server adds. For tests only.

Every object of the program has a name, so that none is drawn here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from importlib.metadata import version
from typing import Any

from fleet.preview.record.synthesis_kubernetes import RELEASE_TYPE, kubernetes_outputs
from fleet.preview.record.values import UNKNOWN, merge
from fleet.preview.record.wire import decode_struct
from lab.providers.base import Provider, type_of


class PlainKubernetes(Provider):
    """Answers as the rehearsal's provider does, with everything ready at once."""

    package = "kubernetes"
    version = version("pulumi-kubernetes")

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        """How often each object was created: each time it gets another uid."""

    def check(self, request: Any) -> tuple[dict[str, Any], list[str]]:
        """The inputs; those of a release with a name."""
        new = decode_struct(request.news)
        if type_of(request.urn) == RELEASE_TYPE:
            old = decode_struct(request.olds)
            return {"name": old.get("name", request.urn.rpartition("::")[2]), **new}, []
        return new, []

    def create(self, request: Any) -> tuple[str, dict[str, Any]]:
        """The object."""
        inputs = decode_struct(request.properties)
        if request.preview:
            return "", inputs
        made = _object(request.urn, inputs, self._made[request.urn])
        self._made[request.urn] += 1
        return made

    def update(self, request: Any) -> dict[str, Any]:
        """The object with its new inputs."""
        inputs = decode_struct(request.news)
        return inputs if request.preview else _object(request.urn, inputs, max(0, self._made[request.urn] - 1))[1]

    def read(self, request: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """As the state has it."""
        return request.id, decode_struct(request.inputs), decode_struct(request.properties)

    def delete(self, request: Any) -> None:
        """Nothing is left."""


def _object(urn: str, inputs: dict[str, Any], before: int) -> tuple[str, dict[str, Any]]:
    seed = hashlib.sha256(f"{urn}{before or ''}".encode()).hexdigest()
    id_, extra = kubernetes_outputs(
        type_of(urn), urn.rpartition("::")[2], inputs, uid=seed[:32], address="10.0.0.1", suffix=seed[:8]
    )
    known = {key: one for key, one in extra.items() if one is not UNKNOWN}
    return id_, merge(inputs, known)
