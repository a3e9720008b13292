"""When Pulumi takes a Service or an Ingress for ready.

Source: pulumi-kubernetes 4, provider/pkg/await/service.go and ingress.go, and what the 4.34.2 SDK says of both classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from rehearsal.apply.verdict import Context, Manifest, Ready, Verdict, Waiting


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


def ingress(one: Manifest, context: Context) -> Verdict:
    """It has an address and each backend has endpoints, external names aside."""
    for name in backends(one):
        found = context.services.get(name)
        if found is None:
            return Waiting(f"Service {name}")
        if found["spec"].get("type") == "ExternalName":
            continue
        if not any(_has_targets(slice_) and _service_of(slice_) == name for slice_ in context.endpoint_slices):
            return Waiting(f"pods behind Service {name}")
    if not ((one.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
        return Waiting("the address of the Ingress")
    return Ready()


def backends(one: Manifest) -> tuple[str, ...]:
    """Names of the services that an Ingress routes to."""

    def named() -> Iterator[str]:
        spec = one.get("spec") or {}
        paths = [path for rule in spec.get("rules") or () for path in (rule.get("http") or {}).get("paths") or ()]
        for backend in (spec.get("defaultBackend"), *(path.get("backend") for path in paths)):
            name = ((backend or {}).get("service") or {}).get("name")
            if name:
                yield name

    return tuple(dict.fromkeys(named()))


def _has_endpoints(context: Context) -> bool:
    return any(_has_targets(one) for one in context.endpoint_slices)


def _has_targets(slice_: Manifest) -> bool:
    # An endpoint without the condition counts as ready: the API says so.
    endpoints = slice_.get("endpoints") or ()
    return any((one.get("conditions") or {}).get("ready", True) for one in endpoints)


def _service_of(slice_: Manifest) -> str:
    return str((slice_["metadata"].get("labels") or {}).get("kubernetes.io/service-name", ""))
