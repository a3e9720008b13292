"""Where a Service of the rehearsed cluster leads on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from lab.control_plane.api import SERVICE

if TYPE_CHECKING:
    from lab.cloud.world import World
    from lab.stage.traffic.traffic import Traffic

REFUSES: Final = "http://127.0.0.1:9"
"""Refuses connections, as a Service without endpoints does."""
KEPT_WALL_SECONDS: Final = 1.0
"""How long a Service is used before it is read again: each request of a batch asks for one."""


class Services:
    """The Services of one stage."""

    def __init__(self, world: World, traffic: Traffic) -> None:
        self._world, self._traffic = world, traffic
        self._read: dict[str, tuple[float, dict[str, Any]]] = {}

    def routed(self, host: str, port: int | None) -> list[str]:
        """URLs of the servers to which the Service `SERVICE.NAMESPACE...` leads now: none where the host names no Service, or another
        port.
        """
        service = self._service(host)
        if service is None or port not in {one["port"] for one in service["ports"]}:
            return []
        wanted = service["selector"].items()
        selected = {
            pod["metadata"]["name"]
            for pod in self._world.pods.all()
            if wanted <= (pod["metadata"].get("labels") or {}).items()
        }
        endpoints = set(self._traffic.endpoints())
        return [url for name, _, url in self._traffic.targets() if name in selected and url in endpoints]

    def is_headless(self, host: str) -> bool:
        """Whether the host names a Service whose name has the addresses of its pods."""
        service = self._service(host)
        return service is not None and service.get("clusterIP") == "None"

    def _service(self, host: str) -> dict[str, Any] | None:
        at, spec = self._read.get(host, (0.0, {}))
        if spec and time.monotonic() - at < KEPT_WALL_SECONDS:
            return spec
        name, namespace, *_ = f"{host}.".split(".")
        found = self._world.api.get(SERVICE, name, namespace)
        if found is None:
            return None
        self._read[host] = time.monotonic(), found["spec"]
        return self._read[host][1]
