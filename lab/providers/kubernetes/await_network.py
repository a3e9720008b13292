"""When Pulumi considers a Service ready.

Source: pulumi-kubernetes 4, provider/pkg/await/service.go, and the class's docstring in SDK 4.34.2.
"""

from __future__ import annotations

from lab.providers.kubernetes.verdict import Context, Manifest, Ready, Verdict, Waiting


def service(manifest: Manifest, context: Context) -> Verdict:
    """It has an endpoint, and its endpoints have settled; a load balancer also has its address.

    Headless and ExternalName Services need no endpoints. A Service without a selector does: something else must write them.
    """
    spec = manifest["spec"]
    balanced = spec.get("type") == "LoadBalancer"
    if balanced and not ((manifest.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
        return Waiting("the load balancer's address")
    if spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None":
        return Ready()
    if not _has_endpoints(context):
        words = "pods behind it" if spec.get("selector") else "endpoints; without a selector, Kubernetes writes none"
        return Waiting(words)
    return Ready() if context.settled else Waiting("its endpoints to settle")


def _has_endpoints(context: Context) -> bool:
    return any(_has_targets(slice_) for slice_ in context.endpoint_slices)


def _has_targets(slice_: Manifest) -> bool:
    # By the API, an endpoint without the condition is ready.
    endpoints = slice_.get("endpoints") or ()
    return any((endpoint.get("conditions") or {}).get("ready", True) for endpoint in endpoints)
