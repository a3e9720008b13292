"""The benchmark Job as plain data: run.json, ConfigMap, pod. No resource is created here.

`pulumi up` and `fleet bench run` make the same Job from these functions. Where namespace, endpoint, bucket and image are plain text,
everything returned is plain text too; where one is a pulumi Output, what it goes into is one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from facts.sizing import BENCHMARK_CLIENT_DISK_GIB, BENCHMARK_MACHINES
from settings.derived.benchmark_load import pod_memory_gib
from workloads import c4_nodes, names, pod_programs
from workloads.manifest import sent
from workloads.server import api_key, vllm_args
from workloads.server.pod import USER_ID
from workloads.weights import hf_token

if TYPE_CHECKING:
    import pulumi

    from settings.derived.measurement import Measurement
    from settings.sections.secret_stores import SecretStore

    Text = pulumi.Input[str]

SYSTEM_CPU: Final = 2
"""vCPU left to the node. Assumed: Autopilot's system pods request less than one, the kubelet reserves a tenth of one."""
PROTOCOL_VERSION: Final = 1
"""How the pods measure. Part of the Job's name: raise it when their programs measure differently, and the next `pulumi up`
runs every finished benchmark again. A change that measures the same (an error message, a faster upload) keeps it.
tests/workloads/benchmark_protocol.yaml pins the programs of each version."""
_ROOT: Final = "/opt/vllm-fleet"
_RUN: Final = f"{_ROOT}/run/run.json"
_WORK: Final = "/scratch"
_TOKENIZER: Final = f"{_WORK}/tokenizer"


def job_name(measurement: Measurement) -> str:
    """Name of the Job of `pulumi up` for this measurement."""
    return f"benchmark-{fingerprint(measurement)}"


def fingerprint(measurement: Measurement) -> str:
    """Eight characters that change with everything that changes the figures: a Job cannot be updated, only replaced.

    A hash of the measurement and the protocol version; a program's text, a price or a fit is not part of it.
    """
    bearing = {"protocol": PROTOCOL_VERSION, **measurement.bearing}
    return hashlib.sha256(json.dumps(bearing, sort_keys=True).encode()).hexdigest()[:8]


def server_pods_service(server: str) -> str:
    """Name of the headless Service, which resolves to every server."""
    return f"{server}-pods"


def config_map_manifest(
    measurement: Measurement, *, name: str, namespace: Text, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The ConfigMap with the pods' programs and run.json. `name` is the Job's."""
    run = json.dumps(measurement.run, indent=2, sort_keys=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(name, namespace, labels),
        "immutable": True,
        "data": {**pod_programs.benchmark_programs(), "run.json": f"{run}\n"},
    }


def job_manifest(
    measurement: Measurement,
    *,
    name: str,
    namespace: Text,
    server: str,
    key_store: SecretStore | None,
    endpoint: Text,
    bucket: Text,
    image: Text,
    labels: Mapping[str, str],
    server_pods: str | None = None,
    status_port: int = names.HTTP_PORT,
) -> dict[str, Any]:
    """The Job whose pod runs every load and every repeat, one after another. Its ConfigMap has the same name.

    `server`: the servers' Service; `key_store`: where their API key is; `endpoint`: URL that the clients call, without a path;
    `bucket`: the results bucket; `image`: the servers' image with its registry; `server_pods`: HOST:PORT of the servers whose metrics
    are read, by default all; `status_port`: of a server's metrics. No retry: a run that lost a client measured another load.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, namespace, labels),
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline_seconds(measurement),
            # No ttlSecondsAfterFinished: the next `pulumi up` would run a removed Job again.
            "template": {
                "metadata": {"labels": names.labels(labels, names.BENCHMARK_APP)},
                "spec": _pod_spec(
                    measurement,
                    config_map=name,
                    image=image,
                    key=key_store,
                    options=_client_options(
                        measurement,
                        server_pods=server_pods
                        or _joined(
                            f"{server_pods_service(server)}.", _joined(namespace, f"{_IN_CLUSTER}:{status_port}")
                        ),
                        endpoint=endpoint,
                        bucket=bucket,
                    ),
                ),
            },
        },
    }


def deadline_seconds(measurement: Measurement) -> int:
    """Longest duration of the Job: C4 nodes, the servers' start, the dataset, every run."""
    return (measurement.provisioning_minutes + measurement.startup_minutes + measurement.longest_minutes) * 60


