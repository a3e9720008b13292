"""Names and ports shared by a stack's Google Cloud and Kubernetes resources, and names of its files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

SCHEMA_FILE = "settings/stack.schema.json"
"""Path of the committed copy of the stack files' schema, which the first line of each stack file refers to."""
ESC_OFFLINE: Final = ".esc-offline"
"""`Pulumi.<stack>.esc-offline.yaml` replaces the stack's Pulumi ESC environments offline."""

APP_LABEL: Final = "app"
"""Label of a pod's workload; the article's key (`app: qwen35-server`)."""
CREDENTIALS_PLUGIN: Final = "gke-gcloud-auth-plugin"
"""Credential plugin of every kubeconfig: it uses the credentials of the user who runs it."""

# Values of `app`, in addition to the server's name.
WRITER_APP: Final = "weights-writer"
BENCHMARK_APP: Final = "vllm-benchmark"
BATCH_APP: Final = "batch"
"""Pods of a batch; also the name of their service account and container. KEDA counts the pods with this label."""
SPENDING_APP: Final = "spending-guard"
"""Also the name of the guard's objects."""
ROUTER_APP: Final = "router"
ROUTER_FRONTEND: Final = "requests"
ROUTER_BACKEND: Final = "servers"
"""Labels `proxy` of a router's series: of the clients' side and of the servers'."""
"""Also the name of the router's Deployment, Service and service account."""
_PICKER_ENDING: Final = "-epp"
"""Suffix of the names of endpoint pickers. Source: chart inferencepool v1.4.0, templates/_helpers.tpl."""

SPENDING_GUARD_VCPUS: Final = 0.05
"""CPU request of the guard's pod: Autopilot's minimum in clusters with bursting; other clusters raise it to 0.25. Source: GKE docs,
resource requests in Autopilot."""

BATCH_CLIENT_VCPUS: Final = 0.25
BATCH_CLIENT_MIB: Final = 512
"""Requests of one pod of a batch. Assumed: it asks a few documents a second, of which each takes it two to three milliseconds, and holds
documents and answers of one shard, some 8 MB of each.
"""

# Kubernetes service accounts, in the stack's namespace; Google Cloud roles are granted to these names.
WRITER_ACCOUNT: Final = "weights-writer"
SERVER_ACCOUNT: Final = "vllm-server"
BENCHMARK_ACCOUNT: Final = "benchmark"
BATCH_ACCOUNT: Final = BATCH_APP
BATCH_MAX_USD: Final = "vllm-fleet.dev/batch-max-usd"
"""Annotation of an autoscaler that counts a batch's pods: the stack's own `batch.maxUsd`, for who reviews what is rented."""

KEDA_VERSION: Final = "2.20.2"
"""Version of KEDA and of its chart; this program's values and objects were checked with it."""
KEDA_NAMESPACE: Final = "keda"
PAUSED_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"
"""Annotation of a ScaledObject that freezes the replicas. Source: keda 2.20.2, scaledobject_types.go."""
KEDA_VCPUS: Final = 0.75
"""Of its three pods in total; see workloads/keda/values.py."""
KEDA_ACCOUNT: Final = "keda-operator"
"""Account of KEDA's operator for queries to Cloud Monitoring. Source: chart keda 2.20.2, values.yaml, serviceAccount.operator.name."""

HTTP_PORT: Final = 8000
"""vLLM's API and metrics. Source: the article, Service `qwen35-server:8000`."""
STATUS_PORT: Final = 9256
"""With a port per rank: health and metrics of all ranks of a pod. Source: vLLM 0.33.0's own supervisor, --data-parallel-supervisor-port."""
FIRST_ENGINE_PORT: Final = 8001
"""With prefill apart from decode: port of a pod's first server on its loopback address; each further one has the next. 8000 is the
router's."""
POD_ROUTER_METRICS_PORT: Final = 29000
"""With prefill apart from decode: port of the metrics of a pod's router on its loopback address. vllm-router's default."""
ROUTER_METRICS_PORT: Final = 8404
"""Port of a router's metrics and readiness. Source: HAProxy's documentation of its Prometheus exporter."""
ROUTER_ADMIN_PORT: Final = 9001
"""Port of HAProxy's commands on a router's loopback address."""
EPP_EXT_PROC_PORT: Final = 9002
"""Port of the endpoint picker for the load balancer. Source: inferencepool chart v1.4.0, extProcPort."""


