"""Kubernetes API client with plain dictionaries; TLS and authentication by the official client."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Manifest = dict[str, Any]
FIELD_MANAGER: Final = "vllm-fleet-rehearsal"
CONNECTIONS: Final = 64
"""Connection pool: the largest parallel apply plus all watches."""
BUSY_RETRIES: Final = 10
BUSY_PAUSE_SECONDS: Final = 1.0
"""Retries of a read that returns 429, as for a new CRD ("storage is (re)initializing"), after a Retry-After of a second. Source:
client-go, rest/with_retry.go and Request.MaxRetries."""
REQUEST_SECONDS: Final = 60.0
"""Timeout of a request, wall time; not for watches."""

NO_SUCH_KIND: Final = "no matches for kind"
"""client-go's message for a kind that is not served."""

_JSON: Final = "application/json"
_WARNING: Final = re.compile(r'^299 [^ ]+ "(.*)"$', re.DOTALL)
"""Code, agent and quoted text. Source: RFC 9111, section 5.5, and RFC 7234; Kubernetes sends code 299 and no date."""
_PATCHES: Final[Mapping[str, str]] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """API version and kind."""

    api_version: str
    kind: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Kind:
        """The kind of a manifest."""
        return cls(manifest["apiVersion"], manifest["kind"])

    def __str__(self) -> str:
        return self.kind


NAMESPACE = Kind("v1", "Namespace")
NODE = Kind("v1", "Node")
POD = Kind("v1", "Pod")
SERVICE = Kind("v1", "Service")
SECRET = Kind("v1", "Secret")
CONFIG_MAP = Kind("v1", "ConfigMap")
PERSISTENT_VOLUME = Kind("v1", "PersistentVolume")
DEPLOYMENT = Kind("apps/v1", "Deployment")
REPLICA_SET = Kind("apps/v1", "ReplicaSet")
JOB = Kind("batch/v1", "Job")
POD_DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget")
CUSTOM_RESOURCE_DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
VOLUME_SNAPSHOT = Kind("snapshot.storage.k8s.io/v1", "VolumeSnapshot")


class ApiRefusedError(Exception):
    """The API server refused a request, with its HTTP `status`, `reason` and `message`."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class ApiUnreachableError(Exception):
    """The API server does not answer."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A kind's plural name, and whether it is namespaced."""

    plural: str
    namespaced: bool


