"""The objects of a program by name, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.rehearse.api import Manifest
from fleet.rehearse.apply.graph import needs_by_urn, transitive
from fleet.rehearse.apply.manifests import Manifests, is_object, is_release, kind_and_name
from fleet.rehearse.apply.options import Options, options_of
from fleet.rehearse.results import RehearsalError

WORKLOADS: Final = ("Deployment", "Job")
"""Kinds with a pod template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One object of the program."""

    resource: RecordedResource
    manifest: Manifest
    options: Options
    of_chart: bool = False
    """Whether it belongs to a Helm release; then `resource` is the release."""

    @property
    def kind(self) -> str:
        """E.g. "Deployment"."""
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        """Name in the cluster."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Namespace; empty for cluster-wide objects."""
        return str(self.manifest["metadata"].get("namespace", ""))

    @property
    def title(self) -> str:
        """`Kind/name`."""
        return f"{self.kind}/{self.name}"

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return str(self.manifest["apiVersion"]).rpartition("/")[0]

    @property
    def pod(self) -> Mapping[str, Any] | None:
        """Pod template; None for kinds without pods."""
        found: Any = (self.manifest.get("spec") or {}).get("template") if self.kind in WORKLOADS else None
        return found if isinstance(found, Mapping) else None


class Catalogue:
    """Every object of one recording."""

    def __init__(
        self, recording: Recording, chart_objects: Callable[[RecordedResource], Sequence[Manifest]] | None = None
    ) -> None:
        """`chart_objects` returns a Helm release's objects; without it, releases have none."""
        manifests = Manifests(recording)
        self.unreadable: list[tuple[RecordedResource, str]] = []
        """Resources without a valid object or annotations, and why."""
        self.entries: list[Entry] = []
        for resource in recording.resources:
            try:
                self.entries.extend(_entries(resource, manifests, chart_objects))
            except (RehearsalError, ValueError) as error:
                self.unreadable.append((resource, f"{kind_and_name(resource)}: {error}"))
        self._below = transitive(needs_by_urn(recording.resources))
        self._by_name: dict[tuple[str, str, str], list[Entry]] = {}
        for entry in self.entries:
            self._by_name.setdefault((entry.kind, entry.namespace, entry.name), []).append(entry)

    def find(self, kind: str, name: str, namespace: str = "") -> Entry | None:
        """The object of that kind and name, if any."""
        return next(iter(self._by_name.get((kind, namespace, name), ())), None)

    def of_kind(self, *kinds: str) -> Iterator[Entry]:
        """Objects of these kinds."""
        return (entry for entry in self.entries if entry.kind in kinds)

    def comes_after(self, later: Entry, earlier: Entry) -> bool:
        """Whether `later` depends on `earlier`. Objects of one release count as ordered: Helm sorts them."""
        if later.resource.urn == earlier.resource.urn:
            return True
        return earlier.resource.urn in self._below[later.resource.urn]


def _entries(
    resource: RecordedResource,
    manifests: Manifests,
    chart_objects: Callable[[RecordedResource], Sequence[Manifest]] | None,
) -> Iterator[Entry]:
    if is_release(resource) and chart_objects is not None:
        for manifest in chart_objects(resource):
            yield Entry(resource=resource, manifest=manifest, options=Options(), of_chart=True)
    elif is_object(resource):
        manifest = manifests.of(resource)
        yield Entry(resource=resource, manifest=manifest, options=options_of(manifest))
