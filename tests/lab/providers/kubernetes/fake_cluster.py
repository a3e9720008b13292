"""A Kubernetes API in memory, for what a provider does with one: objects, versions, watches, refusals. No admission, no defaults."""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from lab.control_plane.api import ApiRefusedError, ApiUnreachableError, Kind, Manifest

Key = tuple[Kind, str, str]


class FakeCluster:
    """Takes the place of ClusterApi. `on_apply` may change an object as its controller would, or raise."""

    def __init__(self, on_apply: Callable[[Manifest], None] = lambda _: None) -> None:
        self.on_apply = on_apply
        self.objects: dict[Key, Manifest] = {}
        self.applied: list[str] = []
        """`Kind/name` of every apply, in order."""
        self.deleted: list[str] = []
        self.warnings: dict[str, list[str]] = {}
        """What the server warns of when this `Kind/name` is applied."""
        self.managers: dict[str, str] = {}
        self.down = False
        self._version = 0
        self._lock = threading.RLock()
        self._watchers: list[tuple[Kind, queue.Queue[tuple[str, Manifest]]]] = []

    def apply(
        self,
        manifest: Manifest,
        *,
        field_manager: str = "",
        dry_run: bool = False,
        warnings: list[str] | None = None,
        **_: Any,
    ) -> Manifest:
        self._answer()
        one = copy.deepcopy(dict(manifest))
        title = f"{one['kind']}/{one['metadata']['name']}"
        with self._lock:
            self.on_apply(one)
            if dry_run:
                return {**one, "status": {}}
            self.applied.append(title)
            if warnings is not None:
                warnings.extend(self.warnings.get(title, ()))
            self.managers[title] = field_manager
            key = (Kind.of(one), one["metadata"].get("namespace", ""), one["metadata"]["name"])
            before = self.objects.get(key)
            metadata = one["metadata"]
            if before is None:
                metadata |= {"uid": f"uid-{self._version}", "generation": 1}
            else:
                metadata |= {"uid": before["metadata"]["uid"], "generation": before["metadata"]["generation"]}
                metadata["generation"] += before.get("spec") != one.get("spec")
                one.setdefault("status", before.get("status", {}))
            self._store(key, one, "ADDED" if before is None else "MODIFIED")
            return copy.deepcopy(one)

    def create(self, manifest: Manifest, **given: Any) -> Manifest:
        with self._lock:
            key = (Kind.of(manifest), manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
            if key in self.objects:
                self._answer()
                refuse(409, "AlreadyExists", f"{key[0]} {key[2]!r} already exists")
            return self.apply(manifest, **given)

    def patch(self, kind: Kind, name: str, namespace: str | None, body: Any, **_: Any) -> Manifest:
        """Of JSON patches, the one kind that is sent: another value for one field of the metadata."""
        self._answer()
        with self._lock:
            key = (kind, namespace or "", name)
            ((field, value),) = ((one["path"].removeprefix("/metadata/"), one["value"]) for one in body)
            one = self.objects[key]
            self._store(key, {**one, "metadata": {**one["metadata"], field: value}}, "MODIFIED")
            return copy.deepcopy(self.objects[key])

    def set_status(self, kind: Kind, name: str, namespace: str, status: Any) -> None:
        """What a controller would write."""
        with self._lock:
            key = (kind, namespace, name)
            self._store(key, {**self.objects[key], "status": status}, "MODIFIED")

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Manifest | None:
        self._answer()
        with self._lock:
            return copy.deepcopy(self.objects.get((kind, namespace or "", name)))

    def list_all(self, kind: Kind, namespace: str | None = None, **selectors: str) -> list[Manifest]:
        return self.list_with_version(kind, namespace, **selectors)[0]

    def list_with_version(
        self, kind: Kind, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> tuple[list[Manifest], str]:
        self._answer()
        with self._lock:
            found = [
                copy.deepcopy(value)
                for (known, where, _name), value in self.objects.items()
                if known == kind
                and namespace in (None, where)
                and _selected(value["metadata"].get("labels") or {}, label_selector)
                and _selected(_flat(value), field_selector)
            ]
            return found, str(self._version)

    def delete(self, kind: Kind, name: str, namespace: str | None = None, **_: Any) -> bool:
        self._answer()
        with self._lock:
            one = self.objects.get((kind, namespace or "", name))
            if one is None:
                return False
            self.deleted.append(f"{kind}/{name}")
            if one["metadata"].get("finalizers"):
                return True
            del self.objects[kind, namespace or "", name]
            self._tell(kind, "DELETED", one)
            return True

    def watch(self, kind: Kind, _namespace: str | None = None, *, stop: threading.Event, **_: Any) -> Iterator[Any]:
        mine: queue.Queue[tuple[str, Manifest]] = queue.Queue()
        with self._lock:
            self._watchers.append((kind, mine))
            for one in self.list_all(kind):  # nothing that came between the list and this is missed
                mine.put(("ADDED", one))
        while not stop.is_set():
            try:
                yield mine.get(timeout=0.02)
            except queue.Empty:
                continue

    def _store(self, key: Key, manifest: Manifest, type_: str) -> None:
        self._version += 1
        manifest["metadata"] = {**manifest["metadata"], "resourceVersion": str(self._version)}
        self.objects[key] = manifest
        self._tell(key[0], type_, manifest)

    def _tell(self, kind: Kind, type_: str, manifest: Manifest) -> None:
        for known, watcher in self._watchers:
            if known == kind:
                watcher.put((type_, copy.deepcopy(manifest)))

    def _answer(self) -> None:
        if self.down:
            raise ApiUnreachableError("connection refused")


def _selected(values: Manifest, selector: str) -> bool:
    pairs = (part.split("=", 1) for part in selector.split(",") if part)
    return all(values.get(key) == value for key, value in pairs)


def _flat(manifest: Manifest) -> Manifest:
    involved = {f"involvedObject.{key}": value for key, value in (manifest.get("involvedObject") or {}).items()}
    return {**involved, "type": manifest.get("type"), "metadata.name": manifest["metadata"]["name"]}


def refuse(status: int, reason: str, message: str) -> None:
    """Raise what the API server would answer."""
    raise ApiRefusedError(status, reason, message)
