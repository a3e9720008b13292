"""The commands of kubectl that `fleet rollout halt` uses, against the rehearsed API server: a rehearsal needs no kubectl."""

from __future__ import annotations

import json

from fleet.clients.errors import LiveError
from lab.cloud.gateway import HTTP_ROUTE
from lab.control_plane.api import ClusterApi

_MANAGER = "--field-manager="


class RehearsedKubectl:
    """Reads and applies routes of one namespace."""

    def __init__(self, api: ClusterApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def run(self, *arguments: str, what: str, stdin: str | None = None) -> str:
        """As `Kubectl.run`. Raises ValueError for another command, LiveError without the route, and ApiRefusedError."""
        verb, rest = arguments[0], arguments[1:]
        if verb == "get" and rest[0].startswith("httproutes."):
            route = self._api.get(HTTP_ROUTE, rest[1], self._namespace)
            if route is None:
                raise LiveError(f"{what}: there is no route {rest[1]}", reason="not found")
            return json.dumps(route)
        if verb == "apply" and stdin is not None and {"--server-side", "--force-conflicts"} <= {*rest}:
            [manager] = [option.removeprefix(_MANAGER) for option in rest if option.startswith(_MANAGER)]
            return json.dumps(self._api.apply(json.loads(stdin), field_manager=manager, force=True))
        raise ValueError(f"{what}: kubectl {' '.join(arguments)} is not rehearsed")
