"""Breaks of a real stack that show before anything is applied: the findings a bring-up begins with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.preview.offline import open_stack, record_stack
from fleet.preview.record.recording import Recording
from fleet.rehearse.apply.findings_static import static_findings
from fleet.rehearse.results import Finding
from tests.fleet.rehearse.drills.mutation import Inputs, Mutation, changed

if TYPE_CHECKING:
    from fleet.rehearse.simulation.chart import Charts

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def gateway() -> Recording:
    return record_stack(open_stack(ROOT, "gateway"), "known")


@pytest.fixture(scope="module")
def dev() -> Recording:
    return record_stack(open_stack(ROOT, "dev"), "known")


def found(recording: Recording, mutation: Mutation | None = None, charts: Charts | None = None) -> tuple[Finding, ...]:
    changed_recording = recording if mutation is None else mutation(recording)
    return static_findings(changed_recording, None if charts is None else charts.objects)


def two_pickers(inputs: Inputs) -> None:
    inputs["values"]["inferenceExtension"]["replicas"] = 2


@pytest.mark.slow
def test_a_stack_with_a_chart_has_no_finding(gateway: Recording, charts: Charts) -> None:
    assert found(gateway, charts=charts) == ()


def test_a_stack_has_no_finding(dev: Recording) -> None:
    assert found(dev) == ()


@pytest.mark.slow
def test_a_second_endpoint_picker_that_the_release_waits_for_is_an_error(gateway: Recording, charts: Charts) -> None:
    (finding,) = found(gateway, changed("Release", two_pickers), charts)
    assert finding.severity == "error"
    assert finding.subject.endswith("::gateway-pool")
    assert " 2 replicas " in finding.message


@pytest.mark.slow
def test_the_same_second_picker_is_none_where_nobody_waits(gateway: Recording, charts: Charts) -> None:
    def unawaited(inputs: Inputs) -> None:
        two_pickers(inputs)
        inputs["skipAwait"] = True

    assert found(gateway, changed("Release", unawaited), charts) == ()


def test_a_quota_below_the_replicas_is_an_error_before_a_machine_is_paid_for(dev: Recording) -> None:
    def four(inputs: Inputs) -> None:
        inputs["spec"]["hard"]["requests.nvidia.com/gpu"] = "4"

    (finding,) = found(dev, changed("ResourceQuota", four))
    assert finding.severity == "error"
    assert "raise requests.nvidia.com/gpu to 8" in finding.fix
