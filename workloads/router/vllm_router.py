"""The command line of vllm-router 0.1.17, which chooses the server that saw a prompt's beginning. Creates no resource.

It listens on the pod's loopback address only, behind HAProxy: it checks no client's key, has paths that change its servers, and its errors
contain addresses. It compares tokens, and asks every server for each prompt's, at /render below the request's path, else at
/tokenize: without an answer it routes by load alone.
A client's Authorization goes on to the servers; its `--api-key` is neither checked nor sent.
With prefill apart it asks a prefill server for each prompt's cache first, and drops the client's Authorization. Without a healthy server
of one kind it answers 500.
Measured: the wheel 0.1.17 before four servers that answer vLLM's protocol, 2026-11-27.
"""

from __future__ import annotations

from typing import Final

from workloads import names

PORT: Final = 8100
METRICS_PORT: Final = 8101
PROBE: Final = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{PORT}/health', timeout=5)"
"""Python that fails where it does not answer: the kubelet does not reach its address, and HAProxy only turns away from it."""
HEALTH_PATH: Final = "/readiness"
"""200 while a healthy server is known, with prefill apart one of each kind, else 503; /health is 503 as soon as one is not."""
WHOLE_REQUEST_SECONDS: Final = 86_400
"""Its timeout covers a whole request; HAProxy ends the silent ones."""


def command(server: str, namespace: str, *, max_in_flight: int, prefill: str | None = None) -> list[str]:
    """The program and its options, for the pods of `server` in `namespace`. `prefill`: the servers that read the prompts for them."""
    if prefill is None:
        chooses = ["--policy=cache_aware", "--selector", *_pods(server)]
    else:
        # By requests in flight: prompts and answers differ in length, and with drafts no prompt is cached.
        chooses = ["--policy=power_of_two", "--vllm-pd-disaggregation", "--kv-connector=nixl"]
        chooses += ["--prefill-selector", *_pods(prefill), "--decode-selector", *_pods(server)]
    return [
        "vllm-router",
        "--host=127.0.0.1",
        f"--port={PORT}",
        "--prometheus-host=127.0.0.1",
        f"--prometheus-port={METRICS_PORT}",
        *chooses,
        "--service-discovery",
        f"--service-discovery-port={names.HTTP_PORT}",
        f"--service-discovery-namespace={namespace}",
        # A generation is never repeated.
        "--disable-retries",
        # With its default a dead server is found after three minutes.
        "--health-check-interval-secs=10",
        f"--request-timeout-secs={WHOLE_REQUEST_SECONDS}",
        # HAProxy bounds the requests; no second queue behind it.
        f"--max-concurrent-requests={max_in_flight}",
        "--queue-size=0",
        "--log-level=warning",
    ]


def _pods(server: str) -> list[str]:
    return [f"{key}={value}" for key, value in names.selector(server).items()]
