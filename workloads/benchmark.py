"""The article's benchmark as an Indexed Job: many client processes on C4 nodes, started together, results in the bucket."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pulumi
import pulumi_kubernetes as k8s

from planner import ledger
from settings.settings import Settings
from workloads import api_key, c4_nodes, hf_token, names, pod_scripts, vllm_args
from workloads.manifest import Manifest
from workloads.server import image_of
from workloads.server_pod import PROVISIONING_MINUTES, USER_ID, engine, served_model_name

if TYPE_CHECKING:
    from workloads.server import Server

CLIENTS_PER_POD: Final = 16
"""Client processes on one node. Source: the article, `parallel-bench.sh qwen35-server 8000 16 1000` on 16 vCPU."""

MACHINES: Final[Mapping[str, tuple[int, int]]] = {
    "c4-standard-16": (16, 60),
    "c4-standard-32": (32, 120),
    "c4-standard-48": (48, 180),
}
"""vCPU and GiB of the machine types. Source: Compute Engine docs, C4 machine series, standard types."""
SYSTEM_CPU: Final = 2
"""vCPU left to the node. Assumed: Autopilot's system pods ask for less than one, the kubelet reserves a tenth of one."""
MEMORY_SHARE: Final = 0.8
"""Share of the machine's memory that the pod asks for. Source: GKE docs reserve 3 to 5 GiB at these sizes; rounded down."""
EPHEMERAL_GIB: Final = 40
"""Disk of the pod. Assumed: a client's detailed result is some 30 MB, logs and tokenizer less; the image is not counted."""
RUN_MINUTES: Final = 60
"""Minutes for the run itself. Measured: 24 s a request at full load, so the default 5,000 prompts over 1,000 connections
take 2 minutes; an hour is for thirty times as many."""

_SCRIPTS = ("__init__", "fetch_tokenizer", "launch_clients", "results_bucket")
_SCRIPTS_ROOT = "/opt/vllm-fleet"
_WORK = "/scratch"
_TOKENIZER = f"{_WORK}/tokenizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How the load of one stack is spread over clients and pods."""

    connections: int
    """Requests in flight, all clients together."""
    clients: int
    pods: int


