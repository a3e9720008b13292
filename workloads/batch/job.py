"""The Job of a batch as plain data: ConfigMap and pods. No resource is created here.

`fleet batch run` applies it. Where namespace, endpoint, bucket and image are plain text, everything returned is plain text too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from facts.names import BATCH_CLIENT_MIB, BATCH_CLIENT_VCPUS
from workloads import names, pod_programs
from workloads.batch.pods.process_shard import TERMINATED, TIME_OVER, WRONG_SETUP
from workloads.manifest import sent
from workloads.python_image import IMAGE, NONROOT
from workloads.server import api_key

if TYPE_CHECKING:
    from settings.derived.batch_pods import BatchPods
    from settings.sections.secret_stores import SecretStore

CLIENT_IMAGE: Final = IMAGE
"""Python's own image, before the registry's prefix."""
PROGRAM: Final = "workloads.batch.pods.process_shard"
"""The pods' module."""
BATCH_LABEL: Final = "vllm-fleet/batch"
"""Label of Job, ConfigMap and pods with the batch's id."""
GRACE_SECONDS: Final = 120
"""From the stop signal to the end: requests in flight may end (60 s), then the checkpoint is written."""
RETRIES: Final = 5
"""Of a shard whose pod failed, after 10, 20, 40, 80 and 160 s; a disruption counts for the pause alone. Source: Kubernetes, Job, pod
backoff failure policy."""
OVER_SECONDS: Final = 180
"""After the batch's time is over, until Kubernetes ends a Job whose pods do not: they drain for 60 s, then store."""
_USAGE_ERROR: Final = 2
"""Exit code of a wrong command line. Source: Python, argparse."""
_FAILURES: Final = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"
"""Failures of the pod's index so far. Source: Kubernetes, Job, backoffLimitPerIndex."""
_ROOT: Final = "/opt/vllm-fleet"


def job_name(batch: str) -> str:
    """Name of the Job for a batch's id."""
    return f"batch-{batch}"


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in order as "0-3,7", the form of a Job's `completedIndexes`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def config_map_manifest(*, name: str, batch: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap with the pods' programs."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(name, batch, namespace, labels),
        "immutable": True,
        "data": {_key(path): code for path, code in pod_programs.package_of(PROGRAM).items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the pods of a Job process."""

    batch: str
    """Id."""
    shards: Sequence[int]
    """Numbers of the shards without a part: index i of the Job is the i-th of them."""
    last: int
    """Number of the last shard, which has the documents that failed twice: the number of the others."""
    url: str
    """Path of the API, e.g. "/v1/chat/completions"."""
    request_seconds: float
    """Longest time of one request."""
    until: float
    """Epoch seconds when the batch's time is over. Pods end then, also of a Job that was suspended, whose own time begins anew."""


def job_manifest(
    work: Work,
    *,
    servers: int,
    pods: BatchPods,
    now: float,
    namespace: str,
    key_store: SecretStore | None,
    endpoint: str,
    bucket: str,
    image: str,
    config_map: str,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """The Job of a batch, named by it: the API server refuses a second one.

    `servers`: what KEDA scales the servers to, where the stack's scaling mode is `batch`; `now`: epoch seconds; `key_store`: where the
    servers' API key is; `endpoint`: URL that pods call, without a path; `image`: `CLIENT_IMAGE` with its registry.
    """
    programmed = {"containerName": names.BATCH_APP, "operator": "In"}
    options = {
        "bucket": bucket,
        "batch": work.batch,
        "endpoint": endpoint,
        "url": work.url,
        "shards": ranges(work.shards),
        "last": work.last,
        "in-flight": pods.in_flight,
        "request-seconds": f"{work.request_seconds:.0f}",
        "retries": RETRIES,
        "until": f"{work.until:.0f}",
        # Kubernetes replaces it: the Job controller sets the variable in each container.
        "index": "$(JOB_COMPLETION_INDEX)",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(job_name(work.batch), work.batch, namespace, labels),
        "spec": {
            "completionMode": "Indexed",
            "completions": len(work.shards),
            "parallelism": min(len(work.shards), servers * pods.per_server),
            "backoffLimitPerIndex": RETRIES,
            # The last shard would wait for the failed one's part, and its server with it.
            "maxFailedIndexes": 0,
            "activeDeadlineSeconds": max(1, ceil(work.until - now)) + OVER_SECONDS,
            # A new pod only where the old one is gone: two would count twice for KEDA.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {"action": "Ignore", "onExitCodes": {**programmed, "values": [TERMINATED]}},
                    {
                        "action": "FailJob",
                        "onExitCodes": {**programmed, "values": [_USAGE_ERROR, WRONG_SETUP, TIME_OVER]},
                    },
                ]
            },
            "template": {
                "metadata": {"labels": _labels(labels, work.batch)},
                "spec": _pod_spec(
                    config_map=config_map,
                    image=image,
                    key=key_store,
                    options=[f"--{name}={value}" for name, value in options.items()],
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
    amounts = {
        "cpu": f"{1000 * BATCH_CLIENT_VCPUS:.0f}m",
        "memory": f"{BATCH_CLIENT_MIB}Mi",
        "ephemeral-storage": "128Mi",
    }
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
                    {"name": "INDEX_FAILURES", "valueFrom": {"fieldRef": {"fieldPath": _FAILURES}}},
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
