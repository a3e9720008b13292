"""The Job of a batch before the real API server and Job controller; its pods are processes of its own program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.control_plane.api import JOB, ApiRefusedError
from lab.control_plane.cluster import ControlPlane
from tests.workloads.batch.proof import Kubelet, conditions, play, under_faults
from tests.workloads.batch.world import World
from workloads.batch.pods.process_shard import TIME_OVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """Without kwok: pods are run."""
    with ControlPlane(binaries) as running:
        yield running


def test_each_document_has_its_line_whatever_is_killed(plane: ControlPlane) -> None:
    found = under_faults(plane, 1_200, seconds=1.0, of_shard=48, faults=8)
    assert found["job"].get("Complete")
    assert found["eachLineOnce"]
    assert found["onlyPlanted"], found
    assert found["statusOnlyRises"]
    assert found["checkpointsLeft"] == 0


def test_a_suspended_batch_ends_at_its_time_and_a_second_job_of_it_is_refused(plane: ControlPlane) -> None:
    done: dict[str, float] = {}
    with World([f"text good {n}" for n in range(8)], of_shard=4, seconds=60.0, speed=10.0) as world:
        manifest = world.job(seconds=12.0)
        name = manifest["metadata"]["name"]

        def turn(kubelet: Kubelet, _: dict[str, Any]) -> None:
            now = kubelet.active[-1][0] - kubelet.active[0][0]
            if not done:
                with pytest.raises(ApiRefusedError, match="already exists"):
                    plane.api.create(manifest)
                done["refused"] = now
            elif "suspended" not in done and kubelet.running:
                plane.api.patch(JOB, name, "default", {"spec": {"suspend": True}})
                done["suspended"] = now
            elif "resumed" not in done and "suspended" in done and not kubelet.running and now > done["suspended"] + 4:
                # The Job's own time begins anew.
                plane.api.patch(JOB, name, "default", {"spec": {"suspend": False}})
                done["resumed"] = now

        job, kubelet = play(plane, world, manifest, turn)
    assert conditions(job)["Failed"] == "PodFailurePolicy"
    assert TIME_OVER in kubelet.codes
    assert "resumed" in done
    assert kubelet.active[-1][0] - kubelet.active[0][0] < 40
