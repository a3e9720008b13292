"""A simulated Google Cloud: what exists in its project, which APIs are enabled, and what it refuses.

It outlives a stack's state, so that a lost state, a second stack with the same names or a resource deleted manually show as they
would at Google. Nothing takes time in it, and nothing runs.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from fleet.preview.record.synthesis import Cloud, outputs_of
from fleet.preview.record.values import UNKNOWN, merge, reveal
from lab.providers.google.mapping import table

SERVICE: Final = "gcp:projects/service:Service"
CLUSTER: Final = "gcp:container/cluster:Cluster"
ENABLED_AT_FIRST: Final = frozenset(
    f"{name}.googleapis.com"
    for name in (
        *("bigquery", "bigquerymigration", "bigquerystorage", "cloudapis", "cloudtrace", "datastore", "logging"),
        *(
            "monitoring",
            "servicemanagement",
            "serviceusage",
            "sql-component",
            "storage",
            "storage-api",
            "storage-component",
        ),
    )
)
"""APIs of a new project. Source: Service Usage docs, "Enabled services by default"; `dataform`, `dataplex` and
`analyticshub`, which it also lists, are not this program's."""
_SHARED: Final = ("IamMember:", "IAMMember:", "/service:", "/serviceIdentity:", "/projectUsageExportBucket:")
"""Parts of types whose creation adds to what is there: making one twice is no conflict."""

