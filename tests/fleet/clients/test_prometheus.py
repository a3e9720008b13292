"""DCGM's series from managed Prometheus, over real HTTP: the servers' own, or why there are none."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials
from fleet.clients.prometheus import GAUGES, ManagedPrometheus, Servers
from tests.fleet.clients.fake_google import HASTY, FakeGoogle
from tests.support.rows import each_row

POWER, NOW = GAUGES[0], time.time()
SERVERS = Servers(
    namespace="vllm", deployment="qwen35-server", pods=frozenset({"server-a"}), nodes=frozenset({"node-a"})
)


def one(metric: str, until: float, **labels: str) -> dict[str, Any]:
    samples = [[at, "700.5"] for at in (until - 30, until - 15, until)]
    return {"metric": {"__name__": metric, "cluster": "fleet", **labels}, "values": samples}


def ask(
    google: FakeGoogle, login: UserCredentials, until: float, lag_seconds: float = 0.0
) -> tuple[list[dict[str, str]], str | None]:
    prometheus = ManagedPrometheus("my-project", login, url=google.url, retry=HASTY)
    series, problem = prometheus.gpus("fleet", "europe-west4", SERVERS, until - 60, until, lag_seconds=lag_seconds)
    return [{"metric": found.metric, **found.labels} for found in series], problem


def test_the_servers_series_are_kept_and_no_others(google: FakeGoogle, login: UserCredentials) -> None:
    now = time.time()
    for metric in GAUGES:
        google.series[metric] = [
            one(metric, now, exported_pod="server-a", gpu="0", pod="dcgm-exporter-x"),
            one(metric, now, exported_pod="somebody-elses", Hostname="node-a", gpu="1"),
            one(metric, now, instance="node-a:9400", pod="dcgm-exporter-x", gpu="2"),
            one(metric, now, Hostname="node-b", gpu="3"),
            one(metric, now, exported_pod="qwen35-server-7d9c6bf5d8-x2x4z", exported_namespace="vllm", gpu="4"),
            one(metric, now, exported_pod="qwen35-server-7d9c6bf5d8-x2x4z", exported_namespace="other", gpu="5"),
            one(metric, now, exported_pod="qwen35-server-two-7d9c6bf5d8-x2x4z", exported_namespace="vllm", gpu="6"),
        ]
    series, problem = ask(google, login, now)
    assert problem is None
    assert {found["gpu"] for found in series} == {"0", "2", "4"}
    assert {found["metric"] for found in series} == set(GAUGES)
    asked = google.forms[0]
    assert asked["query"] == f'{POWER}{{cluster="fleet",location="europe-west4"}}'
    assert (asked["start"], asked["end"], asked["step"]) == (f"{now - 60:.0f}", f"{now:.0f}", "15s")
    assert google.asked[0] == "POST /v1/projects/my-project/location/global/prometheus/api/v1/query_range"


@each_row(
    ("of_power", "status", "kept", "words"),
    [
        # A metric that the package lacks.
        ([one(POWER, NOW, pod="server-a")], 200, 1, ["DCGM_FI_PROF_SM_ACTIVE"]),
        ([], 200, 0, ["gcloud container clusters update fleet --location europe-west4 --project my-project", "DCGM"]),
        # Other GPUs of the cluster.
        ([one(POWER, NOW, exported_pod="training")], 200, 0, ["but none for this stack's server pods"]),
        ([], 403, 0, ["roles/monitoring.viewer"]),
        ([{"metric": {}, "value": [0, "1"]}], 200, 0, ["not a matrix"]),
    ],
)
def test_what_is_missing_is_a_problem_and_no_error(
    google: FakeGoogle, login: UserCredentials, of_power: list[Any], status: int, kept: int, words: list[str]
) -> None:
    google.series, google.statuses = {POWER: of_power} if of_power else {}, [status]
    series, problem = ask(google, login, NOW)
    assert len(series) == kept
    assert problem is not None
    assert all(word in problem for word in words)
    assert not kept or POWER not in problem


def test_samples_that_are_late_are_waited_for(
    google: FakeGoogle, login: UserCredentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    google.series = {metric: [one(metric, now - 90, pod="server-a")] for metric in GAUGES}

    def sleep(_seconds: float) -> None:
        google.series = {metric: [one(metric, now, pod="server-a")] for metric in GAUGES}

    monkeypatch.setattr("fleet.clients.prometheus.time.sleep", sleep)
    _, problem = ask(google, login, now, lag_seconds=60)
    assert problem is None
    assert len(google.forms) == len(GAUGES) + 1


def test_a_long_time_is_asked_for_in_longer_steps(google: FakeGoogle, login: UserCredentials) -> None:
    ManagedPrometheus("my-project", login, url=google.url, retry=HASTY).range(POWER, 0, 300_000)
    assert google.forms[0]["step"] == "30s"


def test_what_is_no_prometheus_is_refused(google: FakeGoogle, login: UserCredentials) -> None:
    google.series[POWER] = []
    prometheus = ManagedPrometheus("my-project", login, url=f"{google.url}/elsewhere?x=", retry=HASTY)
    with pytest.raises(LiveError, match="managed Prometheus"):
        prometheus.range(POWER, 0, 1)
