"""DCGM's series from managed Prometheus, over real HTTP: the servers' own, or why there are none."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials
from fleet.clients.prometheus import GAUGES, ManagedPrometheus, Servers
from tests.fleet.clients.fake_google import HASTY, FakeGoogle

POWER = GAUGES[0]
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


def test_a_metric_that_the_package_lacks_is_named(google: FakeGoogle, login: UserCredentials) -> None:
    now = time.time()
    google.series[POWER] = [one(POWER, now, pod="server-a")]
    series, problem = ask(google, login, now)
    assert len(series) == 1
    assert problem is not None
    assert "DCGM_FI_PROF_SM_ACTIVE" in problem
    assert POWER not in problem


def test_no_series_at_all_says_how_to_switch_it_on(google: FakeGoogle, login: UserCredentials) -> None:
    series, problem = ask(google, login, time.time())
    assert series == []
    assert problem is not None
    assert "gcloud container clusters update fleet --location europe-west4 --project my-project" in problem
    assert "DCGM" in problem


def test_other_gpus_of_the_cluster_are_not_ours(google: FakeGoogle, login: UserCredentials) -> None:
    now = time.time()
    google.series[POWER] = [one(POWER, now, exported_pod="training")]
    series, problem = ask(google, login, now)
    assert series == []
    assert problem is not None
    assert "but none for this stack's server pods" in problem


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


def test_a_refusal_is_a_problem_and_no_error(google: FakeGoogle, login: UserCredentials) -> None:
    google.statuses = [403]
    series, problem = ask(google, login, time.time())
    assert series == []
    assert problem is not None
    assert "roles/monitoring.viewer" in problem


def test_a_long_time_is_asked_for_in_longer_steps(google: FakeGoogle, login: UserCredentials) -> None:
    ManagedPrometheus("my-project", login, url=google.url, retry=HASTY).range(POWER, 0, 300_000)
    assert google.forms[0]["step"] == "30s"


def test_an_answer_that_is_no_matrix_is_a_problem(google: FakeGoogle, login: UserCredentials) -> None:
    google.series[POWER] = [{"metric": {}, "value": [0, "1"]}]
    series, problem = ask(google, login, time.time())
    assert series == []
    assert problem is not None
    assert "not a matrix" in problem


def test_what_is_no_prometheus_is_refused(google: FakeGoogle, login: UserCredentials) -> None:
    google.series[POWER] = []
    prometheus = ManagedPrometheus("my-project", login, url=f"{google.url}/elsewhere?x=", retry=HASTY)
    with pytest.raises(LiveError, match="managed Prometheus"):
        prometheus.range(POWER, 0, 1)