Kind = Literal["quota", "permission", "api", "taken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What Google refuses until it is taken back."""

    kind: Kind
    types: str = "gcp:*"
    """Pulumi types, as a shell pattern."""
    what: str = ""
    """The quota or permission that is missing."""

    def message(self, type_: str, path: str, cloud: Cloud) -> str:
        """Google's words."""
        if self.kind == "quota":
            quota = self.what or "CPUS_ALL_REGIONS"
            return (
                f"googleapi: Error 403: Quota '{quota}' exceeded. Limit: 0.0 in region {cloud.region}., quotaExceeded"
            )
        if self.kind == "permission":
            permission = self.what or f"{service_of(type_).partition('.')[0]}.{_plural(type_)}.create"
            return f"googleapi: Error 403: Required '{permission}' permission for '{path or cloud.project}', forbidden"
        if self.kind == "taken":
            return f"googleapi: Error 409: The resource '{path}' already exists, alreadyExists"
        service = service_of(type_)
        return (
            f"googleapi: Error 403: {service} has not been used in project {cloud.project_number} before or it is disabled. "
            "Enable it, then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our "
            "systems and retry., accessNotConfigured"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One existing resource."""

    type: str
    id: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)


class GoogleError(Exception):
    """Google refuses a request; the message is Google's."""


class SimulatedCloud:
    """One project. Thread-safe."""

    def __init__(self, endpoint: str = "") -> None:
        """`endpoint`: where a real control plane answers for the project's cluster, as its DNS endpoint; by default nowhere."""
        self._endpoint = endpoint
        self._made: dict[tuple[str, str], Made] = {}
        self._lock = threading.Lock()
        self.refusals: list[Refusal] = []
        """What is refused now, by a drill or a shell."""

    def all(self) -> tuple[Made, ...]:
        """What exists."""
        with self._lock:
            return tuple(self._made.values())

    def create(self, type_: str, name: str, inputs: Mapping[str, Any], cloud: Cloud) -> Made:
        """Create a resource. Raises GoogleError: API disabled, refused, or the name is taken."""
        path, outputs = self._described(type_, name, inputs, cloud)
        if (why := self._refused(type_, path, cloud)) is not None:
            raise GoogleError(f"Error creating {_title(type_)}: {why}")
        id_ = path or f"{type_.rpartition(':')[2]}/{cloud.uuid(type_, name)}"
        made = Made(type=type_, id=id_, inputs=inputs, outputs=outputs)
        with self._lock:
            if (type_, id_) in self._made and not any(part in type_ for part in _SHARED):
                taken = Refusal(kind="taken").message(type_, id_, cloud)
                raise GoogleError(f"Error creating {_title(type_)}: {taken}")
            self._made[type_, id_] = made
        return made

    def update(self, type_: str, id_: str, name: str, inputs: Mapping[str, Any], cloud: Cloud) -> Made:
        """Change a resource in place. Raises GoogleError if it does not exist."""
        if (why := self._refused(type_, id_, cloud)) is not None:
            raise GoogleError(f"Error updating {_title(type_)} {id_!r}: {why}")
        _, outputs = self._described(type_, name, inputs, cloud)
        with self._lock:
            if (type_, id_) not in self._made:
                raise GoogleError(f"Error updating {_title(type_)} {id_!r}: {_not_found(id_)}")
            self._made[type_, id_] = made = Made(type=type_, id=id_, inputs=inputs, outputs=outputs)
        return made

    def read(self, type_: str, id_: str) -> Made | None:
        """The resource, if it exists."""
        with self._lock:
            return self._made.get((type_, id_))

    def delete(self, type_: str, id_: str) -> None:
        """Delete a resource; fine if it is gone."""
        with self._lock:
            made = self._made.get((type_, id_))
            if made is not None and not _stays(made):
                del self._made[type_, id_]

    def change(self, type_: str, id_: str, **inputs: Any) -> None:
        """Change a resource behind Pulumi's back. Raises KeyError."""
        with self._lock:
            made = self._made[type_, id_]
            self._made[type_, id_] = replace(made, inputs={**made.inputs, **inputs}, outputs={**made.outputs, **inputs})

    def enabled(self) -> frozenset[str]:
        """The enabled APIs."""
        with self._lock:
            return ENABLED_AT_FIRST | {
                str(one.inputs.get("service")) for one in self._made.values() if one.type == SERVICE
            }

    def _described(self, type_: str, name: str, inputs: Mapping[str, Any], cloud: Cloud) -> tuple[str, dict[str, Any]]:
        opened = reveal(dict(inputs))
        path, extra = outputs_of(type_, name, opened, cloud)
        outputs = merge(opened, {key: value for key, value in extra.items() if value is not UNKNOWN})
        if type_ == CLUSTER and self._endpoint:
            outputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"] = self._endpoint
        return path, outputs

    def _refused(self, type_: str, path: str, cloud: Cloud) -> str | None:
        for refusal in tuple(self.refusals):
            if fnmatch.fnmatchcase(type_, refusal.types):
                return refusal.message(type_, path, cloud)
        needed = service_of(type_)
        if needed and needed not in self.enabled():
            return Refusal(kind="api").message(type_, path, cloud)
        return None


def service_of(type_: str) -> str:
    """The API that makes resources of this type; empty if the mapping has no service for it."""
    known = table().types.get(type_)
    return f"{known.document.partition('.')[0]}.googleapis.com" if known is not None else ""


def protected_by_google(type_: str, inputs: Mapping[str, Any], name: str) -> str:
    """Why the provider refuses to delete it, by a field of the resource; empty if it does not."""
    if type_ == CLUSTER and inputs.get("deletionProtection", True) is True:
        return (
            f"Cannot destroy cluster {inputs.get('name', name)} because deletion_protection is set to true. "
            "Set it to false, run `pulumi up`, then destroy."
        )
    return ""


def _stays(made: Made) -> bool:
    """Whether a deletion by Pulumi leaves it in place."""
    return made.type == SERVICE and made.inputs.get("disableOnDestroy") is False


def _not_found(id_: str) -> str:
    return f"googleapi: Error 404: The resource '{id_}' was not found, notFound"


def _title(type_: str) -> str:
    return type_.rpartition(":")[2]


def _plural(type_: str) -> str:
    title = _title(type_)
    return title[:1].lower() + title[1:] + "s"