ARTICLE_CLUSTER: Final = "vllm-inference-cluster"
"""The article's cluster. The default adds the stack's name, because the name must be unique in a project and region."""
ARTICLE_SERVER: Final = "qwen35-server"
"""The article's Deployment and Service, `qwen35-server:8000`."""
_SERVER_ENDING: Final = "-server"
CANARY_ENDING: Final = "-canary"
"""Suffix of the servers' name for the canary's Deployment, Service and label `app`."""
MAX_SERVER_NAME: Final = 40
"""Characters of a server's name, canary included. The load balancer's Service and the picker add endings."""
MAX_POOL_NAME: Final = 40
"""Characters of a pool's name in its picker's. Source: chart inferencepool v1.4.0, templates/_helpers.tpl."""
MAX_CLUSTER_NAME: Final = 40
"""Source: GKE API v1, Cluster.name."""
MAX_NAMESPACE: Final = 40
"""Maximum length of the default. Kubernetes allows 63, but names of classes contain it, and a ComputeClass's name is a label's value."""


STACK_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""Source: pulumi, sdk/go/common/tokens/names.go (ParseStackName). Not with a dash or a dot first, which a shell or an option parser could
misread: hints print names in commands."""
STACK_NAMES: Final = "1 to 100 letters, digits, dashes, underscores and dots, not starting with a dash or a dot"


def stack_labels(stack: str) -> dict[str, str]:
    """Labels of every Kubernetes object of a stack. Source: Kubernetes, recommended labels."""
    return {
        "app.kubernetes.io/part-of": "vllm-fleet",
        "app.kubernetes.io/instance": label_value(stack),
        "app.kubernetes.io/managed-by": "pulumi",
    }


def cluster_name(stack: str) -> str:
    """Default name of a stack's cluster."""
    return fitted(stack, before=ARTICLE_CLUSTER, limit=MAX_CLUSTER_NAME)


def stack_namespace(stack: str) -> str:
    """Default Kubernetes namespace of a stack. Two stacks of a project must not share a namespace, not even in different clusters:
    Workload Identity identifies a pod by project, namespace and service account, so they would share permissions.
    """
    return fitted(stack, before="vllm", limit=MAX_NAMESPACE)


def spending_namespace(namespace: str) -> str:
    """Namespace of the spending guard of the fleet in `namespace`: users of that one must not be able to change or stop it."""
    return fitted(namespace, after="spending", limit=63)


def fitted(text: str, *, before: str = "", after: str = "", limit: int) -> str:
    """`before-text-after` in lowercase letters, digits and dashes, starting with a letter, with a hash if it had to be changed or cut."""
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    if not before and not plain[:1].isalpha():
        plain = f"s-{plain}".rstrip("-")
    digest = ""
    if plain != text or len("-".join(filter(None, (before, plain, after)))) > limit:
        # "Dev" and "dev", or two names with the same beginning, must stay different.
        digest = hashlib.sha256(text.encode()).hexdigest()[:6]
        room = limit - len("-".join(filter(None, (before, digest, after)))) - 1
        plain = plain[:room].rstrip("-")
    return "-".join(filter(None, (before, plain, digest, after)))


def server_name(model: str) -> str:
    """Default name of the servers of a Hugging Face repository: the article's for Qwen's Qwen3.5, else the repository's name and -server.

    `meta-llama/Llama-3.1-8B-Instruct` becomes `llama-31-8b-instruct-server`. A long name is cut, so that the canary's name fits.
    """
    if re.fullmatch(r"(Qwen|nvidia)/Qwen3\.5-[A-Za-z0-9.-]+", model):
        return ARTICLE_SERVER
    plain = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower().replace(".", "")).strip("-")
    if not plain[:1].isalpha():
        plain = f"m-{plain}".rstrip("-")
    return plain[: MAX_SERVER_NAME - len(f"{_SERVER_ENDING}{CANARY_ENDING}")].rstrip("-") + _SERVER_ENDING


def own_server_name(name: str) -> str:
    """A server's name. Raises ValueError for the name of another workload: Services and network policies select by name, so the server
    would get that workload's traffic and permissions.
    """
    others = (WRITER_APP, BENCHMARK_APP, BATCH_APP, SPENDING_APP, ROUTER_APP)
    if name in others or name.endswith(_PICKER_ENDING):
        raise ValueError(
            f"a name other than {', '.join(others)} and names ending in {_PICKER_ENDING}, which other workloads use"
        )
    return name


def epp_name(pool: str) -> str:
    """Name of the endpoint picker's objects. Source: chart inferencepool v1.4.0, templates/_helpers.tpl."""
    return f"{pool[:MAX_POOL_NAME]}{_PICKER_ENDING}"


def label_value(text: str) -> str:
    """`text` as a label's value: invalid characters replaced by dashes, up to 63 characters."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:63].strip("._-")


def stack_names(root: Path) -> tuple[str, ...]:
    """Sorted names of the stacks with a file in `root`. Reads file names only."""
    names = (path.name[len("Pulumi.") : -len(".yaml")] for path in root.glob("Pulumi.?*.yaml"))
    return tuple(sorted(name for name in names if not name.endswith(ESC_OFFLINE)))
