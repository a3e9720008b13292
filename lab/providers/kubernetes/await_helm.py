"""When Helm considers a release's objects ready: the rules of `helm --wait`, which differ from Pulumi's.

Source: helm v3, pkg/kube/ready.go.
"""

from __future__ import annotations

import math

from lab.providers.kubernetes.await_workloads import REVISION
from lab.providers.kubernetes.verdict import Context, Manifest, Ready, Verdict, Waiting, observed


def deployment(manifest: Manifest, context: Context) -> Verdict:
    """The newest ReplicaSet has the minimum number of ready pods."""
    if not observed(manifest):
        return Waiting("the deployment controller")
    wanted = manifest["spec"].get("replicas", 1)
    newest = max(context.replica_sets, key=lambda found: _revision(found), default=None)
    if newest is None:
        return Waiting("its ReplicaSet")
    ready = (newest.get("status") or {}).get("readyReplicas", 0)
    least = wanted - _may_miss(manifest, wanted)
    return Ready() if ready >= least else Waiting(f"{ready} of at least {least} pods ready")


def service(manifest: Manifest, context: Context) -> Verdict:  # noqa: ARG001
    """It has an address; endpoints are not required."""
    spec = manifest["spec"]
    if spec.get("type") == "ExternalName" or spec.get("clusterIP"):
        balanced = spec.get("type") == "LoadBalancer" and not spec.get("externalIPs")
        if balanced and not ((manifest.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
            return Waiting("the load balancer's address")
        return Ready()
    return Waiting("a cluster address")


def _revision(manifest: Manifest) -> int:
    text = (manifest["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if str(text).isdigit() else 0


def _may_miss(manifest: Manifest, wanted: int) -> int:
    """Replicas that may be unavailable in a rolling update; none for Recreate. Kubernetes' default is 25%."""
    strategy = manifest["spec"].get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate" or wanted == 0:
        return 0
    rolling = strategy.get("rollingUpdate") or {}
    missing, surge = rolling.get("maxUnavailable", "25%"), rolling.get("maxSurge", "25%")
    allowed = _share(missing, wanted, up=False)
    # Kubernetes allows one unavailable pod if both round to zero.
    return 1 if allowed == 0 and _share(surge, wanted, up=True) == 0 else min(allowed, wanted)


def _share(value: int | str, whole: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    part = whole * int(value.rstrip("%")) / 100
    return math.ceil(part) if up else math.floor(part)