class ClusterApi:
    """One cluster's API. Thread-safe; objects are plain dictionaries."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._endpoints: dict[Kind, _Endpoint] = {}

    @classmethod
    def from_kubeconfig(cls, path: Path) -> ClusterApi:
        """Client for a kubeconfig's cluster."""
        from kubernetes import client, config

        settings = client.Configuration()
        config.load_kube_config(config_file=str(path), client_configuration=settings)
        settings.connection_pool_maxsize = CONNECTIONS
        settings.retries = False
        # Unlike Go's clients, the Python client uses HTTPS_PROXY even for loopback.
        settings.no_proxy = ",".join(filter(None, (settings.no_proxy, "127.0.0.1", "localhost")))
        return cls(client.ApiClient(settings))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # Reads

    def version(self) -> str:
        """`gitVersion` of the server, e.g. "v1.36.3"."""
        return str(self.raw("GET", "/version")["gitVersion"])

    def is_ready(self) -> bool:
        """Whether the server answers /readyz with ok."""
        try:
            return self.text("/readyz") == "ok"
        except (ApiRefusedError, ApiUnreachableError):
            return False

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Manifest | None:
        """The object, or None if it does not exist."""
        try:
            return self.raw("GET", self._path(kind, namespace, name))
        except ApiRefusedError as refusal:
            if refusal.status == 404:
                return None
            raise

    def list_all(self, kind: Kind, namespace: str | None = None, *, label_selector: str = "") -> list[Manifest]:
        """Objects of a kind, by default in all namespaces."""
        return self.list_with_version(kind, namespace, label_selector=label_selector)[0]

    def list_with_version(
        self, kind: Kind, namespace: str | None = None, *, label_selector: str = ""
    ) -> tuple[list[Manifest], str]:
        """Objects of a kind, and the resource version for a watch."""
        query = _query(labelSelector=label_selector)
        answer = self.raw("GET", self._path(kind, namespace) + query)
        items = answer.get("items") or []
        for item in items:  # List items have no apiVersion and kind.
            item["apiVersion"], item["kind"] = kind.api_version, kind.kind
        return items, answer["metadata"]["resourceVersion"]

    # Writes

    def apply(
        self,
        manifest: Mapping[str, Any],
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
        warnings: list[str] | None = None,
    ) -> Manifest:
        """Server-side apply with strict field validation; adds warnings to `warnings`. Raises ApiRefusedError."""
        metadata = manifest["metadata"]
        path = self._path(Kind.of(manifest), metadata.get("namespace"), metadata["name"])
        query = _query(fieldManager=field_manager, fieldValidation="Strict", force="true" if force else "")
        return self.raw(
            "PATCH", path + query, body=manifest, content_type="application/apply-patch+yaml", warnings=warnings
        )

    def create(self, manifest: Mapping[str, Any]) -> Manifest:
        """Create with strict field validation. Raises ApiRefusedError, 409 if the object exists."""
        path = self._path(Kind.of(manifest), manifest["metadata"].get("namespace"))
        query = _query(fieldManager=FIELD_MANAGER, fieldValidation="Strict")
        return self.raw("POST", path + query, body=manifest)

    def evict(self, namespace: str, name: str) -> None:
        """Evict a pod, as a drain does. Raises ApiRefusedError with status 429 if a disruption budget does not allow it."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        self.raw("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        subresource: str = "",
        patch_type: str = "merge",
    ) -> Manifest:
        """Patch an object or its `status` or `scale`. `patch_type` is merge or strategic."""
        path = self._path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return self.raw("PATCH", path, body=body, content_type=_PATCHES[patch_type])

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object, and in the background what it owns; False if it did not exist."""
        options: Manifest = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self.raw("DELETE", self._path(kind, namespace, name), body=options)
        except ApiRefusedError as refusal:
            if refusal.status == 404:
                return False
            raise
        return True

    # Watches

    def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        since_version: str,
        stop: threading.Event | None = None,
    ) -> Iterator[tuple[str, Manifest]]:
        """Changes since a resource version: ("ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", object).

        Ends when the server closes the stream or `stop` is set. Raises ApiRefusedError (410 when the version is too old) and
        ApiUnreachableError.
        """
        query = _query(
            watch="true",
            resourceVersion=since_version,
            allowWatchBookmarks="true",
            timeoutSeconds="3600",
        )
        # No read timeout: it would end a quiet watch. `stop` is checked with every event or bookmark.
        response = self._open("GET", self._path(kind, namespace) + query, timeout=(5.0, None))
        try:
            yield from _events(response, stop)
        finally:
            response.close()

    # Requests

    def raw(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = _JSON,
        warnings: list[str] | None = None,
    ) -> Manifest:
        """One request and its JSON answer; adds warnings to `warnings`."""
        for left in reversed(range(1 + BUSY_RETRIES if method == "GET" else 1)):
            try:
                response = self._open(method, path, body=body, content_type=content_type, timeout=REQUEST_SECONDS)
                break
            except ApiRefusedError as refusal:
                if refusal.status != 429 or not left:
                    raise
                time.sleep(BUSY_PAUSE_SECONDS)
        if warnings is not None:
            warnings.extend(warning_texts(response.headers.getlist("Warning")))
        try:
            text = response.data
        except Exception as error:
            raise ApiUnreachableError(f"{method} {path}: {error}") from error
        answer: Manifest = json.loads(text) if text else {}
        return answer

    def text(self, path: str) -> str:
        """The text of a GET, e.g. of /readyz."""
        data: bytes = self._open("GET", path, timeout=REQUEST_SECONDS).data
        return data.decode(errors="replace")

    def _open(self, method: str, path: str, *, body: Any = None, content_type: str = _JSON, timeout: Any) -> Any:
        # Not at the top: `fleet rehearse --list` needs no package of a rehearsal.
        import urllib3

        settings = self._client.configuration
        headers = {"Accept": _JSON, "User-Agent": FIELD_MANAGER}
        queries: list[Any] = []
        self._client.update_params_for_auth(headers, queries, ["BearerToken"], path, method, body)
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body, separators=(",", ":")).encode()
        limits = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        try:
            response = self._client.rest_client.pool_manager.request(
                method,
                settings.host + path,
                body=data,
                headers=headers,
                preload_content=False,
                retries=False,
                timeout=urllib3.Timeout(connect=limits[0], read=limits[1]),
            )
            if response.status >= 400:
                raise self._refusal(response.status, response.data)
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachableError(f"{method} {path}: {error}") from error
        return response

    def _refusal(self, status: int, text: bytes) -> ApiRefusedError:
        try:
            answer = json.loads(text)
        except ValueError:
            return ApiRefusedError(status, "Unknown", text.decode(errors="replace")[:500])
        return ApiRefusedError(status, answer.get("reason") or "Unknown", answer.get("message") or "")

    # Paths

    def _path(self, kind: Kind, namespace: str | None = None, name: str | None = None) -> str:
        endpoint = self._endpoint(kind)
        parts = [_group_path(kind.api_version)]
        if endpoint.namespaced and namespace:
            parts.append(f"namespaces/{quote(namespace)}")
        elif endpoint.namespaced and name is not None:
            raise ValueError(f"{kind} {name} needs a namespace")
        parts.append(endpoint.plural)
        if name is not None:
            parts.append(quote(name))
        return "/".join(parts)

    def _endpoint(self, kind: Kind) -> _Endpoint:
        known = self._endpoints.get(kind)
        if known is not None:
            return known
        try:
            served = self.raw("GET", _group_path(kind.api_version)).get("resources") or ()
        except ApiRefusedError as refusal:
            if refusal.status != 404:
                raise
            served = ()
        for one in served:
            if "/" not in one["name"]:
                self._endpoints[Kind(kind.api_version, one["kind"])] = _Endpoint(one["name"], one["namespaced"])
        if kind not in self._endpoints:
            raise ApiRefusedError(404, "NotFound", f'{NO_SUCH_KIND} "{kind.kind}" in version "{kind.api_version}"')
        return self._endpoints[kind]


def _group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _query(**parameters: str) -> str:
    given = {key: value for key, value in parameters.items() if value}
    return f"?{urlencode(given)}" if given else ""


def _events(response: Any, stop: threading.Event | None) -> Iterator[tuple[str, Manifest]]:
    import urllib3

    buffer = b""
    try:
        # read1 returns what has arrived; stream() would wait for a full block.
        while chunk := response.read1():
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                if stop is not None and stop.is_set():
                    return
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiRefusedError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                yield event["type"], event["object"]
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        if stop is not None and stop.is_set():
            return
        raise ApiUnreachableError(f"the watch ended: {error}") from error


def warning_texts(headers: Iterable[str]) -> list[str]:
    """Distinct texts of `Warning` headers, in order. Formats other than Kubernetes' are returned unchanged."""
    return list(dict.fromkeys(_warning_text(header.strip()) for header in headers))


def _warning_text(header: str) -> str:
    match = _WARNING.fullmatch(header)
    return header if match is None else re.sub(r"\\(.)", r"\1", match.group(1))
