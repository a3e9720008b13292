"""What a pod does with a run's files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.benchmark.pods.fake_cloud import FakeCloud, fake_cloud
from tests.workloads.benchmark.pods.test_run_plan import plan_of
from workloads.benchmark.pods.dataset_parts import Parts
from workloads.benchmark.pods.play_run import UPLOADS, Limits, Pod
from workloads.benchmark.pods.progress import Progress
from workloads.benchmark.pods.results_bucket import Bucket, BucketError


def pod(folder: Path, cloud: FakeCloud, **bucket: Any) -> Pod:
    plan = plan_of(folder)
    store = Bucket("results", storage_url=cloud.url, metadata_url=cloud.url, pause_seconds=0.001, **bucket)
    return Pod(
        plan=plan,
        bucket=store,
        endpoint=cloud.url,
        tokenizer="/nowhere",
        server_pods=[],
        results=folder,
        parts=Parts(plan, None),
        progress=Progress(store, "progress"),
        limits=Limits(1, 1, 1, 1),
    )


def files_of_a_run(folder: Path, number: int) -> Path:
    run = folder / "point-00-repeat-0"
    run.mkdir()
    for client in range(number):
        (run / f"client-{client:03d}.json").write_text("x" * client)
    return run


def test_a_runs_files_are_stored_several_at_once(tmp_path: Path) -> None:
    with fake_cloud(upload_seconds=0.1) as cloud:
        run = files_of_a_run(tmp_path, 2 * UPLOADS)
        (run / "server-metrics.jsonl.gz.part").write_text("not whole")
        begun = time.monotonic()
        pod(tmp_path, cloud).store(run)
        assert time.monotonic() - begun < 0.1 * UPLOADS
        assert {name.rpartition("/")[2]: len(content) for name, content in cloud.contents.items()} == {
            f"client-{client:03d}.json": client for client in range(2 * UPLOADS)
        }
        assert not run.exists()


def test_a_file_that_cannot_be_stored_stays_and_is_said(tmp_path: Path) -> None:
    with fake_cloud(statuses=[403] * 100) as cloud:
        run = files_of_a_run(tmp_path, 2 * UPLOADS)
        with pytest.raises(BucketError, match=r"client-000\.json: HTTP 403"):
            pod(tmp_path, cloud).store(run)
        assert len(list(run.iterdir())) == 2 * UPLOADS
