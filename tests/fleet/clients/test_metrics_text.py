"""The parser of the Prometheus text format, against what it must take and what it must refuse."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.clients.metrics_text import MetricsTextError, Series, parse

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
# A surrogate cannot be written to a text at all.
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SERIES = st.builds(Series, NAMES, st.dictionaries(LABEL_NAMES, VALUES, max_size=4), st.floats())


def text_of(series: list[Series]) -> str:
    """As the format's description writes it."""

    def labels(one: Series) -> str:
        escaped = {
            name: value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
            for name, value in one.labels.items()
        }
        return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}" if escaped else ""

    def number(value: float) -> str:
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf" if math.isinf(value) else repr(value)

    return "".join(f"{one.name}{labels(one)} {number(one.value)}\n" for one in series)


@settings(max_examples=40)
@given(st.lists(SERIES, max_size=6))
def test_what_is_written_is_read_back(series: list[Series]) -> None:
    read = parse(text_of(series)).series
    assert [(one.name, one.labels) for one in read] == [(one.name, one.labels) for one in series]
    for ours, theirs in zip(series, read, strict=True):
        assert ours.value == theirs.value or (math.isnan(ours.value) and math.isnan(theirs.value))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        parse(text)
    except MetricsTextError as error:
        assert str(error).startswith("line ")


EXAMPLE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3.5-27B"} 12.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3.5-27B"} 8.0
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",} 1 1712000000000
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf"} 3
vllm:e2e_request_latency_seconds_sum { engine = "0" } 4.5e1

odd{path="C:\\\\dir\\n\\"x\\"",brace="}{,="} NaN
process_max_fds 1.048576e+06
"""


def test_a_scrape_is_read() -> None:
    read = parse(EXAMPLE)
    assert read.total("vllm:num_requests_running") == 20
    assert read.total("vllm:num_requests_running", engine="1") == 8
    assert read.by("engine", "vllm:num_requests_running") == {"0": 12, "1": 8}
    assert read.total("vllm:not_there") is None
    assert read.types == {"vllm:num_requests_running": "gauge", "vllm:e2e_request_latency_seconds": "histogram"}
    assert [one.labels["le"] for one in read.of("vllm:e2e_request_latency_seconds_bucket")] == ["0.3", "+Inf"]
    assert read.total("vllm:e2e_request_latency_seconds_sum") == 45
    (odd,) = read.of("odd")
    assert odd.labels == {"path": 'C:\\dir\n"x"', "brace": "}{,="}
    assert math.isnan(odd.value)


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a one",
        "a 1_000",
        "a 1 2 3",
        "a 1 soon",
        '{b="c"} 1',
        'a{b="c" 1',
        'a{b="c"',
        "a{b=c} 1",
        'a{b="c"d="e"} 1',
        'a{b="c",b="d"} 1',
        "<html>",
    ],
)
def test_what_is_not_the_format_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(MetricsTextError, match="line 2"):
        parse(f"good 1\n{line}\n")
