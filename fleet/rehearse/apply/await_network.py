"""When Pulumi takes a Service for ready.

Source: pulumi-kubernetes 4, provider/pkg/await/service.go, and what the 4.34.2 SDK says of the class.
"""

from __future__ import annotations

from fleet.rehearse.apply.verdict import Context, Manifest, Ready, Verdict, Waiting


def service(one: Manifest, context: Context) -> Verdict:
    """Some pod stands behind it and its endpoints have settled; a load balancer also has its address.

    Headless services and external names are not asked for pods. One without a selector is: it is ready only once
    somebody writes its endpoints.
    """
    spec = one["spec"]
    balanced = spec.get("type") == "LoadBalancer"
    if balanced and not ((one.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
        return Waiting("the load balancer's address")
    if spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None":
        return Ready()
    if not _has_endpoints(context):
        words = "pods behind it" if spec.get("selector") else "endpoints; it has no selector, so nobody writes them"
        return Waiting(words)
    return Ready() if context.settled else Waiting("its endpoints to settle")


def _has_endpoints(context: Context) -> bool:
    return any(_has_targets(one) for one in context.endpoint_slices)


def _has_targets(slice_: Manifest) -> bool:
    # An endpoint without the condition counts as ready: the API says so.
    endpoints = slice_.get("endpoints") or ()
    return any((one.get("conditions") or {}).get("ready", True) for one in endpoints)
