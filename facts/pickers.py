"""The endpoint pickers that this program knows: their images, and the series that they report.

The Gateway API Inference Extension ended its picker with v1.5; llm-d develops it further, under another name and version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

PickerRelease = Literal["inference-extension-v1.4.0", "llm-d-router-v0.10.0"]
ARTICLES: Final[PickerRelease] = "inference-extension-v1.4.0"
"""The article's, installed by the chart inferencepool."""
LLM_D: Final[PickerRelease] = "llm-d-router-v0.10.0"
"""The one of llm-d v0.9.0, installed by this program's own objects."""
LLM_D_IMAGE: Final = (
    "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
    "@sha256:2e516fa1310da7be59b82beb1445362139597d6d553ef04d546716abe3aaaa70"
)
"""Source: llm-d-router v0.10.0, config/charts/routerlib/values.yaml and Dockerfile.epp; the digest as three public repositories pin it."""
LLM_D_POOL_ENDING: Final = "-llm-d"
"""Ends the name of a pool with llm-d's picker: a change of the release makes a second pool beside the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerSeries:
    """Names of a picker's series in Prometheus."""

    ready: str
    """Gauge: servers, with rank ports ranks, that it may choose. Label `name`: the pool."""
    queue: str
    """Gauge: requests that wait in a server, on average. Label `name`: the pool."""
    requests: str
    """Counter: requests."""
    errors: str
    """Counter: requests that failed. Label `error_code`."""
    clients_errors: str
    """Regular expression of the values of `error_code` that are a client's."""

    @property
    def every(self) -> tuple[str, ...]:
        """Their names."""
        return self.ready, self.queue, self.requests, self.errors


SERIES: Final[dict[PickerRelease, PickerSeries]] = {
    # Source: gateway-api-inference-extension v1.4.0, pkg/epp/metrics/metrics.go; pkg/epp/util/error.
    ARTICLES: PickerSeries(
        ready="inference_pool_ready_pods",
        queue="inference_pool_average_queue_size",
        requests="inference_objective_request_total",
        errors="inference_objective_request_error_total",
        clients_errors="BadRequest",
    ),
    # Source: llm-d-router v0.10.0, pkg/epp/metrics/llm_d_router_metrics.go; pkg/common/error. It still reports the older names, deprecated.
    LLM_D: PickerSeries(
        ready="llm_d_epp_ready_endpoints",
        queue="llm_d_epp_average_queue_size",
        requests="llm_d_epp_request_total",
        errors="llm_d_epp_request_error_total",
        clients_errors="BadRequest|Unauthorized|Forbidden|NotFound|PreconditionFailed",
    ),
}
