"""Names and ports that Google Cloud's side and Kubernetes' side of a stack must agree on, and those of its files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

ESC_OFFLINE: Final = ".esc-offline"
"""`Pulumi.<stack>.esc-offline.yaml` stands in, offline, for the Pulumi ESC environments of that stack."""

APP_LABEL: Final = "app"
"""The label that says which workload a pod is; the article's own key (`app: qwen35-server`)."""

# Values of `app` besides the server's, which is its name.
CREDENTIALS_PLUGIN: Final = "gke-gcloud-auth-plugin"
"""What every kubeconfig here names in place of credentials: it brings those of whoever runs it."""
WRITER_APP: Final = "weights-writer"
BENCHMARK_APP: Final = "vllm-benchmark"
_PICKER_ENDING: Final = "-epp"
"""End of the name of every endpoint picker. Source: chart inferencepool v1.4.0, templates/_helpers.tpl."""

# Kubernetes service accounts, in the stack's namespace; Google Cloud roles are granted to these names.
WRITER_ACCOUNT: Final = "weights-writer"
SERVER_ACCOUNT: Final = "vllm-server"
BENCHMARK_ACCOUNT: Final = "benchmark"

KEDA_VERSION: Final = "2.20.2"
"""Of KEDA's chart and of KEDA: what this program's values and objects were read against."""
KEDA_NAMESPACE: Final = "keda"
KEDA_VCPUS: Final = 0.75
"""Of its three pods together; see workloads/keda/values.py."""
KEDA_ACCOUNT: Final = "keda-operator"
"""KEDA's operator asks Cloud Monitoring as this account. Source: chart keda 2.20.2, values.yaml, serviceAccount.operator.name."""

HTTP_PORT: Final = 8000
"""vLLM's API and metrics. Source: the article, Service `qwen35-server:8000`."""
EPP_EXT_PROC_PORT: Final = 9002
"""Where the endpoint picker answers the load balancer. Source: inferencepool chart v1.4.0, extProcPort."""


ARTICLE_CLUSTER: Final = "vllm-inference-cluster"
"""The article's cluster; a stack's own has the stack's name behind it, because GKE has each name once in a project and region."""
MAX_CLUSTER_NAME: Final = 40
"""Source: GKE API v1, Cluster.name."""
MAX_NAMESPACE: Final = 40
"""Longest default. Kubernetes allows 63; names of classes are made of it, and a ComputeClass's is a label's value on its nodes."""


def cluster_name(stack: str) -> str:
    """Name of the cluster of a stack that gives it none."""
    return fitted(stack, before=ARTICLE_CLUSTER, limit=MAX_CLUSTER_NAME)


def stack_namespace(stack: str) -> str:
    """Kubernetes namespace of a stack that names none. Two stacks of a project must not share one, on any clusters: Workload Identity
    knows a pod by project, namespace and service account, and grants to the one would be grants to the other.
    """
    return fitted(stack, before="vllm", limit=MAX_NAMESPACE)


def fitted(text: str, *, before: str = "", after: str = "", limit: int) -> str:
    """`before-text-after` in lower-case letters, digits and dashes, a letter first, with a hash in place of what had to be changed
    or cut.
    """
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    if not before and not plain[:1].isalpha():
        plain = f"s-{plain}".rstrip("-")
    digest = ""
    if plain != text or len("-".join(filter(None, (before, plain, after)))) > limit:
        # "Dev" and "dev", or two names that differ only after the cut, must not meet.
        digest = hashlib.sha256(text.encode()).hexdigest()[:6]
        room = limit - len("-".join(filter(None, (before, digest, after)))) - 1
        plain = plain[:room].rstrip("-")
    return "-".join(filter(None, (before, plain, digest, after)))


def own_server_name(name: str) -> str:
    """The name of a server, as given. Raises ValueError for one that the objects of another workload have: Services and network
    policies select by it, so the server would get that workload's traffic, and its way out.
    """
    if name in (WRITER_APP, BENCHMARK_APP) or name.endswith(_PICKER_ENDING):
        raise ValueError(
            f"a name of its own: {WRITER_APP}, {BENCHMARK_APP} and names ending in {_PICKER_ENDING} are other workloads'"
        )
    return name


def epp_name(pool: str) -> str:
    """Name of the endpoint picker's objects. Source: the same template."""
    return f"{pool[:40]}{_PICKER_ENDING}"


def label_value(text: str) -> str:
    """`text` as a label's value: what is not allowed becomes a dash, 63 characters at most."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:63].strip("._-")


def stack_names(root: Path) -> tuple[str, ...]:
    """Names of the stacks that have a file in `root`, sorted. Reads names only: shell completion uses it."""
    names = (path.name[len("Pulumi.") : -len(".yaml")] for path in root.glob("Pulumi.?*.yaml"))
    return tuple(sorted(name for name in names if not name.endswith(ESC_OFFLINE)))