def load_of(settings: Settings) -> Load:
    """The profile's concurrency for every replica, in clients of `connectionsPerClient` at most, in as few pods as hold
    them.
    """
    connections = settings.serving.concurrency_per_replica * settings.replicas
    clients = -(-connections // settings.benchmark.connections_per_client)
    return Load(connections=connections, clients=clients, pods=-(-clients // CLIENTS_PER_POD))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkArgs:
    """Arguments of `Benchmark`."""

    settings: Settings
    namespace: pulumi.Input[str]
    image_prefix: pulumi.Input[str]
    endpoint: pulumi.Input[str]
    """Where the clients send their requests: the Service or the gateway."""
    results_bucket: pulumi.Input[str]
    server: Server
    """The run begins when it is ready."""


class Benchmark(pulumi.ComponentResource):
    """One benchmark run per configuration. Changing anything that bears on the figures makes a new Job; nothing else does."""

    job: k8s.batch.v1.Job

    def __init__(self, name: str, args: BenchmarkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Benchmark", name, None, opts)
        settings = args.settings
        labels = names.labels(settings, names.BENCHMARK_APP)
        job_name = f"benchmark-{fingerprint(settings)}"
        scripts = k8s.core.v1.ConfigMap(
            f"{name}-scripts",
            metadata={"name": job_name, "namespace": args.namespace, "labels": labels},
            immutable=True,
            data={f"{script}.py": pod_scripts.source(script) for script in _SCRIPTS},
            opts=pulumi.ResourceOptions(parent=self),
        )
        minutes = deadline_seconds(settings) // 60
        self.job = k8s.batch.v1.Job(
            f"{name}-job",
            metadata={
                "name": job_name,
                "namespace": args.namespace,
                "labels": labels,
                # A run that failed is repeated by the next `pulumi up` instead of being reported for ever.
                "annotations": {"pulumi.com/replaceUnready": "true"},
            },
            spec=job_spec(args, job_name),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[args.server, scripts],
                # Two runs at once would measure each other.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{minutes}m", update=f"{minutes}m", delete="5m"),
            ),
        )
        self.register_outputs({"job": self.job.metadata.name})


def fingerprint(settings: Settings) -> str:
    """Eight characters that change with whatever bears on the figures: a Job cannot be changed, only made anew."""
    serving = settings.serving
    bearing = {
        "benchmark": settings.benchmark.model_dump(mode="json"),
        "engine": engine(settings).model_dump(mode="json"),
        "image": settings.server.image.digest,
        "model": serving.model.model_dump(mode="json"),
        "load": [load_of(settings).connections, load_of(settings).clients],
        "resources": settings.server.resources.model_dump(mode="json"),
        "gateway": settings.gateway.model_dump(mode="json") if settings.gateway.enabled else None,
        "key": settings.guards_v1_only,
        "scripts": [pod_scripts.source(script) for script in _SCRIPTS],
    }
    return hashlib.sha256(json.dumps(bearing, sort_keys=True).encode()).hexdigest()[:8]


def deadline_seconds(settings: Settings) -> int:
    """End of the Job whatever happens: C4 nodes, the server's start, the run."""
    return (PROVISIONING_MINUTES + settings.server.startup_minutes + RUN_MINUTES) * 60


def job_spec(args: BenchmarkArgs, scripts: str) -> Manifest:
    """Spec of the Job. No second attempt: a run that lost a client measured something else."""
    settings = args.settings
    load = load_of(settings)
    return {
        "completionMode": "Indexed",
        "completions": load.pods,
        "parallelism": load.pods,
        "backoffLimit": 0,
        "activeDeadlineSeconds": deadline_seconds(settings),
        # No ttlSecondsAfterFinished: a Job that vanishes is one that the next `pulumi up` runs again.
        "template": {
            "metadata": {"labels": names.labels(settings, names.BENCHMARK_APP)},
            "spec": pod_spec(args, scripts),
        },
    }


def pod_spec(args: BenchmarkArgs, scripts: str) -> dict[str, Any]:
    """One pod to a C4 node, fetching the tokenizer before it runs its clients."""
    settings = args.settings
    image = image_of(settings, args.image_prefix)
    needs_token = hf_token.needs_token(settings)
    model = settings.serving.model
    tokenizer = _container(
        settings,
        image,
        name="tokenizer",
        command=["python3", "-m", "pod_scripts.fetch_tokenizer", model.id, model.revision, _TOKENIZER],
        env=[{"name": "HF_TOKEN_PATH", "value": names.HF_TOKEN_PATH}] if needs_token else [],
        mounts=[hf_token.token_mount()] if needs_token else [],
    )
    clients = _container(
        settings,
        image,
        name="clients",
        command=_client_command(settings),
        args=_client_arguments(args),
        env=_identity(),
        mounts=[api_key.mount()] if settings.guards_v1_only else [],
    )
    volumes: list[dict[str, Any]] = [
        {"name": "scripts", "configMap": {"name": scripts}},
        {"name": "work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    token = hf_token.token_volume(settings)
    if token is not None:
        volumes.append(token)
    if settings.guards_v1_only:
        volumes.append(api_key.volume(settings))
    return {
        "serviceAccountName": names.BENCHMARK_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "nodeSelector": c4_nodes.node_selector(settings.benchmark.machine_type),
        "tolerations": [c4_nodes.toleration()],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [tokenizer],
        "containers": [clients],
        "volumes": volumes,
    }


def workload_arguments(settings: Settings) -> dict[str, str]:
    """The workload's lengths as vLLM 0.18.1 draws them, from the ledger."""
    lengths = ledger.entry("workloads", "workloads", settings.benchmark.workload)["bench_0_18_1"]
    return {
        "input-len": str(lengths["random-input-len"]),
        "output-len": str(lengths["random-output-len"]),
        "range-ratio": str(lengths["random-range-ratio"]),
    }


def _client_command(settings: Settings) -> list[str]:
    plain = ["python3", "-m", "pod_scripts.launch_clients"]
    return api_key.command_with_key("OPENAI_API_KEY", plain) if settings.guards_v1_only else plain


def _client_arguments(args: BenchmarkArgs) -> list[pulumi.Input[str]]:
    settings, load = args.settings, load_of(args.settings)
    plain = {
        "model": served_model_name(settings),
        "tokenizer": _TOKENIZER,
        "workload": settings.benchmark.workload,
        **workload_arguments(settings),
        "clients": str(load.clients),
        "connections": str(load.connections),
        "prompts-per-client": str(settings.benchmark.prompts_per_client),
        "pods": str(load.pods),
        "wait-minutes": str(PROVISIONING_MINUTES + settings.server.startup_minutes),
        "results": f"{_WORK}/results",
    }
    return [
        pulumi.Output.concat("--endpoint=", args.endpoint),
        pulumi.Output.concat("--bucket=", args.results_bucket),
        *(f"--{name}={value}" for name, value in plain.items()),
    ]


def _identity() -> list[dict[str, Any]]:
    """What names the run: two runs of one Job name must not share objects in the bucket."""
    return [
        {
            "name": "JOB_NAME",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}},
        },
        {
            "name": "JOB_UID",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}},
        },
        {"name": "HF_HUB_OFFLINE", "value": "1"},  # the tokenizer is here already
    ]


def _container(
    settings: Settings,
    image: pulumi.Input[str],
    *,
    name: str,
    command: list[str],
    env: list[dict[str, Any]],
    mounts: list[dict[str, Any]],
    args: list[pulumi.Input[str]] | None = None,
) -> dict[str, Any]:
    cpu, memory_gib = MACHINES[settings.benchmark.machine_type]
    amounts = {
        "cpu": str(cpu - SYSTEM_CPU),
        "memory": f"{int(memory_gib * MEMORY_SHARE)}Gi",
        "ephemeral-storage": f"{EPHEMERAL_GIB}Gi",
    }
    return {
        "name": name,
        "image": image,
        "command": command,
        "args": args or [],
        "env": [
            *vllm_args.writable_environment(f"{_WORK}/cache"),
            {"name": "PYTHONPATH", "value": _SCRIPTS_ROOT},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
            *env,
        ],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "scripts", "mountPath": f"{_SCRIPTS_ROOT}/pod_scripts", "readOnly": True},
            {"name": "work", "mountPath": _WORK},
            {"name": "tmp", "mountPath": "/tmp"},
            *mounts,
        ],
    }
