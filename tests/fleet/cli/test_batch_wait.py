"""`fleet batch run` until the batch ends: the pods' own program works on what it sent, or the Job fails, or nobody waits any longer."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fleet.batch import made
from tests.fleet.batch.cluster import Place, place
from tests.support.waiting import within
from tests.workloads.batch.server import REFUSED
from tests.workloads.batch.world import World
from workloads.batch.job import BATCH_LABEL


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr("fleet.batch.shards.LEAST_DOCUMENTS", 10)
    hasty = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: time.sleep(0.1))
    monkeypatch.setattr("fleet.jobs.watching.time", hasty)
    with place(tmp_path) as found:
        texts = (f"law {n} {REFUSED if n == 7 else 'good'}" for n in range(24))
        made.write(found.folder / "batch.jsonl", *(made.chat(f"d{n}", text) for n, text in enumerate(texts)))
        yield found


@contextmanager
def meanwhile(here: Place, play: Callable[[str], None]) -> Iterator[None]:
    """Play in the background, from the moment the Job and its ConfigMap are there. It gets the batch's id."""

    def run() -> None:
        within(60, lambda: here.objects("configmap"))
        try:
            play(here.id())
        finally:
            if not any(job.get("status") for job in here.objects("job")):
                here.end_jobs("Failed")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(60)


def run_pod(here: Place, phase: str, **status: object) -> None:
    """The Job's pod, in a phase."""
    job = here.job()["metadata"]["name"]
    labels = {"batch.kubernetes.io/job-name": job, "app": "batch", BATCH_LABEL: here.id()}
    pod = {"metadata": {"name": f"{job}-0", "labels": labels}, "spec": {"nodeName": "n"}}
    here.keep("pod", {**pod, "status": {"phase": phase, **status}})


@pytest.mark.slow
def test_what_was_sent_is_what_pods_work_on_and_what_they_leave_is_fetched(here: Place) -> None:
    with World([], of_shard=1, speed=50) as world:

        def play(_: str) -> None:
            run_pod(here, "Running")
            job = here.job()
            (container,) = job["spec"]["template"]["spec"]["containers"]
            container["args"] += [f"--endpoint={world.endpoint}", f"--storage-url={here.google.url}"]
            container["args"] += [f"--metadata-url={here.google.url}", "--speed=100"]
            pods = [world.pod(index, job, located=False) for index in range(job["spec"]["completions"])]
            assert [pod.wait() for pod in pods] == [0, 0, 0, 0]
            here.end_jobs()

        with meanwhile(here, play):
            done = here.run("batch.jsonl", "--out", "mine")
    assert (done.returncode, done.stderr) == (1, ""), done.stdout
    assert "24 of 24 documents, 1 with an error" in done.stdout
    lines = [json.loads(line) for line in (here.folder / "mine" / "results.jsonl").read_text().splitlines()]
    assert [line["custom_id"] for line in lines] == [f"d{n}" for n in range(24)]
    assert [line["custom_id"] for line in lines if line["error"]] == ["d7"]
    assert "of law 3" in lines[3]["response"]["body"]["choices"][0]["message"]["content"]
    assert json.loads((here.folder / "mine" / "summary.json").read_text())["failed"] == 1


@pytest.mark.slow
def test_a_failed_job_is_told_with_the_end_of_its_log(here: Place) -> None:
    def play(_: str) -> None:
        over = {"exitCode": 2, "reason": "Error"}
        run_pod(here, "Failed", containerStatuses=[{"name": "batch", "state": {"terminated": over}}])
        here.end_jobs("Failed")

    with meanwhile(here, play):
        done = here.run("batch.jsonl")
    assert done.returncode == 2
    for words in ("failed: R: m", "exit code 2", "the last line", "fleet batch run FILE --stack try"):
        assert words in done.stderr


def test_ctrl_c_leaves_it_running(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses, stopped = iter(range(3)), threading.Event()

    def play(_: str) -> None:
        run_pod(here, "Running")
        stopped.wait(60)

    def pause(_: float) -> None:
        time.sleep(0.1)
        if next(pauses, None) is None:
            # Between two looks: in the middle of one, the process's end closes the connection.
            stopped.set()
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("fleet.jobs.watching.time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
    with meanwhile(here, play):
        done = here.run("batch.jsonl")
    assert (done.returncode, done.stderr) == (130, "")
    id_ = here.id()
    for words in ("Stopped watching", f"fleet batch status {id_} --stack try", f"fleet batch cancel {id_}"):
        assert words in done.stdout
