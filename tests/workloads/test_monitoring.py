"""What managed Prometheus is told to scrape and to record."""

from __future__ import annotations

import re
from typing import Any

import pulumi
import pytest

from facts.signals.series import SERVER, VLLM
from fleet.preview.record.recorder import Recording
from settings.stack import Settings
from tests.support.recorded import needs, objects, recorded_component
from tests.workloads.args import gateway_args, monitoring_args, server_args
from workloads.gateway.gateway import Gateway
from workloads.monitoring import Monitoring, router_scrape
from workloads.names import ROUTER_APP
from workloads.server.server import Server


def made_with(**sections: Any) -> Recording:
    return recorded_component(build, **sections)


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    server = Server("server", server_args(settings), opts)
    gateway = Gateway("gateway", gateway_args(settings, server), opts) if settings.gateway.enabled else None
    return Monitoring("monitoring", monitoring_args(settings, server, gateway), opts)


@pytest.mark.parametrize("replicas", [0, 2, "external"])
def test_where_each_replica_downloads_for_itself_everything_waits_for_the_servers(replicas: int | str) -> None:
    recording = made_with(gateway={"enabled": True}, server={"replicas": replicas})
    own = {one for one in objects(recording) if one.startswith(("PodMonitoring/", "Rules/"))}
    assert len(own) == 3
    for one in own:
        assert needs(recording, objects(recording)[one]) == {"Deployment/qwen35-server"}


def test_routers_are_scraped_and_no_other_pod() -> None:
    """An empty selector is accepted, and scrapes every pod of the namespace."""
    assert router_scrape(15)["selector"] == {"matchLabels": {"app": ROUTER_APP}}


@pytest.mark.parametrize(("seconds", "timeout"), [(5, "5s"), (60, "10s")])
def test_a_scrape_ends_before_the_next_one_and_within_ten_seconds(seconds: int, timeout: str) -> None:
    recording = made_with(monitoring={"intervalSeconds": seconds})
    (endpoint,) = objects(recording)["PodMonitoring/qwen35-server"].inputs["spec"]["endpoints"]
    assert (endpoint["interval"], endpoint["timeout"]) == (f"{seconds}s", timeout)


def test_the_kept_series_include_all_that_the_rules_use() -> None:
    recording = made_with()
    (endpoint,) = objects(recording)["PodMonitoring/qwen35-server"].inputs["spec"]["endpoints"]
    (keep,) = endpoint["metricRelabeling"]
    assert keep["action"] == "keep"
    assert all(re.fullmatch(keep["regex"], metric) for metric in (*VLLM, *SERVER))
    assert not re.fullmatch(keep["regex"], "python_gc_objects_collected_total")


def test_the_catalogues_recordings_are_the_rules() -> None:
    (group,) = objects(made_with())["Rules/qwen35-server"].inputs["spec"]["groups"]
    assert group["name"] == "qwen35-server"
    assert {"fleet:output_tokens:rate", "fleet:total_tokens:rate"} <= {rule["record"] for rule in group["rules"]}
    assert all(rule["labels"] == {"app": "qwen35-server"} for rule in group["rules"])
