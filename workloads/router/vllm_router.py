"""The command line of vllm-router 0.1.17, which chooses the server that saw a prompt's beginning. Creates no resource.

It listens on the pod's loopback address only, behind HAProxy: it checks no client's key, and its errors contain addresses.
Source: the wheel vllm-router 0.1.17, router_args.py, and tries of it with vLLM's protocol.
"""

from __future__ import annotations

from typing import Final

from workloads import names

PORT: Final = 8100
METRICS_PORT: Final = 8101
KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""Variable with the key that it sends to the servers, in place of a client's. Its option --api-key is neither checked nor sent."""
HEALTH_PATH: Final = "/readiness"
"""200 while a healthy server is known, else 503."""
WHOLE_REQUEST_SECONDS: Final = 86_400
"""Its timeout covers a whole request; HAProxy ends the silent ones."""


def command(server: str, namespace: str, *, max_in_flight: int) -> list[str]:
    """The program and its options, for the pods of `server` in `namespace`."""
    return [
        "vllm-router",
        "--host=127.0.0.1",
        f"--port={PORT}",
        "--prometheus-host=127.0.0.1",
        f"--prometheus-port={METRICS_PORT}",
        "--policy=cache_aware",
        "--service-discovery",
        "--selector",
        *(f"{key}={value}" for key, value in names.selector(server).items()),
        f"--service-discovery-port={names.HTTP_PORT}",
        f"--service-discovery-namespace={namespace}",
        # A generation is never repeated.
        "--disable-retries",
        # Its default finds a dead server after three minutes.
        "--health-check-interval-secs=10",
        f"--request-timeout-secs={WHOLE_REQUEST_SECONDS}",
        # HAProxy bounds the requests; no second queue behind it.
        f"--max-concurrent-requests={max_in_flight}",
        "--queue-size=0",
        "--log-level=warning",
    ]
