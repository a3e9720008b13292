"""Readiness rules by kind, with their timeouts and lookups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.control_plane.api import PERSISTENT_VOLUME_CLAIM, REPLICA_SET, STORAGE_CLASS, ClusterApi, Kind
from lab.providers.kubernetes import await_custom, await_helm, await_network, await_storage, await_workloads
from lab.providers.kubernetes.options import Options
from lab.providers.kubernetes.verdict import Context, Manifest, Ready, Verdict

ENDPOINT_SLICE: Final = Kind("discovery.k8s.io/v1", "EndpointSlice")
SETTLE_SECONDS: Final = 10.0
"""Time without a change of a Service's endpoints. Source: pulumi-kubernetes, provider/pkg/await/service.go."""
CUSTOM_SECONDS: Final = 600.0
"""Default timeout of a waitFor condition. Source: pulumi-kubernetes, provider/pkg/await/await.go, Creation."""

Judge = Callable[[Manifest, Context], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How to wait for an object."""

    judge: Judge
    seconds: float
    """Default timeout, simulated."""
    fixed: bool = False
    """The provider ignores custom timeouts and annotations."""


# Source: pulumi-kubernetes 4, provider/pkg/await, for the kinds that the program uses. Other kinds are ready once accepted,
# including Namespaces, Secrets and, from Kubernetes 1.24 on, ServiceAccounts.
_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("apps/v1", "Deployment"): Rule(judge=await_workloads.deployment, seconds=600),
    ("batch/v1", "Job"): Rule(judge=await_workloads.job, seconds=600),
    ("v1", "Service"): Rule(judge=await_network.service, seconds=600),
    ("v1", "PersistentVolumeClaim"): Rule(judge=await_storage.claim, seconds=300, fixed=True),
    ("v1", "ResourceQuota"): Rule(judge=await_storage.resource_quota, seconds=60, fixed=True),
}

READ_KINDS: Final = frozenset({"Deployment", "Job", "Service"})
"""Kinds, of those that the program uses, whose readiness a refresh looks at. Source: provider/pkg/await/awaiters.go, awaitRead."""

# Source: helm v3, pkg/kube/ready.go, for the kinds of the Inference Gateway's chart.
_HELM_JUDGES: Final[Mapping[str, Judge]] = {
    "Deployment": await_helm.deployment,
    "Service": await_helm.service,
}


def rule_for(manifest: Manifest, options: Options) -> Rule | None:
    """Pulumi's rule for an applied object; None if it does not wait. A waitFor replaces the kind's rule."""
    if options.skip_await:
        return None
    if options.wait_for:
        expressions = options.wait_for
        return Rule(judge=lambda one, _: await_custom.custom(one, expressions), seconds=CUSTOM_SECONDS)
    return _RULES.get((manifest["apiVersion"], manifest["kind"]))


def helm_judge(kind: str) -> Judge | None:
    """Helm's rule for a release's object; None if it does not wait."""
    return _HELM_JUDGES.get(kind)


def look_up(api: ClusterApi, manifest: Manifest, *, before: Manifest | None) -> Context:
    """Read what the kind's rule needs. Raises ApiUnreachableError."""
    kind, namespace = manifest["kind"], manifest["metadata"].get("namespace")
    if kind == "Deployment":
        return Context(
            before=before,
            replica_sets=_owned(api, manifest, namespace),
            claims=_mounted_claims(api, manifest, namespace),
        )
    if kind == "PersistentVolumeClaim":
        name = manifest["spec"].get("storageClassName")
        return Context(before=before, storage_class=api.get(STORAGE_CLASS, name) if name else None)
    if kind == "Service":
        return Context(before=before, endpoint_slices=_slices(api, manifest["metadata"]["name"], namespace))
    return Context(before=before)


def is_ready_now(api: ClusterApi, manifest: Manifest) -> bool:
    """Whether a live object passes its kind's rule now; kinds without a rule pass."""
    rule = _RULES.get((manifest["apiVersion"], manifest["kind"]))
    return rule is None or isinstance(rule.judge(manifest, look_up(api, manifest, before=manifest)), Ready)


def _owned(api: ClusterApi, manifest: Manifest, namespace: str | None) -> list[Manifest]:
    labels = manifest["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    uid = manifest["metadata"].get("uid")
    found = api.list_all(REPLICA_SET, namespace, label_selector=selector)
    return [item for item in found if _owner_uid(item) == uid]


def _owner_uid(manifest: Manifest) -> Any:
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)


def _mounted_claims(api: ClusterApi, manifest: Manifest, namespace: str | None) -> list[Manifest]:
    volumes = manifest["spec"]["template"]["spec"].get("volumes") or ()
    names = [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]
    found = (api.get(PERSISTENT_VOLUME_CLAIM, name, namespace) for name in names)
    return [claim for claim in found if claim is not None]


def _slices(api: ClusterApi, service: str, namespace: str | None) -> list[Manifest]:
    return api.list_all(ENDPOINT_SLICE, namespace, label_selector=f"kubernetes.io/service-name={service}")
