"""The Job of a batch, asked of the real API server and Job controller: what `fleet batch run` makes and how it changes its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.control_plane.api import JOB, NAMESPACE, POD, ApiRefusedError
from lab.control_plane.mirror import Mirror
from workloads.batch.job import job_manifest

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
INDEX = "batch.kubernetes.io/job-completion-index"


def manifest(servers: int) -> dict[str, Any]:
    made = job_manifest(
        name="batch-b0",
        batch="b0",
        servers=servers,
        namespace="sized",
        server="qwen35-server",
        key_store=None,
        endpoint="http://qwen35-server.sized.svc.cluster.local:8000",
        bucket="batches",
        image="python:3",
        labels={"app": "batch"},
    )
    made["spec"]["template"]["spec"]["serviceAccountName"] = "default"
    return made


def test_completions_and_parallelism_change_together_and_a_pod_knows_its_index(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sized"}})
    with Mirror(api, POD, namespace="sized") as pods:

        def indexes() -> list[str]:
            return sorted(
                pod["metadata"]["annotations"][INDEX]
                for pod in pods.objects.values()
                if "deletionTimestamp" not in pod["metadata"]
            )

        api.create(manifest(1))
        assert pods.wait_for(lambda _: indexes() == ["0"], 60)
        api.patch(JOB, "batch-b0", "sized", {"spec": {"completions": 3, "parallelism": 3}})
        assert pods.wait_for(lambda _: indexes() == ["0", "1", "2"], 60)
        api.patch(JOB, "batch-b0", "sized", {"spec": {"completions": 2, "parallelism": 2}})
        assert pods.wait_for(lambda _: indexes() == ["0", "1"], 60)
        with pytest.raises(ApiRefusedError, match="completions"):
            api.patch(JOB, "batch-b0", "sized", {"spec": {"completions": 4}})
        (container,) = next(iter(pods.objects.values()))["spec"]["containers"]
    assert "--index=$(JOB_COMPLETION_INDEX)" in container["args"]
    assert "JOB_COMPLETION_INDEX" in {one["name"] for one in container["env"]}
    api.delete(JOB, "batch-b0", "sized")
    api.delete(NAMESPACE, "sized")
