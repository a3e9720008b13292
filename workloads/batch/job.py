"""The Job of a batch as plain data: ConfigMap and client pods. No resource is created here.

`fleet batch run` applies it. Where namespace, endpoint, bucket and image are plain text, everything returned is plain text too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from facts.names import BATCH_CLIENT_GIB, BATCH_CLIENT_VCPUS
from settings.sections.batch import MOST_DAYS
from workloads import names, pod_programs
from workloads.manifest import sent
from workloads.server import api_key
from workloads.small_pod import IMAGE, NONROOT

if TYPE_CHECKING:
    from settings.sections.secret_stores import SecretStore

CLIENT_IMAGE: Final = IMAGE
"""Python's own image, before the registry's prefix."""
PROGRAM: Final = "workloads.batch.pods.process_batch"
"""The client's module."""
BATCH_LABEL: Final = "vllm-fleet/batch"
"""Label of Job, ConfigMap and pods with the batch's id."""
GRACE_SECONDS: Final = 120
"""From the stop signal to the end: requests in flight may end (60 s), then parts are written and leases given back."""
CRASHES_PER_POD: Final = 20
"""Crashes after which the Job fails, so that a program that cannot work does not keep servers rented; the next run goes on where it was.
Disruptions do not count. With Kubernetes' delays, which double from 10 s to 10 min, twenty crashes in a row take about 2.5 hours."""
TERMINATED: Final = 143
"""Exit status of a client that ended on a stop signal, as by `kubectl delete pod`."""
USAGE_ERROR: Final = 2
"""Exit status of a wrong command line, which no other try makes right. Source: Python, argparse."""
_ROOT: Final = "/opt/vllm-fleet"


def job_name(batch: str) -> str:
    """Name of the Job, and of its ConfigMap, for a batch's id."""
    return f"batch-{batch}"


def server_pods_service(server: str) -> str:
    """Name of the headless Service, which resolves to every server."""
    return f"{server}-batch"


def server_pods(server: str, namespace: str, status_port: int) -> str:
    """HOST:PORT of all servers' metrics."""
    return f"{server_pods_service(server)}.{namespace}.svc.cluster.local:{status_port}"


def config_map_manifest(*, name: str, batch: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap with the pods' programs. `name` is the Job's."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(name, batch, namespace, labels),
        "immutable": True,
        "data": {_key(path): code for path, code in pod_programs.package_of(PROGRAM).items()},
    }


def job_manifest(
    *,
    name: str,
    batch: str,
    servers: int,
    namespace: str,
    server: str,
    key_store: SecretStore | None,
    endpoint: str,
    bucket: str,
    image: str,
    labels: Mapping[str, str],
    status_port: int = names.HTTP_PORT,
) -> dict[str, Any]:
    """The Job with one client pod for each server that the batch needs. Its ConfigMap has the same name.

    `servers`: also what KEDA scales the servers to, where the stack's scaling mode is `batch`; `server`: the servers' name; `key_store`:
    where their API key is; `endpoint`: URL that clients call, without a path; `image`: `CLIENT_IMAGE` with its registry;
    `status_port`: of a server's metrics. Disruptions never end it: another pod takes over what a lost one had leased.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, batch, namespace, labels),
        "spec": {
            "completionMode": "Indexed",
            "completions": servers,
            "parallelism": servers,
            "backoffLimit": CRASHES_PER_POD * servers,
            "activeDeadlineSeconds": MOST_DAYS * 86_400,
            # A new pod only where the old one is gone: two would count as two servers.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {
                        "action": "Ignore",
                        "onExitCodes": {"containerName": names.BATCH_APP, "operator": "In", "values": [TERMINATED]},
                    },
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": names.BATCH_APP, "operator": "In", "values": [USAGE_ERROR]},
                    },
                ]
            },
            "template": {
                "metadata": {"labels": _labels(labels, batch)},
                "spec": _pod_spec(
                    config_map=name,
                    image=image,
                    key=key_store,
                    options=[
                        f"--bucket={bucket}",
                        f"--batch={batch}",
                        f"--endpoint={endpoint}",
                        f"--server-pods={server_pods(server, namespace, status_port)}",
                        # Kubernetes replaces it: the Job controller sets the variable in each container.
                        "--index=$(JOB_COMPLETION_INDEX)",
                    ],
                ),
            },
        },
    }


def _metadata(name: str, batch: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": _labels(labels, batch)}


def _labels(common: Mapping[str, str], batch: str) -> dict[str, str]:
    return {**names.labels(common, names.BATCH_APP), BATCH_LABEL: batch}


def _key(path: str) -> str:
    """A ConfigMap's key, which has no slash."""
    return path.replace("/", ".")


def _pod_spec(*, config_map: str, image: str, key: SecretStore | None, options: list[str]) -> dict[str, Any]:
    items = [{"key": _key(path), "path": path} for path in pod_programs.package_of(PROGRAM)]
    volumes: list[dict[str, Any]] = [{"name": "programs", "configMap": {"name": config_map, "items": items}}]
    mounts: list[dict[str, Any]] = [{"name": "programs", "mountPath": _ROOT, "readOnly": True}]
    command = ["python3", "-B", "-m", PROGRAM]
    if key is not None:
        volumes.append(sent(api_key.volume(key)))
        mounts.append(sent(api_key.mount()))
        command = api_key.command_with_key("OPENAI_API_KEY", command)
    amounts = {"cpu": f"{BATCH_CLIENT_VCPUS}", "memory": f"{BATCH_CLIENT_GIB}Gi", "ephemeral-storage": "128Mi"}
    return {
        "serviceAccountName": names.BATCH_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NONROOT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": names.BATCH_APP,
                "image": image,
                "command": command,
                "args": options,
                "env": [
                    {"name": "PYTHONPATH", "value": _ROOT},
                    {"name": "PYTHONUNBUFFERED", "value": "1"},
                    # Holder of leases: names of pods are used again, uids are not.
                    {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                ],
                "resources": {"requests": amounts, "limits": dict(amounts)},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
