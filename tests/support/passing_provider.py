"""A provider that creates whatever it is given: the engine's own behaviour, without a cloud. For tests only."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from pulumi.runtime.proto import provider_pb2

from fleet.preview.record.wire import decode_struct
from lab.providers.base import Provider, RefusedError, Served


class PassingProvider(Provider):
    """Resources are their inputs. A test may hold creations, refuse some, and reads what was called."""

    package, version = "sample", "1.0.0"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """Method and resource name of every call that changes something."""
        self.refused: dict[str, str] = {}
        """Reason for a creation that fails, by resource name."""
        self.held = threading.Event()
        """Creations wait until it is set."""
        self.held.set()

    def create(self, request: Any) -> tuple[str, dict[str, Any]]:
        inputs = decode_struct(request.properties)
        if request.preview:
            return "", inputs
        self.calls.append(("create", request.name))
        self.held.wait()
        if why := self.refused.get(request.name):
            raise RefusedError(why)
        return f"id-of-{request.name}", inputs

    def read(self, request: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        return request.id, decode_struct(request.inputs), decode_struct(request.properties)

    def update(self, request: Any) -> dict[str, Any]:
        if not request.preview:
            self.calls.append(("update", request.name))
        return decode_struct(request.news)

    def delete(self, request: Any) -> None:
        self.calls.append(("delete", request.name))

    def DiffConfig(self, _request: Any, _context: Any) -> Any:
        """The engine gives the project's configuration to this provider, too: it changes nothing here."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def _diff(self, request: Any) -> Any:
        """Properties named `fixed` need a replacement."""
        old, new = decode_struct(request.old_inputs), decode_struct(request.news)
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some if changed else none, diffs=changed, replaces=[one for one in changed if one == "fixed"]
        )


@contextlib.contextmanager
def served(provider: PassingProvider) -> Iterator[int]:
    """Serve it; gives the port."""
    with Served(provider) as running:
        try:
            yield running.ports[provider.package]
        finally:
            provider.held.set()
