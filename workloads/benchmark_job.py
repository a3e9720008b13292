"""The benchmark Job as plain data: what it is asked to do, its ConfigMap, its pods. No resource is made here.

`pulumi up` and `fleet bench run` make the same Job from these functions. Where the endpoint, the bucket and the image's prefix
are plain text, everything returned is plain text too; where one is a pulumi Output, what it goes into is one.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from planner import ledger
from settings.benchmark_load import (
    MACHINES,
    Load,
    load_of,
    longest_minutes,
    measured_shape,
    pod_memory_gib,
    ready_minutes,
    run_minutes,
)
from settings.figures import figures
from workloads import api_key, c4_nodes, hf_token, names, pod_programs, vllm_args
from workloads.server import image_path
from workloads.server_pod import PROVISIONING_MINUTES, USER_ID, served_model_name

if TYPE_CHECKING:
    import pulumi

    from settings.settings import Settings

    Text = pulumi.Input[str]

SYSTEM_CPU: Final = 2
"""vCPU left to the node. Assumed: Autopilot's system pods ask for less than one, the kubelet reserves a tenth of one."""
EPHEMERAL_GIB: Final = 40
"""Disk of the pod; the image is not counted. Assumed: a client's detailed result is some 30 MB, logs and tokenizer less, a
dataset and the clients' slices of it a few GB; a node's 100 GB boot disk leaves pods some 45 GiB."""
PROTOCOL_VERSION: Final = 1
"""How the pods measure. Part of the Job's name: raise it when their programs measure something else or in another way, and every
finished benchmark is run again by the next `pulumi up`. A change that measures the same (an error message, a faster upload) leaves
it. tests/workloads/benchmark_protocol.yaml pins the programs of each version, so that neither is forgotten."""
_ROOT: Final = "/opt/vllm-fleet"
_RUN: Final = f"{_ROOT}/run/run.json"
_WORK: Final = "/scratch"
_TOKENIZER: Final = f"{_WORK}/tokenizer"


def asked(settings: Settings) -> dict[str, Any]:
    """What a measurement of this stack is asked to do: run.json without the name and the moment, which the pods add.

    The benchmark's settings count whether it is enabled or not; `fleet bench run` asks with a changed copy of them.
    """
    benchmark, serving = settings.benchmark, settings.serving
    load = load_of(settings)
    slo = benchmark.slo
    bill = figures(settings).bill
    return {
        "schema": 1,
        "stack": settings.stack,
        "profile": serving.profile.name,
        "served_model": served_model_name(settings),
        "model_revision": serving.model.revision,
        "image": image_path(settings).removeprefix("/"),
        "engines_per_replica": serving.engine.data_parallel_size,
        "speculative_tokens": serving.engine.speculative_tokens,
        "workload": _workload(settings),
        "points": _points(load),
        "repeats": benchmark.repeats,
        "prompts_per_client": benchmark.prompts_per_client,
        "pods": load.pods,
        "slo": None if slo is None else slo.model_dump(mode="json"),
        "shape": _shape(settings),
        "cost": {
            "usd_per_hour": round(bill.usd_per_hour_known, 2),
            "at_least": bool(bill.unknown),
            "capacity": settings.placement.price_key,
        },
    }


def job_name(settings: Settings) -> str:
    """Name of the Job that `pulumi up` makes for these settings."""
    return f"benchmark-{fingerprint(settings)}"


def fingerprint(settings: Settings) -> str:
    """Eight characters that change with whatever bears on the figures: a Job cannot be changed, only made anew.

    They come from what the stack asks for and the protocol's version, never from the text of a program, a price or a fit. A setting
    that is None leaves no trace: a release that adds one renames no Job.
    """
    serving = settings.serving
    benchmark = settings.benchmark.model_dump(
        mode="json", exclude={"enabled", "run_on_update", "slo", "concurrency"}, exclude_none=True
    )
    bearing = {
        "protocol": PROTOCOL_VERSION,
        "benchmark": benchmark,
        "engine": serving.engine.model_dump(mode="json", exclude_none=True),
        "image": settings.server.image.digest,
        "model": serving.model.model_dump(mode="json"),
        "points": _points(load_of(settings)),
        "workload": _workload(settings),
        "resources": settings.server.resources.model_dump(mode="json"),
        "gateway": settings.gateway.model_dump(mode="json") if settings.gateway.enabled else None,
        "key": settings.guards_v1_only,
    }
    return hashlib.sha256(json.dumps(bearing, sort_keys=True).encode()).hexdigest()[:8]


