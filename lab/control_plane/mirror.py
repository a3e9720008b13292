"""Local copy of all objects of a kind, by list and watch; survives restarts of the API server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal

from lab.control_plane.api import ApiRefusedError, ApiUnreachableError, ClusterApi, Kind, Manifest

LOG = logging.getLogger(__name__)
Change = Literal["added", "modified", "deleted"]
Listener = Callable[[Change, Manifest, Manifest | None], None]
"""Change, the current (or last) object, and the previous one."""
RETRY_SECONDS = 0.2
"""Wall time before a retry."""


class Mirror:
    """Objects of one kind by (namespace, name). A context manager: entry waits for the first list.

    Listeners run in the mirror's thread, in order of changes; their exceptions are logged. Objects are shared: do not modify them.
    """

    def __init__(
        self,
        api: ClusterApi,
        kind: Kind,
        *,
        namespace: str | None = None,
        listeners: tuple[Listener, ...] = (),
    ) -> None:
        self._api, self._kind, self._namespace = api, kind, namespace
        self._listeners = listeners
        self.objects: dict[tuple[str, str], Manifest] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._listed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mirror-{kind}", daemon=True)

    def __enter__(self) -> Mirror:
        self._thread.start()
        self._listed.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def listen(self, listener: Listener) -> None:
        """Add a listener. Call it before entry to miss no change."""
        self._listeners = (*self._listeners, listener)

    def stop(self) -> None:
        """Stop. The thread ends with its next event or bookmark; nothing waits for it."""
        self._stop.set()

    def get(self, name: str, namespace: str = "") -> Manifest | None:
        """The object as last seen."""
        return self.objects.get((namespace, name))

    def all(self) -> list[Manifest]:
        """Every object as last seen."""
        with self._lock:
            return list(self.objects.values())

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except ApiRefusedError as refusal:
                if refusal.status != 410:
                    # 429 and 503 are normal for a new CRD or a restarting server.
                    LOG.info("watching %s: %s", self._kind, refusal.message)
                    self._stop.wait(RETRY_SECONDS)
            except ApiUnreachableError:
                self._stop.wait(RETRY_SECONDS)

    def _follow(self) -> None:
        items, version = self._api.list_with_version(self._kind, self._namespace)
        current = {_key(item): item for item in items}
        for key in [key for key in self.objects if key not in current]:
            self._take("deleted", self.objects[key])
        for one in items:
            self._take("modified" if _key(one) in self.objects else "added", one)
        self._listed.set()
        for type_, one in self._api.watch(self._kind, self._namespace, since_version=version, stop=self._stop):
            if self._stop.is_set():
                return
            if type_ == "DELETED":
                self._take("deleted", one)
            elif type_ != "BOOKMARK":
                self._take("modified" if _key(one) in self.objects else "added", one)

    def _take(self, change: Change, manifest: Manifest) -> None:
        key = _key(manifest)
        with self._lock:
            before = self.objects.get(key)
            same = before is not None and _version(before) == _version(manifest)
            if change == "deleted":
                self.objects.pop(key, None)
            else:
                self.objects[key] = manifest
        if same and change == "modified":
            return
        for listener in self._listeners:
            try:
                listener(change, manifest, before)
            except (ApiUnreachableError, ApiRefusedError) as error:
                LOG.warning("after %s of %s %s: %s", change, self._kind, key[1], error)
            except Exception:
                LOG.exception("after %s of %s %s", change, self._kind, key[1])


def _key(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(manifest: Manifest) -> str:
    version: str = manifest["metadata"].get("resourceVersion", "")
    return version
