"""A program recorded on a state: what stays is known, what is replaced is not, as the engine tells a program."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s
import pytest
from pulumi_gcp import organizations, projects, serviceaccount

from fleet.preview.compare.baseline import StateBaseline
from fleet.preview.compare.baseline_state import read_state
from fleet.preview.compare.compare import operations
from fleet.preview.compare.on_state import record_on
from fleet.preview.record.recorder import Recording, record
from fleet.preview.record.recording import NOTHING_LIVE, Live
from fleet.preview.record.values import UNKNOWN
from tests.fleet.preview.state_export import write_state

ROOT = Path(__file__).parents[4]


def run(live: Live = NOTHING_LIVE, *, known: bool = False, account: str = "robot", one_more: bool = False) -> Recording:
    """An account, a grant to it, and a cluster's provider that is configured by it."""

    def program() -> None:
        robot = serviceaccount.Account("robot", account_id=account)
        projects.IAMMember("grant", project="p", role="roles/viewer", member=robot.member)
        number = organizations.get_project_output(project_id="p").number
        cluster = k8s.Provider("cluster", kubeconfig=robot.email)
        opts = pulumi.ResourceOptions(provider=cluster)
        first = k8s.core.v1.ConfigMap("first", metadata={"name": "first"}, data={"number": number}, opts=opts)
        if one_more:
            new = k8s.core.v1.ConfigMap("new", metadata={"name": "new"}, opts=opts)
            k8s.core.v1.ConfigMap("last", data={"a": first.metadata["name"], "b": new.metadata["name"]}, opts=opts)
        pulumi.export("platform", {"projectNumber": number})

    mode = "known" if known else "preview"
    return record(ROOT, project="p", stack="s", config={}, mode=mode, program=program, live=live)


@pytest.fixture
def state(tmp_path: Path) -> StateBaseline:
    return read_state(write_state(run(known=True), tmp_path / "state.json", sealed=False))


def inputs(recording: Recording, name: str) -> object:
    return next(dict(one.inputs) for one in recording.resources if one.name == name)


def told(state: StateBaseline, recording: Recording) -> dict[str, str]:
    return {one.name: one.operation for one in operations(state, recording) if one.operation != "same"}


def test_what_stays_has_the_outputs_of_the_state(state: StateBaseline) -> None:
    recording = record_on(state, run)
    known = run(known=True)
    assert inputs(recording, "grant") == inputs(known, "grant")
    assert inputs(recording, "first") == inputs(known, "first"), "the project's number is an output of the stack"
    assert told(state, recording) == {}


def test_what_depends_on_a_replaced_resource_is_unknown(state: StateBaseline) -> None:
    recording = record_on(state, lambda live: run(live, account="other"))
    assert inputs(recording, "grant")["member"] is UNKNOWN  # type: ignore[index]
    assert told(state, recording)["robot"] == told(state, recording)["grant"] == "replace"


def test_new_objects_of_a_provider_that_is_up_are_known(state: StateBaseline) -> None:
    recording = record_on(state, lambda live: run(live, one_more=True))
    assert inputs(recording, "last")["data"] == {"a": "first", "b": "new"}  # type: ignore[index]
    assert told(state, recording) == {"new": "create", "last": "create"}
    first_run = run(one_more=True)
    assert inputs(first_run, "last")["data"] == {"a": UNKNOWN, "b": UNKNOWN}  # type: ignore[index]


def test_without_the_projects_number_a_data_source_is_assumed_unchanged(tmp_path: Path) -> None:
    def forget(document: dict[str, dict[str, list[dict[str, object]]]]) -> None:
        for entry in document["deployment"]["resources"]:
            if entry["type"] == "pulumi:pulumi:Stack":
                entry["outputs"] = {}

    path = write_state(run(known=True), tmp_path / "state.json", sealed=False, change=forget)
    bare = read_state(path)
    recording = record_on(bare, run)
    assert inputs(recording, "first")["data"] == {"number": UNKNOWN}  # type: ignore[index]
    assert told(bare, recording) == {}