def server_pods_service(settings: Settings) -> str:
    """Name of the headless Service: every address it resolves to is one server."""
    return f"{settings.server.name}-pods"


def server_pods_spec(settings: Settings) -> dict[str, Any]:
    """Spec of the headless Service over the servers that are ready."""
    return {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": False,
        "selector": names.selector(settings.server.name),
        "ports": [names.http_service_port()],
    }


def config_map_manifest(settings: Settings, *, name: str, namespace: Text | None = None) -> dict[str, Any]:
    """The ConfigMap with the pods' programs and run.json. `name` is the Job's; `namespace` defaults to the stack's."""
    run = json.dumps(asked(settings), indent=2, sort_keys=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(settings, name, namespace),
        "immutable": True,
        "data": {
            **{f"{name}.py": pod_programs.python_program(name) for name in pod_programs.BENCHMARK},
            "run.json": f"{run}\n",
        },
    }


def job_manifest(
    settings: Settings,
    *,
    name: str,
    endpoint: Text,
    bucket: Text,
    image_prefix: Text,
    namespace: Text | None = None,
) -> dict[str, Any]:
    """The Job whose pods run every load and every repeat, one after another. Its ConfigMap has the same name.

    `endpoint` is the URL that the clients call, without a path; `bucket` the results bucket's name; `image_prefix` the image
    registry's path, without a slash at its end. No second attempt: a run that lost a client measured something else.
    """
    pods = load_of(settings).pods
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(settings, name, namespace),
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline_seconds(settings),
            # No ttlSecondsAfterFinished: a Job that vanishes is one that the next `pulumi up` runs again.
            "template": {
                "metadata": {"labels": names.labels(settings, names.BENCHMARK_APP)},
                "spec": _pod_spec(
                    settings,
                    config_map=name,
                    image=_joined(image_prefix, image_path(settings)),
                    options=_client_options(settings, endpoint=endpoint, bucket=bucket),
                ),
            },
        },
    }


def deadline_seconds(settings: Settings) -> int:
    """End of the Job whatever happens: C4 nodes, the server's start, the dataset, every run of every load."""
    return (PROVISIONING_MINUTES + settings.server.startup_minutes + longest_minutes(settings)) * 60


def _workload(settings: Settings) -> dict[str, Any]:
    name = settings.benchmark.workload
    entry = ledger.entry("workloads", "workloads", name)
    return {
        "name": name,
        "kind": entry["kind"],
        "arguments": {option: str(value) for option, value in entry["bench_0_18_1"].items()},
        "ignore_eos": entry["ignore_eos"],
        "dataset": measured_shape(settings).dataset,
    }


def _points(load: Load) -> list[dict[str, int]]:
    return [{"connections": point.connections, "clients": point.clients} for point in load.points]


def _shape(settings: Settings) -> dict[str, Any]:
    shape = measured_shape(settings)
    return {
        "model": shape.model,
        "engine_version": shape.engine_version,
        "machine_type": shape.machine_type,
        "replicas": shape.replicas,
        "gpus_per_replica": shape.gpus_per_replica,
        "flags": dict(shape.flags),
        "env": dict(shape.env),
        "routing": shape.routing,
        "workload": shape.workload,
    }


def _metadata(settings: Settings, name: str, namespace: Text | None) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": settings.namespace if namespace is None else namespace,
        "labels": names.labels(settings, names.BENCHMARK_APP),
    }


GRACE_SECONDS: Final = 120
"""From the stop signal to the end: clients stop (5 s), the collector closes its file (15 s), and what is there goes to the
bucket. Assumed: a run's files are a few hundred MB at most."""


