"""Where the spending guard keeps its sum: a ConfigMap in its own namespace, written with optimistic locking."""

from __future__ import annotations

import urllib.error
from dataclasses import dataclass
from typing import Any, Final

from workloads.spending.api import Api
from workloads.spending.total import DamagedSumError, Sum, Terms

STATE: Final = "spending"
"""Name of the ConfigMap; its key `state` has the sum."""
APPLY: Final = "application/apply-patch+yaml"
AS_GUARD: Final = "fieldManager=spending-guard&force=true"
REFUSED: Final = False
"""Response of a request that the API server refuses; None is an object that does not exist."""


class Requests:
    """Requests that may be refused: a turn continues without them, and reports `refused` at its end."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.refused: dict[str, str] = {}
        """Reasons of this turn's refusals, by purpose."""

    def ask(self, purpose: str, *request: Any) -> Any:
        """The response, None if the object does not exist, REFUSED if refused. Raises OSError if the server is unreachable."""
        try:
            return self.api.ask(*request)
        except urllib.error.HTTPError as error:
            self.refused.setdefault(purpose, str(error))
            return REFUSED


@dataclass(frozen=True)
class Stored:
    """What the ConfigMap holds."""

    sum: Sum | None
    problem: str
    """Why there is no sum; empty if there is one, or if none was stored yet."""


class Store:
    """The stored sum."""

    def __init__(self, requests: Requests, terms: Terms) -> None:
        self._requests = requests
        self._path = f"/api/v1/namespaces/{terms.home}/configmaps/{STATE}"
        self._version = self._text = ""
        self.must_read = True
        """Whether the ConfigMap must be read before it is written: at first, and after a conflict."""
        self.usd = 0.0
        """USD of the sum last written by this process."""

    def read(self, *, is_first: bool) -> Stored | None:
        """What is stored; None if it may not be read. `is_first`: this process has read nothing yet."""
        config_map = self._requests.ask("read the sum", "GET", self._path)
        if config_map is REFUSED:
            return None
        text = ((config_map or {}).get("data") or {}).get("state")
        self._version = config_map["metadata"]["resourceVersion"] if config_map else ""
        self.must_read = False
        if not text:
            # Pulumi creates the ConfigMap without data for the first guard.
            return Stored(None, "" if config_map and is_first else "is missing")
        try:
            return Stored(Sum.read(str(text)), "")
        except DamagedSumError as error:
            return Stored(None, f"is damaged: {error}")

    def write(self, total: Sum) -> bool:
        """Stores the sum if it changed; False if the ConfigMap must be read first. A refusal is reported, and returns True."""
        text = total.text()
        if self.must_read or text == self._text:
            return not self.must_read
        metadata = {"name": STATE, **({"resourceVersion": self._version} if self._version else {})}
        # Applied: this creates the ConfigMap again if it is missing.
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state": text}}
        try:
            written = self._requests.api.ask("PATCH", f"{self._path}?{AS_GUARD}", body, APPLY)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                self._requests.refused.setdefault("keep the sum", str(error))
                return True
            written = None
        self.must_read = written is None
        if written:
            self._version, self._text, self.usd = written["metadata"]["resourceVersion"], text, total.usd
        return not self.must_read
