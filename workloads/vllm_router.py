"""The command line of vllm-router 0.1.17, which asks prefill and then decode in a server pod. Creates no resource.

It checks no client's key, has paths that change its servers, and its errors contain addresses: HAProxy stands in front of it, as the only
one that network policies let in. It drops a client's Authorization; `--api-key` is neither checked nor sent.
Measured: the wheel 0.1.17 before servers that answer vLLM's protocol, 2026-11-27.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workloads import names

HEALTH_PATH: Final = "/readiness"
"""200 while a healthy server of each kind is known, else 503; /health is 503 as soon as one is not."""
LIVE_PATH: Final = "/liveness"
KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""Environment variable with the key that it sends to prefill and decode."""
WHOLE_REQUEST_SECONDS: Final = 86_400
"""Its timeout covers a whole request; HAProxy ends the silent ones."""
HEALTH_SECONDS: Final = 2
"""Between two looks at each server later. Measured with 0.1.17's default of two successes and 10 s: ready 17 s after its servers, and ready
for 28 s after the death of one; three failures in a row take a server out.
"""
CONNECT_SECONDS: Final = 5
"""Between two looks whether every server answers, at the start: it listens only then."""
_APART: Final = (
    "--vllm-pd-disaggregation",
    "--kv-connector=nixl",
    # Measured: of 60 streams on two decode servers 30 and 30; with power_of_two, which does not see them end, 19 and 41. `cache_aware`,
    # its default, asks for the tokens of every prompt.
    "--policy=round_robin",
)


def pod_command(prefill: Sequence[int], decode: Sequence[int], *, startup_seconds: int) -> list[str]:
    """The program and its options in a server pod with these ports of prefill and of decode. At its stop signal it closes its port,
    and ends with its last stream.
    """
    return [
        "vllm-router",
        "--host=0.0.0.0",
        f"--port={names.HTTP_PORT}",
        "--prometheus-host=127.0.0.1",
        f"--prometheus-port={names.POD_ROUTER_METRICS_PORT}",
        *_APART,
        *(word for port in prefill for word in ("--prefill", f"http://127.0.0.1:{port}")),
        *(word for port in decode for word in ("--decode", f"http://127.0.0.1:{port}")),
        "--disable-retries",
        f"--health-check-interval-secs={HEALTH_SECONDS}",
        # Slow on a busy server, as for the pod's probes.
        "--health-check-timeout-secs=10",
        "--health-success-threshold=1",
        f"--request-timeout-secs={WHOLE_REQUEST_SECONDS}",
        f"--worker-startup-timeout-secs={startup_seconds}",
        f"--worker-startup-check-interval={CONNECT_SECONDS}",
        "--log-level=warning",
    ]
