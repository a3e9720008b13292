"""`fleet batch run` until the batch ends: the clients' own program works on what it sent, or the Job fails, or nobody waits any longer."""

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
from tests.fleet.batch.cluster import STACK, Place, place
from tests.workloads.batch.played import SPEED, answered, said, serving
from workloads.batch.job import BATCH_LABEL
from workloads.batch.pods.client import Client, Options


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr("fleet.batch.shards.LEAST_DOCUMENTS", 10)
    hasty = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: time.sleep(0.1))
    monkeypatch.setattr("fleet.jobs.watching.time", hasty)
    section = "{enabled: true, endpoint: completions, defaults: {maxTokens: 100}}"
    with place(tmp_path, STACK.replace("{enabled: true, defaults: {maxTokens: 100}}", section)) as found:
        made.write(found.folder / "batch.jsonl", *(made.completion(f"d{n}", f"law {n}") for n in range(24)))
        yield found


@contextmanager
def meanwhile(here: Place, play: Callable[[str], None]) -> Iterator[None]:
    """Play in the background, from the moment the Job and its ConfigMap are there. It gets the batch's id."""

    def run() -> None:
        end = time.monotonic() + 60
        while not here.objects("configmap") and time.monotonic() < end:
            time.sleep(0.05)
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
def test_what_was_sent_is_what_clients_work_on_and_what_they_leave_is_fetched(here: Place) -> None:
    def answer(prompt: str) -> object:
        return said(400) if prompt == "law 7" else answered(prompt)

    with serving(answer=answer) as server:

        def play(id_: str) -> None:
            host, _, port = server.address.partition(":")
            run_pod(here, "Running")
            options = Options(
                bucket="results",
                batch=id_,
                endpoint=f"http://{server.address}",
                server_pods=[(host, int(port))],
                index=0,
                storage_url=here.google.url,
                metadata_url=here.google.url,
                speed=SPEED,
            )
            assert Client(options).run() == "done"
            here.end_jobs()

        with meanwhile(here, play):
            done = here.run("batch.jsonl", "--out", "mine")
    assert (done.returncode, done.stderr) == (1, ""), done.stdout
    assert "24 of 24 documents, 1 with an error" in done.stdout
    lines = [json.loads(line) for line in (here.folder / "mine" / "results.jsonl").read_text().splitlines()]
    assert [line["custom_id"] for line in lines] == [f"d{n}" for n in range(24)]
    assert [line["custom_id"] for line in lines if line["error"]] == ["d7"]
    assert lines[3]["response"]["body"]["choices"][0]["text"] == "of law 3"
    assert json.loads((here.folder / "mine" / "summary.json").read_text())["failed"] == 1
    assert sorted(server.prompts) == sorted(f"law {n}" for n in range(24))


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
