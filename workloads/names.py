"""Names, labels and ports that several workloads share, so that a selector and the pods it selects cannot drift apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

# Shared with Google Cloud's side; handed on from here, so that a workload imports its names from one place.
from settings.names import APP_LABEL as APP_LABEL
from settings.names import BENCHMARK_ACCOUNT as BENCHMARK_ACCOUNT
from settings.names import BENCHMARK_APP as BENCHMARK_APP
from settings.names import EPP_EXT_PROC_PORT as EPP_EXT_PROC_PORT
from settings.names import HTTP_PORT as HTTP_PORT
from settings.names import SERVER_ACCOUNT as SERVER_ACCOUNT
from settings.names import SPENDING_APP as SPENDING_APP
from settings.names import WRITER_ACCOUNT as WRITER_ACCOUNT
from settings.names import WRITER_APP as WRITER_APP
from settings.names import epp_name as epp_name

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ServicePortArgsDict

CLIENT_LABEL: Final = "vllm-fleet/client"
"""On a pod of this namespace, or on another namespace: may call the server. Value "true"."""
CLIENT_VALUE: Final = "true"

HTTP_PORT_NAME: Final = "http"
"""Name of that container port: a scrape by name fills the `container` label, one by number does not."""
GATEWAY_PORT: Final = 80
"""Listener of the Gateway."""
EPP_HEALTH_PORT: Final = 9003
EPP_METRICS_PORT: Final = 9090
# Source: gateway-api-inference-extension v1.4.0, pkg/epp/server/options.go; the chart fixes the health port.
EPP_METRICS_PORT_NAME: Final = "metrics"
"""Source: chart inferencepool v1.4.0, templates/epp-deployment.yaml."""

HF_TOKEN_SECRET: Final = "hf-token"  # noqa: S105 - the name of a Secret, not a secret
"""The article's Secret; also the name of the SecretProviderClass where Secret Manager holds the token."""
HF_TOKEN_KEY: Final = "token"  # noqa: S105 - a key's name
HF_TOKEN_DIR: Final = "/var/run/secrets/hf-token"  # noqa: S105 - a folder
HF_TOKEN_PATH: Final = f"{HF_TOKEN_DIR}/{HF_TOKEN_KEY}"
"""Where a pod that needs the token finds it, whichever store it came from; `HF_TOKEN_PATH` for huggingface_hub."""


def labels(common: Mapping[str, str], app: str) -> dict[str, str]:
    """Labels of an object that belongs to `app`: the common ones and its own. Selectors use `selector`, which never changes."""
    return {**common, **selector(app)}


def selector(app: str) -> dict[str, str]:
    """What selects the pods of `app`: one label, because a Deployment's selector is immutable."""
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


def epp_selector(pool: str) -> dict[str, str]:
    """The one label of the endpoint picker's pods. Source: the chart's selectorLabels."""
    return {"inferencepool": epp_name(pool)}
