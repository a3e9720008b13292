"""The component that `pulumi destroy` must delete first: nothing of the stack is beside it, and it follows the stack file."""

from __future__ import annotations

import pytest

from fleet.preview.record.recording import RecordedResource, Recording, needs_of
from tests.support.recorded import BASE_STACK, recorded_platform
from tests.support.stacks import recorded_stack

TYPE = "vllm-fleet:infra:DeletionProtection"


def protection_of(recording: Recording) -> RecordedResource | None:
    return next((one for one in recording.resources if one.type == TYPE), None)


def behind(recording: Recording, urn: str) -> set[str]:
    """What the engine deletes only after this resource."""
    found, left = set[str](), [urn]
    while left:
        for needed in needs_of(recording.by_urn[left.pop()]):
            if needed in recording.by_urn and needed not in found:
                found.add(needed)
                left.append(needed)
    return found


@pytest.mark.parametrize("stack", ["smoke", "gateway", "prod"])
def test_every_resource_is_deleted_after_it(stack: str) -> None:
    recording = recorded_stack(stack, "preview")
    protection = protection_of(recording)
    assert protection is not None
    assert {one.urn for one in recording.resources if one.custom} <= behind(recording, protection.urn)


def test_the_canary_and_its_weights_are_covered() -> None:
    canary = {"model": {"revision": "1" * 40}}
    recording = recorded_platform("preview", serving=True, rollout=canary)
    protection = protection_of(recording)
    assert protection is not None
    names = {urn.rpartition("::")[2] for urn in protection.dependencies}
    assert {"server-deployment", "server-canary-deployment"} <= names
    assert any("-1111111-64gib-2400mibps-" in name for name in names)


@pytest.mark.parametrize("enabled", [True, False])
def test_it_follows_the_stack_file_and_stays_when_that_changes(enabled: bool) -> None:
    protection = protection_of(recorded_platform(cluster={"deletionProtection": enabled}))
    assert protection is not None
    assert protection.protect is enabled
    assert not protection.custom


def test_a_guest_of_another_cluster_has_none() -> None:
    assert protection_of(recorded_platform(platform={"stack": BASE_STACK}, namespace="guest")) is None
