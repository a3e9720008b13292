"""Drills of routers with the real HAProxy: each holds for the sample stack, and fails for routers that are broken where it looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.preview.offline import open_stack
from lab.stage.stage import Stage, Surroundings
from lab.stage.start import started
from lab.stage.variants import varied
from tests.lab.cloud.routers.play import NEEDS_HAPROXY
from tests.lab.drills.mutation import Inputs, Mutation, changed
from tests.lab.drills.played import broken, failure, failures, patient, played, restore, without_policies

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.build import Binaries

pytestmark = [pytest.mark.slow, NEEDS_HAPROXY]
ROOT = Path(__file__).parents[3]
SPEED = 120.0
LAG_SECONDS = 20.0


@pytest.fixture(scope="module")
def running(binaries: Binaries, charts: Charts) -> Iterator[Stage]:
    """One stage for the module: the dev stack with two servers, brought up without routers."""
    from lab.control_plane.custom_resources.definitions import definitions

    found = tuple(definitions(charts.modules))
    around = Surroundings(binaries=binaries, definitions=found, charts=charts, speed=SPEED)
    opened = varied(open_stack(ROOT, "dev"), {"server": {"replicas": 2}})
    with without_policies(LAG_SECONDS), started(opened, around) as stage:
        with patient():
            stage.bring_up()
        yield stage


@pytest.fixture
def stage(running: Stage) -> Stage:
    restore(running)
    return running


def configured(before: str, after: str) -> Mutation:
    """Routers whose configuration has one text instead of another."""

    def change(inputs: Inputs) -> None:
        text = inputs["data"]["haproxy.cfg"]
        assert before in text, text
        inputs["data"] = {"haproxy.cfg": text.replace(before, after)}

    return changed("ConfigMap", change, "router-config")


@pytest.mark.parametrize(
    "name",
    ["router-server-dies", "router-dies", "router-full", "router-authorization"],
)
def test_the_sample_stack_holds(stage: Stage, name: str) -> None:
    with patient():
        result = played(stage, name)
    assert result.passed, (result.gave_up, failures(result), result.findings)
    assert result.checks


def test_routers_that_tell_their_server_fail_the_server_s_death(stage: Stage) -> None:
    tells = 'http-error status 502 content-type application/json lf-string "failed: %si"'
    with broken(configured("balance leastconn", f"balance leastconn\n    {tells}")):
        result = played(stage, "router-server-dies")
    assert "which tell" in failure(result, "one error of the router")


def test_a_router_without_time_to_finish_cuts_streams(stage: Stage) -> None:
    def hasty(inputs: Inputs) -> None:
        spec = inputs["spec"]["template"]["spec"]
        spec["terminationGracePeriodSeconds"] = 1
        del spec["containers"][0]["lifecycle"]

    with broken(changed("Deployment", hasty, "router-deployment")):
        result = played(stage, "router-dies")
    assert failure(result, "finishes its streams").startswith("12 of")
    assert failure(result, "within its grace period").startswith("killed")


def test_routers_without_a_limit_for_each_server_fail_a_full_fleet(stage: Stage) -> None:
    with broken(configured("maxconn 2 ", "maxconn 1000 ")):
        result = played(stage, "router-full")
    assert not result.passed


def test_routers_that_send_the_servers_key_for_everybody_fail_authorization(stage: Stage) -> None:
    # In two parts: a text that looks like a key reaches no cluster.
    key = 'http-request set-header Authorization "%[str(Bearer)] %[str(value-of-vllm-api-key)]"'
    with broken(configured("default_backend", f"{key}\n    default_backend")):
        result = played(stage, "router-authorization")
    assert failure(result, "with a wrong key, 401") == "200"
    assert failure(result, "with no key, 401") == "200"
