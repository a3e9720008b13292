"""Routers: their objects, and HAProxy's configuration before servers that answer."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pulumi
import pytest

from fleet.preview.record.recorder import Mode, Recording
from settings.derived.router import router_needs
from settings.stack import Settings
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.schemas import problems
from tests.workloads.args import benchmark_args, server_args
from workloads.benchmark.benchmark import Benchmark
from workloads.router.router import Router, RouterArgs
from workloads.server.server import Server

KEY = {"server": {"replicas": 1, "apiKeySecret": "k"}}


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    server = Server("server", server_args(settings), opts)
    needs = router_needs(settings)
    assert needs is not None
    router = Router("router", RouterArgs(server=server, image="haproxy", **needs), opts)
    pulumi.export("endpoint", router.endpoint)
    return router


def record(mode: Mode = "known", *, router: dict[str, Any] | None = None, **sections: Any) -> Recording:
    return recorded_component(
        build,
        mode,
        **{"server": {"replicas": 1}, "weights": {"source": "huggingface"}, **sections},
        endpoint={"kind": "leastRequest", "router": router or {}},
    )


@pytest.mark.parametrize("mode", ["preview", "known"])
@pytest.mark.parametrize("sections", [{}, KEY], ids=["open", "key"])
def test_every_object_would_be_accepted(mode: Mode, sections: dict[str, Any]) -> None:
    recording = record(mode, **sections)
    found = {key: problems(manifest(one)) for key, one in objects(recording).items()}
    assert found == {key: [] for key in found}


@pytest.mark.parametrize("ranks", [1, 8])
def test_servers_are_found_by_a_name_for_each_rank_that_no_other_object_has(ranks: int) -> None:
    def with_benchmark(settings: Settings, opts: pulumi.ResourceOptions) -> object:
        server = Server("server", server_args(settings), opts)
        needs = router_needs(settings)
        assert needs is not None
        Benchmark("benchmark", benchmark_args(settings, server), opts)
        return Router("router", RouterArgs(server=server, image="haproxy", **needs), opts)

    recording = recorded_component(
        with_benchmark,
        server={"replicas": 1, "rankPorts": ranks == 8},
        benchmark={"enabled": True},
        endpoint={"kind": "leastRequest"},
    )
    made = [manifest(one) for one in recording.resources if one.is_kubernetes and "metadata" in one.inputs]
    names = Counter((one["kind"], one["metadata"]["name"]) for one in made)
    assert max(names.values()) == 1
    (text,) = (one["data"]["haproxy.cfg"] for one in made if "haproxy.cfg" in one.get("data", {}))
    asked = re.findall(r'server-template \S+ \d+ "([a-z0-9-]+)\.', text)
    headless = [one["metadata"]["name"] for one in made if one.get("spec", {}).get("clusterIP") == "None"]
    assert len(set(asked)) == len(asked) == ranks
    assert set(asked) <= set(headless)


def test_no_router_reads_a_key_that_the_servers_check() -> None:
    for recording in (record(**KEY), record()):
        pod = manifest(objects(recording)["Deployment/router"])["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert [mount["name"] for mount in container["volumeMounts"]] == ["config"]
        assert pod["automountServiceAccountToken"] is False


def test_a_pod_ends_after_its_streams() -> None:
    made = objects(record())
    pod = manifest(made["Deployment/router"])["spec"]["template"]["spec"]
    text = manifest(next(one for name, one in made.items() if name.startswith("ConfigMap/router-")))
    sleep = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert "hard-stop-after 580s" in text["data"]["haproxy.cfg"]
    assert sleep + 580 < pod["terminationGracePeriodSeconds"]


def test_a_changed_limit_rolls_the_routers() -> None:
    def mounted(cpu: int) -> str:
        pod = manifest(objects(record(router={"cpu": cpu}))["Deployment/router"])["spec"]["template"]["spec"]
        return str(next(one["configMap"]["name"] for one in pod["volumes"] if one["name"] == "config"))

    assert mounted(2) != mounted(3)
