"""Names, labels and ports shared by several workloads, such as selectors and the pods they select."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

# Shared with infra/; re-exported so that workloads import names from one module.
from facts.names import APP_LABEL as APP_LABEL
from facts.names import BATCH_ACCOUNT as BATCH_ACCOUNT
from facts.names import BATCH_APP as BATCH_APP
from facts.names import BENCHMARK_ACCOUNT as BENCHMARK_ACCOUNT
from facts.names import BENCHMARK_APP as BENCHMARK_APP
from facts.names import CANARY_ENDING as CANARY_ENDING
from facts.names import EPP_EXT_PROC_PORT as EPP_EXT_PROC_PORT
from facts.names import FIRST_ENGINE_PORT as FIRST_ENGINE_PORT
from facts.names import HTTP_PORT as HTTP_PORT
from facts.names import POD_ROUTER_METRICS_PORT as POD_ROUTER_METRICS_PORT
from facts.names import ROUTER_ADMIN_PORT as ROUTER_ADMIN_PORT
from facts.names import ROUTER_APP as ROUTER_APP
from facts.names import ROUTER_BACKEND as ROUTER_BACKEND
from facts.names import ROUTER_FRONTEND as ROUTER_FRONTEND
from facts.names import ROUTER_METRICS_PORT as ROUTER_METRICS_PORT
from facts.names import SERVER_ACCOUNT as SERVER_ACCOUNT
from facts.names import SPENDING_APP as SPENDING_APP
from facts.names import STATUS_PORT as STATUS_PORT
from facts.names import WRITER_ACCOUNT as WRITER_ACCOUNT
from facts.names import WRITER_APP as WRITER_APP
from facts.names import epp_name as epp_name
from facts.names import stack_labels as labels_of_stack

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.core.v1 import ServicePortArgsDict, ServiceSpecArgsDict

CLIENT_LABEL: Final = "vllm-fleet/client"
"""Label, value "true", on a pod of this namespace or on another namespace that may call the server."""
CLIENT_VALUE: Final = "true"

HTTP_PORT_NAME: Final = "http"
"""Name of the container port: only a scrape by name sets the `container` label."""
GATEWAY_PORT: Final = 80
"""Listener of the Gateway. With a host name it only redirects to the other."""
GATEWAY_TLS_PORT: Final = 443
ROUTER_METRICS_PORT_NAME: Final = "metrics"
POOL_GROUP: Final = "inference.networking.k8s.io"
"""API group of an InferencePool."""
EPP_HEALTH_PORT: Final = 9003
EPP_METRICS_PORT: Final = 9090
# Source: gateway-api-inference-extension v1.4.0 and llm-d-router v0.10.0, pkg/epp/server/options.go; the older chart fixes the health port.
EPP_METRICS_PORT_NAME: Final = "metrics"
"""Source: chart inferencepool v1.4.0, templates/epp-deployment.yaml."""

HF_TOKEN_SECRET: Final = "hf-token"  # noqa: S105 - the name of a Secret, not a secret
"""The article's Secret; also the SecretProviderClass if Secret Manager stores the token."""
HF_TOKEN_KEY: Final = "token"  # noqa: S105 - a key's name
HF_TOKEN_DIR: Final = "/var/run/secrets/hf-token"  # noqa: S105 - a folder
HF_TOKEN_PATH: Final = f"{HF_TOKEN_DIR}/{HF_TOKEN_KEY}"
"""Path of the token in a pod, from either store; `HF_TOKEN_PATH` for huggingface_hub."""


def stack_labels() -> dict[str, str]:
    """Labels of every object of the running stack."""
    import pulumi

    return labels_of_stack(pulumi.get_stack())


def own_labels(app: str) -> dict[str, str]:
    """Labels of an object of `app` in the running stack. For selectors use `selector`, which never changes."""
    return labels(stack_labels(), app)


def once_created(resource: pulumi.Resource, name: str) -> pulumi.Output[str]:
    """`name`, after `resource` was created; known already in a first preview.

    Outputs of Kubernetes objects, their names included, are unknown while the cluster does not exist, and policies cannot
    judge what refers to them. The URN is known.
    """
    return resource.urn.apply(lambda _: name)


def service_account(
    name: str, account: str, namespace: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """A service account without a Kubernetes API token; `name` is the Pulumi resource's.

    Workload Identity and the Secret Manager driver need no token in the pod: the node's metadata server and driver fetch their own.
    """
    import pulumi_kubernetes as k8s

    return k8s.core.v1.ServiceAccount(
        name,
        metadata={"name": account, "namespace": namespace, "labels": stack_labels()},
        automount_service_account_token=False,
        opts=opts,
    )


def labels(common: Mapping[str, str], app: str) -> dict[str, str]:
    """Labels of an object of `app`: those of its stack and its own."""
    return {**common, **selector(app)}


def selector(app: str) -> dict[str, str]:
    """Selector of `app`'s pods: one label, because a Deployment's selector is immutable."""
    return {APP_LABEL: app}


def http_service_port() -> ServicePortArgsDict:
    """The port of a Service over the servers."""
    return {
        "name": HTTP_PORT_NAME,
        "port": HTTP_PORT,
        "target_port": HTTP_PORT_NAME,
        "protocol": "TCP",
        "app_protocol": "http",
    }


def server_pods_spec(server: str) -> ServiceSpecArgsDict:
    """Spec of a headless Service, which resolves to every ready server."""
    return {
        "type": "ClusterIP",
        "cluster_ip": "None",
        "publish_not_ready_addresses": False,
        "selector": selector(server),
        "ports": [http_service_port()],
    }


def epp_selector(pool: str) -> dict[str, str]:
    """Label of the endpoint picker's pods, of every release. Source: chart inferencepool v1.4.0, selectorLabels."""
    return {"inferencepool": epp_name(pool)}
