"""A key that nothing reads is a lie: each key of a stack file, changed where it applies, changes what the program makes."""

from __future__ import annotations

import copy
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from pydantic import BaseModel

from fleet.preview.record.recorder import StackOutputs, record
from fleet.preview.record.values import reveal
from settings.sections.section import SECRET_KEYS
from settings.stack import Settings
from tests.support.recorded import BASE_STACK, ROOT, unchecked, without_positions
from tests.support.rows import each_row
from tests.support.settings import make_config

MODEL = {"id": "acme/own-model", "revision": "1" * 40, "sizeGb": 20.0, "kvBytesPerToken": 9_000}
NAMES = {"vpc": "office", "subnet": "gke", "podRange": "pods", "serviceRange": "services", "proxyOnlySubnet": "proxies"}
CHANNELS = (
    {"type": "email", "address": "a@example.com", "severities": ["page", "ticket"]},
    {"type": "slack", "channel": "#llm"},
    {"type": "existing", "name": "projects/fleet-tests/notificationChannels/1"},
)
DATASET = {"url": "gs://bucket/one.jsonl", "sha256": "1" * 64}
KUBECONFIG = "tests/infra/given_cluster.yaml"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (
        {"budget": {"billingAccount": "01ABCD-234567-89EFAB", "usdPerMonth": 50}, "results": {"retentionDays": 30}},
        {
            "project": "another-project",
            "region": "us-central1",
            "zones": ["europe-west4-a", "europe-west4-b"],
            "namespace": "other",
            "network.nodeCidr": "10.1.0.0/20",
            "network.podCidr": "10.128.0.0/14",
            "network.serviceCidr": "10.33.0.0/20",
            "network.proxyOnly.enabled": True,
            "cluster.name": "ours",
            "cluster.releaseChannel": "REGULAR",
            "cluster.deletionProtection": False,
            "cluster.minVersion": "1.36.1-gke.1000000",
            "cluster.keda": True,
            "cluster.maintenance.startTime": "2026-01-03T01:00:00Z",
            "cluster.maintenance.endTime": "2026-01-03T11:00:00Z",
            "cluster.maintenance.recurrence": "FREQ=WEEKLY;BYDAY=SU",
            "machine": "a3-highgpu-8g",
            "capacity.mode": "on-demand",
            "model.id": "Qwen/Qwen3.5-4B",
            "weights.source": "huggingface",
            "weights.sizeGib": 128,
            "weights.throughputMibps": 3000,
            "weights.tokenSecret.name": "hub",
            "server.name": "ours",
            "server.profile": "serve-chat",
            "server.replicas": 3,
            "server.gpus": 4,
            "server.engine": {"seed": 7},
            "server.needs.contextTokens": 4000,
            "server.needs.concurrencyPerReplica": 40,
            "server.image": {"repository": "acme/vllm", "digest": f"sha256:{'1' * 64}"},
            "server.image.tag": "v0.18.1",
            "server.image.digest": f"sha256:{'1' * 64}",
            "server.resources.cpu": 99,
            "server.resources.memoryGib": 999,
            "server.resources.ephemeralStorageGib": 99,
            "server.startupMinutes": 44,
            "server.drainSeconds": 44,
            "server.rankPorts": True,
            "server.compileCache.enabled": True,
            "server.apiKeySecret.name": "key",
            "server.internalLoadBalancer": True,
            "server.tensorParallelReason": "users wait for single answers",
            "gateway.enabled": True,
            "endpoint.kind": "leastRequest",
            "benchmark.enabled": True,
            "batch.enabled": True,
            "monitoring.enabled": False,
            "monitoring.intervalSeconds": 30,
            "monitoring.dashboard": True,
            "budget.billingAccount": "11ABCD-234567-89EFAB",
            "budget.usdPerMonth": 60,
            "results.retentionDays": 40,
            "labels": {"team": "inference"},
            "platform.stack": BASE_STACK,
            "apiKey": "a-key",
        },
    ),
    "existing VPC": (
        {"network": {"existing": {**NAMES, "project": "host-project"}}},
        {f"network.existing.{name}": "other-one" for name in ("vpc", "subnet", "podRange", "serviceRange", "project")},
    ),
    "open to the office": (
        {"cluster": {"ipEndpoint": {"enabled": True, "authorizedNetworks": [{"name": "a", "cidr": "203.0.113.0/24"}]}}},
        {
            "cluster.ipEndpoint.enabled": False,
            "cluster.ipEndpoint.authorizedNetworks.name": "b",
            "cluster.ipEndpoint.authorizedNetworks.cidr": "203.0.112.0/24",
        },
    ),
    "flex-start": (
        {"capacity": {"mode": "flex-start", "runDurationSeconds": 86_400}},
        {"capacity.runDurationSeconds": 43_200},
    ),
    "calendar": ({"capacity": {"mode": "calendar", "reservation": "a"}}, {"capacity.reservation": "b"}),
    "reservation": (
        {"capacity": {"mode": "reservation", "name": "a", "project": "one-project"}},
        {"capacity.name": "b", "capacity.project": "other-project"},
    ),
    "ComputeClass with a limit": (
        {
            "capacity": {"mode": "compute-class", "reservation": {"name": "a", "project": "one-project", "nodes": 2}},
            "spending": {"limit": 900, "until": "2027-01-01T00:00:00Z", "then": "pause"},
        },
        {
            "capacity.reservation.name": "b",
            "capacity.reservation.project": "other-project",
            "capacity.flexStartSeconds": 43_200,
            "capacity.spot": False,
            "capacity.usdPerNodeHour": 3.0,
            "prices": {"hyperdisk-ml-capacity": 0.5},
            "spending.limit": 901,
            "spending.every": "month",
            "spending.until": "2027-01-02T00:00:00Z",
            "spending.since": "2026-11-01T00:00:00Z",
            "spending.then": "warn",
        },
    ),
    "a model of one's own": (
        {
            "model": {**MODEL, "adapters": [{"name": "a", "id": "acme/a", "revision": "2" * 40, "rank": 16}]},
            "server": {"replicas": 1, "profile": "serve-chat"},
        },
        {
            "model.revision": "3" * 40,
            "model.sizeGb": 400.0,
            "model.adapters.name": "b",
            "model.adapters.id": "acme/b",
            "model.adapters.revision": "4" * 40,
            "model.adapters.rank": 32,
        },
    ),
    "a disk image": (
        {"weights": {"source": "image", "image": "projects/models/global/images/a"}},
        {"weights.image": "projects/models/global/images/b"},
    ),
    "secrets by version": (
        {
            "weights": {"tokenSecret": {"name": "hub", "version": 1}},
            "server": {"replicas": 1, "apiKeySecret": {"name": "key", "version": 1}},
        },
        {"weights.tokenSecret.version": 2, "server.apiKeySecret.version": 2},
    ),
    "a token of the stack": ({"hfToken": "a"}, {"hfToken": "b"}),
    "scaled": (
        {
            "server": {
                "scaling": {
                    "mode": "load",
                    "min": 1,
                    "max": 4,
                    "timezone": "Europe/Berlin",
                    "windows": [{"days": ["MO"], "start": "08:00", "end": "19:00", "replicas": 2}],
                }
            }
        },
        {
            "server.scaling.mode": "schedule",
            "server.scaling.min": 2,
            "server.scaling.max": 5,
            "server.scaling.targetInFlight": 99,
            "server.scaling.leadMinutes": 99,
            "server.scaling.timezone": "Europe/Paris",
            "server.scaling.windows.days": ["TU"],
            "server.scaling.windows.start": "09:00",
            "server.scaling.windows.end": "18:00",
            "server.scaling.windows.replicas": 3,
        },
    ),
    "prefill apart": (
        {
            "server": {
                "replicas": 1,
                "profile": "serve-chat",
                "shape": {
                    "prefillGpus": 3,
                    "decodeGpus": 5,
                    "router": {"image": f"registry.example.com/a:1@sha256:{'0' * 64}"},
                },
            },
            "endpoint": {"kind": "leastRequest"},
        },
        {
            "server.shape.prefillGpus": 2,
            "server.shape.decodeGpus": 4,
            "server.shape.router.image": f"registry.example.com/b:1@sha256:{'0' * 64}",
        },
    ),
    "gateway": (
        {"gateway": {"enabled": True, "hostname": "a.example.com"}, "server": {"replicas": 1, "apiKeySecret": "key"}},
        {
            "gateway.pool": "ours",
            "gateway.gatewayClass": "gke-l7-regional-external-managed",
            "gateway.hostname": "b.example.com",
            "gateway.tls.certificate": "ours",
            "gateway.address": "ours",
            "gateway.epp.release": "llm-d-router-v0.10.0",
            "gateway.epp.cpu": 9,
            "gateway.epp.replicas": 3,
            "network.proxyOnly.cidr": "10.9.0.0/23",
            "network.existing": {**NAMES, "project": "host-project"},
        },
    ),
    "proxies that exist": (
        {"network": {"existing": {**NAMES, "proxyOnlySubnet": "proxies"}}, "gateway": {"enabled": True}},
        {"network.existing.proxyOnlySubnet": None},
    ),
    "routers": (
        {"endpoint": {"kind": "leastRequest"}},
        {
            "endpoint.router.replicas": 3,
            "endpoint.router.cpu": 3,
            "endpoint.router.memoryGib": 5,
        },
    ),
    "benchmark": (
        {"benchmark": {"enabled": True, "workload": "trace", "dataset": DATASET, "slo": {"ttftMs": 1}}},
        {
            "benchmark.runOnUpdate": False,
            "benchmark.workload": "article",
            "benchmark.dataset.url": "gs://bucket/other.json",
            "benchmark.dataset.sha256": "2" * 64,
            "benchmark.concurrency": [9],
            "benchmark.repeats": 9,
            "benchmark.connectionsPerClient": 99,
            "benchmark.promptsPerClient": 999,
            "benchmark.slo.ttftMs": 9,
            "benchmark.slo.tpotMs": 9,
        },
    ),
    "batches": (
        {"batch": {"enabled": True}, "server": {"scaling": {"mode": "batch", "max": 2}}},
        {"batch.retentionDays": 9, "batch.maxUsd": 9.0},
    ),
    "alerts": (
        {"monitoring": {"alerts": {"channels": [*CHANNELS]}}, "slackToken": "a"},
        {
            "monitoring.alerts.ttftSeconds": 5.0,
            "monitoring.alerts.tpotMs": 50,
            "monitoring.alerts.objective": 0.999,
            "monitoring.alerts.channels.severities": ["ticket"],
            "monitoring.alerts.channels.address": "b@example.com",
            **{
                f"monitoring.alerts.channels.{key}": [{**CHANNELS[0]}, {**CHANNELS[number], key: value}]
                for number, key, value in (
                    (1, "channel", "#other"),
                    (2, "name", "projects/fleet-tests/notificationChannels/2"),
                )
            },
            "slackToken": "b",
        },
    ),
    "a pager": (
        {
            "monitoring": {"alerts": {"channels": [{"type": "pagerduty"}, CHANNELS[0]]}},
            "pagerdutyKey": "a",
        },
        {"pagerdutyKey": "b", "monitoring.alerts.channels.type": [CHANNELS[0]]},
    ),
    "a canary": (
        {"rollout": {"engine": {"seed": 1}, "weight": 5}, "gateway": {"enabled": True}},
        {
            "rollout.engine": {"seed": 2},
            "rollout.image": {"repository": "acme/vllm", "digest": f"sha256:{'1' * 64}"},
            "rollout.image.tag": "v0.18.1",
            "rollout.image.digest": f"sha256:{'1' * 64}",
            "rollout.model.id": "Qwen/Qwen3.5-4B",
            "rollout.model.revision": "1" * 40,
            "rollout.weight": 6,
        },
    ),
    "a Docker Hub account": (
        {"registry": {"dockerHubUser": "fleet_one", "dockerHubTokenSecret": "one"}},
        {"registry.dockerHubUser": "fleet_two", "registry.dockerHubTokenSecret": "two"},
    ),
    "a cluster of one's own": (
        {
            "platform": {
                "kubeconfig": KUBECONFIG,
                "imagePrefix": "registry.example.com/a",
                "resultsBucket": "our-results",
            },
            "benchmark": {"enabled": True},
        },
        {
            "platform.kubeconfig": None,
            "platform.imagePrefix": "registry.example.com/b",
            "platform.resultsBucket": "other-results",
        },
    ),
}
TOOLBOX = frozenset(
    {
        "batch.deadline",
        "batch.endpoint",
        "batch.id",
        "batch.input",
        "batch.template",
        *(f"batch.defaults.{name}" for name in ("maxTokens", "temperature")),
    }
)
"""Keys that `fleet` alone reads."""
JUDGED = frozenset(
    {
        "model.config",
        "model.kvBytesPerToken",
        "server.needs.requests.inputTokens",
        "server.needs.requests.longestInputTokens",
        "server.needs.requests.outputTokens",
        "server.needs.workload",
        "capacity.commitment",
        "capacity.nodes",
        "capacity.reservation.nodes",
        "rollout.model.sizeGb",
    }
)
"""Keys for figures, prices and checks, which an output or a finding shows."""


