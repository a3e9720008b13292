"""Stages of a kind that the stack itself installs: kwok is started once the kind is served, as it ends for one that is not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from lab.control_plane.api import ApiRefusedError, ApiUnreachableError, Kind, Manifest
from lab.control_plane.cluster import ControlPlane

LOOK_SECONDS: Final = 0.5


class Later:
    """Waits for a kind, then has its Stages played. A context manager."""

    def __init__(self, control_plane: ControlPlane, name: str, stages: Sequence[Manifest], kind: Kind) -> None:
        self._control_plane, self._name, self._stages, self._kind = control_plane, name, stages, kind
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"later-{name}", daemon=True)

    def __enter__(self) -> Later:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                if is_served(self._control_plane, self._kind):
                    self._control_plane.play(self._name, self._stages)
                    return
            except (ApiRefusedError, ApiUnreachableError):
                continue


def is_served(control_plane: ControlPlane, kind: Kind) -> bool:
    """Whether discovery and OpenAPI have the kind's group."""
    path = f"apis/{kind.api_version}"
    return path in control_plane.api.raw("GET", "/openapi/v3")["paths"] and any(
        one["kind"] == kind.kind for one in control_plane.api.raw("GET", f"/{path}")["resources"]
    )