def _metadata(name: str, namespace: Text, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": names.labels(labels, names.BENCHMARK_APP)}


GRACE_SECONDS: Final = 120
"""From the stop signal to the end: clients stop (5 s), the collector closes its file (15 s), and results are
stored. Assumed: a run's files are a few hundred MB at most."""


def _pod_spec(
    measurement: Measurement, *, config_map: str, image: Text, key: SecretStore | None, options: list[Text]
) -> dict[str, Any]:
    """One pod on a C4 node; init containers fetch tokenizer and dataset."""
    token = measurement.hf_token
    volumes: list[dict[str, Any]] = [
        {"name": "scripts", "configMap": {"name": config_map, "items": _files()}},
        {"name": "work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if token is not None:
        volumes.append(sent(hf_token.token_volume(token)))
    if key is not None:
        volumes.append(sent(api_key.volume(key)))
    return {
        "serviceAccountName": names.BENCHMARK_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": c4_nodes.node_selector(),
        "tolerations": [sent(c4_nodes.toleration())],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": _fetching(measurement, image),
        "containers": [
            _container(
                measurement,
                image,
                name="clients",
                command=_client_command(has_key=key is not None),
                args=options,
                env=_identity(),
                mounts=[] if key is None else [sent(api_key.mount())],
            )
        ],
        "volumes": volumes,
    }


def _files() -> list[dict[str, str]]:
    """Paths of the ConfigMap's keys: the package that Python imports, and run.json."""
    programs = [{"key": name, "path": f"{pod_programs.PACKAGE}/{name}"} for name in pod_programs.benchmark_programs()]
    return [*programs, {"key": "run.json", "path": _RUN.removeprefix(f"{_ROOT}/")}]


def _fetching(measurement: Measurement, image: Text) -> list[dict[str, Any]]:
    model, dataset = measurement.model, measurement.dataset
    needs_token = measurement.hf_token is not None
    containers = [
        _container(
            measurement,
            image,
            name="tokenizer",
            command=["python3", "-m", "pod_scripts.fetch_tokenizer", model.id, model.revision, _TOKENIZER],
            env=[{"name": "HF_TOKEN_PATH", "value": names.HF_TOKEN_PATH}] if needs_token else [],
            mounts=[sent(hf_token.token_mount())] if needs_token else [],
        )
    ]
    if dataset is not None:
        command = [
            "python3",
            "-m",
            "pod_scripts.fetch_dataset",
            dataset.url,
            dataset.sha256,
            _dataset_file(measurement),
        ]
        containers.append(_container(measurement, image, name="dataset", command=command, env=[], mounts=[]))
    return containers


def _dataset_file(measurement: Measurement) -> str:
    return f"{_WORK}/dataset.jsonl" if measurement.run["workload"]["kind"] == "trace" else f"{_WORK}/dataset.json"


def _client_command(*, has_key: bool) -> list[str]:
    plain = ["python3", "-m", "pod_scripts.launch_clients"]
    return api_key.command_with_key("OPENAI_API_KEY", plain) if has_key else plain


_IN_CLUSTER: Final = ".svc.cluster.local"


def _client_options(measurement: Measurement, *, server_pods: Text, endpoint: Text, bucket: Text) -> list[Text]:
    options: list[Text] = [
        f"--run={_RUN}",
        _joined("--endpoint=", endpoint),
        _joined("--bucket=", bucket),
        f"--tokenizer={_TOKENIZER}",
        _joined("--server-pods=", server_pods),
        f"--wait-minutes={measurement.provisioning_minutes + measurement.startup_minutes}",
        f"--ready-minutes={measurement.ready_minutes}",
        f"--run-minutes={measurement.run_minutes}",
        f"--results={_WORK}/results",
    ]
    if measurement.dataset is not None:
        options.append(f"--dataset={_dataset_file(measurement)}")
    return options


def _joined(first: Text, second: Text) -> Text:
    """Two texts as one: text if both are plain, else an Output."""
    if isinstance(first, str) and isinstance(second, str):
        return first + second
    import pulumi

    return pulumi.Output.concat(first, second)


def _identity() -> list[dict[str, Any]]:
    """Environment that names the run: two runs of one Job name must not share objects in the bucket."""
    return [
        {
            "name": "JOB_NAME",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}},
        },
        {
            "name": "JOB_UID",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}},
        },
        {"name": "HF_HUB_OFFLINE", "value": "1"},  # the tokenizer is in the pod
    ]


def _container(
    measurement: Measurement,
    image: Text,
    *,
    name: str,
    command: list[str],
    env: list[dict[str, Any]],
    mounts: list[dict[str, Any]],
    args: list[Text] | None = None,
) -> dict[str, Any]:
    cpu, _ = BENCHMARK_MACHINES[measurement.machine_type]
    amounts = {
        "cpu": str(cpu - SYSTEM_CPU),
        "memory": f"{pod_memory_gib(measurement.machine_type)}Gi",
        "ephemeral-storage": f"{BENCHMARK_CLIENT_DISK_GIB}Gi",
    }
    return {
        "name": name,
        "image": image,
        "command": command,
        "args": args or [],
        "env": [
            *vllm_args.writable_environment(f"{_WORK}/cache"),
            {"name": "PYTHONPATH", "value": _ROOT},
            # uv installs vLLM's image without bytecode, and the folder of the sources is read-only.
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
