"""Small whole objects that break no rule, for tests that change one thing about them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from rule import Options, Resource, StackRule, found, message, rule_named

SPACE = "llm"
IMAGE = "docker.io/vllm/vllm-openai:v0.18.1@sha256:" + "0" * 64
MODEL = "/weights/Qwen/Qwen3.5-27B-FP8"


def resource(type_: str, name: str, props: dict[str, Any], *, protect: bool = False) -> Resource:
    """A resource of any provider."""
    return Resource(
        type=type_, name=name, urn=f"urn:pulumi:s::p::{type_}::{name}", props=props, options=Options(protect=protect)
    )


def kubernetes(type_: str, name: str, props: dict[str, Any] | None = None, **options: Any) -> Resource:
    """A Kubernetes object of the tests' namespace; `labels` and `annotations` go into its metadata."""
    metadata = {"name": name, "namespace": options.pop("namespace", SPACE)}
    metadata |= {key: options.pop(key) for key in ("labels", "annotations") if key in options}
    return resource(f"kubernetes:{type_}", name, {"metadata": metadata, **(props or {})}, **options)


def template() -> dict[str, Any]:
    """The pods of a vLLM server on Spot."""
    return {
        "metadata": {"labels": {"app": "server"}, "annotations": {"vllm-fleet.dev/concurrency-per-replica": "2000"}},
        "spec": {
            "serviceAccountName": "server",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 15,
            "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/gke-spot": "true"},
            "securityContext": {"runAsNonRoot": True, "runAsUser": 2000},
            "containers": [
                {
                    "name": "vllm",
                    "image": IMAGE,
                    "command": ["vllm", "serve"],
                    "args": [MODEL, "--data-parallel-size=8"],
                    "env": [{"name": "HF_HUB_OFFLINE", "value": "1"}],
                    "ports": [{"name": "http", "containerPort": 8000}],
                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                    "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                    "startupProbe": {"periodSeconds": 10, "failureThreshold": 180, "timeoutSeconds": 5},
                    "readinessProbe": {"periodSeconds": 10, "failureThreshold": 3, "timeoutSeconds": 10},
                    "livenessProbe": {"periodSeconds": 10, "failureThreshold": 12, "timeoutSeconds": 10},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "weights", "mountPath": "/weights", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "reader", "readOnly": True}}],
        },
    }


def server(*, replicas: int | None = 12, **changes: Any) -> Resource:
    """A Deployment of vLLM servers. Changes are dotted paths with `__` for the dots: see `at`."""
    spec: dict[str, Any] = {
        "replicas": replicas,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "progressDeadlineSeconds": 3600,
        "selector": {"matchLabels": {"app": "server"}},
        "template": template(),
    }
    if replicas is None:
        del spec["replicas"]
    made = kubernetes("apps/v1:Deployment", "server", {"spec": spec})
    for path, value in changes.items():
        at(made, CHANGES.get(path, path.replace("__", ".")), value)
    return made


POD = "spec.template.spec"
CONTAINER = f"{POD}.containers.0"
CHANGES = {"args": f"{CONTAINER}.args", "env": f"{CONTAINER}.env"}
GONE = object()


def at(one: Resource, path: str, value: Any) -> Resource:
    """Put a value at a path of keys and indexes in a resource's properties, or take away what is there with GONE."""
    place: Any = one.props
    *way, last = path.split(".")
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    key: Any = int(last) if isinstance(place, list) else last
    if value is GONE:
        del place[key]
    else:
        place[key] = value
    return one


def changed(one: Resource, path: str, value: Any) -> Resource:
    """A copy with that change."""
    copy = Resource(type=one.type, name=one.name, urn=one.urn, props=deepcopy(dict(one.props)), options=one.options)
    return at(copy, path, value)


def said(name: str, *resources: Resource, **settings: Any) -> list[str]:
    """What a rule says about these resources: one message for each finding."""
    rule = rule_named(name)
    subjects = [list(resources)] if isinstance(rule, StackRule) else list(resources)
    return [message(rule, finding) for subject in subjects for finding in found(rule, subject, **settings)]


def urns(name: str, *resources: Resource) -> list[str]:
    """Names of the resources that a rule about a stack finds something on."""
    return [one.urn.rpartition("::")[2] for one in found(rule_named(name), list(resources))]


def one(messages: list[str]) -> str:
    """The only message there is."""
    assert len(messages) == 1, messages
    return messages[0]
