"""Scrapes as the toolbox reads them; the format itself is the client library's."""

from __future__ import annotations

import pytest

from fleet.clients.metrics_text import MetricsTextError, parse

EXAMPLE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3.5-27B"} 12.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3.5-27B"} 8.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0"} 1.5e+06
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3"} 1
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf"} 3
vllm:e2e_request_latency_seconds_sum{engine="0"} 4.5e1
process_max_fds 1.048576e+06
"""


def test_a_scrape_is_summed_by_name_and_labels() -> None:
    read = parse(EXAMPLE)
    assert read.total("vllm:num_requests_running") == 20
    assert read.total("vllm:num_requests_running", engine="1") == 8
    assert read.by("engine", "vllm:num_requests_running") == {"0": 12, "1": 8}
    assert read.total("vllm:prompt_tokens_total") == 1_500_000
    assert read.total("vllm:not_there") is None
    assert [series.labels["le"] for series in read.of("vllm:e2e_request_latency_seconds_bucket")] == ["0.3", "+Inf"]
    assert read.total("vllm:e2e_request_latency_seconds_sum") == 45


@pytest.mark.parametrize("text", ["a", "a one", 'a{b="c"', "a{b=c} 1", "<html>404 Not Found</html>", '{"error": 1}'])
def test_another_format_is_refused(text: str) -> None:
    with pytest.raises(MetricsTextError, match="Prometheus text format"):
        parse(f"good 1\n{text}\n")
