"""A Kubernetes provider without a cluster: objects are their inputs and what a server adds. For tests only."""

from __future__ import annotations

import hashlib
from collections import Counter
from importlib.metadata import version
from typing import Any

from fleet.preview.record.synthesis_kubernetes import RELEASE_TYPE, kubernetes_outputs
from fleet.preview.record.values import UNKNOWN, merge
from fleet.preview.record.wire import decode_struct
from lab.providers.base import Provider, type_of
from lab.providers.diff import diff_response
from tests.support.kubernetes_names import named, reuses_name


class PlainKubernetes(Provider):
    """Answers as the rehearsal's provider does, with everything ready at once."""

    package = "kubernetes"
    version = version("pulumi-kubernetes")

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        """How often each object was created: each time it gets another uid."""

    def check(self, request: Any) -> tuple[dict[str, Any], list[str]]:
        """The inputs with a name."""
        type_, name = type_of(request.urn), request.urn.rpartition("::")[2]
        old, new = decode_struct(request.olds), decode_struct(request.news)
        if type_ == RELEASE_TYPE:
            return {"name": old.get("name", name), **new}, []
        return named(name, request.randomSeed or request.urn.encode(), old, new), []

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

    def _diff(self, request: Any) -> Any:
        old, new = decode_struct(request.old_inputs), decode_struct(request.news)
        return diff_response(type_of(request.urn), old, new, reuses_name=reuses_name(old, new))


def _object(urn: str, inputs: dict[str, Any], before: int) -> tuple[str, dict[str, Any]]:
    seed = hashlib.sha256(f"{urn}{before or ''}".encode()).hexdigest()
    id_, extra = kubernetes_outputs(
        type_of(urn), urn.rpartition("::")[2], inputs, uid=seed[:32], address="10.0.0.1", suffix=seed[:8]
    )
    known = {key: one for key, one in extra.items() if one is not UNKNOWN}
    return id_, merge(inputs, known)
