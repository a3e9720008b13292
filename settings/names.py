"""Names and ports that Google Cloud's side and Kubernetes' side of a stack must agree on."""

from __future__ import annotations

from typing import Final

# Kubernetes service accounts, in the stack's namespace; Google Cloud roles are granted to these names.
WRITER_ACCOUNT: Final = "weights-writer"
SERVER_ACCOUNT: Final = "vllm-server"
BENCHMARK_ACCOUNT: Final = "benchmark"

HTTP_PORT: Final = 8000
"""vLLM's API and metrics. Source: the article, Service `qwen35-server:8000`."""
EPP_EXT_PROC_PORT: Final = 9002
"""Where the endpoint picker answers the load balancer. Source: inferencepool chart v1.4.0, extProcPort."""
