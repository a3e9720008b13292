"""The provider of a simulated Google Cloud.

`Check` holds inputs against Google's own API descriptions, `Diff` knows the fields that replace, and what exists is the
simulated cloud's, not the state's.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from typing import Any

from fleet.preview.record.synthesis import ANSWERED_INVOKES, Cloud, answer_invoke, is_named
from fleet.preview.record.values import merge, reveal
from fleet.preview.record.wire import decode_struct
from lab.providers.base import Provider, RefusedError, stack_of, type_of
from lab.providers.diff import drifted
from lab.providers.google.check import check_inputs
from lab.providers.google.cloud import GoogleError, Made, SimulatedCloud, protected_by_google
from lab.providers.google.mapping import table


class Google(Provider):
    """Resources of the simulated cloud."""

    package = "gcp"
    version = version("pulumi-gcp")

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud
        self._places: dict[str, str] = {}

    def configured(self, arguments: dict[str, Any]) -> None:
        """Project, region and zone, which all stacks of a rehearsal share."""
        self._places = {
            key: str(value) for key, value in reveal(arguments).items() if key in ("project", "region", "zone")
        }

    def check(self, request: Any) -> tuple[dict[str, Any], list[str]]:
        """The inputs with a name where the type has one, and what Google's API would refuse."""
        type_, old, new = type_of(request.urn), decode_struct(request.olds), decode_struct(request.news)
        if is_named(type_) and "name" not in new:
            seed = request.randomSeed or request.urn.encode()
            drawn = f"{request.urn.rpartition('::')[2]}-{hashlib.sha256(seed).hexdigest()[:7]}"
            new["name"] = old.get("name", drawn)
        wrong = check_inputs(type_, new) if type_ in table().types else ()
        return new, [f"{one.path}: {one.what} ({one.source})" for one in wrong]

    def create(self, request: Any) -> tuple[str, dict[str, Any]]:
        """Create it; a preview's outputs are the inputs, and all else is unknown."""
        inputs = decode_struct(request.properties)
        if request.preview:
            return "", inputs
        try:
            made = self._cloud.create(type_of(request.urn), _name(request), inputs, self._cloud_of(request.urn))
        except GoogleError as error:
            raise RefusedError(str(error)) from error
        return made.id, _outputs(made, inputs)

    def update(self, request: Any) -> dict[str, Any]:
        """Change it in place."""
        inputs, type_ = decode_struct(request.news), type_of(request.urn)
        if request.preview:
            return dict(merge(decode_struct(request.olds), inputs))
        try:
            made = self._cloud.update(type_, request.id, _name(request), inputs, self._cloud_of(request.urn))
        except GoogleError as error:
            raise RefusedError(str(error)) from error
        return _outputs(made, inputs)

    def read(self, request: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """What exists of it."""
        made = self._cloud.read(type_of(request.urn), request.id)
        if made is None:
            return "", {}, {}
        inputs, before = decode_struct(request.inputs), decode_struct(request.properties)
        now = drifted(inputs, reveal(before), dict(made.outputs)) if inputs else dict(made.inputs)
        return made.id, now, _outputs(made, inputs)

    def delete(self, request: Any) -> None:
        """Delete it, unless a field of the resource forbids that."""
        type_, inputs = type_of(request.urn), reveal(decode_struct(request.old_inputs))
        if why := protected_by_google(type_, inputs, _name(request)):
            raise RefusedError(why)
        self._cloud.delete(type_, request.id)

    def invoke(self, token: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer the data sources that the program uses."""
        if token not in ANSWERED_INVOKES:
            return super().invoke(token, arguments)
        return answer_invoke(token, arguments, Cloud.of("", "", self._config()))

    def _cloud_of(self, urn: str) -> Cloud:
        return Cloud.of(*stack_of(urn), self._config())

    def _config(self) -> dict[str, str]:
        return {f"gcp:{key}": value for key, value in self._places.items()}


def _name(request: Any) -> str:
    return str(request.urn.rpartition("::")[2])


def _outputs(made: Made, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs, with the program's secrets as secrets."""
    outputs: dict[str, Any] = merge(dict(made.outputs), inputs)
    return outputs