def _pod_spec(settings: Settings, *, config_map: str, image: Text, options: list[Text]) -> dict[str, Any]:
    """One pod to a C4 node, fetching tokenizer and dataset before it runs its clients."""
    token = hf_token.token_volume(settings)
    volumes: list[dict[str, Any]] = [
        {"name": "scripts", "configMap": {"name": config_map, "items": _files()}},
        {"name": "work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if token is not None:
        volumes.append(token)
    if settings.guards_v1_only:
        volumes.append(api_key.volume(settings))
    return {
        "serviceAccountName": names.BENCHMARK_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": c4_nodes.node_selector(settings.benchmark.machine_type),
        "tolerations": [c4_nodes.toleration()],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": _fetching(settings, image),
        "containers": [
            _container(
                settings,
                image,
                name="clients",
                command=_client_command(settings),
                args=options,
                env=_identity(),
                mounts=[api_key.mount()] if settings.guards_v1_only else [],
            )
        ],
        "volumes": volumes,
    }


def _files() -> list[dict[str, str]]:
    """Where the ConfigMap's keys become files: below the name that Python imports them by, and run.json apart."""
    programs = [{"key": f"{name}.py", "path": f"{pod_programs.PACKAGE}/{name}.py"} for name in pod_programs.BENCHMARK]
    return [*programs, {"key": "run.json", "path": _RUN.removeprefix(f"{_ROOT}/")}]


def _fetching(settings: Settings, image: Text) -> list[dict[str, Any]]:
    model, dataset = settings.serving.model, settings.benchmark.dataset
    needs_token = hf_token.needs_token(settings)
    found = [
        _container(
            settings,
            image,
            name="tokenizer",
            command=["python3", "-m", "pod_scripts.fetch_tokenizer", model.id, model.revision, _TOKENIZER],
            env=[{"name": "HF_TOKEN_PATH", "value": names.HF_TOKEN_PATH}] if needs_token else [],
            mounts=[hf_token.token_mount()] if needs_token else [],
        )
    ]
    if dataset is not None:
        command = ["python3", "-m", "pod_scripts.fetch_dataset", dataset.url, dataset.sha256, _dataset_file(settings)]
        found.append(_container(settings, image, name="dataset", command=command, env=[], mounts=[]))
    return found


def _dataset_file(settings: Settings) -> str:
    return f"{_WORK}/dataset.jsonl" if settings.benchmark.workload == "trace" else f"{_WORK}/dataset.json"


def _client_command(settings: Settings) -> list[str]:
    plain = ["python3", "-m", "pod_scripts.launch_clients"]
    return api_key.command_with_key("OPENAI_API_KEY", plain) if settings.guards_v1_only else plain


def _client_options(settings: Settings, *, endpoint: Text, bucket: Text) -> list[Text]:
    host = f"{server_pods_service(settings)}.{settings.namespace}.svc.cluster.local"
    options: list[Text] = [
        f"--run={_RUN}",
        _joined("--endpoint=", endpoint),
        _joined("--bucket=", bucket),
        f"--tokenizer={_TOKENIZER}",
        f"--server-pods={host}:{names.HTTP_PORT}",
        f"--wait-minutes={PROVISIONING_MINUTES + settings.server.startup_minutes}",
        f"--ready-minutes={ready_minutes(settings)}",
        f"--run-minutes={run_minutes(settings)}",
        f"--results={_WORK}/results",
    ]
    if settings.benchmark.dataset is not None:
        options.append(f"--dataset={_dataset_file(settings)}")
    return options


def _joined(first: Text, second: Text) -> Text:
    """Both one after the other: plain text of plain texts, else an Output."""
    if isinstance(first, str) and isinstance(second, str):
        return first + second
    import pulumi

    return pulumi.Output.concat(first, second)


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
        # Clients of one machine share a clock; those of one pod are not all that do.
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "HF_HUB_OFFLINE", "value": "1"},  # the tokenizer is here already
    ]


def _container(
    settings: Settings,
    image: Text,
    *,
    name: str,
    command: list[str],
    env: list[dict[str, Any]],
    mounts: list[dict[str, Any]],
    args: list[Text] | None = None,
) -> dict[str, Any]:
    cpu, _ = MACHINES[settings.benchmark.machine_type]
    amounts = {
        "cpu": str(cpu - SYSTEM_CPU),
        "memory": f"{pod_memory_gib(settings)}Gi",
        "ephemeral-storage": f"{EPHEMERAL_GIB}Gi",
    }
    return {
        "name": name,
        "image": image,
        "command": command,
        "args": args or [],
        "env": [
            *vllm_args.writable_environment(f"{_WORK}/cache"),
            {"name": "PYTHONPATH", "value": _ROOT},
            # uv installs vLLM's image without bytecode, and beside the sources nobody may write.
            {"name": "PYTHONPYCACHEPREFIX", "value": f"{_WORK}/cache/python"},
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
            {"name": "scripts", "mountPath": _ROOT, "readOnly": True},
            {"name": "work", "mountPath": _WORK},
            {"name": "tmp", "mountPath": "/tmp"},
            *mounts,
        ],
    }
