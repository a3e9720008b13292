"""What matters of each stack, as a reviewed file: every resource, its place, its locks, and the properties listed here.

    make inventories      writes tests/inventories/ and tests/docs/examples/inventories/ anew; read the diff and commit it, too

Stack dev's file is whole; each of the others has what differs from dev. A resource type without an entry in `MATTERS` fails the test,
so that nothing is created unreviewed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.values import UNKNOWN, Secret
from tests.support.stacks import recorded_stack

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "inventories"
BASE = "dev"
"""The stack that the others' inventories are compared with."""
MISSING = "__missing__"
"""Stands where another stack lacks what the base has."""

_POD = "spec.template.spec"
_CONTAINER = f"{_POD}.containers[0]"
MATTERS: dict[str, tuple[str, ...]] = {
    "gcp:artifactregistry/repository:Repository": ("format", "mode", "location", "repositoryId"),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": ("role",),
    "gcp:billing/budget:Budget": ("amount", "thresholdRules"),
    "gcp:certificatemanager/certificate:Certificate": ("location", "managed.domains"),
    "gcp:certificatemanager/dnsAuthorization:DnsAuthorization": ("location", "domain", "type"),
    "gcp:compute/address:Address": ("addressType", "purpose", "networkTier"),
    "gcp:compute/firewall:Firewall": ("direction", "sourceRanges", "destinationRanges", "allows"),
    "gcp:compute/network:Network": ("autoCreateSubnetworks",),
    "gcp:compute/router:Router": (),
    "gcp:compute/routerNat:RouterNat": ("enableDynamicPortAllocation", "minPortsPerVm", "maxPortsPerVm"),
    "gcp:compute/subnetwork:Subnetwork": ("ipCidrRange", "purpose", "privateIpGoogleAccess", "secondaryIpRanges"),
    "gcp:container/cluster:Cluster": (
        "name",
        "location",
        "enableAutopilot",
        "releaseChannel",
        "deletionProtection",
        "privateClusterConfig",
        "controlPlaneEndpointsConfig",
        "gatewayApiConfig",
        "monitoringConfig.enableComponents",
        "monitoringConfig.managedPrometheus",
        "maintenancePolicy",
    ),
    "gcp:logging/metric:Metric": ("name", "filter"),
    "gcp:monitoring/alertPolicy:AlertPolicy": ("severity", "conditions[0].conditionPrometheusQueryLanguage.duration"),
    "gcp:monitoring/dashboard:Dashboard": (),
    "gcp:monitoring/notificationChannel:NotificationChannel": ("type", "labels"),
    "gcp:projects/iAMMember:IAMMember": ("role",),
    "gcp:projects/service:Service": ("service", "disableOnDestroy"),
    "gcp:secretmanager/secretIamMember:SecretIamMember": ("secretId", "role"),
    "gcp:serviceaccount/account:Account": ("accountId",),
    "gcp:storage/bucket:Bucket": (
        "uniformBucketLevelAccess",
        "publicAccessPrevention",
        "forceDestroy",
        "lifecycleRules",
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": ("role", "member"),
    "kubernetes:apps/v1:Deployment": (
        "metadata.annotations",
        "spec.replicas",
        "spec.strategy",
        f"{_POD}.nodeSelector",
        f"{_POD}.tolerations",
        f"{_POD}.terminationGracePeriodSeconds",
        f"{_POD}.securityContext",
        f"{_POD}.volumes",
        f"{_CONTAINER}.image",
        f"{_CONTAINER}.command",
        f"{_CONTAINER}.args",
        f"{_CONTAINER}.env",
        f"{_CONTAINER}.resources",
        f"{_CONTAINER}.lifecycle",
        f"{_CONTAINER}.startupProbe",
        f"{_CONTAINER}.readinessProbe",
        f"{_CONTAINER}.livenessProbe",
    ),
    "kubernetes:batch/v1:Job": (
        "spec.completions",
        "spec.parallelism",
        "spec.completionMode",
        "spec.backoffLimit",
        f"{_POD}.nodeSelector",
        f"{_POD}.tolerations",
        f"{_CONTAINER}.image",
        f"{_CONTAINER}.command",
        f"{_CONTAINER}.args",
        f"{_CONTAINER}.resources",
    ),
    "kubernetes:cloud.google.com/v1:ComputeClass": ("spec",),
    "kubernetes:core/v1:ConfigMap": ("data.run.json",),
    "kubernetes:core/v1:Namespace": ("metadata.name", "metadata.labels"),
    "kubernetes:core/v1:PersistentVolumeClaim": ("metadata.name", "spec"),
    "kubernetes:core/v1:ResourceQuota": ("spec",),
    "kubernetes:core/v1:Secret": ("metadata.name", "type"),
    "kubernetes:core/v1:Service": ("metadata.name", "spec.type", "spec.ports", "spec.selector"),
    "kubernetes:core/v1:ServiceAccount": ("metadata.name", "automountServiceAccountToken"),
    "kubernetes:gateway.networking.k8s.io/v1:Gateway": ("spec",),
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": ("spec",),
    "kubernetes:helm.sh/v3:Release": ("chart", "version", "values", "skipAwait"),
    "kubernetes:keda.sh/v1alpha1:ScaledObject": ("metadata.annotations", "spec"),
    "kubernetes:keda.sh/v1alpha1:TriggerAuthentication": ("spec",),
    "kubernetes:monitoring.googleapis.com/v1:PodMonitoring": ("spec",),
    "kubernetes:monitoring.googleapis.com/v1:Rules": ("metadata.name",),
    "kubernetes:networking.gke.io/v1:GCPBackendPolicy": ("spec",),
    "kubernetes:networking.gke.io/v1:GCPBackendPolicyPatch": ("spec",),
    "kubernetes:networking.gke.io/v1:HealthCheckPolicy": ("spec",),
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": ("metadata.name", "spec.podSelector", "spec.policyTypes"),
    "kubernetes:policy/v1:PodDisruptionBudget": ("spec",),
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole": ("metadata.name", "rules"),
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding": ("roleRef", "subjects"),
    "kubernetes:rbac.authorization.k8s.io/v1:Role": ("rules",),
    "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": ("roleRef", "subjects"),
    "kubernetes:secrets-store.csi.x-k8s.io/v1:SecretProviderClass": ("spec.provider",),
    "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshot": ("metadata.name", "metadata.annotations", "spec"),
    "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotClass": ("deletionPolicy", "parameters"),
    "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotContent": ("spec",),
    "kubernetes:storage.k8s.io/v1:StorageClass": (
        "parameters",
        "volumeBindingMode",
        "allowedTopologies",
        "mountOptions",
    ),
    "pulumi:providers:gcp": ("project", "region", "defaultLabels", "billingProject", "userProjectOverride"),
    "pulumi:providers:kubernetes": (),
    "pulumi:pulumi:StackReference": ("name",),
}


def inventory(recording: Recording, matters: Mapping[str, tuple[str, ...]] = MATTERS) -> dict[str, Any]:
    """The reviewed view of a recording. Raises KeyError for a resource type that nobody has thought about."""
    counted = Counter(r.type for r in recording.resources if r.custom)
    return {
        "counts": {type_: counted.get(type_, 0) for type_ in sorted({*counted, *_NEVER_SILENT})},
        "resources": {
            f"{r.type}::{r.name}": _reviewed(r, matters)
            for r in sorted(recording.resources, key=lambda r: (r.type, r.name))
            if r.type != "pulumi:pulumi:Stack"
        },
        # The readme is the file Pulumi.README.md, which is reviewed there.
        "outputs": {name: _plain(value) for name, value in sorted(recording.outputs.items()) if name != "readme"},
    }


_NEVER_SILENT = (
    "gcp:billing/budget:Budget",
    "kubernetes:core/v1:Secret",
)
"""Types whose absence is worth a line: money, and secrets."""


def _reviewed(resource: RecordedResource, matters: Mapping[str, tuple[str, ...]]) -> dict[str, Any] | str:
    """Parent, locks and what matters of the properties; the parent's name where that is all."""
    view: dict[str, Any] = {"parent": resource.parent.rpartition("::")[2]}
    if resource.protect:
        view["protect"] = True
    if resource.retain_on_delete:
        view["retainOnDelete"] = True
    if resource.custom_timeouts:
        view["timeouts"] = dict(resource.custom_timeouts)
    if resource.ignore_changes:
        view["ignoreChanges"] = list(resource.ignore_changes)
    if resource.custom:
        props = {path: _plain(_at(resource.inputs, path)) for path in matters[resource.type]}
        if there := {path: value for path, value in props.items() if value is not None}:
            view["props"] = there
    return view if len(view) > 1 else str(view["parent"])


def _at(value: Any, path: str) -> Any:
    if path == "data.run.json":  # a key with a dot in it: what the benchmark is asked to do
        run = json.loads(value.get("data", {}).get("run.json", "null"))
        return None if run is None else {key: run[key] for key in ("workload", "points", "repeats")}
    for part in path.replace("[", ".[").split("."):
        if isinstance(value, Secret):
            return value
        if part.startswith("["):
            value = value[int(part[1:-1])] if isinstance(value, list) and value else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return None
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return "[secret]"
    if value is UNKNOWN:
        return "[unknown]"
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def difference(base: Any, other: Any) -> Any:
    """What to lay over `base` to have `other`: of mappings the keys that differ, of anything else the whole value."""
    if not (isinstance(base, dict) and isinstance(other, dict)):
        return other
    changed = {key: difference(base[key], other[key]) for key in base if key in other and base[key] != other[key]}
    added = {key: other[key] for key in other if key not in base}
    return {**{key: MISSING for key in base if key not in other}, **changed, **added}


def laid_over(base: Any, changes: Any) -> Any:
    """The mapping that `difference` compared with `base`."""
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    kept = {key: value for key, value in base.items() if key not in changes}
    given = {key: laid_over(base[key], value) if key in base else value for key, value in changes.items()}
    return {**kept, **{key: value for key, value in given.items() if value != MISSING}}


def reviewed_stack(stack: str, own: Recording, base: Recording) -> str:
    """The text of a stack's reviewed file; `base` is the recording of stack dev."""
    if stack == BASE:
        return reviewed_text(f"stack {stack}", inventory(own))
    return reviewed_text(f"stack {stack}, where it differs from {BASE}", difference(inventory(base), inventory(own)))


def reviewed_text(what: str, content: Any) -> str:
    """The text of a reviewed file."""
    head = f"# Reviewed view of {what}: written by `make inventories`, read before it is committed.\n"
    return head + yaml.safe_dump(content, sort_keys=False, width=140, allow_unicode=True)


def main() -> None:
    """Write the inventory of every stack and of every example anew."""
    from facts.names import stack_names
    from tests.docs.examples import recorded as examples

    base = recorded_stack(BASE)
    for stack in stack_names(ROOT):
        (FOLDER / f"{stack}.yaml").write_text(reviewed_stack(stack, recorded_stack(stack), base), encoding="utf-8")
    for name in examples.NAMES:
        (examples.INVENTORIES / f"{name}.yaml").write_text(examples.example_inventory(name), encoding="utf-8")


if __name__ == "__main__":
    main()
