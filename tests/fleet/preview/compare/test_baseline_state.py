"""What is live, from an exported state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fleet.preview.compare.against import is_state, start
from fleet.preview.compare.baseline import Baseline, BaselineError
from fleet.preview.compare.baseline_state import read_state
from fleet.preview.compare.changes import Changes
from fleet.preview.compare.compare import compare
from fleet.preview.compare.on_state import record_on
from fleet.preview.offline import open_stack, record_stack
from fleet.preview.record.recording import Recording
from fleet.preview.record.recording_json import SECRET, SIGNATURE
from tests.fleet.preview.fleets import one_of
from tests.fleet.preview.programs import fleet_like
from tests.fleet.preview.state_export import CIPHERTEXT, write_state

ROOT = Path(__file__).parents[4]


def baseline(path: Path, stack: str = "spot") -> Baseline:
    with start(str(path), ROOT, (stack,)) as running:
        return running.wait(stack)


def against(path: Path, new: Recording) -> Changes:
    found = baseline(path, new.stack)
    return compare(found.resources, new, against=found.label, remarks=found.remarks)


def test_a_program_that_is_up_changes_nothing_but_what_is_sealed(tmp_path: Path) -> None:
    path = write_state(fleet_like("known"), tmp_path / "state.json")
    changes = against(path, fleet_like("preview"))
    assert {one.operation for one in changes.changed} <= {"update", "replace"}
    # What is left are secrets that nobody can look into here.
    assert {(one.kind, one.secret) for change in changes.changed for one in change.properties} <= {("may change", True)}
    assert changes.summary["create"] == 0
    assert changes.summary["delete"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("stack", "sealed"), [("spot", True), ("gateway", False)])
def test_the_real_program_that_is_up_changes_nothing(tmp_path: Path, stack: str, sealed: bool) -> None:
    opened = open_stack(ROOT, stack)
    path = write_state(record_stack(opened, "known"), tmp_path / "state.json", sealed=sealed)
    recording = record_on(read_state(path), lambda live: record_stack(opened, "preview", live=live))
    changes = against(path, recording)
    told = [(one.name, one.operation, [p.path for p in one.properties], one.reasons) for one in changes.changed]
    assert told == []
    assert changes.outputs == ()
    assert changes.headline == ("No resource changes",)


def test_a_live_property_that_differs_is_an_update(tmp_path: Path) -> None:
    def smaller(document: dict[str, Any]) -> None:
        for entry in document["deployment"]["resources"]:
            if entry["type"] == "kubernetes:apps/v1:Deployment":
                entry["inputs"]["spec"]["replicas"] = 3

    path = write_state(fleet_like("known"), tmp_path / "state.json", change=smaller)
    changes = against(path, fleet_like("preview"))
    [change] = [one for one in changes.resources if one.type == "kubernetes:apps/v1:Deployment"]
    [one] = [one for one in change.properties if one.kind != "may change"]
    assert (one.path, one.before) == ("spec.replicas", 3)


def test_what_is_read_on_its_way_out_or_the_engines_own_is_left_out(tmp_path: Path) -> None:
    def more(document: dict[str, Any]) -> None:
        resources = document["deployment"]["resources"]
        base = {"type": "gcp:compute/network:Network", "custom": True, "inputs": {}}
        prefix = "urn:pulumi:spot::vllm-fleet::gcp:compute/network:Network::"
        resources.append({**base, "urn": f"{prefix}read", "external": True})
        resources.append({**base, "urn": f"{prefix}going", "delete": True})
        resources.append({**base, "urn": f"{prefix}live"})

    path = write_state(fleet_like("known"), tmp_path / "state.json", change=more)
    changes = against(path, fleet_like("preview"))
    assert [one.name for one in changes.resources if one.operation == "delete"] == ["live"]


def test_a_protected_resource_that_goes_is_one_that_up_refuses(tmp_path: Path) -> None:
    def protect(document: dict[str, Any]) -> None:
        prefix = "urn:pulumi:spot::vllm-fleet::gcp:compute/network:Network::"
        document["deployment"]["resources"].append(
            {
                "urn": f"{prefix}live",
                "type": "gcp:compute/network:Network",
                "custom": True,
                "inputs": {},
                "protect": True,
            }
        )

    changes = against(write_state(fleet_like("known"), tmp_path / "s.json", change=protect), fleet_like("preview"))
    assert one_of(changes, "live").protected
    assert "protected" in {one.id for one in changes.dangers}


def test_no_ciphertext_and_no_plaintext_is_shown(tmp_path: Path) -> None:
    for sealed in (True, False):
        path = write_state(fleet_like("known"), tmp_path / "state.json", sealed=sealed)
        text = repr(against(path, fleet_like("preview")))
        assert CIPHERTEXT not in text
        assert "hush-hush" not in text


def test_the_label_tells_the_file_and_its_day(tmp_path: Path) -> None:
    path = write_state(fleet_like("known"), tmp_path / "live.json")
    assert baseline(path).label == "the state in live.json of 2026-11-20"


def test_an_empty_state_makes_everything_new(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"version": 3, "deployment": {"manifest": {"time": "2026-11-20T09:00:00Z"}}}')
    changes = against(path, fleet_like("preview"))
    assert changes.summary["create"] == len(changes.resources)
    assert len(changes.remarks) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not JSON"),
        ("[]", "has no `deployment`"),
        ('{"checkpoint": {}}', "write it with: pulumi stack export"),
        (
            '{"deployment": {"resources": [{"urn": "urn:pulumi:a::b::c:d:E::f", "type": "c:d:E"}]}}',
            "not a complete export",
        ),
    ],
)
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(BaselineError, match=message) as refusal:
        start(str(path), ROOT, ("spot",))
    assert "--file README.md" not in str(refusal.value)
    assert f"--file {path}" not in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("urn", None),
        ("urn", "urn:pulumi:spot::vllm-fleet::x"),
        ("type", 7),
        ("parent", ["x"]),
        ("provider", 1),
        ("inputs", []),
        ("outputs", {SIGNATURE: SECRET}),
        ("dependencies", [None]),
        ("dependencies", {}),
        ("propertyDependencies", {"a": 1}),
    ],
)
def test_an_entry_that_the_engine_would_not_write_is_refused_with_its_place(
    tmp_path: Path, key: str, value: object
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["deployment"]["resources"][2][key] = value

    path = write_state(fleet_like("known"), tmp_path / "state.json", change=change)
    with pytest.raises(BaselineError, match=rf"deployment\.resources\[2\]\.{key} must be"):
        baseline(path)


def test_a_pipe_and_a_deep_state_are_no_states(tmp_path: Path) -> None:
    pipe, deep = tmp_path / "pipe", tmp_path / "deep.json"
    os.mkfifo(pipe)
    deep.write_text('{"deployment": {"resources": ' + "[" * 100_000)
    for path in (pipe, deep):
        with pytest.raises(BaselineError, match=r"cannot be read|is not JSON"):
            read_state(path)


def test_the_state_of_another_stack_is_refused(tmp_path: Path) -> None:
    path = write_state(fleet_like("known"), tmp_path / "state.json")
    with pytest.raises(BaselineError, match="pass --stack spot"):
        baseline(path, "dev")
    with pytest.raises(BaselineError, match=r"one stack, .* of 2"):
        start(str(path), ROOT, ("spot", "dev"))


def test_a_missing_file_is_taken_for_a_state_by_its_name(tmp_path: Path) -> None:
    assert is_state(str(tmp_path / "gone.json"))
    assert not is_state("feature/state")
    with pytest.raises(BaselineError, match="cannot be read: No such file"):
        start(str(tmp_path / "gone.json"), ROOT, ("spot",))
