"""Small programs to apply, recorded as the real one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from fleet.preview.record.recording import Recording
from tests.fleet.preview.programs import run

NAMESPACE = "apply-test"


def provider() -> k8s.Provider:
    """Some cluster."""
    return k8s.Provider("cluster", kubeconfig=pulumi.Output.secret("apiVersion: v1\nclusters: []\n"))


def meta(name: str, namespace: str | None = NAMESPACE, **annotations: str) -> dict[str, Any]:
    """Metadata with annotations: `skipAwait="true"` is `pulumi.com/skipAwait: "true"`."""
    found: dict[str, Any] = {"name": name} | ({"namespace": namespace} if namespace else {})
    if annotations:
        found["annotations"] = {f"pulumi.com/{key}": value for key, value in annotations.items()}
    return found


def pod_template(app: str, **spec: Any) -> dict[str, Any]:
    """A pod template with one container."""
    container = {"name": "main", "image": "example.com/image:1", **spec.pop("container", {})}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def deployment_spec(app: str, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """A Deployment's spec."""
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": app}},
        "template": pod_template(app, **spec),
    }


def recorded(program: Callable[[Callable[..., pulumi.ResourceOptions]], None], **config: Any) -> Recording:
    """Record a program; it is given a function that makes options with the cluster's provider in them."""

    def whole() -> None:
        cluster = provider()

        def options(**given: Any) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(provider=cluster, **given)

        program(options)

    return run(whole, **config)


def namespace(options: Callable[..., pulumi.ResourceOptions]) -> k8s.core.v1.Namespace:
    """The namespace that everything is in."""
    return k8s.core.v1.Namespace("namespace", metadata=meta(NAMESPACE, None), opts=options())
