"""Small resources as a rule sees them, written the way manifests are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from facts.finding import Finding
from facts.lessons.verdict import encode
from rule import AnyRule, Resource, ResourceRule, all_rules, complete, with_defaults

DIGEST = "@sha256:" + "2" * 64
IMAGE = f"docker.io/vllm/vllm-openai:v0.18.1{DIGEST}"
RECORD = (
    "/weights/Qwen/Qwen3.5-27B-FP8",
    "--data-parallel-size=8",
    "--max-model-len=2560",
    "--max-num-batched-tokens=16384",
    "--max-num-seqs=1024",
    "--kv-cache-dtype=fp8_e4m3",
    "--gpu-memory-utilization=0.92",
    '--speculative-config={"method":"mtp","num_speculative_tokens":1}',
)
"""A sound server: the record's flags without those that only the article needs."""
NEEDS = {"vllm-fleet.dev/context-tokens": "1536", "vllm-fleet.dev/concurrency-per-replica": "2000"}
SPOT = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/gke-spot": "true"}
RESERVED = {
    "cloud.google.com/gke-accelerator": "nvidia-b200",
    "cloud.google.com/reservation-name": "b200",
    "cloud.google.com/reservation-affinity": "specific",
}
ENVIRONMENT = {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1", "VLLM_ENGINE_READY_TIMEOUT_S": "1800"}


def variables(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def server(
    *flags: str,
    without: Sequence[str] = (),
    args: Sequence[str] | None = None,
    command: Sequence[str] = ("vllm", "serve"),
    image: str = IMAGE,
    env: Mapping[str, str] = ENVIRONMENT,
    annotations: Mapping[str, str] = NEEDS,
    labels: Mapping[str, str] | None = None,
    selector: Mapping[str, str] = SPOT,
    gpus: int = 8,
    cpu: str = "160",
    replicas: int | None = 12,
    grace: int | None = 15,
    container: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    kind: str = "Deployment",
    namespace: str = "vllm",
) -> Resource:
    """A Deployment of vLLM servers: `RECORD` without the options that begin with `without`, and with `flags`."""
    words = [word for word in RECORD if not any(word.startswith(f"--{name}") for name in without)]
    amounts = {"cpu": cpu, "nvidia.com/gpu": str(gpus)}
    pod: dict[str, Any] = {
        "nodeSelector": dict(selector),
        "containers": [
            {
                "name": "vllm",
                "image": image,
                "command": list(command),
                "args": list(args) if args is not None else [*words, *flags],
                "env": variables(env),
                "resources": {"requests": amounts, "limits": dict(amounts)},
                "startupProbe": {"periodSeconds": 10, "failureThreshold": 180},
                **deepcopy(dict(container or {})),
            }
        ],
        **deepcopy(dict(spec or {})),
    }
    if grace is not None:
        pod["terminationGracePeriodSeconds"] = grace
    metadata = {"name": "server", "namespace": namespace, "labels": dict(labels or {})}
    template = {"metadata": {"annotations": dict(annotations)}, "spec": pod}
    body: dict[str, Any] = {"template": template}
    if replicas is not None:
        body["replicas"] = replicas
    return kubernetes(f"apps/v1:{kind}", {"metadata": metadata, "spec": body}, name="server")


def kubernetes(type_: str, props: Mapping[str, Any], *, name: str = "") -> Resource:
    name = name or str(props.get("metadata", {}).get("name", "thing"))
    full = f"kubernetes:{type_}"
    return Resource(type=full, props=props, name=name, urn=f"urn:pulumi:test::fleet::{full}::{name}")


def rule_named(name: str) -> AnyRule:
    return {one.name: one for one in all_rules()}[name]


def message(rule: AnyRule, made: Finding, *, at_stake: str = "") -> str:
    """A rule's finding as the engine shows it."""
    return encode(complete(rule, made, at_stake=at_stake))


def found(name: str, subject: Resource, **settings: Any) -> list[str]:
    """What a rule about a resource finds, as a person reads it."""
    rule = rule_named(name)
    assert isinstance(rule, ResourceRule)
    return [message(rule, finding) for finding in rule.judge(subject, with_defaults(rule, settings))]


def only(name: str, subject: Resource, **settings: Any) -> str:
    """The one thing a rule finds."""
    (text,) = found(name, subject, **settings)
    return text