def keys() -> Iterator[str]:
    """Every key of a stack file, with what is in its sections."""
    yield from dict.fromkeys(_keys(Settings, ""))


def _keys(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{path}.{field.alias or name}".lstrip(".")
        inner = tuple(_models(field.annotation))
        for one in inner:
            yield from _keys(one, key)
        if not inner:
            yield key


def _models(type_: Any) -> Iterator[type[BaseModel]]:
    if isinstance(type_, type) and issubclass(type_, BaseModel):
        yield type_
    for inner in typing.get_args(type_):
        yield from _models(inner)


def test_each_key_is_tried_or_only_the_toolboxs() -> None:
    tried = {key: value for _, changes in CASES.values() for key, value in changes.items()}
    whole = tuple(f"{key}." for key, value in tried.items() if isinstance(value, dict))
    found = {key for key in keys() if not key.startswith("has") and key != "stack"} | SECRET_KEYS.keys()
    assert {key for key in found - tried.keys() if not key.startswith(whole)} == TOOLBOX | JUDGED
    assert [key for key in tried if not any(f"{one}.".startswith(f"{key}.") for one in found)] == []


@cache
def resources(case: str, key: str = "") -> Mapping[str, Any]:
    """What the program makes: with a key, of the case with that key changed."""
    base, changes = CASES[case]
    sections = {**copy.deepcopy(base)}
    if key:
        _set(sections, key.split("."), changes[key])
    with unchecked(), without_positions():
        made = record(
            ROOT,
            project="vllm-fleet",
            stack="test",
            config=make_config(**sections),
            mode="known",
            secret_keys=[f"vllm-fleet:{name}" for name in SECRET_KEYS if name in sections],
            stack_outputs=lambda _: StackOutputs(values=None, source="this test"),
        )
    return {one.urn: (reveal(dict(one.inputs)), one.protect, one.custom_timeouts) for one in made.resources}


def _set(sections: Any, path: list[str], value: Any) -> None:
    """Sets a key; of a list, in its first item, unless the value is the list."""
    first, *rest = path
    if isinstance(sections, list) and isinstance(value, list) and isinstance(value[0], dict):
        sections[:] = value
        return
    if isinstance(sections, list):
        sections = sections[0]
    if rest:
        default = {"capacity": {"mode": "spot"}, "server": {"replicas": 12}}.get(first, {})
        inner = sections.setdefault(first, default)
        if not isinstance(inner, dict | list):  # a secret by its name
            inner = sections[first] = {"name": inner}
        _set(inner, rest, value)
    elif value is None:
        del sections[first]
    else:
        sections[first] = value


@pytest.mark.slow
@each_row(("case", "key"), [(case, key) for case, (_, changes) in CASES.items() for key in changes])
def test_another_value_makes_something_else(case: str, key: str) -> None:
    assert resources(case, key) != resources(case)
